"""Comparisons, logic and choice: outputs are bools, or unchanged inputs."""

from collections.abc import Callable, Iterator, Sequence

import torch

from ..case import Arg, Case, exactly, f16, f32, flag, lowered
from .function import fn
from .patterns import EXACT, INF, LENGTH, PAIRED, SPECIAL, Options, all_pairs, i32, i64, listed, live, spread

COMPARISONS = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
LOGIC = {
    "logical_and": ("aten.logical_and.default", torch.logical_and),
    "logical_or": ("aten.logical_or.default", torch.logical_or),
    "bitwise_and": ("aten.bitwise_and.Tensor", torch.bitwise_and),
    "bitwise_or": ("aten.bitwise_or.Tensor", torch.bitwise_or),
}
NEGATION = {
    "logical_not": ("aten.logical_not.default", torch.logical_not),
    "bitwise_not": ("aten.bitwise_not.default", torch.bitwise_not),
}
LARGE = (16777216, 16777217, 16777218, 2147483646, 2147483647, -16777217, -16777216)
# Few different ones, so that many are equal.
STEPS = (0.5, -1.0, 0.5, 2.0, 0.25, -1.0, 1.5)


def row(name: str, op: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, op, fn(function), *calls, **EXACT, **options)


def of_tensors(name: str, compare: Callable[..., torch.Tensor]) -> Iterator[Case]:
    op = f"aten.{name}.Tensor"
    # The partitioner takes all of them but this one.
    options: Options = {"kept": [op]} if name == "ne" else {}
    yield row(f"{name}_tensor_special", op, compare, all_pairs(PAIRED), **options)
    yield row(f"{name}_tensor_rank5", op, compare, [f32(2, 1, 3, 1, 5), f32(1, 3, 1, 2, 1)], **options)
    yield row(f"{name}_tensor_rank0", op, compare, [f32(), f32()], **options)
    yield row(f"{name}_tensor_int32", op, compare, [i32(5, 7, below=3), i32(7, below=3)], **options)
    yield row(
        f"{name}_tensor_dynamic",
        op,
        compare,
        *live(lambda length: [spread([2, length, 3], STEPS), spread([length, 1], STEPS)]),
        dynamic=({1: LENGTH}, {0: LENGTH}),
        **options,
    )


def with_number(name: str, compare: Callable[..., torch.Tensor]) -> Iterator[Case]:
    op = f"aten.{name}.Scalar"

    def half(a: torch.Tensor) -> torch.Tensor:
        return compare(a, 0.5)

    yield row(f"{name}_scalar_special", op, half, [listed(*SPECIAL)])
    yield row(f"{name}_scalar_rank0", op, half, [exactly(torch.float32, [], 0.5)])
    yield row(f"{name}_scalar_rank5", op, half, [spread([2, 1, 3, 2, 3], STEPS)])
    yield row(f"{name}_scalar_int64", op, lambda a: compare(a, 1), [i64(5, 7, below=3)])
    yield row(
        f"{name}_scalar_dynamic",
        op,
        half,
        *live(lambda length: [spread([2, length, 3], STEPS)]),
        dynamic=({1: LENGTH},),
    )


def logic(name: str, op: str, function: Callable[..., torch.Tensor]) -> Iterator[Case]:
    yield row(f"{name}_rank0", op, function, [flag(), flag()])
    # Four bools are one word: these end within one.
    yield row(f"{name}_odd", op, function, [flag(67), flag(67)])
    yield row(f"{name}_broadcast", op, function, [flag(3, 1, 7), flag(5, 1)])
    yield row(f"{name}_rank5", op, function, [flag(2, 1, 3, 1, 5), flag(1, 3, 1, 2, 1)])
    yield row(
        f"{name}_dynamic",
        op,
        function,
        *live(lambda length: [flag(2, length, 3), flag(length, 1)]),
        dynamic=({1: LENGTH}, {0: LENGTH}),
    )


def negation(name: str, op: str, function: Callable[..., torch.Tensor]) -> Iterator[Case]:
    yield row(f"{name}_rank0", op, function, [flag()])
    yield row(f"{name}_odd", op, function, [flag(67)])
    yield row(f"{name}_rank3", op, function, [flag(3, 5, 7)])
    yield row(f"{name}_rank5", op, function, [flag(2, 1, 3, 2, 3)])
    yield row(f"{name}_dynamic", op, function, *live(lambda length: [flag(2, length, 3)]), dynamic=({1: LENGTH},))


def is_minus_infinity(a: torch.Tensor) -> torch.Tensor:
    """Every masked softmax asks this."""
    return a == -INF


WHERE = "aten.where.self"

CASES: list[Case] = [
    *(case for name, compare in COMPARISONS.items() for case in of_tensors(name, compare)),
    *(case for name, compare in COMPARISONS.items() for case in with_number(name, compare)),
    *(case for name, (op, function) in LOGIC.items() for case in logic(name, op, function)),
    *(case for name, (op, function) in NEGATION.items() for case in negation(name, op, function)),
    row("eq_scalar_infinite", "aten.eq.Scalar", is_minus_infinity, [listed(*SPECIAL)]),
    row("eq_tensor_f16", "aten.eq.Tensor", torch.eq, [f16(3, 7), f16(7)]),
    # Neighbours that are the same number as floats.
    row("eq_tensor_large_ints", "aten.eq.Tensor", torch.eq, all_pairs(LARGE, torch.int32)),
    row("lt_scalar_large_int", "aten.lt.Scalar", lambda a: a < LARGE[1], [listed(*LARGE, dtype=torch.int64)]),
    row("where_rank0", WHERE, torch.where, [flag(), f32(), f32()]),
    row("where_odd", WHERE, torch.where, [flag(67), f32(67), f32(67)]),
    row("where_broadcast", WHERE, torch.where, [flag(3, 1), f32(1, 5), f32(2, 3, 5)]),
    row("where_by_scalars", WHERE, torch.where, [flag(2, 3, 1, 5), f32(), f32(1)]),
    row("where_special", WHERE, torch.where, [flag(15), listed(*SPECIAL), listed(*SPECIAL[::-1])]),
    row("where_f16", WHERE, torch.where, [flag(3, 7), f16(3, 7), f16(7)]),
    row(
        "where_dynamic",
        WHERE,
        torch.where,
        *live(lambda length: [flag(length, 1), f32(2, length, 3), f32(3)]),
        dynamic=({0: LENGTH}, {1: LENGTH}, None),
    ),
    # A mask that is made inside.
    row(
        "where_larger_dynamic",
        WHERE,
        lambda a, b: torch.where(a > b, a, b),
        *live(lambda length: [f32(length, 7), f32(length, 1)]),
        dynamic=({0: LENGTH}, {0: LENGTH}),
    ),
]
