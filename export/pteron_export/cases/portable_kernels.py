"""Programs without a delegate, of kernels that become several operators."""

from collections.abc import Callable
from functools import partial
from typing import Any

import executorch.exir.passes._quant_patterns_and_replacements
import executorch.kernels.quantized  # noqa: F401  (their out variants)
import torch
from torch import Tensor

from ..case import Case, exactly, f32, ints
from .function import fn
from .portable import portable

QUANTISED = torch.ops.quantized_decomposed


# PyTorch only declares the operators: what they compute, and for an export their shapes, follows from these.
def implement(name: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    return torch.library.impl(f"quantized_decomposed::{name}", "CompositeExplicitAutograd")


@implement("mixed_mm")
def _(x: Tensor, weight: Tensor, scales: Tensor, zero_points: Tensor | None) -> Tensor:
    return x @ (weight * scales.unsqueeze(-1))


@implement("mixed_linear")
def _(
    x: Tensor, weight: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: torch.dtype | None = None
) -> Tensor:
    groups = 1 if scales.dim() == 1 else scales.shape[1]
    real = weight.reshape(weight.shape[0], groups, -1) * scales.reshape(-1, groups, 1)
    return x @ real.reshape(weight.shape).T


@implement("add")
def _(a: Tensor, *others: Any) -> Tensor:
    a_scale, a_zero, _, _, b, b_scale, b_zero, _, _, scale, zero, low, high = others
    real = (a.to(torch.float32) - a_zero) * a_scale + (b.to(torch.float32) - b_zero) * b_scale
    return (torch.round(real / scale) + zero).clamp(low, high).to(a.dtype)


def convolution_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> tuple[Tensor, ...]:
    """Gradients of the input, the weight and the bias. The last argument of the kernel is a list of bools."""
    outs = [weight.shape[0]]
    return torch.ops.aten.convolution_backward(
        grad, x, weight, outs, stride, padding, dilation, False, [0, 0], groups, [True, True, True]
    )


def pool_backward(grad: Tensor, x: Tensor, *, kernel: int, stride: int, padding: int) -> Tensor:
    window = ([kernel, kernel], [stride, stride], [padding, padding], [1, 1], False)
    _, indices = torch.ops.aten.max_pool2d_with_indices(x, *window)
    return torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *window, indices)


def backward(name: str, grad: tuple[int, ...], x: tuple[int, ...], weight: tuple[int, ...], **options: Any) -> Case:
    function = partial(convolution_backward, **options)
    return portable(name, "convolution_backward", fn(function), [f32(*grad), f32(*x), f32(*weight)])


def pool(name: str, grad: tuple[int, ...], **options: int) -> Case:
    function = partial(pool_backward, **options)
    return portable(name, "max_pool2d_with_indices_backward", fn(function), [f32(*grad), f32(2, 3, 8, 9)])


def mixed_mm(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    return QUANTISED.mixed_mm(x, weight, scales.abs(), None)


def mixed_linear(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    return QUANTISED.mixed_linear(x, weight, scales.abs(), None)


def added(a: Tensor, b: Tensor) -> Tensor:
    return QUANTISED.add(a, 0.1, 10, 0, 255, b, 0.2, 3, 0, 255, 0.25, 100, 0, 255)


BYTES = ints(torch.int8, 12, 16, below=128)

CASES: list[Case] = [
    backward("portable_conv_backward", (1, 2, 3, 3), (1, 3, 4, 4), (2, 3, 2, 2)),
    backward(
        "portable_conv_backward_window",
        (2, 6, 5, 7),
        (2, 4, 9, 8),
        (6, 4, 3, 2),
        stride=(2, 1),
        padding=(1, 1),
        dilation=(1, 3),
    ),
    backward(
        "portable_conv_backward_groups",
        (2, 6, 4, 4),
        (2, 4, 8, 8),
        (6, 2, 3, 3),
        stride=(2, 2),
        padding=(1, 1),
        groups=2,
    ),
    backward("portable_conv_backward_depthwise", (2, 4, 7, 8), (2, 4, 7, 8), (4, 1, 3, 3), padding=(1, 1), groups=4),
    pool("portable_pool_backward", (2, 3, 4, 4), kernel=2, stride=2, padding=0),
    pool("portable_pool_backward_overlap", (2, 3, 8, 9), kernel=3, stride=1, padding=1),
    portable("portable_mixed_mm", "mixed_mm", fn(mixed_mm), [f32(3, 12), BYTES, f32(12)]),
    portable("portable_mixed_linear", "mixed_linear", fn(mixed_linear), [f32(3, 16), BYTES, f32(12)]),
    portable("portable_mixed_linear_groups", "mixed_linear", fn(mixed_linear), [f32(3, 16), BYTES, f32(12, 2)]),
    portable(
        "portable_quantised_add",
        "add",
        fn(added),
        [ints(torch.uint8, 3, 5, below=256), ints(torch.uint8, 3, 5, below=256)],
    ).exact(),
    # Both products are the same bfloat16, so the first one is chosen; the second is larger before it is rounded.
    portable(
        "portable_bf16_argmax",
        "argmax",
        fn(lambda a, b: torch.argmax(a * b, dim=-1)),
        [exactly(torch.bfloat16, [2], 1.015625, 1.0078125), exactly(torch.bfloat16, [2], 1.0, 1.0078125)],
    ).exact(),
    portable(
        "portable_byte_topk",
        "topk",
        fn(lambda a: tuple(torch.topk(a, 2, dim=1))),
        [exactly(torch.uint8, [2, 4], 3, 200, 0, 7, 255, 1, 128, 127)],
    ).exact(),
    # No front end has it: what programs with unknown kernels are told is tested with it.
    portable("portable_dropout", "native_dropout", fn(lambda a: torch.ops.aten.native_dropout(a, 0.0, True)), [f32(3)]),
]
