"""Arithmetic of two tensors, and powers, over broadcasts, dtypes and the values where they differ."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..case import Arg, Case, f16, f32, lowered
from .function import fn
from .patterns import (
    ARITHMETIC,
    EXACT,
    HALF,
    INF,
    LENGTH,
    NAN,
    PAIRED,
    SPECIAL,
    TRANSCENDENTAL,
    Options,
    all_pairs,
    i32,
    i64,
    listed,
    live,
    spread,
)

# For divisors: exact quotients, which floor and trunc must not miss by a last bit, and others of either sign.
DIVISORS = (3.0, -3.0, 0.25, -0.75, 0.015625, 7.0, -1.0)
INT_DIVISORS = (3, -3, 1, -1, 7, -5, 100)
INT_DIVIDENDS = (7, -7, 6, -6, 0, 1, -1, 5, -5, 99, -100, 2147483647, -2147483647)
# Exponents of integers: none is negative, which PyTorch rejects.
INT_EXPONENTS = (0, 1, 2, 3, 5)
# Division by zero, but no infinite operands: floor and trunc of those have a row of their own.
FINITE = (NAN, 0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 7.0, -7.5)


@dataclass(frozen=True)
class Binary:
    name: str
    op: str
    function: Callable[[Tensor, Tensor], Tensor]
    tolerance: Options
    pairs: Sequence[float] = PAIRED
    # Values of the second operand of the ordinary rows; random if empty.
    right: Sequence[float] = ()
    right_int: Sequence[int] = ()
    left_int: Sequence[int] = ()
    # The first operand of the ordinary rows must not be negative.
    positive: bool = False

    def args(self, left: Sequence[int], right: Sequence[int]) -> list[Arg]:
        first = Arg(tuple(left), torch.float32, positive=self.positive)
        return [first, spread(right, self.right) if self.right else f32(*right)]

    def int_args(self, left: Sequence[int], right: Sequence[int], dtype: torch.dtype = torch.int32) -> list[Arg]:
        first = spread(left, self.left_int, dtype) if self.left_int else Arg(tuple(left), dtype)
        return [first, spread(right, self.right_int, dtype) if self.right_int else Arg(tuple(right), dtype)]

    def row(self, pattern: str, *calls: Sequence[Arg], **options: object) -> Case:
        merged = {**self.tolerance, **options}
        return lowered(f"{self.name}_{pattern}", self.op, fn(self.function), *calls, **merged)


ROUNDED = "aten.div.Tensor_mode"

BINARY = [
    Binary("add_tensor", "aten.add.Tensor", torch.add, ARITHMETIC),
    Binary("sub_tensor", "aten.sub.Tensor", torch.sub, ARITHMETIC),
    Binary("mul_tensor", "aten.mul.Tensor", torch.mul, ARITHMETIC),
    Binary("minimum", "aten.minimum.default", torch.minimum, EXACT),
    Binary(
        "div_tensor",
        "aten.div.Tensor",
        torch.div,
        ARITHMETIC,
        right=DIVISORS,
        right_int=INT_DIVISORS,
    ),
    Binary(
        "div_floor",
        ROUNDED,
        partial(torch.div, rounding_mode="floor"),
        EXACT,
        pairs=FINITE,
        right=DIVISORS,
        right_int=INT_DIVISORS,
        left_int=INT_DIVIDENDS,
    ),
    Binary(
        "div_trunc",
        ROUNDED,
        partial(torch.div, rounding_mode="trunc"),
        EXACT,
        pairs=FINITE,
        right=DIVISORS,
        right_int=INT_DIVISORS,
        left_int=INT_DIVIDENDS,
    ),
    Binary(
        "pow_tensor",
        "aten.pow.Tensor_Tensor",
        torch.pow,
        TRANSCENDENTAL,
        right_int=INT_EXPONENTS,
        positive=True,
    ),
]


def patterns(binary: Binary) -> Iterator[Case]:
    yield binary.row("rank0", binary.args([], []))
    yield binary.row("broadcast", binary.args([3, 5, 7], [5, 1]))
    yield binary.row("broadcast_rank5", binary.args([2, 1, 3, 1, 5], [1, 3, 1, 2, 1]))
    yield binary.row("special", all_pairs(binary.pairs))
    # Integers have exact results, except quotients.
    whole = ARITHMETIC if binary.name == "div_tensor" else EXACT
    yield binary.row("int32", binary.int_args([13, 1], [7]), **whole)
    if binary.name in ("add_tensor", "div_floor"):
        yield binary.row("int64", binary.int_args([3, 13], [3, 13], torch.int64), **whole)
    if binary.name in ("mul_tensor", "div_floor", "pow_tensor"):
        right = spread([7], binary.right or (1.5, -2.0), torch.float16)
        half = [Arg((3, 7), torch.float16, positive=binary.positive), right]
        yield binary.row("f16", half, **(EXACT if binary.tolerance is EXACT else HALF))
    yield binary.row(
        "dynamic",
        *live(lambda length: binary.args([2, length, 3], [length, 1])),
        dynamic=({1: LENGTH}, {0: LENGTH}),
    )


POWER = "aten.pow.Tensor_Scalar"


def powers() -> Iterator[Case]:
    """By name; a negative base is only defined for an integer exponent."""
    exponents = {
        "0": 0,
        "1": 1,
        "2": 2,
        "3": 3,
        "minus_1": -1,
        "minus_2": -2.0,
        "half": 0.5,
        "2_5": 2.5,
        "minus_half": -0.5,
    }
    bases = (*SPECIAL, 2.0, -2.0, 3.0)
    for name, exponent in exponents.items():
        module = fn(partial(torch.pow, exponent=exponent))
        yield lowered(f"pow_scalar_{name}", POWER, module, [listed(*bases)], **TRANSCENDENTAL)


def squared(a: Tensor) -> Tensor:
    return torch.pow(a, 2)


CASES: list[Case] = [
    *(row for binary in BINARY for row in patterns(binary)),
    # A quotient's remainder decides here, not the quotient: -1 / inf rounds down to -1, inf / 1 is undefined.
    lowered(
        "div_floor_infinite",
        ROUNDED,
        fn(partial(torch.div, rounding_mode="floor")),
        all_pairs((INF, -INF, 1.0, -2.0)),
        **EXACT,
    ),
    lowered(
        "div_trunc_infinite",
        ROUNDED,
        fn(partial(torch.div, rounding_mode="trunc")),
        all_pairs((INF, -INF, 1.0, -2.0)),
        **EXACT,
    ),
    lowered(
        "div_floor_operator", ROUNDED, fn(lambda a, b: a // b), [i32(5, 7), spread([7], (2, -3), torch.int32)], **EXACT
    ),
    # The shorter operand keeps its shape while the other one's length lives.
    lowered(
        "mul_tensor_dynamic_by_row",
        "aten.mul.Tensor",
        fn(torch.mul),
        *live(lambda length: [f32(length, 7), f32(7)]),
        dynamic=({0: LENGTH}, None),
        **ARITHMETIC,
    ),
    lowered(
        "add_tensor_dynamic_both",
        "aten.add.Tensor",
        fn(torch.add),
        *live(lambda length: [f32(length, 1), f32(1, length)]),
        dynamic=({0: LENGTH}, {1: LENGTH}),
        **ARITHMETIC,
    ),
    lowered("add_tensor_itself", "aten.add.Tensor", fn(lambda a: a + a), [f32(5, 7)], **EXACT),
    lowered(
        "add_tensor_alpha_int",
        "aten.add.Tensor",
        fn(lambda a, b: torch.add(a, b, alpha=3)),
        [i32(5, 7), i32(7)],
        **EXACT,
    ),
    lowered(
        "sub_tensor_alpha",
        "aten.sub.Tensor",
        fn(lambda a, b: torch.sub(a, b, alpha=-2)),
        [f32(5, 7), f32(7)],
        **ARITHMETIC,
    ),
    lowered("sub_from_number", "aten.sub.Tensor", fn(lambda a: 2 - a), [f32(5, 7)], **ARITHMETIC),
    lowered("add_mixed_types", "aten.add.Tensor", fn(torch.add), [f32(5, 7), i32(7)], **ARITHMETIC),
    lowered("add_mixed_ints", "aten.add.Tensor", fn(torch.add), [i64(5, 7), i32(7)], **EXACT),
    lowered("add_mixed_halves", "aten.add.Tensor", fn(torch.add), [f16(5, 7), f32(7)], **ARITHMETIC),
    lowered(
        "pow_tensor_whole_exponents",
        "aten.pow.Tensor_Tensor",
        fn(torch.pow),
        [f32(7, 1), listed(0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 7.0)],
        **TRANSCENDENTAL,
    ),
    *powers(),
    lowered("pow_scalar_rank0", POWER, fn(squared), [f32()], **TRANSCENDENTAL),
    lowered("pow_scalar_rank5", POWER, fn(squared), [f32(2, 1, 3, 2, 3)], **TRANSCENDENTAL),
    lowered("pow_scalar_f16", POWER, fn(squared), [f16(3, 7)], **HALF),
    lowered(
        "pow_scalar_dynamic",
        POWER,
        fn(lambda a: torch.pow(a, 3)),
        *live(lambda length: [f32(2, length, 3)]),
        dynamic=({1: LENGTH},),
        **TRANSCENDENTAL,
    ),
]
