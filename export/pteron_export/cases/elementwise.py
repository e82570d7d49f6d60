"""Operators that treat each element alone, over shapes, dtypes and broadcasts."""

import torch
from torch.export import Dim

from ..case import Case, case, exactly, f16, f32, flag, ints
from .function import fn

LENGTH = Dim("length", min=1, max=24)

CASES: list[Case] = [
    case("add_same", "add", fn(lambda a, b: a + b), [f32(3, 5), f32(3, 5)]),
    case("add_broadcast", "add", fn(lambda a, b: a + b), [f32(2, 3, 5), f32(3, 1)]),
    case("add_broadcast_both", "add", fn(lambda a, b: a + b), [f32(4, 1, 7), f32(3, 1)]),
    case("add_alpha", "add", fn(lambda a, b: torch.add(a, b, alpha=2.5)), [f32(5, 7), f32(7)]),
    case("add_scalar", "add", fn(lambda a: a + 1.5), [f32(9)]),
    case("add_rank0", "add", fn(lambda a, b: a + b), [f32(), f32()]),
    case("add_rank5", "add", fn(lambda a, b: a + b), [f32(2, 1, 3, 2, 5), f32(2, 3, 1, 2, 5)]),
    case("add_int32", "add", fn(lambda a, b: a + b), [ints(torch.int32, 3, 7), ints(torch.int32, 7)]).exact(),
    case("add_int64", "add", fn(lambda a, b: a + b), [ints(torch.int64, 3, 7), ints(torch.int64, 3, 7)]).exact(),
    case(
        "add_dynamic",
        "add",
        fn(lambda a, b: a + b),
        [f32(2, 24, 6), f32(24, 6)],
        [f32(2, 1, 6), f32(1, 6)],
        [f32(2, 13, 6), f32(13, 6)],
        [f32(2, 24, 6), f32(24, 6)],
        dynamic=({1: LENGTH}, {0: LENGTH}),
    ),
    case("sub_alpha", "sub", fn(lambda a, b: torch.sub(a, b, alpha=0.5)), [f32(3, 5), f32(3, 5)]),
    case("mul_broadcast", "mul", fn(lambda a, b: a * b), [f32(2, 3, 5), f32(5)]),
    case("mul_rank4", "mul", fn(lambda a, b: a * b), [f32(1, 3, 1, 5), f32(2, 1, 4, 1)]),
    case("div_tensor", "div", fn(lambda a, b: a / (b * b + 1)), [f32(3, 5), f32(3, 5)]),
    case("sigmoid_odd", "sigmoid", fn(torch.sigmoid), [f32(3, 5, 7)]),
    case("silu_mul", "silu*up", fn(lambda a, b: torch.nn.functional.silu(a) * b), [f32(3, 33), f32(3, 33)]),
    case("relu", "relu", fn(torch.relu), [f32(67)]),
    case("clamp_one_side", "clamp", fn(lambda a: torch.clamp(a, max=0.75)), [f32(5, 5)]),
    case("pow_scalar", "pow", fn(lambda a: torch.pow(a, 3)), [f32(3, 5)]),
    case("gt_where", "where", fn(lambda a, b: torch.where(a > b, a, b)), [f32(4, 9), f32(4, 9)]),
    case("bool_and", "logical_and", fn(torch.logical_and), [flag(3, 11), flag(3, 11)]).exact(),
    case("bool_to_float", "to_copy", fn(lambda a: a.to(torch.float32) * 2), [flag(3, 5)]).exact(),
    case("int32_to_float", "to_copy", fn(lambda a: a.to(torch.float32) + 0.5), [ints(torch.int32, 3, 5)]).exact(),
    case(
        "int64_compare", "eq", fn(lambda a, b: a == b), [ints(torch.int64, 40, below=2), ints(torch.int64, 40, below=2)]
    ).exact(),
    case("uint8_to_float", "to_copy", fn(lambda a: a.to(torch.float32)), [ints(torch.uint8, 4, 6, below=255)]).exact(),
    case("int8_to_float", "to_copy", fn(lambda a: a.to(torch.float32)), [ints(torch.int8, 4, 6, below=127)]).exact(),
    case("float16_add", "add", fn(lambda a, b: a + b), [f16(3, 5), f16(3, 5)], atol=2e-3, rtol=2e-3),
    case(
        "force_fp16_mul_add",
        "mul",
        fn(lambda a, b: a * b + a),
        [f32(4, 6), f32(4, 6)],
        vulkan={"force_fp16": True},
        atol=1e-2,
        rtol=2e-3,
    ),
    case(
        "upsample_bilinear",
        "upsample_bilinear2d",
        fn(lambda a: torch.nn.functional.interpolate(a, scale_factor=[2.0, 1.5], mode="bilinear")),
        [f32(1, 2, 4, 4)],
    ),
    case("zero_inputs", "full", fn(lambda: torch.full((3, 5), 2.5)), []),
    case(
        "extremes",
        "mul",
        fn(lambda a: a * 1.0 + 0.0),
        [exactly(torch.float32, [6], 0.0, -0.0, 1e30, -1e30, 1e-30, 3.5)],
    ),
]
