"""Layers of int8 activations and weights.

Activations are quantised by the program itself, so that inputs and outputs are floats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..case import Arg, Case, f32, ints, lowered, random_tensor
from .function import fn
from .patterns import ARITHMETIC, LENGTH, live

OPS = torch.ops.quantized_decomposed
CONV, POINTWISE, DEPTHWISE = (f"et_vk.q8ta_conv2d{kind}.default" for kind in ("", "_pw", "_dw"))
TRANSPOSED = "et_vk.q8ta_conv2d_transposed.default"
LINEAR, GEMV = "et_vk.q8ta_linear.default", "et_vk.q8ta_linear_gemv.default"
FLOAT_OUT, WEIGHT_ONLY = "et_vk.linear_q8ta_q8csw.default", "aten._weight_int8pack_mm.default"
ADD, RELU, SHUFFLE = (f"et_vk.q8ta_{kind}.default" for kind in ("add", "relu", "pixel_shuffle"))
# A step of the output is far larger than what another order of the float operations changes, and no sum is near half
# a step.
STEP = 0.0625 * 1.013


def round_trip(x: Tensor, scale: float, zero_point: int) -> Tensor:
    q = OPS.quantize_per_tensor(x, scale, zero_point, -128, 127, torch.int8)
    return OPS.dequantize_per_tensor(q, scale, zero_point, -128, 127, torch.int8)


class Layer(nn.Module):
    """A layer between two quantisations, with weights that have a scale per output channel."""

    def __init__(
        self, shape: Sequence[int], channels: int, axis: int, bias: bool, apply: Callable[..., Tensor], relu: bool
    ) -> None:
        super().__init__()
        seed = f"int8/{list(shape)}/{bias}"
        self.axis, self.apply_layer, self.relu = axis, apply, relu
        self.register_buffer("weight", random_tensor(shape, torch.int8, seed, below=127))
        self.register_buffer("scales", (random_tensor([channels], torch.float32, seed + "/scales").abs() + 0.5) / 64)
        self.register_buffer("zeros", torch.zeros(channels, dtype=torch.int64))
        self.bias = nn.Parameter(random_tensor([channels], torch.float32, seed + "/bias")) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        x = round_trip(x, 0.0231, 5)
        w = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, self.axis, -127, 127, torch.int8)
        y = self.apply_layer(x, w, self.bias)
        y = functional.relu(y) if self.relu else y
        return round_trip(y, STEP, -7)


@dataclass(frozen=True)
class Conv:
    pattern: str
    op: str
    shape: tuple[int, ...]
    channels: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    bias: bool = True
    relu: bool = False
    output_padding: int = 0
    dynamic: bool = False

    def case(self) -> Case:
        inputs = self.shape[1]
        transposed = self.op == TRANSPOSED
        weight = (inputs, self.channels // self.groups) if transposed else (self.channels, inputs // self.groups)

        def apply(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
            if transposed:
                return functional.conv_transpose2d(
                    x, w, b, self.stride, self.padding, self.output_padding, self.groups, self.dilation
                )
            return functional.conv2d(x, w, b, self.stride, self.padding, self.dilation, self.groups)

        def make() -> nn.Module:
            return Layer((*weight, *self.kernel), self.channels, int(transposed), self.bias, apply, self.relu)

        calls = live(lambda n: [f32(*self.shape[:2], n + 3, self.shape[3])]) if self.dynamic else [[f32(*self.shape)]]
        options = {"dynamic": ({2: SIZE},)} if self.dynamic else {}
        name = self.op.removeprefix("et_vk.").removesuffix(".default")
        return lowered(f"{name}_{self.pattern}", self.op, make, *calls, **ARITHMETIC, **options)


SIZE = torch.export.Dim("size", min=4, max=12)

CONVS = [
    Conv("k3", CONV, (1, 8, 7, 6), 12, (3, 3), padding=1),
    Conv("k3_relu", CONV, (1, 4, 6, 6), 8, (3, 3), relu=True),
    Conv("k3_stride2_rgb", CONV, (1, 3, 9, 8), 6, (3, 3), stride=2, padding=1),
    Conv("k5x2_dilated", CONV, (1, 4, 11, 9), 5, (5, 2), dilation=2, bias=False),
    Conv("groups", CONV, (1, 8, 6, 5), 16, (3, 3), groups=2, padding=1),
    Conv("tiles", CONV, (1, 20, 12, 11), 40, (3, 3), padding=1),
    Conv("dynamic", CONV, (1, 4, 6, 5), 8, (3, 3), padding=1, dynamic=True),
    Conv("k1", POINTWISE, (1, 8, 5, 7), 12, (1, 1)),
    Conv("k1_odd", POINTWISE, (1, 5, 3, 3), 7, (1, 1), bias=False),
    Conv("k1_relu", POINTWISE, (1, 16, 4, 4), 8, (1, 1), relu=True),
    Conv("k1_one_pixel", POINTWISE, (1, 24, 1, 1), 10, (1, 1)),
    Conv("k1_tiles", POINTWISE, (1, 36, 9, 9), 70, (1, 1)),
    Conv("k1_dynamic", POINTWISE, (1, 8, 6, 5), 8, (1, 1), dynamic=True),
    Conv("k3", DEPTHWISE, (1, 8, 7, 6), 8, (3, 3), padding=1, groups=8),
    Conv("k3_stride2_relu", DEPTHWISE, (1, 8, 9, 7), 8, (3, 3), stride=2, padding=1, groups=8, relu=True),
    Conv("k5_valid", DEPTHWISE, (1, 4, 8, 9), 4, (5, 5), groups=4, bias=False),
    Conv("k3_dilated", DEPTHWISE, (1, 12, 8, 7), 12, (3, 3), dilation=2, padding=2, groups=12),
    Conv("k1x3", DEPTHWISE, (1, 4, 3, 11), 4, (1, 3), padding=1, groups=4),
    Conv("dynamic", DEPTHWISE, (1, 8, 6, 5), 8, (3, 3), padding=1, groups=8, dynamic=True),
    Conv("k2s2", TRANSPOSED, (1, 8, 4, 5), 12, (2, 2), stride=2),
    Conv("k3s2p1op1", TRANSPOSED, (1, 4, 5, 4), 8, (3, 3), stride=2, padding=1, output_padding=1),
    Conv("k4s2p1_nobias", TRANSPOSED, (1, 12, 4, 4), 4, (4, 4), stride=2, padding=1, bias=False),
    Conv("k3s1", TRANSPOSED, (1, 4, 6, 3), 5, (3, 3)),
    Conv("k3s3", TRANSPOSED, (1, 4, 3, 4), 4, (3, 3), stride=3),
    Conv("dynamic", TRANSPOSED, (1, 4, 6, 5), 4, (2, 2), stride=2, dynamic=True),
]


def linear(pattern: str, op: str, shape: tuple[int, ...], outputs: int, dynamic: bool = False, **how: bool) -> Case:
    def make() -> nn.Module:
        return Layer((outputs, shape[-1]), outputs, 0, how.get("bias", True), functional.linear, how.get("relu", False))

    calls = live(lambda n: [f32(*shape[:-2], n + 1, shape[-1])]) if dynamic else [[f32(*shape)]]
    options = {"dynamic": ({len(shape) - 2: torch.export.Dim("rows", min=2, max=10)},)} if dynamic else {}
    return lowered(
        f"{op.removeprefix('et_vk.').removesuffix('.default')}_{pattern}", op, make, *calls, **ARITHMETIC, **options
    )


class FloatOut(Layer):
    """The same without a quantisation after it."""

    def forward(self, x: Tensor) -> Tensor:
        x = round_trip(x, 0.0231, 5)
        w = OPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        return functional.linear(x, w, self.bias)


def float_out(pattern: str, shape: tuple[int, ...], outputs: int, dynamic: bool = False, bias: bool = True) -> Case:
    def make() -> nn.Module:
        return FloatOut((outputs, shape[-1]), outputs, 0, bias, functional.linear, False)

    calls = live(lambda n: [f32(n, shape[-1])]) if dynamic else [[f32(*shape)]]
    options = {"dynamic": ({0: LENGTH},)} if dynamic else {}
    return lowered(f"linear_q8ta_q8csw_{pattern}", FLOAT_OUT, make, *calls, **ARITHMETIC, **options)


class WeightOnly(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        seed = f"int8pack/{inputs}/{outputs}"
        self.register_buffer("weight", random_tensor([outputs, inputs], torch.int8, seed, below=127))
        self.register_buffer("scales", (random_tensor([outputs], torch.float32, seed + "/scales").abs() + 0.5) / 64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scales)


def weight_only(pattern: str, rows: int, inputs: int, outputs: int, dynamic: bool = False) -> Case:
    calls = live(lambda n: [f32(n, inputs)]) if dynamic else [[f32(rows, inputs)]]
    options = {"dynamic": ({0: LENGTH},)} if dynamic else {}
    return lowered(
        f"weight_int8pack_mm_{pattern}",
        WEIGHT_ONLY,
        lambda: WeightOnly(inputs, outputs),
        *calls,
        kept=[WEIGHT_ONLY],
        atol=1e-3,
        rtol=1e-4,
        **options,
    )


def int8(*shape: int) -> Arg:
    return ints(torch.int8, *shape, below=127)


def direct(name: str, op: str, function: Callable[..., Any], *calls: Sequence[Arg], dynamic: Any = None) -> Case:
    """A call of the operator itself, on bytes."""
    return lowered(name, op, fn(function), *calls, dynamic=dynamic, atol=0.0, rtol=0.0)


def added(alpha: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: torch.ops.et_vk.q8ta_add(a, b, 0.031, 3, 0.017, -5, 0.043, 9, alpha)


def rectified(x: Tensor) -> Tensor:
    return torch.ops.et_vk.q8ta_relu(x, 0.031, 3, 0.019, -9)


def shuffled(factor: int, scale: float = 0.043) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.ops.et_vk.q8ta_pixel_shuffle(x, 0.031, 3, 1 / scale, 9, factor)


CASES: list[Case] = [
    *(conv.case() for conv in CONVS),
    linear("m5", LINEAR, (5, 32), 12),
    linear("rank3", LINEAR, (1, 4, 16), 8, bias=False),
    linear("odd", LINEAR, (3, 20), 7),
    linear("relu", LINEAR, (6, 24), 16, relu=True),
    linear("tiles", LINEAR, (70, 40), 36),
    linear("dynamic", LINEAR, (4, 16), 8, dynamic=True),
    linear("k32", GEMV, (1, 32), 12),
    linear("odd", GEMV, (1, 20), 5),
    linear("nobias", GEMV, (1, 16), 8, bias=False),
    linear("relu", GEMV, (1, 24), 16, relu=True),
    linear("wide", GEMV, (1, 260), 70),
    float_out("m4", (4, 32), 16),
    float_out("m3", (3, 20), 8),
    float_out("rank3", (1, 5, 8), 8),
    float_out("nobias", (6, 12), 9, bias=False),
    float_out("tiles", (70, 36), 40),
    float_out("dynamic", (4, 16), 8, dynamic=True),
    weight_only("m4", 4, 32, 16),
    weight_only("m1", 1, 32, 8),
    weight_only("odd", 3, 18, 9),
    weight_only("tiles", 70, 36, 40),
    weight_only("wide", 2, 516, 12),
    weight_only("dynamic", 4, 16, 8, dynamic=True),
    direct("q8ta_add_rank4", ADD, added(1.0), [int8(1, 4, 5, 3), int8(1, 4, 5, 3)]),
    direct("q8ta_add_rank3", ADD, added(1.0), [int8(1, 6, 8), int8(1, 6, 8)]),
    direct("q8ta_add_rank2", ADD, added(1.0), [int8(5, 7), int8(5, 7)]),
    direct("q8ta_add_alpha", ADD, added(-0.5), [int8(1, 4, 5, 3), int8(1, 4, 5, 3)]),
    direct("q8ta_add_one", ADD, added(1.0), [int8(1, 1), int8(1, 1)]),
    direct(
        "q8ta_add_dynamic", ADD, added(1.0), *live(lambda n: [int8(1, 4, n, 3)] * 2), dynamic=({2: LENGTH}, {2: LENGTH})
    ),
    direct("q8ta_relu_rank4", RELU, rectified, [int8(1, 4, 5, 3)]),
    direct("q8ta_relu_rank3", RELU, rectified, [int8(1, 6, 8)]),
    direct("q8ta_relu_rank2", RELU, rectified, [int8(5, 7)]),
    direct("q8ta_relu_one", RELU, rectified, [int8(1, 1)]),
    direct("q8ta_relu_long", RELU, rectified, [int8(3, 517)]),
    direct("q8ta_relu_dynamic", RELU, rectified, *live(lambda n: [int8(1, 4, n, 3)]), dynamic=({2: LENGTH},)),
    direct("q8ta_pixel_shuffle_r2", SHUFFLE, shuffled(2), [int8(1, 16, 3, 5)]),
    direct("q8ta_pixel_shuffle_r3", SHUFFLE, shuffled(3), [int8(1, 36, 4, 2)]),
    direct("q8ta_pixel_shuffle_same_scale", SHUFFLE, shuffled(2, 0.031), [int8(1, 16, 5, 3)]),
    direct("q8ta_pixel_shuffle_one_pixel", SHUFFLE, shuffled(4), [int8(1, 64, 1, 1)]),
    direct("q8ta_pixel_shuffle_wide", SHUFFLE, shuffled(2), [int8(1, 16, 1, 17)]),
    direct(
        "q8ta_pixel_shuffle_dynamic", SHUFFLE, shuffled(2), *live(lambda n: [int8(1, 16, n, 3)]), dynamic=({2: LENGTH},)
    ),
]
