"""Dynamic lengths, edge values and tolerances that many rows share."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import Dim

from ..case import Arg, exactly, ints

Options = dict[str, Any]

NAN, INF = math.nan, math.inf

LENGTH = Dim("length", min=1, max=9)
# The first is the one that is traced; then the bound, then as short as can be.
LENGTHS = (4, 9, 1)

EXACT = {"atol": 0.0, "rtol": 0.0}
ARITHMETIC = {"atol": 1e-5, "rtol": 1e-5}
TRANSCENDENTAL = {"atol": 1e-4, "rtol": 1e-4}
# A step of float16 is 1e-3 of a value.
HALF = {"atol": 2e-3, "rtol": 2e-3}

# No denormals: GPUs may flush them.
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5, 1e30, -1e30, 1e-30, -1e-30)
# Few enough that every pair of them is still a small tensor.
PAIRED = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -3.0)


def live(make: Callable[[int], Sequence[Arg]]) -> list[Sequence[Arg]]:
    """The calls of a row whose inputs have a live length."""
    return [make(length) for length in LENGTHS]


def spread(shape: Sequence[int], values: Sequence[float], dtype: torch.dtype = torch.float32) -> Arg:
    """These values, over and over, until the shape is full."""
    return exactly(dtype, shape, *(values[i % len(values)] for i in range(math.prod(shape))))


def listed(*values: float, dtype: torch.dtype = torch.float32) -> Arg:
    return exactly(dtype, [len(values)], *values)


def all_pairs(values: Sequence[float], dtype: torch.dtype = torch.float32) -> list[Arg]:
    """A column and a row: broadcast, each value meets each."""
    return [exactly(dtype, [len(values), 1], *values), exactly(dtype, [len(values)], *values)]


def indices(below: int, *shape: int, dtype: torch.dtype = torch.int64) -> Arg:
    """Valid, with repetitions, not in order, and with both ends of the range where there is room for them."""
    count = math.prod(shape)
    return exactly(
        dtype, shape, *((below - 1 + 2 * i) % below if i % 3 else (below - 1) * (i % 2) for i in range(count))
    )


def i32(*shape: int, below: int = 8) -> Arg:
    return ints(torch.int32, *shape, below=below)


def i64(*shape: int, below: int = 8) -> Arg:
    return ints(torch.int64, *shape, below=below)
