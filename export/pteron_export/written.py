"""`check-written`: ExecuTorch's own readers must accept the files that Pteron wrote, and read the same content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from executorch.backends.vulkan.serialization.vulkan_graph_schema import VkGraph, VkTensor
from executorch.exir._serialize.data_serializer import DataPayload

from .checked import CheckResult, check_files
from .compare import differences
from .read import NAMED, Delegate, Pte, read_ptd, read_pte

SUFFIXES = (".pte", ".ptd")


def check_written(paths: list[Path], against: Path | None) -> int:
    return check_files(paths, against, SUFFIXES, _check)


def _check(file: Path, original: Path | None) -> CheckResult:
    read = _read(file)
    problems = list(inconsistencies(read)) if isinstance(read, Pte) else []
    if original is not None:
        problems += differences(_content(read), _content(_read(original)), file.suffix[1:])
    return CheckResult(problems)


def _read(file: Path) -> Pte | DataPayload:
    data = file.read_bytes()
    return read_pte(data) if file.suffix == ".pte" else read_ptd(data)


def _content(read: Pte | DataPayload) -> Any:
    """A file's content without its layout, which may differ between writers."""
    if not isinstance(read, Pte):
        return read
    for delegate, data in zip(read.delegates, read.program.backend_delegate_data, strict=True):
        if delegate.graph is not None:
            # Its graph and constants are compared instead.
            data.data = b""
    return {
        "program": read.program,
        "segment count": len(read.segments),
        "named data": read.named_data,
        "mutable data": read.mutable_data,
        "delegates": [_delegate_content(delegate) for delegate in read.delegates],
    }


def _delegate_content(delegate: Delegate) -> dict[str, Any]:
    names = ("method", "index", "id") + (("blob",) if delegate.graph is None else ("graph", "constants"))
    return {name: getattr(delegate, name) for name in names}


def inconsistencies(pte: Pte) -> Iterator[str]:
    """Inconsistencies that deserialisers accept, but that break a runtime."""
    for delegate in pte.delegates:
        if delegate.graph is not None:
            where = f"method {delegate.method}: delegate {delegate.index}"
            yield from (f"{where}: {line}" for line in _graph_inconsistencies(delegate, delegate.graph, pte))


def _graph_inconsistencies(delegate: Delegate, graph: VkGraph, pte: Pte) -> Iterator[str]:
    count = len(graph.values)
    for number, call in enumerate(graph.chain):
        if any(not 0 <= arg < count for arg in call.args):
            yield f"call {number} ({call.name}) has an argument outside the {count} values"
    for name in ("input_ids", "output_ids"):
        if any(not 0 <= value < count for value in getattr(graph, name)):
            yield f"{name} has an id outside the {count} values"
    for number, entry in enumerate(graph.values):
        if isinstance(entry.value, VkTensor) and entry.value.constant_id >= len(graph.constants):
            yield f"value {number} has a constant outside the {len(graph.constants)} constants"
    for number, constant in enumerate(graph.constants):
        if constant.offset == NAMED:
            data = pte.named_data.get(constant.named_key)
            # A key that is not here belongs to a `.ptd`, which is checked on its own.
            if data is not None and len(data) != constant.length:
                yield f"constant {number}: {constant.length} bytes, but its named data has {len(data)}"
        elif constant.offset + constant.length > len(delegate.constants):
            yield f"constant {number} ends after the delegate's {len(delegate.constants)} bytes"
