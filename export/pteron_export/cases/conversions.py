"""Casts between dtypes, and quantisation to 8 bits and back."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from ..case import Arg, Case, exactly, f16, f32, flag, ints, lowered
from .function import fn
from .patterns import ARITHMETIC, EXACT, LENGTH, Options, i32, i64, listed, live

TO_COPY, TO_DIM_ORDER = "aten._to_copy.default", "dim_order_ops._to_dim_order_copy.default"
QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"

# Towards zero, on either side of it; no NaN, which has no integer value.
FRACTIONS = listed(0.0, -0.0, 0.5, -0.5, 0.984375, -0.984375, 1.5, -1.5, 2.75, -2.75, 1e6, -1e6, 16777215.0)
# Each half is between two float16: the even one counts. The last ones are the largest, and infinite there.
BETWEEN = listed(0.0, -0.0, 1.0, 1.00048828125, 1.00146484375, 2049.0, 2051.0, 0.1, -0.3, 65504.0, -70000.0)
# All that is not zero is true, however small, and so is no number at all.
TRUTHS = listed(0.0, -0.0, 1.0, -1.0, 1e-30, float("nan"), float("inf"), 0.5)

CONVERSIONS: dict[str, tuple[Arg, torch.dtype]] = {
    "f32_to_int32": (FRACTIONS, torch.int32),
    "f32_to_int64": (FRACTIONS, torch.int64),
    "f32_to_bool": (TRUTHS, torch.bool),
    "f32_to_f16": (BETWEEN, torch.float16),
    "f16_to_f32": (f16(3, 7), torch.float32),
    "f16_to_int32": (f16(3, 7), torch.int32),
    "int32_to_f32": (i32(3, 7, below=2**24), torch.float32),
    "int32_to_bool": (i32(3, 7, below=2), torch.bool),
    "int32_to_f16": (i32(3, 7, below=2048), torch.float16),
    "int64_to_f32": (i64(3, 7, below=2**24), torch.float32),
    "int64_to_int32": (i64(3, 7, below=2**31 - 1), torch.int32),
    "bool_to_f32": (flag(3, 7), torch.float32),
    "bool_to_int64": (flag(3, 7), torch.int64),
    "bool_to_f16": (flag(67), torch.float16),
}


def converted(prefix: str, op: str, options: Options) -> Iterator[Case]:
    def row(pattern: str, dtype: torch.dtype, *calls: Sequence[Arg], **more: object) -> Case:
        return lowered(f"{prefix}_{pattern}", op, fn(lambda a: a.to(dtype)), *calls, **EXACT, **options, **more)

    for name, (arg, dtype) in CONVERSIONS.items():
        if "f16" not in name or op == TO_DIM_ORDER or name == "f32_to_f16":
            yield row(name, dtype, [arg])
    yield row("rank0", torch.int32, [f32()])
    yield row("rank4", torch.float32, [i32(2, 1, 3, 5)])
    yield row("dynamic", torch.float32, *live(lambda n: [i64(2, n, 3)]), dynamic=({1: LENGTH},))
    yield row("dynamic_to_bool", torch.bool, *live(lambda n: [f32(n, 3)]), dynamic=({0: LENGTH},))


def quantize(scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.ops.quantized_decomposed.quantize_per_tensor(x, scale, zero, low, high, dtype)


def dequantize(scale: float, zero: int, low: int, high: int, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.ops.quantized_decomposed.dequantize_per_tensor(x, scale, zero, low, high, dtype)


SIGNED, UNSIGNED = (1 / 32, 3, -128, 127, torch.int8), (1 / 16, 128, 0, 255, torch.uint8)
# Halves of a step, of either sign; beyond both ends of the range.
STEPS = listed(0.0, 1 / 64, 3 / 64, -1 / 64, -3 / 64, 5 / 64, 3.875, 3.90625, 4.5, -4.0, -4.09375, -9.0, 1e30, -1e30)
EIGHT_BITS = ints(torch.int8, 3, 7, below=127)

QUANTIZED = [
    lowered("quantize_rank0", QUANTIZE, fn(quantize(*SIGNED)), [f32()], **EXACT),
    lowered("quantize_ties", QUANTIZE, fn(quantize(*SIGNED)), [STEPS], **EXACT),
    lowered("quantize_odd", QUANTIZE, fn(quantize(*SIGNED)), [f32(3, 5, 7)], **EXACT),
    lowered("quantize_uint8", QUANTIZE, fn(quantize(*UNSIGNED)), [f32(3, 7)], **EXACT),
    # Fewer values than the type has.
    lowered("quantize_narrow", QUANTIZE, fn(quantize(1 / 8, -1, -8, 7, torch.int8)), [f32(3, 7)], **EXACT),
    lowered("quantize_rank5", QUANTIZE, fn(quantize(*SIGNED)), [f32(2, 1, 3, 2, 3)], **EXACT),
    lowered(
        "quantize_dynamic",
        QUANTIZE,
        fn(quantize(*SIGNED)),
        *live(lambda n: [f32(2, n, 3)]),
        dynamic=({1: LENGTH},),
        **EXACT,
    ),
    lowered("dequantize_rank0", DEQUANTIZE, fn(dequantize(*SIGNED)), [ints(torch.int8, below=127)], **ARITHMETIC),
    lowered("dequantize_odd", DEQUANTIZE, fn(dequantize(0.07, -5, -128, 127, torch.int8)), [EIGHT_BITS], **ARITHMETIC),
    lowered(
        "dequantize_ends",
        DEQUANTIZE,
        fn(dequantize(*SIGNED)),
        [exactly(torch.int8, [5], -128, 127, 3, 0, -1)],
        **ARITHMETIC,
    ),
    lowered(
        "dequantize_uint8",
        DEQUANTIZE,
        fn(dequantize(*UNSIGNED)),
        [exactly(torch.uint8, [5], 0, 255, 128, 1, 127)],
        **ARITHMETIC,
    ),
    lowered(
        "dequantize_rank5",
        DEQUANTIZE,
        fn(dequantize(*SIGNED)),
        [ints(torch.int8, 2, 1, 3, 2, 3, below=127)],
        **ARITHMETIC,
    ),
    lowered(
        "dequantize_dynamic",
        DEQUANTIZE,
        fn(dequantize(*SIGNED)),
        *live(lambda n: [ints(torch.int8, 2, n, 3, below=127)]),
        dynamic=({1: LENGTH},),
        **ARITHMETIC,
    ),
]

CASES: list[Case] = [
    *converted("to_dim_order", TO_DIM_ORDER, {}),
    # The exporter can be asked to leave dim orders out: the same conversion by its older name.
    *converted("to_copy", TO_COPY, {"edge": {"_skip_dim_order": True}}),
    lowered("to_dim_order_rank5", TO_DIM_ORDER, fn(lambda a: a.to(torch.float32)), [i32(2, 1, 3, 2, 3)], **EXACT),
    *QUANTIZED,
]
