"""Writes all fixtures, or checks that writing them again gives the same bytes."""

import json
import multiprocessing
import os
import shutil
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from executorch.backends.vulkan.patterns import fusable_patterns

from .cases import ALL
from .fixture import Json, write_case, write_json
from .llama import LLAMAS, write_llama

OPS = "ops"
LLAMA = "llama"


def write_all(out: Path, only: list[str], jobs: int) -> None:
    """Exports elsewhere first: a failed export leaves the old fixtures as they were."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        staging = Path(folder)
        _export(staging, only, jobs)
        if only:
            _merge(staging, out)
        else:
            _replace(staging, out)
    print(f"wrote {out}")


def check_all(fixtures: Path, only: list[str], jobs: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        _export(Path(folder), only, jobs)
        found = _compare_folders(Path(folder), fixtures, complete=not only)
    for line in found:
        print(line)
    print("the fixtures are what this environment exports" if not found else f"{len(found)} files differ")
    return 1 if found else 0


def _export(root: Path, only: list[str], jobs: int) -> None:
    # The slowest first, so that no process waits for one at the end.
    names = [llama.name for llama in LLAMAS] + [case.name for case in ALL]
    unknown = set(only) - set(names)
    if unknown:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}")
    rows = [(root, name) for name in names if not only or name in only]
    # A process for each row: what one export leaves behind in ExecuTorch (caches, counters)
    # must not show in the bytes of the next. Forked, so that PyTorch is imported once.
    torch.set_num_threads(1)
    # ExecuTorch's and PyTorch's remarks about each other.
    warnings.simplefilter("ignore")
    _remember_patterns()
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=1) as pool:
        entries = []
        for (_, name), entry in zip(rows, pool.imap(_write_row, rows), strict=True):
            print(f"exported {name}", flush=True)
            if entry is not None:
                entries.append(entry)
    if entries:
        write_json(root / OPS / "manifest.json", entries)


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
        for case in ALL:
            if case.name == name:
                return write_case(root / OPS, case)
        write_llama(root / LLAMA, next(llama for llama in LLAMAS if llama.name == name))
        return None
    except Exception as error:
        raise RuntimeError(f"{name}: {error}") from error


def _replace(staging: Path, out: Path) -> None:
    """Takes away what no row writes any more."""
    for name in (OPS, LLAMA):
        shutil.rmtree(out / name, ignore_errors=True)
        shutil.move(staging / name, out / name)


def _merge(staging: Path, out: Path) -> None:
    for folder in sorted([*staging.glob(f"{OPS}/*/"), *staging.glob(f"{LLAMA}/*/")]):
        target = out / folder.relative_to(staging)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, target)
    new = staging / OPS / "manifest.json"
    if new.is_file():
        entries = {entry["name"]: entry for entry in _entries(out / OPS / "manifest.json") + _entries(new)}
        order = [case.name for case in ALL if case.name in entries]
        write_json(out / OPS / "manifest.json", [entries[name] for name in order])


def _entries(manifest: Path) -> list[Any]:
    return json.loads(manifest.read_text()) if manifest.is_file() else []


def _compare_folders(new: Path, old: Path, complete: bool) -> list[str]:
    """With `complete`, what is only in the old folder counts too."""
    names = _file_names(new)
    if complete:
        names |= _file_names(old)
    else:
        # The manifest of some cases is not the manifest of all.
        names.discard(Path(OPS) / "manifest.json")
    return [line for name in sorted(names) if (line := _compare_files(new / name, old / name, name))]


def _file_names(root: Path) -> set[Path]:
    return {file.relative_to(root) for part in (OPS, LLAMA) for file in (root / part).rglob("*") if file.is_file()}


def _compare_files(new: Path, old: Path, name: Path) -> str | None:
    if not old.is_file():
        return f"{name}: missing from the fixtures"
    if not new.is_file():
        return f"{name}: in the fixtures, but not exported"
    return f"{name}: differs" if new.read_bytes() != old.read_bytes() else None
