"""A GGUF file with a tensor of every type and a key of every kind, and what the format's own library reads from it."""

from pathlib import Path
from typing import Any

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter

from .case import random_tensor
from .fixture import Json, write_json, write_tensor

NAME = "gguf/types"
ROWS, COLUMNS = 3, 512
# Not what a reader may take for granted.
ALIGNMENT = 64

ROUNDED = (Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1)
# The library cannot write these, only read them: where in a block its float16 scales are.
BLOCKS = {Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2), Kind.Q6_K: (208,)}

KEYS: dict[str, Any] = {
    "uint8": 255,
    "int8": -128,
    "uint16": 65535,
    "int16": -32768,
    "uint32": 2**32 - 1,
    "int32": -(2**31),
    "uint64": 2**64 - 1,
    "int64": -(2**63),
    "float32": 0.375,
    "float64": 0.1,
    "bool": True,
    "string": "naïve 🦀",
}
LISTS: dict[str, list[Any]] = {
    "integers": [3, -1, 2],
    "floats": [0.5, -2.25],
    "strings": ["a", "", "ü"],
    "nested": [[1, 2], [3]],
}


def write_gguf_types(root: Path) -> None:
    folder = root / NAME
    folder.mkdir(parents=True)
    writer = GGUFWriter(folder / "model.gguf", "llama")
    writer.add_custom_alignment(ALIGNMENT)
    for name, value in KEYS.items():
        getattr(writer, f"add_{name}")(f"test.{name}", value)
    for name, values in LISTS.items():
        writer.add_array(f"test.{name}", values)
    tensors = {kind: _rounded(kind) for kind in ROUNDED} | {kind: _blocks(kind) for kind in BLOCKS}
    for kind, data in tensors.items():
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    finish(writer)
    write_json(
        folder / "expected.json",
        {
            "checkpoint": "model.gguf",
            "alignment": ALIGNMENT,
            "metadata": {f"test.{name}": value for name, value in (KEYS | LISTS).items()},
            "tensors": [_reference(folder, kind, data) for kind, data in tensors.items()],
        },
    )


def finish(writer: GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _reference(folder: Path, kind: Kind, data: numpy.ndarray) -> Json:
    values = gguf.dequantize(data, kind).astype(numpy.float32).reshape(ROWS, COLUMNS)
    return {"name": kind.name, "kind": kind.value, **write_tensor(folder, f"{kind.name}.bin", torch.from_numpy(values))}


def _rounded(kind: Kind) -> numpy.ndarray:
    values = random_tensor([ROWS, COLUMNS], torch.float32, f"{NAME}/{kind.name}", steps=1 << 20)
    # A block of zeros has no scale, a row of tiny numbers a subnormal one.
    values[0, :32] = 0.0
    values[1] *= 2.0**-17
    return gguf.quantize(values.numpy(), kind)


def _blocks(kind: Kind) -> numpy.ndarray:
    """Any bytes are a block, as long as its scales are finite."""
    count, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random_tensor([ROWS * COLUMNS // count, size], torch.uint8, f"{NAME}/{kind.name}", below=256).numpy()
    for place in BLOCKS[kind]:
        scales = random_tensor([len(blocks), 1], torch.float16, f"{NAME}/{kind.name}/{place}").numpy()
        blocks[:, place : place + 2] = scales.view(numpy.uint8)
    return blocks.reshape(ROWS, -1)
