"""`pteron.extension.pybindings.portable_lib`."""

import numpy as np
import pytest
from pteron.errors import Error, FileError, InputError, UnsupportedError
from pteron.extension.pybindings import portable_lib


@pytest.fixture(scope="module")
def path(fixtures):
    return fixtures / "ops/add_broadcast/program.pte"


@pytest.fixture(scope="module")
def inputs():
    return (np.ones((2, 3, 5), np.float32), np.full((3, 1), 2, np.float32))


def test_modules_run_methods_by_name(path, inputs):
    for module in (
        portable_lib._load_for_executorch(str(path)),
        portable_lib._load_for_executorch_from_buffer(path.read_bytes()),
    ):
        assert module.method_names() == ["forward"]
        for outputs in (module(inputs), module.forward(inputs), module.run_method("forward", inputs)):
            assert (outputs[0] == 3).all()
        assert module.method_meta("forward").num_inputs() == 2
        with pytest.raises(RuntimeError, match='there is no method "backward"; the program has forward'):
            module.run_method("backward", inputs)


def test_methods_run_by_parts(path, inputs):
    program = portable_lib._load_program(str(path))
    assert (program.num_methods(), program.get_method_name(0)) == (1, "forward")
    with pytest.raises(RuntimeError, match="there is no method 1"):
        program.get_method_name(1)
    method = program.load_method("forward")
    with pytest.raises(InputError, match="set_inputs"):
        method.execute()
    with pytest.raises(Error, match="execute"):
        method.get_outputs()
    method.set_inputs(inputs)
    method.execute()
    assert (method.get_outputs()[0] == 3).all()
    assert (method(inputs)[0] == method.call(inputs)[0]).all()


def test_a_single_input_needs_no_list(fixtures):
    module = portable_lib._load_for_executorch(str(fixtures / "ops/add_scalar/program.pte"))
    values = np.arange(9, dtype=np.float32)
    assert (module(values)[0] == module([values])[0]).all()


def test_missing_external_data_is_an_error_when_a_method_is_loaded(path):
    module = portable_lib._load_for_executorch_from_buffer(path.read_bytes(), b"no data")
    assert module.method_names() == ["forward"]
    with pytest.raises(FileError, match="^external data: "):
        module.forward([])


def test_what_is_not_supported_says_so(path):
    module = portable_lib._load_for_executorch(str(path))
    for call in (
        lambda: portable_lib._load_bundled_program_from_buffer(b""),
        lambda: portable_lib._load_for_executorch_from_data_loader(None),
        lambda: portable_lib._dump_profile_results(),
        lambda: module.write_etdump_result_to_file("etdump"),
        lambda: portable_lib._load_program(str(path)).load_method("forward").get_attribute("state"),
    ):
        with pytest.raises(UnsupportedError):
            call()
    assert not module.has_etdump()
