"""Checkpoints on disk: float16 arrays in a few small files, which any NumPy reads and any network moves."""

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FILE_BYTES = 16_000_000


def save(folder: Path, weights: Mapping[str, Tensor]) -> None:
    files: list[dict[str, np.ndarray]] = [{}]
    for name, weight in weights.items():
        array = weight.detach().half().cpu().numpy()
        if files[-1] and sum(a.nbytes for a in files[-1].values()) + array.nbytes > FILE_BYTES:
            files.append({})
        files[-1][name] = array
    # Made in memory first: the files on disk are of different steps for as short as can be.
    contents = [io.BytesIO() for _ in files]
    for content, arrays in zip(contents, files, strict=True):
        np.savez(content, **arrays)
    for old in sorted(folder.glob("weights-*.npz"))[len(files) :]:
        old.unlink()
    for number, content in enumerate(contents):
        (folder / f"weights-{number}.npz").write_bytes(content.getbuffer())


def load(folder: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for file in sorted(folder.glob("weights-*.npz")):
        with np.load(file) as arrays:
            weights |= {name: torch.from_numpy(arrays[name]).float() for name in arrays.files}
    if not weights:
        raise SystemExit(f"no weights-*.npz in {folder}")
    return weights
