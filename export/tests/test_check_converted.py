"""The comparison must pass what is the same written in another way, and must not pass anything else."""

import contextlib
import hashlib
import io
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy
from executorch.backends.vulkan.serialization.vulkan_graph_schema import (
    Int,
    OperatorCall,
    ValueList,
    VkGraph,
    VkMemoryLayout,
    VkStorageType,
    VkTensor,
    VkValue,
)
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import VulkanDelegateHeader, convert_to_flatbuffer
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary, serialize_pte_binary

from pteron_export.converted import check_converted
from pteron_export.read import read_pte

CONVERT = Path(__file__).resolve().parents[2] / "fixtures/convert"
ORIGINAL = CONVERT / "llama_full_logits/program.pte"


def run(paths: list[Path], against: Path) -> tuple[int, str]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = check_converted(paths, against)
    return status, output.getvalue()


def blob(graph: VkGraph) -> bytes:
    flatbuffer = convert_to_flatbuffer(graph)
    header = VulkanDelegateHeader(32, len(flatbuffer), 32 + len(flatbuffer), 0)
    return header.to_bytes().ljust(32, b"\0") + flatbuffer


def tensor_of(graph: VkGraph, call: OperatorCall, place: int = -1) -> VkTensor:
    value = graph.values[call.args[place]].value
    assert isinstance(value, VkTensor)
    return value


def calls(graph: VkGraph, name: str) -> list[OperatorCall]:
    return [call for call in graph.chain if call.name.startswith(name)]


def renumber(graph: VkGraph) -> None:
    """The same graph with its values the other way round."""
    last = len(graph.values) - 1
    graph.values.reverse()
    for numbers in (graph.input_ids, graph.output_ids, *(call.args for call in graph.chain)):
        numbers[:] = [last - number for number in numbers]
    for entry in graph.values:
        if isinstance(entry.value, ValueList):
            entry.value.items = [last - number for number in entry.value.items]


class CheckConverted(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.changed = Path(folder.name) / "program.pte"

    def change(
        self, graph: Callable[[VkGraph], None] = lambda _: None, file: Callable[[PTEFile], None] = lambda _: None
    ) -> None:
        data = ORIGINAL.read_bytes()
        changed = read_pte(data).graphs()[0]
        graph(changed)
        read = deserialize_pte_binary(data)
        read.program.backend_delegate_data[0].data = blob(changed)
        file(read)
        self.changed.write_bytes(bytes(serialize_pte_binary(read, extract_delegate_segments=True)))

    def refuse(self, message: str) -> None:
        status, output = run([self.changed], ORIGINAL)
        self.assertEqual(status, 1, output)
        self.assertIn(message, output)

    def test_accepts_exported_programs(self) -> None:
        status, output = run([CONVERT], CONVERT)
        self.assertEqual(status, 0, output)

    def test_passes_other_numbers_of_values(self) -> None:
        self.change(renumber)
        self.assertNotEqual(self.changed.read_bytes(), ORIGINAL.read_bytes())
        status, output = run([self.changed], ORIGINAL)
        self.assertEqual(status, 0, output)

    def test_passes_a_scalar_of_its_own(self) -> None:
        def split(graph: VkGraph) -> None:
            call = calls(graph, "et_vk.linear_q4gsw")[0]
            graph.values.append(VkValue(Int(32)))
            call.args[3] = len(graph.values) - 1

        self.change(split)
        self.assertEqual(run([self.changed], ORIGINAL)[0], 0)

    def test_finds_another_operator(self) -> None:
        self.change(lambda graph: setattr(calls(graph, "aten.mul")[0], "name", "aten.sub.Tensor"))
        self.refuse("aten.sub.Tensor instead of aten.mul.Tensor")

    def test_finds_a_lost_operator(self) -> None:
        self.change(lambda graph: graph.chain.pop(12))
        self.refuse("operators: call 12: nothing instead of aten.view_copy.default")

    def test_finds_a_lost_argument(self) -> None:
        self.change(lambda graph: calls(graph, "sdpa_with_kv_cache")[0].args.pop(6))
        self.refuse("(sdpa_with_kv_cache.default): 11 instead of 12")

    def test_finds_another_argument(self) -> None:
        def swap(graph: VkGraph) -> None:
            args = calls(graph, "et_vk.apply_rotary_emb")[0].args
            args[2], args[3] = args[3], args[2]

        self.change(swap)
        self.refuse("identity: call 15 (et_vk.apply_rotary_emb.default), argument 2")

    def test_finds_another_scalar(self) -> None:
        def widen(graph: VkGraph) -> None:
            graph.values[calls(graph, "et_vk.linear_q4gsw")[0].args[3]].value = Int(64)

        self.change(widen)
        self.refuse(
            "value: call 3 (et_vk.embedding_q4gsw.default), argument 2: Int(int_val=64) instead of Int(int_val=32)"
        )

    def test_finds_another_kind_of_value(self) -> None:
        def flatten(graph: VkGraph) -> None:
            graph.values[calls(graph, "aten.view_copy")[0].args[1]].value = Int(3)

        self.change(flatten)
        self.refuse("value kind: call 10 (aten.view_copy.default), argument 1: Int(int_val=3) instead of ValueList")

    def test_finds_another_dim(self) -> None:
        self.change(lambda graph: setattr(tensor_of(graph, calls(graph, "aten.add.Tensor")[0]), "dims", [1, 32, 64]))
        self.refuse("dims: call 21 (aten.add.Tensor), argument 3: [1, 32, 64] instead of [1, 31, 64]")

    def test_finds_another_storage_and_layout(self) -> None:
        def move(graph: VkGraph) -> None:
            tensor = tensor_of(graph, calls(graph, "aten.add.Tensor")[0])
            tensor.storage_type = VkStorageType.BUFFER
            tensor.memory_layout = VkMemoryLayout.TENSOR_CHANNELS_PACKED

        self.change(move)
        self.refuse("storage: call 21 (aten.add.Tensor), argument 3: BUFFER instead of TEXTURE_3D")
        self.refuse("layout: call 21 (aten.add.Tensor), argument 3: TENSOR_CHANNELS_PACKED instead of")

    def test_finds_shared_memory(self) -> None:
        def share(graph: VkGraph) -> None:
            cache = calls(graph, "sdpa_with_kv_cache")[0]
            tensor_of(graph, cache, 3).mem_obj_id = tensor_of(graph, cache, 4).mem_obj_id

        self.change(share)
        self.refuse("memory: call 17 (sdpa_with_kv_cache.default), argument 4")

    def test_finds_a_lost_constant_method(self) -> None:
        self.change(file=lambda file: file.program.execution_plan.pop(4))
        self.refuse("methods: forward, get_max_seq_len, get_max_context_len, get_n_layers, use_kv_cache")

    def test_finds_another_value_of_a_constant_method(self) -> None:
        def change_value(file: PTEFile) -> None:
            file.program.execution_plan[1].values[0].val.int_val = 33

        self.change(file=change_value)
        self.refuse("method get_max_seq_len: values[0].val.int_val: 33 is not 32")

    def test_finds_another_container(self) -> None:
        def name(file: PTEFile) -> None:
            file.program.execution_plan[0].container_meta_type.encoded_inp_str += " "

        self.change(file=name)
        self.refuse("method forward: container_meta_type.encoded_inp_str")

    def test_finds_another_compile_spec(self) -> None:
        def force(file: PTEFile) -> None:
            file.program.execution_plan[0].delegates[0].compile_specs[1].value = b"\1"

        self.change(file=force)
        self.refuse("method forward: delegates[0].compile_specs[1].value: 1 of 1 bytes differ")

    def replace(self, number: int, edit: Callable[[bytes], bytes]) -> None:
        """Other bytes for a constant, under the key that fits them."""
        original = read_pte(ORIGINAL.read_bytes())
        old = original.graphs()[0].constants[number].named_key
        data = edit(original.named_data[old])
        key = hashlib.sha256(data).hexdigest()

        def store(file: PTEFile) -> None:
            assert file.named_data is not None
            entry = file.named_data.pte_data.pop(old)
            file.named_data.pte_data[key] = entry
            file.named_data.buffers[entry.buffer_index] = data

        self.change(lambda graph: setattr(graph.constants[number], "named_key", key), store)

    def table(self) -> int:
        graph = read_pte(ORIGINAL.read_bytes()).graphs()[0]
        return tensor_of(graph, calls(graph, "et_vk.prepack")[1], 0).constant_id

    def shift(self, by: float) -> Callable[[bytes], bytes]:
        return lambda data: (numpy.frombuffer(data, "<f4") + numpy.float32(by)).astype("<f4").tobytes()

    def test_finds_another_weight(self) -> None:
        self.replace(1, lambda data: bytes([data[0] ^ 1]) + data[1:])
        self.refuse("content: call 9 (et_vk.linear_q4gsw.default), argument 1: 1 of 2048 bytes differ")

    def test_finds_another_scale(self) -> None:
        self.replace(2, self.shift(1e-6))
        self.refuse("content: call 9 (et_vk.linear_q4gsw.default), argument 2: 128 of 128 numbers differ, by at most")

    def test_explains_other_rounding(self) -> None:
        self.replace(self.table(), self.shift(1e-6))
        status, output = run([self.changed], ORIGINAL)
        self.assertEqual(status, 0, output)
        self.assertIn("explained: rotary rounding (1)", output)

    def test_finds_another_table(self) -> None:
        self.replace(self.table(), self.shift(1e-4))
        self.refuse("content: call 1 (et_vk.prepack.default), argument 0")

    def test_finds_a_key_that_is_no_hash(self) -> None:
        def swap(graph: VkGraph) -> None:
            first, second = graph.constants[3], graph.constants[5]
            first.named_key, second.named_key = second.named_key, second.named_key[:-1] + "z"

        self.change(swap)
        self.refuse("key: constant 5")

    def test_refuses_a_file_that_is_none(self) -> None:
        self.changed.write_bytes(ORIGINAL.read_bytes()[:-1])
        self.refuse("not readable")

    def test_finds_a_missing_file(self) -> None:
        status, output = run([ORIGINAL.parent], CONVERT)
        self.assertEqual(status, 1)
        self.assertIn("was not written", output)


if __name__ == "__main__":
    unittest.main()
