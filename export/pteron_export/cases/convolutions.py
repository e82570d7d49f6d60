"""Convolution, pooling, and the normalisations that stand between convolutions."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional

from ..case import Arg, Case, f32, fill_parameters, lowered, random_tensor
from .function import fn
from .patterns import EXACT, INF, NAN, TRANSCENDENTAL, Options, spread

CONVOLUTION, CLAMPED = "aten.convolution.default", "et_vk.conv_with_clamp.default"
MAX_POOL, AVG_POOL = "aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default"
BATCH_NORM, GROUP_NORM = "aten._native_batch_norm_legit_no_training.default", "aten.native_group_norm.default"

HEIGHT, WIDTH = Dim("height", min=4, max=11), Dim("width", min=4, max=12)
LENGTH, BATCH = Dim("length", min=5, max=23), Dim("batch", min=1, max=4)
# The traced size, the bound, the smallest, and one in between.
SIZES = [(8, 7), (11, 12), (4, 4), (5, 11)]
IMAGE = ({2: HEIGHT, 3: WIDTH},)


def images(channels: int) -> list[Sequence[Arg]]:
    return [[f32(1, channels, height, width)] for height, width in SIZES]


def layer(make: Callable[[], nn.Module], *after: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    """A layer with parameters that are the same on every machine, and functions after it."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = fill_parameters(make(), "convolutions")

        def forward(self, x: Tensor) -> Tensor:
            x = self.layer(x)
            for function in after:
                x = function(x)
            return x

    return Layer


def conv(*args: Any, transposed: bool = False, rank: int = 2, after: Sequence[Any] = (), **options: Any) -> Any:
    kinds = {(1, False): nn.Conv1d, (2, False): nn.Conv2d, (1, True): nn.ConvTranspose1d, (2, True): nn.ConvTranspose2d}
    return layer(lambda: kinds[rank, transposed](*args, **options), *after)


def norm(make: Callable[[], nn.Module], *before: nn.Module) -> Callable[[], nn.Module]:
    """A normalisation with statistics of its own."""

    def whole() -> nn.Module:
        module = fill_parameters(make(), "norms", scale=0.5)
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                values = random_tensor(buffer.shape, torch.float32, f"norms/{name}")
                buffer.copy_(values.abs() + 0.25 if name == "running_var" else values)
        return nn.Sequential(*before, module)

    return whole


def row(name: str, op: str, make: Any, *calls: Sequence[Arg], **options: Any) -> Case:
    return lowered(name, op, make, *calls, **{**TRANSCENDENTAL, **options})


FORCED: Options = {"vulkan": {"force_fp16": True}, "atol": 2e-2, "rtol": 2e-2}

CONVOLUTIONS = [
    row("convolution_3x3", CONVOLUTION, conv(3, 6, 3, padding=1), [f32(1, 3, 7, 9)]),
    row("convolution_stride_dilation", CONVOLUTION, conv(4, 5, (3, 2), (2, 1), (1, 2), (1, 3)), [f32(1, 4, 12, 10)]),
    row("convolution_no_bias", CONVOLUTION, conv(7, 9, 1, bias=False), [f32(1, 7, 4, 5)]),
    row("convolution_groups", CONVOLUTION, conv(8, 12, 3, groups=4, padding=1), [f32(1, 8, 6, 5)]),
    row("convolution_depthwise", CONVOLUTION, conv(8, 8, 3, 2, 1, groups=8), [f32(1, 8, 9, 10)]),
    row("convolution_depthwise_multiplier", CONVOLUTION, conv(6, 12, (3, 5), groups=6), [f32(1, 6, 8, 9)]),
    row("convolution_transposed", CONVOLUTION, conv(4, 6, 3, 2, 1, 1, transposed=True), [f32(1, 4, 5, 4)]),
    row(
        "convolution_transposed_groups",
        CONVOLUTION,
        conv(6, 4, 4, 2, 1, groups=2, transposed=True, bias=False),
        [f32(1, 6, 3, 5)],
    ),
    row("convolution_dynamic", CONVOLUTION, conv(8, 12, 3, 2, 1), *images(8), dynamic=IMAGE),
    row("convolution_pointwise_dynamic", CONVOLUTION, conv(12, 20, 1), *images(12), dynamic=IMAGE),
    row("convolution_depthwise_dynamic", CONVOLUTION, conv(8, 8, 3, 1, 1, groups=8), *images(8), dynamic=IMAGE),
    row("convolution_1d", CONVOLUTION, conv(3, 5, 10, 5, rank=1), [f32(2, 3, 53)]),
    row(
        "convolution_1d_dynamic",
        CONVOLUTION,
        conv(4, 8, 5, padding=2, rank=1),
        *[[f32(batch, 4, length)] for batch, length in [(2, 9), (4, 23), (1, 5), (3, 16)]],
        dynamic=({0: BATCH, 2: LENGTH},),
    ),
    row("convolution_1d_depthwise", CONVOLUTION, conv(6, 6, 15, padding=7, groups=6, rank=1), [f32(3, 6, 20)]),
    row("convolution_fp16", CONVOLUTION, conv(8, 8, 3, padding=1), [f32(1, 8, 6, 6)], **FORCED),
    row(
        "convolution_computed_weight",
        CONVOLUTION,
        fn(lambda x, w: functional.conv2d(x, w * 0.5, padding=1)),
        [f32(1, 4, 6, 7), f32(5, 4, 3, 3)],
    ),
]

RELU, RELU6 = torch.relu, functional.relu6
CLAMPS = [
    row("conv_with_clamp_relu", CLAMPED, conv(3, 6, 3, after=[RELU]), [f32(1, 3, 9, 8)]),
    row("conv_with_clamp_relu6", CLAMPED, conv(8, 16, 1, after=[RELU6]), [f32(1, 8, 6, 6)]),
    row(
        "conv_with_clamp_hardtanh",
        CLAMPED,
        conv(4, 4, 3, groups=4, after=[lambda x: functional.hardtanh(x, -0.75, 1.5)]),
        [f32(1, 4, 7, 7)],
    ),
    row("conv_with_clamp_dynamic", CLAMPED, conv(4, 8, 3, 1, 1, after=[RELU6]), *images(4), dynamic=IMAGE),
    row("conv_with_clamp_1d", CLAMPED, conv(4, 6, 3, rank=1, after=[RELU]), [f32(2, 4, 17)]),
    row(
        "conv_with_clamp_special",
        CLAMPED,
        conv(1, 1, 1, bias=False, after=[RELU]),
        [spread((1, 1, 2, 4), (NAN, INF, -1.0, 0.0, 2.0, -2.0, 1e30, -1e30))],
    ),
    row("conv_with_clamp_fp16", CLAMPED, conv(4, 8, 3, after=[RELU]), [f32(1, 4, 6, 6)], **FORCED),
]


def pooled(*args: Any, **options: Any) -> Any:
    return fn(lambda x: functional.max_pool2d(x, *args, **options))


def indexed(*args: Any, **options: Any) -> Any:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        values, at = functional.max_pool2d_with_indices(x, *args, **options)
        return values, at.to(torch.int32)

    return fn(both)


MAXIMA = [
    row("max_pool2d_3x3", MAX_POOL, pooled(3, 2, 1), [f32(1, 4, 9, 8)], **EXACT),
    row("max_pool2d_ceil", MAX_POOL, pooled((2, 3), ceil_mode=True), [f32(1, 3, 7, 8)], **EXACT),
    row("max_pool2d_dilation", MAX_POOL, pooled(3, 1, 1, 2), [f32(2, 3, 8, 9)], **EXACT),
    row("max_pool2d_ties", MAX_POOL, pooled(2), [spread((1, 2, 4, 6), (1.0, 1.0, -INF, NAN, 0.0, -0.0, INF))], **EXACT),
    row("max_pool2d_dynamic", MAX_POOL, pooled(3, 2, 1), *images(3), dynamic=IMAGE, **EXACT),
    row("max_pool2d_1d", MAX_POOL, fn(lambda x: functional.max_pool1d(x, 3, 2, 1)), [f32(1, 4, 17)], **EXACT),
]


def averaged(*args: Any, **options: Any) -> Any:
    return fn(lambda x: functional.avg_pool2d(x, *args, **options))


AVERAGES = [
    row("avg_pool2d_2x2", AVG_POOL, averaged(2), [f32(1, 4, 6, 8)]),
    row("avg_pool2d_padding", AVG_POOL, averaged(3, 1, 1), [f32(1, 3, 5, 7)]),
    row("avg_pool2d_not_padding", AVG_POOL, averaged(3, 2, 1, count_include_pad=False), [f32(1, 3, 6, 7)]),
    row("avg_pool2d_ceil", AVG_POOL, averaged(3, 2, 1, ceil_mode=True), [f32(1, 2, 8, 6)]),
    row("avg_pool2d_divisor", AVG_POOL, averaged((2, 3), divisor_override=5), [f32(1, 2, 4, 9)]),
    row("avg_pool2d_dynamic", AVG_POOL, averaged(3, 2, 1), *images(3), dynamic=IMAGE),
]

BATCH_NORMS = [
    row("batch_norm_rank2", BATCH_NORM, norm(lambda: nn.BatchNorm1d(12)), [f32(4, 12)]),
    row("batch_norm_rank3", BATCH_NORM, norm(lambda: nn.BatchNorm1d(5)), [f32(2, 5, 7)]),
    row("batch_norm_rank4", BATCH_NORM, norm(lambda: nn.BatchNorm2d(6, eps=0.5)), [f32(1, 6, 4, 5)]),
    row("batch_norm_no_affine", BATCH_NORM, norm(lambda: nn.BatchNorm2d(8, affine=False)), [f32(2, 8, 3, 3)]),
    row("batch_norm_dynamic", BATCH_NORM, norm(lambda: nn.BatchNorm2d(4)), *images(4), dynamic=IMAGE),
    row("batch_norm_fp16", BATCH_NORM, norm(lambda: nn.BatchNorm2d(4)), [f32(1, 4, 3, 5)], **FORCED),
]

GROUP_NORMS = [
    row("group_norm_image", GROUP_NORM, norm(lambda: nn.GroupNorm(4, 16)), [f32(1, 16, 4, 5)]),
    row("group_norm_sequence", GROUP_NORM, norm(lambda: nn.GroupNorm(2, 6)), [f32(3, 6, 11)]),
    row("group_norm_one_group", GROUP_NORM, norm(lambda: nn.GroupNorm(1, 5, eps=0.1)), [f32(2, 5, 3, 3)]),
    row("group_norm_no_affine", GROUP_NORM, norm(lambda: nn.GroupNorm(3, 6, affine=False)), [f32(1, 6, 4, 4)]),
    row("group_norm_dynamic", GROUP_NORM, norm(lambda: nn.GroupNorm(2, 8)), *images(8), dynamic=IMAGE),
    row("group_norm_fp16", GROUP_NORM, norm(lambda: nn.GroupNorm(2, 8)), [f32(1, 8, 3, 5)], **FORCED),
]

CASES = [*CONVOLUTIONS, *CLAMPS, *MAXIMA, *AVERAGES, *BATCH_NORMS, *GROUP_NORMS]
