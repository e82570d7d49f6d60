"""Inputs of any library, and outputs for them: what is copied and what is not."""

import array
import gc
import subprocess
import sys

import numpy as np
import pytest
from pteron import Array
from pteron._native import round_trip
from pteron.errors import InputError
from pteron.runtime import Runtime

TYPES = ["?", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8"]


@pytest.mark.parametrize("dtype", TYPES)
def test_contiguous_arrays_are_borrowed_and_come_back_equal(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    output, address = round_trip(values)
    assert address == values.ctypes.data
    assert output.dtype == values.dtype and (output == values).all()
    assert output.flags.writeable and output.ctypes.data != values.ctypes.data


def test_strided_arrays_are_copied_in_order():
    values = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
    for view in (values.T, values[::2, ::-1, 1:4], values[:, :1].transpose(1, 0, 2), np.broadcast_to(values[0, 0], (7, 5))):
        output, _ = round_trip(view)
        assert output.shape == view.shape and (output == view).all()


def test_read_only_and_empty_arrays_are_taken():
    values = np.arange(6, dtype=np.float32)
    values.flags.writeable = False
    output, address = round_trip(values)
    assert address == values.ctypes.data and (output == values).all()
    strided, _ = round_trip(values[::2])
    assert strided.tolist() == [0, 2, 4]
    assert round_trip(np.zeros((0, 3), np.float32))[0].shape == (0, 3)
    assert round_trip(np.float64(2.5))[0] == 2.5


@pytest.mark.parametrize(
    "buffer",
    [b"\x01\x02", bytearray(b"\x01\x02"), array.array("f", [1, 2]), memoryview(array.array("q", range(9)))[::2]],
)
def test_buffers_are_taken(buffer):
    output, _ = round_trip(buffer)
    assert output.tolist() == list(buffer)


def test_writable_buffers_are_borrowed():
    values = array.array("d", [1, 2, 3])
    assert round_trip(values)[1] == values.buffer_info()[0]


@pytest.mark.parametrize("value", [np.array(["text"]), np.zeros(2, np.complex64), object(), "text", None, [1.0]])
def test_what_is_no_tensor_is_rejected(value):
    with pytest.raises(InputError, match='^input 0 of "round_trip": '):
        round_trip(value)


def test_numbers_become_tensors_of_one_element(fixtures):
    method = Runtime.get().load_program(fixtures / "ops/add_tensor_rank0/program.pte").load_method("forward")
    shapes = [method.metadata.input_tensor_meta(index).sizes() for index in range(2)]
    inputs = [3 if shape == () else np.ones(shape, np.float32) for shape in shapes]
    (output,) = method.execute(inputs)
    assert (output == sum(np.float32(one) for one in inputs)).all()
    with pytest.raises(InputError, match="is a float, but the method takes int64"):
        integers = Runtime.get().load_program(fixtures / "ops/add_int64/program.pte").load_method("forward")
        integers.execute([1.5, 2])


def test_outputs_keep_their_memory(fixtures):
    method = Runtime.get().load_program(fixtures / "ops/add_broadcast/program.pte").load_method("forward")
    ones = np.ones((2, 3, 5), np.float32)
    (first,) = method.execute([ones, np.ones((3, 1), np.float32)])
    (second,) = method.execute([ones, np.zeros((3, 1), np.float32)])
    del method
    gc.collect()
    assert (first == 2).all() and (second == 1).all()
    first += 1
    assert (first == 3).all()


def test_outputs_without_numpy_are_arrays(fixtures):
    script = """
import sys
sys.modules["numpy"] = None
from array import array
from pteron.runtime import Runtime
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
ones = memoryview(array("f", [1] * 30)).cast("B").cast("f", (2, 3, 5))
(output,) = method.execute([ones, memoryview(array("f", [1, 2, 3])).cast("B").cast("f", (3, 1))])
assert type(output).__name__ == "Array", output
assert repr(output) == "pteron.Array(shape=[2, 3, 5], dtype=float32)"
assert (output.shape, output.dtype, output.nbytes, len(output)) == ((2, 3, 5), "float32", 120, 2)
assert output.tolist() == [[[2.0] * 5, [3.0] * 5, [4.0] * 5]] * 2
assert memoryview(output.tobytearray()).cast("f")[5] == 3.0
assert output.__dlpack_device__() == (1, 0)
"""
    subprocess.run([sys.executable, "-c", script, fixtures / "ops/add_broadcast/program.pte"], check=True, timeout=120)


def test_arrays_are_exported_through_dlpack(fixtures):
    assert np.from_dlpack(exported()).tolist() == [[0, 1, 2], [3, 4, 5]]
    capsule = exported().__dlpack__()
    gc.collect()
    # Dropped without a consumer.
    del capsule


def exported():
    # The numpy array is a view of an Array, which owns the memory.
    owner = round_trip(np.arange(6, dtype="i4").reshape(2, 3))[0].base
    assert isinstance(owner, Array)
    return owner


def test_torch_tensors_give_torch_tensors(fixtures):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    method = Runtime.get().load_program(fixtures / "ops/add_broadcast/program.pte").load_method("forward")
    left, right = torch.rand(2, 3, 5, requires_grad=True), torch.rand(3, 1)
    (output,) = method.execute((left, right))
    assert torch.equal(output, left + right)
    output += 1
    strided, _ = round_trip(torch.arange(6).reshape(2, 3).T)
    assert strided.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert round_trip(torch.ones(2, dtype=torch.bfloat16))[0].dtype == torch.bfloat16
    tensor = torch.rand(4)
    assert round_trip(tensor)[1] == tensor.data_ptr()
    with pytest.raises(RuntimeError, match="is on device meta; only CPU and CUDA tensors"):
        method.execute((left.to("meta"), right))
