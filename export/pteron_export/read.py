"""Reads `.pte` and `.ptd` files with ExecuTorch's own code: its Python deserialiser, `flatc`, and its C++ runtime."""

import importlib.resources
import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch.backends.vulkan import serialization
from executorch.backends.vulkan.serialization.vulkan_graph_schema import VkGraph
from executorch.backends.vulkan.serialization.vulkan_graph_serialize import VulkanDelegateHeader
from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize._dataclass import _json_to_dataclass
from executorch.exir._serialize._flatbuffer import _flatc_decompile
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir._serialize._program import (
    PTEFile,
    _get_extended_header,
    deserialize_pte_binary,
)
from executorch.exir._serialize.data_serializer import DataPayload
from executorch.exir.schema import BackendDelegate, DataSegment, Program
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.runtime import Runtime, Verification

VULKAN = "VulkanBackend"
# `VkBytes.offset` of a constant that lives in named data.
NAMED = 2**64 - 1


@dataclass(frozen=True)
class Delegate:
    """A delegate as the program has it; `header`, `graph` and `constants` only for Vulkan's."""

    method: str
    index: int
    id: str
    blob: bytes
    header: VulkanDelegateHeader | None
    graph: VkGraph | None
    # The blob's own constant bytes; empty where all constants are named data.
    constants: bytes


@dataclass(frozen=True)
class Pte:
    # The program as ExecuTorch restores it: constants and delegates put back inline.
    program: Program
    # The segment table, which restoring takes away.
    segments: list[DataSegment]
    named_data: dict[str, bytes]
    mutable_data: list[Any]
    delegates: list[Delegate]

    def graphs(self) -> list[VkGraph]:
        return [delegate.graph for delegate in self.delegates if delegate.graph is not None]


def read_pte(data: bytes) -> Pte:
    """Raises whatever ExecuTorch raises when it does not accept the file."""
    _run_cpp_verifier(data)
    file = deserialize_pte_binary(data)
    return Pte(
        program=file.program,
        segments=_segment_table(data),
        named_data=_named_data(file),
        mutable_data=list(file.mutable_data or []),
        delegates=_delegates(file.program),
    )


def read_ptd(data: bytes) -> DataPayload:
    return FlatTensorSerializer().deserialize(Cord(data))


def _run_cpp_verifier(data: bytes) -> None:
    # The Python reader follows offsets without checking them; the runtime's verifier checks all.
    program = Runtime.get().load_program(data, verification=Verification.InternalConsistency)
    for name in program.method_names:
        program.metadata(name)


def _segment_table(data: bytes) -> list[DataSegment]:
    header = _get_extended_header(data)
    size = header.program_size if header else len(data)
    return _flatbuffer_to_program(data[:size]).segments


def _named_data(file: PTEFile) -> dict[str, bytes]:
    store = file.named_data
    if store is None:
        return {}
    return {key: store.buffers[entry.buffer_index] for key, entry in store.pte_data.items()}


def _delegates(program: Program) -> list[Delegate]:
    return [
        _delegate(program, plan.name, index, delegate)
        for plan in program.execution_plan
        for index, delegate in enumerate(plan.delegates)
    ]


def _delegate(program: Program, method: str, index: int, delegate: BackendDelegate) -> Delegate:
    blob = bytes(program.backend_delegate_data[delegate.processed.index].data)
    if delegate.id != VULKAN:
        return Delegate(method, index, delegate.id, blob, None, None, b"")
    header = VulkanDelegateHeader.from_bytes(blob[: VulkanDelegateHeader.EXPECTED_LENGTH])
    flatbuffer = blob[header.flatbuffer_offset :][: header.flatbuffer_size]
    if not header.is_valid() or len(flatbuffer) != header.flatbuffer_size:
        raise ValueError(f"method {method}: delegate {index}: bad header {header}")
    if flatbuffer[4:8] != b"VK00":
        raise ValueError(f"method {method}: delegate {index}: identifier {flatbuffer[4:8]!r}")
    constants = blob[header.bytes_offset :][: header.bytes_size]
    if len(constants) != header.bytes_size:
        raise ValueError(f"method {method}: delegate {index}: constants end after the blob")
    return Delegate(method, index, VULKAN, blob, header, _graph(flatbuffer), constants)


def _graph(flatbuffer: bytes) -> VkGraph:
    """As the backend's own `flatbuffer_to_vk_graph`, but for infinite scalars too: `flatc` spells them unlike JSON."""
    with tempfile.TemporaryDirectory() as folder:
        schema, binary, text = (Path(folder) / f"schema.{kind}" for kind in ("fbs", "bin", "json"))
        schema.write_bytes((importlib.resources.files(serialization) / "schema.fbs").read_bytes())
        binary.write_bytes(flatbuffer)
        _flatc_decompile(folder, str(schema), str(binary), ["--raw-binary"])
        spelt = re.sub(r'("double_val": -?)inf\b', r"\1Infinity", text.read_text())
        spelt = re.sub(r'("double_val": )-?nan\b', r"\1NaN", spelt)
        return _json_to_dataclass(json.loads(spelt), VkGraph)
