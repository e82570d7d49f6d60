"""Reductions and softmax over the dims that the exporter takes: the last one, or any one or two that are kept as 1."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..case import Arg, Case, exactly, f16, f32, lowered
from .function import fn
from .patterns import ARITHMETIC, EXACT, HALF, INF, LENGTH, NAN, TRANSCENDENTAL, Options, live, spread

Reduce = Callable[..., Tensor]

VALUES: dict[str, tuple[str, Reduce, Options]] = {
    "sum": ("aten.sum.dim_IntList", torch.sum, ARITHMETIC),
    "mean": ("aten.mean.dim", torch.mean, ARITHMETIC),
    "amax": ("aten.amax.default", torch.amax, EXACT),
    "amin": ("aten.amin.default", torch.amin, EXACT),
}
PLACES: dict[str, tuple[str, Reduce]] = {
    "argmax": ("aten.argmax.default", torch.argmax),
    "argmin": ("aten.argmin.default", torch.argmin),
}
SOFTMAX: dict[str, tuple[str, Reduce]] = {
    "softmax": ("aten._softmax.default", torch.softmax),
    "log_softmax": ("aten._log_softmax.default", torch.log_softmax),
}

# A row each: NaN first, last and alone; infinities of one sign and of both; zeros of both signs.
ROWS = exactly(
    torch.float32,
    [7, 4],
    *(NAN, 1.0, 2.0, 3.0),
    *(1.0, INF, 2.0, NAN),
    *(1.0, INF, 2.0, INF),
    *(-INF, -INF, -1.0, 2.0),
    *(INF, -INF, 0.0, 1.0),
    *(-INF, -INF, -INF, -INF),
    *(0.0, -0.0, -0.0, 0.0),
)
# The first of equals counts, and a NaN before all numbers.
TIED = exactly(
    torch.float32,
    [6, 5],
    *(2.0, 3.0, 3.0, 1.0, 1.0),
    *(1.0, 1.0, 1.0, 1.0, 1.0),
    *(5.0, NAN, 9.0, NAN, -9.0),
    *(INF, 0.0, INF, -INF, -INF),
    *(-0.0, 0.0, 0.0, -0.0, 1.0),
    *(-1.0, -2.0, -2.0, -1.0, -1.5),
)
# Steps so large that only the largest of a row is not 0, and rows that are masked in part or wholly.
LOGITS = exactly(
    torch.float32,
    [6, 4],
    *(1000.0, 0.0, -1000.0, 999.0),
    *(-INF, 1.0, -INF, 2.0),
    *(-INF, -INF, -INF, -INF),
    *(INF, 1.0, 2.0, 3.0),
    *(NAN, 1.0, 2.0, 3.0),
    *(3.0, 3.0, 3.0, 3.0),
)


def over(reduce: Reduce, dim: int | tuple[int, ...], keepdim: bool = False) -> Callable[[Tensor], Tensor]:
    return lambda a: reduce(a, dim=dim, keepdim=keepdim)


def of_values(name: str, op: str, reduce: Reduce, tolerance: Options) -> Iterator[Case]:
    def row(pattern: str, function: Callable[[Tensor], Tensor], *calls: Sequence[Arg], **options: object) -> Case:
        return lowered(f"{name}_{pattern}", op, fn(function), *calls, **{**tolerance, **options})

    yield row("last", over(reduce, -1), [f32(3, 5, 7)])
    yield row("last_kept", over(reduce, 2, True), [f32(3, 5, 7)])
    yield row("first_kept", over(reduce, 0, True), [f32(5, 7)])
    yield row("middle_kept", over(reduce, -2, True), [f32(2, 3, 5, 7)])
    yield row("two_dims_kept", over(reduce, (1, 3), True), [f32(2, 3, 5, 7)])
    yield row("everything_kept", over(reduce, (0, 1), True), [f32(5, 7)])
    yield row("to_rank0", over(reduce, 0), [f32(67)])
    yield row("rank5", over(reduce, -1), [f32(2, 1, 2, 3, 5)])
    # More than a workgroup's threads in a row, and hardly any rows.
    yield row("long_row", over(reduce, -1), [f32(2, 1037)])
    yield row("special", over(reduce, -1), [ROWS])
    yield row("f16", over(reduce, -1), [f16(3, 7)], **(EXACT if tolerance is EXACT else HALF))
    yield row("dynamic", over(reduce, -1), *live(lambda length: [f32(length, 7)]), dynamic=({0: LENGTH},))
    yield row("dynamic_reduced", over(reduce, -1), *live(lambda length: [f32(3, length)]), dynamic=({1: LENGTH},))


def of_places(name: str, op: str, reduce: Reduce) -> Iterator[Case]:
    def row(pattern: str, function: Callable[[Tensor], Tensor], *calls: Sequence[Arg], **options: object) -> Case:
        return lowered(f"{name}_{pattern}", op, fn(function), *calls, **EXACT, **options)

    yield row("last", over(reduce, -1), [f32(3, 5, 7)])
    yield row("last_kept", over(reduce, -1, True), [f32(3, 5, 7)])
    yield row("middle_kept", over(reduce, 1, True), [f32(2, 5, 3)])
    yield row("no_dim", lambda a: reduce(a), [f32(67)])
    yield row("rank5", over(reduce, -1), [f32(2, 1, 2, 3, 5)])
    yield row("long_row", over(reduce, -1), [f32(2, 1037)])
    yield row("ties", over(reduce, -1), [TIED])
    # The same, down the columns.
    yield row("ties_first_kept", over(reduce, 0, True), [TIED])
    yield row("long_ties", over(reduce, -1), [spread([3, 517], (1.0, 3.0, -3.0, 3.0, -3.0))])
    yield row("f16", over(reduce, -1), [f16(3, 7)])
    yield row("dynamic", over(reduce, -1), *live(lambda length: [f32(length, 7)]), dynamic=({0: LENGTH},))
    yield row("dynamic_reduced", over(reduce, -1), *live(lambda length: [f32(3, length)]), dynamic=({1: LENGTH},))


def of_softmax(name: str, op: str, softmax: Reduce) -> Iterator[Case]:
    def row(pattern: str, dim: int, *calls: Sequence[Arg], **options: object) -> Case:
        function = fn(lambda a: softmax(a, dim=dim))
        return lowered(f"{name}_{pattern}", op, function, *calls, **{**TRANSCENDENTAL, **options})

    yield row("odd", -1, [f32(5, 7)])
    yield row("first", 0, [f32(5, 7)])
    yield row("middle", 1, [f32(3, 5, 7)])
    yield row("rank4", 2, [f32(2, 3, 5, 2)])
    yield row("rank0", 0, [f32()])
    yield row("long_row", -1, [f32(2, 1037)])
    yield row("special", -1, [LOGITS])
    yield row("special_first", 0, [LOGITS])
    yield row("f16", -1, [f16(3, 7)], **HALF)
    yield row("dynamic", -1, *live(lambda length: [f32(2, length, 3)]), dynamic=({1: LENGTH},))
    yield row("dynamic_reduced", -1, *live(lambda length: [f32(3, length)]), dynamic=({1: LENGTH},))
    yield row("dynamic_reduced_first", 0, *live(lambda length: [f32(length, 3)]), dynamic=({0: LENGTH},))


def variance(
    pattern: str, dim: list[int], unbiased: bool, keepdim: bool, *calls: Sequence[Arg], **options: object
) -> Case:
    function = fn(lambda a: torch.ops.pteron_export.var(a, dim, unbiased, keepdim))
    return lowered(
        f"var_{pattern}", "aten.var.dim", function, *calls, kept=["aten.var.dim"], **TRANSCENDENTAL, **options
    )


CASES: list[Case] = [
    variance("last", [-1], True, False, [f32(3, 5, 7)]),
    variance("biased_kept", [2], False, True, [f32(3, 5, 7)]),
    variance("two_dims", [1, 3], True, True, [f32(2, 3, 5, 7)]),
    variance("one_element", [-1], True, True, [f32(3, 1)]),
    variance("long_row", [-1], False, False, [f32(2, 1037)]),
    variance("dynamic", [-1], True, True, *live(lambda length: [f32(length, 7)]), dynamic=({0: LENGTH},)),
    *(case for name, row in VALUES.items() for case in of_values(name, *row)),
    *(case for name, row in PLACES.items() for case in of_places(name, *row)),
    *(case for name, row in SOFTMAX.items() for case in of_softmax(name, *row)),
    lowered(
        "sum_dynamic_first_kept",
        "aten.sum.dim_IntList",
        fn(over(torch.sum, 0, True)),
        *live(lambda length: [f32(length, 3)]),
        dynamic=({0: LENGTH},),
        **ARITHMETIC,
    ),
    # The sum of halves in single precision.
    lowered(
        "sum_f16_to_f32",
        "aten.sum.dim_IntList",
        fn(lambda a: a.sum(-1, dtype=torch.float32)),
        [f16(3, 7)],
        **ARITHMETIC,
    ),
]
