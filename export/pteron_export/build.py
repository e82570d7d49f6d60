"""Writes all fixtures, or checks that writing them again gives the same bytes."""

import json
import multiprocessing
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.backends.vulkan.patterns import fusable_patterns

from . import gguf_types
from .architectures import seeded, torchvision_nets
from .case import case, f32
from .cases import ALL
from .conversions import CONVERSIONS
from .convert import write_conversion
from .finetune import NAME as FINETUNE
from .finetune import write_finetune
from .fixture import Json, write_case, write_json
from .gguf_model import GGUF_MODELS, write_gguf_model
from .llama import LLAMAS, write_llama
from .media import NAME as PICTURES
from .media import write_media
from .xnnpack import XNNPACK_CASES, write_xnnpack

OPS = "ops"
LLAMA = "llama"
CONVERT = "convert"
TRAINING = "training"
MEDIA = "media"
XNNPACK = "xnnpack"
KINDS = (OPS, LLAMA, CONVERT, TRAINING, MEDIA, XNNPACK)


@dataclass(frozen=True)
class Row:
    """A fixture: a folder below one of the folders of fixtures, and who writes it."""

    kind: str
    name: str
    # Takes the folder of its kind; returns the entry in that folder's manifest, if it has one.
    write: Callable[[Path], Json | None]


# The slowest first, so that no process waits for one at the end.
ROWS: list[Row] = [
    *(Row(CONVERT, row.name, partial(write_conversion, conversion=row)) for row in CONVERSIONS),
    *(Row(LLAMA, row.name, partial(write_llama, llama=row)) for row in LLAMAS),
    *(Row(CONVERT, row.name, partial(write_gguf_model, model=row)) for row in GGUF_MODELS),
    Row(CONVERT, gguf_types.NAME, gguf_types.write_gguf_types),
    Row(TRAINING, FINETUNE, write_finetune),
    Row(MEDIA, PICTURES, write_media),
    *(Row(XNNPACK, row.name, partial(write_xnnpack, case=row)) for row in XNNPACK_CASES),
    *(Row(OPS, row.name, partial(write_case, case=row)) for row in ALL),
]


def write_all(out: Path, only: list[str], jobs: int) -> None:
    """Exports elsewhere first: a failed export leaves the old fixtures as they were."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        staging = Path(folder)
        _export(staging, only, jobs)
        if only:
            _merge(staging, out, only)
        else:
            _replace(staging, out)
    print(f"wrote {out}")


def write_torchvision(out: Path, only: list[str], jobs: int) -> int:
    """Writes networks too large for fixtures, with a manifest; the number that could not be exported."""
    names = [name for name in torchvision_nets() if not only or name in only]
    out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        entries = pool.map(_write_net, [(out, name) for name in names], chunksize=1)
    write_json(out / "manifest.json", [entry for entry in entries if isinstance(entry, dict)])
    for name, entry in zip(names, entries, strict=True):
        outside = ", ".join(entry["portable_ops"]) or "nothing" if isinstance(entry, dict) else entry
        print(f"{name}: outside the delegate: {outside}" if isinstance(entry, dict) else f"{name}: {entry}")
    return sum(not isinstance(entry, dict) for entry in entries)


def _write_net(work: tuple[Path, str]) -> Json | str:
    out, name = work
    make, shape = torchvision_nets()[name]
    row = case(name, "network", lambda: seeded(make(), name).eval(), [f32(*shape)], atol=1e-3, rtol=1e-3)
    try:
        return write_case(out, row)
    except Exception as error:
        return f"not exported: {str(error).splitlines()[0]}"


def check_all(fixtures: Path, only: list[str], jobs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        _export(Path(folder), only, jobs)
        found = _compare_folders(Path(folder), fixtures, complete=not only)
    for line in found:
        print(line)
    print("the fixtures are what this environment exports" if not found else f"{len(found)} files differ")
    return 1 if found else 0


def _export(root: Path, only: list[str], jobs: int) -> None:
    rows = _chosen(only)
    # A process for each row: what one export leaves behind in ExecuTorch (caches, counters)
    # must not show in the bytes of the next. Forked, so that PyTorch is imported once.
    torch.set_num_threads(1)
    # ExecuTorch's and PyTorch's remarks about each other.
    warnings.simplefilter("ignore")
    _remember_patterns()
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        entries: dict[str, list[Json]] = {}
        for row, entry in zip(rows, pool.imap(_write_row, [(root, row.name) for row in rows]), strict=True):
            print(f"exported {row.name}", flush=True)
            if entry is not None:
                entries.setdefault(row.kind, []).append(entry)
    for kind, list_of_kind in entries.items():
        write_json(root / kind / "manifest.json", list_of_kind)


def _chosen(only: list[str]) -> list[Row]:
    unknown = set(only) - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"no such fixture: {', '.join(sorted(unknown))}")
    return [row for row in ROWS if not only or row.name in only]


def _remember_patterns() -> None:
    """ExecuTorch exports its rope patterns anew for each program: most of the time a row takes."""
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None:
            entry.get_graphs_fn = partial(_same, entry.get_graphs_fn())


def _same(value: Any) -> Any:
    return value


def _write_row(work: tuple[Path, str]) -> Json | None:
    """Runs in a process of its own; rows go by name, because their functions do not travel."""
    root, name = work
    # ExecuTorch and its kernels talk while they export; a row that fails tells by its exception.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        row = next(row for row in ROWS if row.name == name)
        return row.write(root / row.kind)
    except Exception as error:
        raise RuntimeError(f"{name}: {error}") from error


def _replace(staging: Path, out: Path) -> None:
    """Removes files that no row writes any more."""
    for name in KINDS:
        shutil.rmtree(out / name, ignore_errors=True)
        shutil.move(staging / name, out / name)


def _merge(staging: Path, out: Path, only: list[str]) -> None:
    for row in _chosen(only):
        target = out / row.kind / row.name
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(staging / row.kind / row.name, target)
    for kind in KINDS:
        new, old = staging / kind / "manifest.json", out / kind / "manifest.json"
        if new.is_file():
            entries = {entry["name"]: entry for entry in _entries(old) + _entries(new)}
            order = [row.name for row in ROWS if row.kind == kind and row.name in entries]
            write_json(old, [entries[name] for name in order])


def _entries(manifest: Path) -> list[Any]:
    return json.loads(manifest.read_text()) if manifest.is_file() else []


def _compare_folders(new: Path, old: Path, complete: bool) -> list[str]:
    """With `complete`, files that are only in the old folder count too."""
    names = _file_names(new)
    if complete:
        names |= _file_names(old)
    else:
        # The manifest of some cases is not the manifest of all.
        names -= {Path(kind) / "manifest.json" for kind in KINDS}
    return [line for name in sorted(names) if (line := _compare_files(new / name, old / name, name))]


def _file_names(root: Path) -> set[Path]:
    return {file.relative_to(root) for kind in KINDS for file in (root / kind).rglob("*") if file.is_file()}


def _compare_files(new: Path, old: Path, name: Path) -> str | None:
    if not old.is_file():
        return f"{name}: missing from the fixtures"
    if not new.is_file():
        return f"{name}: in the fixtures, but not exported"
    return f"{name}: differs" if new.read_bytes() != old.read_bytes() else None
