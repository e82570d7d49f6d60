"""The operators of training: optimiser step, loss, and gradients of linears."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..case import Arg, Case, exactly, f32, lowered, random_tensor
from .function import fn
from .patterns import ARITHMETIC, EXACT, LENGTH, live

OPS = torch.ops.et_vk
ADAMW, CE, DW = "et_vk.adamw_step.default", "et_vk.fused_ce.default", "et_vk.linear_dW.default"
BACKWARD, REQUANT = "et_vk.linear_q4gsw_backward.default", "et_vk.q4gsw_requant.default"


def adamw(pattern: str, numbers: tuple[float, ...], *calls: Sequence[Arg], dynamic: Any = None) -> Case:
    def step(param: Tensor, m: Tensor, v: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.pteron_export.adamw_step(param, m, v, grad, *numbers)

    return lowered(f"adamw_step_{pattern}", ADAMW, fn(step), *calls, dynamic=dynamic, kept=[ADAMW], **ARITHMETIC)


def moments(*shape: int) -> list[Arg]:
    return [f32(*shape), f32(*shape), Arg(shape, torch.float32, positive=True), f32(*shape)]


FIRST = (1e-3, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.001)
LATER = (5e-4, 0.8, 0.99, 1e-6, 0.0, 0.89, 0.2)


def labels(*values: int) -> Arg:
    return exactly(torch.int64, [len(values)], *values)


def loss(pattern: str, valid: float, *calls: Sequence[Arg], dynamic: Any = None) -> Case:
    function = fn(lambda logits, labels: OPS.fused_ce(logits, labels, valid))
    return lowered(f"fused_ce_{pattern}", CE, function, *calls, dynamic=dynamic, **ARITHMETIC)


def gradient(pattern: str, *calls: Sequence[Arg], dynamic: Any = None) -> Case:
    return lowered(
        f"linear_dW_{pattern}", DW, fn(lambda d, x: OPS.linear_dW(d, x)), *calls, dynamic=dynamic, **ARITHMETIC
    )


class Backward(nn.Module):
    def __init__(self, outputs: int, inputs: int, group: int) -> None:
        super().__init__()
        seed = f"backward/{outputs}/{inputs}"
        self.group = group
        self.register_buffer("weight", random_tensor([outputs, inputs // 2], torch.uint8, seed, below=256))
        self.register_buffer("scales", random_tensor([inputs // group, outputs], torch.float32, seed + "/scales"))

    def forward(self, d_out: Tensor) -> Tensor:
        return OPS.linear_q4gsw_backward(d_out, self.weight, self.scales, self.group)


def backward(pattern: str, rows: int, outputs: int, inputs: int, group: int, dynamic: bool = False) -> Case:
    calls = live(lambda n: [f32(n, outputs)]) if dynamic else [[f32(rows, outputs)]]
    options = {"dynamic": ({0: LENGTH},)} if dynamic else {}
    make = lambda: Backward(outputs, inputs, group)  # noqa: E731
    return lowered(
        f"linear_q4gsw_backward_{pattern}", BACKWARD, make, *calls, kept=[BACKWARD], atol=1e-3, rtol=1e-4, **options
    )


def requant(pattern: str, group: int, *calls: Sequence[Arg], dynamic: Any = None) -> Case:
    function = fn(lambda latent, scales: OPS.q4gsw_requant(latent, scales, group))
    return lowered(f"q4gsw_requant_{pattern}", REQUANT, function, *calls, dynamic=dynamic, kept=[REQUANT], **EXACT)


def scales(*shape: int) -> Arg:
    count = torch.Size(shape).numel()
    return exactly(torch.float32, shape, *((3 + 4 * (i % 5)) / 16 if i % 7 else 0.0 for i in range(count)))


CASES: list[Case] = [
    adamw("first", FIRST, moments(6, 20)),
    adamw("later", LATER, moments(6, 20)),
    adamw("rank1", FIRST, moments(13)),
    adamw("rank3", LATER, moments(2, 3, 5)),
    adamw("long", FIRST, moments(3, 517)),
    adamw("dynamic", LATER, *live(lambda n: moments(n, 5)), dynamic=({0: LENGTH},) * 4),
    loss("m1", 1.0, [f32(1, 100), labels(17)]),
    loss("ignored", 3.0, [f32(5, 7), labels(2, -1, 6, 0, -1)]),
    loss("all_ignored", 1.0, [f32(2, 5), labels(-1, -1)]),
    loss("long", 4.0, [f32(4, 1037), labels(0, 1036, 5, 500)]),
    loss("one_class", 2.0, [f32(2, 1), labels(0, 0)]),
    loss(
        "dynamic",
        4.0,
        *live(lambda n: [f32(n, 9), labels(*((i * 5) % 9 for i in range(n)))]),
        dynamic=({0: LENGTH}, {0: LENGTH}),
    ),
    gradient("m1", [f32(1, 6), f32(1, 9)]),
    gradient("m16", [f32(16, 12), f32(16, 8)]),
    gradient("odd", [f32(13, 5), f32(13, 7)]),
    gradient("rank3", [f32(2, 5, 6), f32(2, 5, 8)]),
    gradient("tiles", [f32(33, 70), f32(33, 68)]),
    gradient("dynamic", *live(lambda n: [f32(n, 6), f32(n, 8)]), dynamic=({0: LENGTH}, {0: LENGTH})),
    backward("m1", 1, 8, 32, 32),
    backward("m9_g16", 9, 12, 48, 16),
    backward("m5_odd", 5, 7, 64, 32),
    backward("tiles", 70, 36, 96, 32),
    backward("wide", 3, 260, 32, 32),
    backward("dynamic", 4, 16, 64, 32, dynamic=True),
    requant("g16", 16, [f32(6, 48), scales(3, 6)]),
    requant("g32", 32, [f32(5, 64), scales(2, 5)]),
    requant("one_row", 8, [f32(1, 8), scales(1, 1)]),
    requant("odd_rows", 4, [f32(7, 12), scales(3, 7)]),
    requant("wide", 32, [f32(3, 256), scales(8, 3)]),
    requant("dynamic", 8, *live(lambda n: [f32(n, 16), scales(2, n)]), dynamic=({0: LENGTH}, {1: LENGTH})),
]
