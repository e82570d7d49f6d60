"""`check-written`: ExecuTorch's own readers must accept what Pteron wrote, and find the same in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from executorch.backends.vulkan.serialization.vulkan_graph_schema import VkGraph
from executorch.exir._serialize.data_serializer import DataPayload

from .compare import differences
from .read import NAMED, Delegate, Pte, read_ptd, read_pte

SUFFIXES = (".pte", ".ptd")


def check_written(paths: list[Path], against: Path | None) -> int:
    """Prints one line a file and one a problem; 1 if there was any, or nothing to read."""
    files = list(_files(paths))
    problems = 0
    for file, name in files:
        found = list(_problems(file, name, against))
        print(f"{'bad' if found else 'ok '}  {file}")
        for line in found:
            print(f"     {line}")
        problems += len(found)
    missing = list(_missing(files, against)) if against and against.is_dir() else []
    for name in missing:
        print(f"bad  {name}: in {against}, but was not written")
    print(f"{len(files)} files, {problems + len(missing)} problems")
    return 1 if problems or missing or not files else 0


def _files(paths: list[Path]) -> Iterator[tuple[Path, Path]]:
    """Each file with its name below the folder that was given."""
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES)
            yield from ((file, file.relative_to(path)) for file in found)
        else:
            yield path, Path(path.name)


def _missing(files: list[tuple[Path, Path]], against: Path) -> Iterator[Path]:
    names = {name for _, name in files}
    for original in sorted(against.rglob("*")):
        if original.suffix in SUFFIXES and original.relative_to(against) not in names:
            yield original.relative_to(against)


def _problems(file: Path, name: Path, against: Path | None) -> Iterator[str]:
    try:
        read = _read(file)
    # Whatever the readers raise on a bad file is the finding.
    except Exception as error:  # noqa: BLE001
        yield f"not readable: {type(error).__name__}: {str(error)[:300]}"
        return
    if isinstance(read, Pte):
        yield from _inconsistencies(read)
    if against is not None:
        original = against / name if against.is_dir() else against
        if not original.is_file():
            yield f"no original {original}"
        else:
            yield from differences(_content(read), _content(_read(original)), file.suffix[1:])


def _read(file: Path) -> Pte | DataPayload:
    data = file.read_bytes()
    return read_pte(data) if file.suffix == ".pte" else read_ptd(data)


def _content(read: Pte | DataPayload) -> Any:
    """What a file says, without where it says it: another writer lays out its flatbuffers in another way."""
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


def _inconsistencies(pte: Pte) -> Iterator[str]:
    """What no deserialiser looks at, but a runtime would fall over."""
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
    for number, constant in enumerate(graph.constants):
        if constant.offset == NAMED:
            data = pte.named_data.get(constant.named_key)
            # A key that is not here belongs to a `.ptd`, which is checked on its own.
            if data is not None and len(data) != constant.length:
                yield f"constant {number}: {constant.length} bytes, but its named data has {len(data)}"
        elif constant.offset + constant.length > len(delegate.constants):
            yield f"constant {number} ends after the delegate's {len(delegate.constants)} bytes"
