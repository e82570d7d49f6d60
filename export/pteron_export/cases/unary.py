"""Functions of one element, each over the same patterns of shapes and values."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from ..case import Arg, Case, f32, lowered
from ..kept import hardshrink
from .function import fn
from .patterns import (
    ARITHMETIC,
    EXACT,
    HALF,
    INF,
    LENGTH,
    NAN,
    SPECIAL,
    TRANSCENDENTAL,
    Options,
    i32,
    i64,
    listed,
    live,
)

# Halves, for a function that rounds, up to the largest numbers that have any.
TIES = (0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, -3.5, 0.25, -0.75, 8388607.5, -8388606.5, 16777216.0)
# Where exp is no longer finite, and where it is no longer a normal number.
EXPONENTS = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 10.0, -10.0, 80.0, -80.0, 88.5, 89.0, -200.0, 1e30, -1e30)
# Some way round the circle, but not so far that a single float no longer says where on it.
ANGLES = (NAN, INF, -INF, 0.0, -0.0, 1.5707964, 3.1415927, -3.1415927, 6.2831855, 10.0, -25.5, 50.0, -50.0)
POWERS = (NAN, INF, -INF, 0.0, -0.0, -1.0, 1.0, 10.0, 100.0, 1000.0, 0.1, 1e30, 1e-30)
# Where a hard function bends, and a little to both sides.
BENDS = (NAN, INF, -INF, 0.0, -0.0, 0.5, -0.5, 0.75, -0.75, 3.0, -3.0, 2.984375, -2.984375, 6.0, 7.0, -7.0, 1e30, -1e30)
# Where a smooth step is flat in float32.
SATURATED = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 4.0, -4.0, 9.0, -9.0, 20.0, -20.0, 100.0, -100.0, 1e30, -1e30)


@dataclass(frozen=True)
class Unary:
    name: str
    op: str
    function: Callable[[Tensor], Tensor]
    tolerance: Options
    special: Sequence[float] = SPECIAL
    # Only defined for non-negative inputs.
    positive: bool = False
    # The ones invite the exporter to squeeze.
    rank4: tuple[int, ...] = (2, 1, 3, 5)
    options: Options = field(default_factory=dict)

    def inputs(self, *shape: int) -> list[Arg]:
        return [Arg(shape, torch.float32, positive=self.positive)]

    def row(self, pattern: str, *calls: Sequence[Arg], **options: object) -> Case:
        merged = {**self.tolerance, **self.options, **options}
        return lowered(f"{self.name}_{pattern}", self.op, fn(self.function), *calls, **merged)


UNARY = [
    Unary("abs", "aten.abs.default", torch.abs, EXACT),
    Unary("neg", "aten.neg.default", torch.neg, EXACT),
    Unary("relu", "aten.relu.default", torch.relu, EXACT),
    Unary("round", "aten.round.default", torch.round, EXACT, (*SPECIAL, *TIES)),
    Unary("sqrt", "aten.sqrt.default", torch.sqrt, ARITHMETIC, (*SPECIAL, 4.0, 2.0), positive=True),
    Unary("rsqrt", "aten.rsqrt.default", torch.rsqrt, ARITHMETIC, (*SPECIAL, 4.0, 2.0), positive=True),
    Unary("exp", "aten.exp.default", torch.exp, TRANSCENDENTAL, EXPONENTS),
    Unary("log10", "aten.log10.default", torch.log10, TRANSCENDENTAL, POWERS, positive=True),
    Unary("sin", "aten.sin.default", torch.sin, TRANSCENDENTAL, ANGLES),
    Unary("cos", "aten.cos.default", torch.cos, TRANSCENDENTAL, ANGLES),
    Unary("tanh", "aten.tanh.default", torch.tanh, TRANSCENDENTAL, SATURATED),
    Unary("sigmoid", "aten.sigmoid.default", torch.sigmoid, TRANSCENDENTAL, SATURATED),
    # Not of infinities: PyTorch's kernel for CPUs returns NaN even for inf, where the function is infinite.
    Unary("gelu", "aten.gelu.default", functional.gelu, TRANSCENDENTAL, (NAN, *SATURATED[3:])),
    Unary(
        "gelu_tanh",
        "aten.gelu.default",
        partial(functional.gelu, approximate="tanh"),
        TRANSCENDENTAL,
        SATURATED,
        # The exporter fails where it would squeeze this one: it gives the squeeze the gelu's keyword.
        rank4=(2, 3, 2, 5),
    ),
    Unary("hardswish", "aten.hardswish.default", functional.hardswish, ARITHMETIC, BENDS),
    Unary(
        "leaky_relu", "aten.leaky_relu.default", partial(functional.leaky_relu, negative_slope=0.1), ARITHMETIC, BENDS
    ),
    Unary("hardtanh", "aten.hardtanh.default", partial(functional.hardtanh, min_val=-0.5, max_val=0.75), EXACT, BENDS),
    Unary(
        "hardshrink",
        "aten.hardshrink.default",
        partial(hardshrink, lambd=0.75),
        EXACT,
        BENDS,
        options={"kept": ["aten.hardshrink.default"]},
    ),
    Unary("clamp", "aten.clamp.default", partial(torch.clamp, min=-0.5, max=0.75), EXACT, BENDS),
    *(
        Unary(name, f"aten.{name}.default", function, tolerance, special, options={"kept": [f"aten.{name}.default"]})
        for name, function, tolerance, special in (
            ("hardsigmoid", lambda a: torch.ops.pteron_export.hardsigmoid(a), ARITHMETIC, BENDS),
            ("relu6", lambda a: torch.ops.pteron_export.relu6(a), EXACT, BENDS),
            (
                "tan",
                lambda a: torch.ops.pteron_export.tan(a),
                TRANSCENDENTAL,
                (NAN, 0.0, -0.0, 1.0, -1.0, 1.5, 4.0, -25.5),
            ),
            ("log1p", lambda a: torch.ops.pteron_export.log1p(a), TRANSCENDENTAL, (*POWERS, 1e-6, -1e-6, -0.5, -2.0)),
            ("elu", lambda a: torch.ops.pteron_export.elu(a, 1.25, 1.5, 0.75), TRANSCENDENTAL, SATURATED),
        )
    ),
]
# The type is the same matter for all of them.
ALSO_HALF = ("round", "sqrt", "exp", "tanh", "gelu", "hardtanh")


def patterns(unary: Unary) -> Iterator[Case]:
    yield unary.row("rank0", unary.inputs())
    yield unary.row("rank3_odd", unary.inputs(3, 5, 7))
    yield unary.row("rank4", unary.inputs(*unary.rank4))
    yield unary.row("special", [listed(*unary.special)])
    yield unary.row("dynamic", *live(lambda length: unary.inputs(2, length, 3)), dynamic=({1: LENGTH},))
    if unary.name in ALSO_HALF:
        half = Arg((3, 7), torch.float16, positive=unary.positive)
        yield unary.row("f16", [half], **(EXACT if unary.tolerance is EXACT else HALF))


CLAMP = "aten.clamp.default"

CASES: list[Case] = [
    *(row for unary in UNARY for row in patterns(unary)),
    lowered("relu6", "aten.hardtanh.default", fn(functional.relu6), [listed(*BENDS)], **EXACT),
    lowered("leaky_relu_default", "aten.leaky_relu.default", fn(functional.leaky_relu), [f32(5, 7)], **ARITHMETIC),
    lowered("hardtanh_default", "aten.hardtanh.default", fn(functional.hardtanh), [f32(5, 7)], **EXACT),
    lowered("clamp_low_only", CLAMP, fn(lambda a: a.clamp(min=0.25)), [listed(*BENDS)], **EXACT),
    lowered("clamp_high_only", CLAMP, fn(lambda a: a.clamp(max=0.25)), [listed(*BENDS)], **EXACT),
    # Then the upper bound wins.
    lowered("clamp_crossed", CLAMP, fn(lambda a: a.clamp(0.75, -0.5)), [f32(5, 7)], **EXACT),
    lowered("clamp_infinite", CLAMP, fn(lambda a: a.clamp(-INF, 0.5)), [listed(*BENDS)], **EXACT),
    lowered("clamp_int32", CLAMP, fn(lambda a: a.clamp(-2, 3)), [i32(3, 5)], **EXACT),
    lowered("clamp_int64_low_only", CLAMP, fn(lambda a: a.clamp(min=-2)), [i64(3, 5)], **EXACT),
    # The output is a float.
    lowered("clamp_int32_by_float", CLAMP, fn(lambda a: a.clamp(-1.5, 3)), [i32(3, 5)], **EXACT),
    lowered(
        "clamp_int32_dynamic",
        CLAMP,
        fn(lambda a: a.clamp(-2, 3)),
        *live(lambda length: [i32(length, 3)]),
        dynamic=({0: LENGTH},),
        **EXACT,
    ),
]
