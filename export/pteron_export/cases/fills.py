"""Tensors that are made, not computed: fills, ranges, and numbers that become tensors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..case import Arg, Case, f16, f32, flag, lowered
from .function import fn
from .patterns import ARITHMETIC, EXACT, INF, LENGTH, NAN, Options, i32, i64, live

FULL, FULL_LIKE = "aten.full.default", "aten.full_like.default"
ARANGE, SCALAR = "aten.arange.start_step", "aten.scalar_tensor.default"


@dataclass(frozen=True)
class Fill:
    """`make` takes a shape and options; `like` takes a tensor and options."""

    name: str
    make: Callable[..., Tensor]
    like: Callable[..., Tensor]


# ExecuTorch writes the last two as `full` and `full_like`, unless they are kept.
FILLS = [
    Fill(
        "full",
        lambda shape, **options: torch.full(shape, 2, **options),
        lambda a, **options: torch.full_like(a, 2, **options),
    ),
    Fill("zeros", torch.zeros, torch.zeros_like),
    Fill("ones", torch.ones, torch.ones_like),
]


def row(name: str, op: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    kept: Options = {} if op in (FULL, FULL_LIKE, ARANGE) else {"kept": [op]}
    return lowered(name, op, fn(function), *calls, **{**EXACT, **kept, **options})


def shaped(fill: Fill) -> Iterator[Case]:
    op, make = f"aten.{fill.name}.default", fill.make
    for name, dtype in {"f32": torch.float32, "int64": torch.int64, "bool": torch.bool}.items():
        # Each of them odd, so that words of bools and vectors of floats have an end.
        yield row(f"{fill.name}_{name}", op, lambda dtype=dtype: make((3, 5, 7), dtype=dtype), [])
    yield row(f"{fill.name}_rank0", op, lambda: make(()), [])
    yield row(
        f"{fill.name}_dynamic",
        op,
        lambda a: make((2, a.shape[0], 3)),
        *live(lambda n: [f32(n, 1)]),
        dynamic=({0: LENGTH},),
    )


def alike(fill: Fill) -> Iterator[Case]:
    op, like = f"aten.{fill.name}_like.default", fill.like
    for name, arg in {
        "f32": f32(3, 5, 7),
        "f16": f16(3, 7),
        "int32": i32(3, 7),
        "bool": flag(3, 7),
        "rank0": f32(),
    }.items():
        yield row(f"{fill.name}_like_{name}", op, like, [arg])
    # The type is another one than the given tensor's.
    yield row(f"{fill.name}_like_to_int64", op, lambda a: like(a, dtype=torch.int64), [f32(2, 1, 3, 5)])
    yield row(f"{fill.name}_like_dynamic", op, like, *live(lambda n: [f32(2, n, 3)]), dynamic=({1: LENGTH},))


NUMBERS = [
    row("scalar_tensor_alone", SCALAR, lambda: torch.scalar_tensor(2.5), []),
    row("scalar_tensor_int64", SCALAR, lambda: torch.scalar_tensor(-3, dtype=torch.int64), []),
    row("scalar_tensor_f16", SCALAR, lambda: torch.scalar_tensor(2.5, dtype=torch.float16), []),
    row("scalar_tensor_whole_float", SCALAR, lambda a: a * torch.scalar_tensor(3), [f32(3, 5)], **ARITHMETIC),
    row("scalar_tensor_infinite", SCALAR, lambda a: torch.minimum(a, torch.scalar_tensor(-INF)), [f32(3)]),
    # PyTorch turns a number among the arguments of `where` into this.
    row("scalar_tensor_where", SCALAR, lambda a: torch.where(a > 0, a, 1.5), [f32(3, 5)]),
    row(
        "scalar_tensor_dynamic",
        SCALAR,
        lambda a: a * torch.scalar_tensor(a.shape[0]),
        *live(lambda n: [f32(n, 3)]),
        dynamic=({0: LENGTH},),
        **ARITHMETIC,
    ),
]

RANGES = [
    row("arange_int64", ARANGE, lambda: torch.arange(9), []),
    row("arange_start_step", ARANGE, lambda: torch.arange(3, 11, 3), []),
    row("arange_backwards", ARANGE, lambda: torch.arange(5, -4, -2, dtype=torch.int32), []),
    # None of these steps needs to be rounded.
    row("arange_float", ARANGE, lambda: torch.arange(0.5, 4, 0.75), []),
    row("arange_f16", ARANGE, lambda: torch.arange(0, 7, dtype=torch.float16), []),
    row("arange_single", ARANGE, lambda a: a + torch.arange(4, 5), [i64(3)]),
    row(
        "arange_dynamic",
        ARANGE,
        lambda a: torch.arange(a.shape[0]),
        *live(lambda n: [f32(n, 1)]),
        dynamic=({0: LENGTH},),
    ),
    row(
        "arange_dynamic_start",
        ARANGE,
        lambda a: torch.arange(2, a.shape[0] + 2, dtype=torch.float32) * a,
        *live(lambda n: [f32(n)]),
        dynamic=({0: LENGTH},),
        **ARITHMETIC,
    ),
]

CASES: list[Case] = [
    *(case for fill in FILLS for case in shaped(fill)),
    *(case for fill in FILLS for case in alike(fill)),
    row("full_infinite", FULL, lambda: torch.full((3, 5), -INF), []),
    row("full_nan", FULL, lambda: torch.full((3, 5), NAN), []),
    row("full_fraction", FULL, lambda: torch.full((67,), 0.75), []),
    row("full_f16_rank4", FULL, lambda: torch.full((2, 1, 3, 5), 1.5, dtype=torch.float16), []),
    row(
        "full_dynamic_bool",
        FULL,
        lambda a: torch.full((a.shape[0],), True),
        *live(lambda n: [f32(n, 1)]),
        dynamic=({0: LENGTH},),
    ),
    row("full_negative_int32", FULL, lambda: torch.full((3, 5), -7, dtype=torch.int32), []),
    row("full_like_infinite", FULL_LIKE, lambda a: torch.full_like(a, -INF), [f32(3, 5)]),
    # A tensor that is used beside its fill.
    row("full_like_added", FULL_LIKE, lambda a: a + torch.full_like(a, 0.5), [f32(3, 5)], **ARITHMETIC),
    *NUMBERS,
    *RANGES,
]
