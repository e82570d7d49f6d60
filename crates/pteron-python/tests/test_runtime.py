"""`pteron.runtime` on programs with PyTorch's outputs."""

import io
import json

import numpy as np
import pytest
from pteron.errors import Error, FileError, InputError, UnsupportedError
from pteron.runtime import Runtime, Verification

# One program per element type and kind of method.
CASES = [
    "add_broadcast",
    "add_dynamic",
    "add_int64",
    "add_mixed_types",
    "bool_and",
    "branch",
    "float16_add",
    "full_int64",
    "int64_compare",
    "portable_argmax",
    "portable_float64",
    "portable_int16",
    "portable_nonzero",
    "portable_uint8_int8",
    "quantize_int8",
    "split_outputs",
    "two_delegates",
    "zero_inputs",
]


@pytest.fixture(scope="module")
def runtime():
    return Runtime.get()


@pytest.fixture(scope="module")
def manifest(fixtures):
    return {case["name"]: case for case in json.loads((fixtures / "ops/manifest.json").read_text())}


@pytest.fixture(scope="module")
def add(runtime, fixtures):
    return runtime.load_program(fixtures / "ops/add_broadcast/program.pte")


def read(fixtures, described):
    array = np.fromfile(fixtures / "ops" / described["path"], described["dtype"])
    return array.reshape(described["shape"])


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_pytorch(runtime, fixtures, manifest, name):
    case = manifest[name]
    method = runtime.load_program(fixtures / "ops" / case["pte"]).load_method("forward")
    for call in case["calls"]:
        outputs = method.execute([read(fixtures, described) for described in call["inputs"]])
        goldens = [read(fixtures, described) for described in call["goldens"]]
        assert [output.dtype for output in outputs] == [golden.dtype for golden in goldens]
        for output, golden in zip(outputs, goldens, strict=True):
            assert output.shape == golden.shape
            np.testing.assert_allclose(output, golden, rtol=case["rtol"], atol=case["atol"])


def test_runtime_is_a_singleton(runtime):
    assert Runtime.get() is runtime


@pytest.mark.parametrize("of", [str, lambda path: path, lambda path: path.read_bytes(), lambda path: path.open("rb")])
@pytest.mark.parametrize("verification", list(Verification))
def test_a_program_is_loaded_from_paths_bytes_and_files(runtime, fixtures, of, verification):
    source = of(fixtures / "ops/add_broadcast/program.pte")
    assert runtime.load_program(source, verification=verification).method_names == {"forward"}
    if isinstance(source, bytes):
        assert runtime.load_program(bytearray(source)).method_names == {"forward"}
        assert runtime.load_program(io.BytesIO(source)).method_names == {"forward"}
    if hasattr(source, "close"):
        source.close()


def test_anything_else_is_no_program(runtime):
    with pytest.raises(TypeError, match="not from int"):
        runtime.load_program(3)


def test_metadata_describes_a_method(add):
    meta = add.metadata("forward")
    info = "TensorInfo(sizes=[2, 3, 5], dtype=Float, is_memory_planned=True, nbytes=120)"
    second = "TensorInfo(sizes=[3, 1], dtype=Float, is_memory_planned=True, nbytes=12)"
    assert str(meta) == (
        f"MethodMeta(name='forward', num_inputs=2, input_tensor_meta=['{info}', '{second}'], "
        f"num_outputs=1, output_tensor_meta=['{info}'])"
    )
    assert (meta.name(), meta.num_inputs(), meta.num_outputs(), meta.num_attributes()) == ("forward", 2, 1, 0)
    tensor = meta.input_tensor_meta(1)
    assert (tensor.sizes(), tensor.dtype(), tensor.is_memory_planned(), tensor.nbytes()) == ((3, 1), 6, True, 12)
    with pytest.raises(IndexError, match="input 2 is out of range"):
        meta.input_tensor_meta(2)


def test_a_method_is_loaded_once(add):
    assert add.load_method("forward") is add.load_method("forward")
    with pytest.raises(KeyError):
        add.load_method("backward")


def test_constant_methods_return_numbers(runtime, demo_folder):
    program = runtime.load_program(demo_folder / "model.pte")
    assert {"forward", "get_vocab_size"} <= program.method_names
    assert program.load_method("get_vocab_size").execute([]) == [6144]
    with pytest.raises(InputError, match="takes no inputs"):
        program.load_method("get_vocab_size").execute([1])


def test_state_lasts_from_call_to_call(runtime, fixtures):
    folder = fixtures / "llama/tiny_fp16_full_logits"
    manifest = json.loads((folder / "manifest.json").read_text())
    load = runtime.load_program(folder / manifest["program"]).load_method
    method = load("forward")
    for sequence in manifest["sequences"][:1]:
        for call in sequence["calls"]:
            inputs = [np.fromfile(folder / one["path"], one["dtype"]).reshape(one["shape"]) for one in call["inputs"]]
            golden = np.fromfile(folder / call["goldens"][0]["path"], np.float32).reshape(call["goldens"][0]["shape"])
            (logits,) = method.execute(inputs)
            np.testing.assert_allclose(logits, golden, rtol=manifest["rtol"], atol=manifest["atol"])
    # The last call, in a method without the earlier ones.
    (fresh,) = runtime.load_program(folder / manifest["program"]).load_method("forward").execute(inputs)
    assert np.abs(fresh - logits).max() > manifest["atol"]


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (["x", "x"], r'input 0 of "forward": it is of type str'),
        ([[1.0], [2.0]], r'input 0 of "forward": it is of type list'),
        ([np.zeros((2, 3, 5), np.float32)], r"1 came, 2 are needed"),
        ([np.zeros((2, 3, 5), np.float32), np.zeros((3, 1))], r'input 1 of "forward" is float64, but the method takes float32'),
        ([np.zeros((2, 3, 5), np.float32), np.zeros((3, 2), np.float32)], r"input 1 of .* has shape \[3, 2\]"),
        ([np.zeros((2, 3, 5), np.float32), np.zeros((3, 1), ">f4")], r"numpy's type '>f4'|type \"\>f4\""),
    ],
)
def test_wrong_inputs_are_rejected_by_name(add, inputs, sentence):
    method = add.load_method("forward")
    with pytest.raises(InputError, match=sentence) as raised:
        method.execute(inputs)
    assert isinstance(raised.value, RuntimeError) and isinstance(raised.value, ValueError)


def test_damaged_and_missing_files_are_named(runtime, fixtures, tmp_path):
    with pytest.raises(FileError, match=r"nowhere\.pte: "):
        runtime.load_program(tmp_path / "nowhere.pte")
    whole = (fixtures / "ops/add_broadcast/program.pte").read_bytes()
    (tmp_path / "half.pte").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"half\.pte: "):
        runtime.load_program(str(tmp_path / "half.pte"))
    with pytest.raises(FileError, match="^program: "):
        runtime.load_program(b"not a program at all")


def test_registries_name_backends_and_operators(runtime):
    assert runtime.backend_registry.registered_backend_names == ["VulkanBackend", "XnnpackBackend"]
    assert runtime.backend_registry.is_available("VulkanBackend")
    assert not runtime.backend_registry.is_available("CoreMLBackend")
    assert {"aten::add.out", "aten::any.all_out", "aten::nonzero.out"} <= runtime.operator_registry.operator_names


def test_etdump_is_refused(add, tmp_path):
    with pytest.raises(UnsupportedError, match="pteron exec --profile"):
        add.write_etdump_result_to_file(tmp_path / "etdump", tmp_path / "debug")
    assert issubclass(UnsupportedError, Error)
