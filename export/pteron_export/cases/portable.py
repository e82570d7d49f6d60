"""Programs without a delegate: real kernel calls, with every kind of argument they can have."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch.export import Dim

from ..case import Arg, Case, case, exactly, f32, flag, ints
from .function import fn
from .programs import two_layers

LENGTH = Dim("length", min=1, max=16)


def portable(name: str, op: str, module: Callable[[], nn.Module], *calls: Sequence[Arg], **options: Any) -> Case:
    return case(name, op, module, *calls, delegate=False, **options)


def through_channels_last(x: Tensor) -> Tensor:
    """A dim order inside the program that is not the one of its inputs and outputs."""
    inside = torch.relu(x.to(memory_format=torch.channels_last))
    return inside.to(memory_format=torch.contiguous_format)


class HalfTable(nn.Module):
    """An embedding table of bf16, which a program stores in two bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(45).reshape(9, 5).mul(0.25).to(torch.bfloat16))

    def forward(self, ids: Tensor) -> Tensor:
        return nn.functional.embedding(ids, self.table).to(torch.float32)


class ViewedState(nn.Module):
    """A buffer that is changed as it is and read as a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.sums.view(6) * 2.0
        self.sums.add_(x)
        return before, self.sums.view(3, 2) + 1.0


def put_by_mask(a: Tensor, rows: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    """As many elements, or rows, as a mask has true ones are replaced, or added to."""
    whole = torch.ones(1, dtype=torch.bool)
    return (
        a.index_put((a > 0,), a[a > 0] * 2.0),
        a.index_put((rows,), values[:, :2]) + 1.0,
        a.index_put((rows,), values, accumulate=True),
        values.index_put((whole,), values + 1.0),
    )


def resized(x: Tensor) -> tuple[Tensor, ...]:
    smaller = nn.functional.interpolate(x, (4, 3), mode="bilinear", antialias=True)
    larger = nn.functional.interpolate(x, (8, 16), mode="bilinear", antialias=True, align_corners=True)
    return smaller, larger


def sums_of_bytes(a: Tensor, index: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return a.scatter_add(0, index, values), a.index_put((index,), values, accumulate=True)


def mapped(xs: Tensor, y: Tensor) -> Tensor:
    """A loop: ExecuTorch jumps back once per row."""
    return map_rows(lambda x, y: torch.relu(x * 2.0 + y), xs, y) + 1.0


def scanned(start: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
    """A loop that carries a tensor from step to step."""

    def step(sum: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        after = torch.tanh(sum * 0.5 + x)
        return after, after * 2.0

    return scan(step, start, xs)


CASES: list[Case] = [
    portable("portable_add_alpha", "add", fn(lambda a, b: torch.add(a, b, alpha=2.5)), [f32(3, 5), f32(5)]),
    portable("portable_linear", "linear", two_layers, [f32(3, 16)]),
    portable(
        "portable_div_floor", "div", fn(lambda a, b: torch.div(a, b * b + 1.0, rounding_mode="floor")), [f32(7), f32(7)]
    ),
    portable("portable_gelu_tanh", "gelu", fn(lambda a: torch.nn.functional.gelu(a, approximate="tanh")), [f32(9)]),
    portable(
        "portable_permute_cat", "cat", fn(lambda a, b: torch.cat([a.permute(1, 0), b], dim=0)), [f32(3, 5), f32(2, 3)]
    ).exact(),
    portable(
        "portable_index_none", "index", fn(lambda a, i: a[:, i]), [f32(3, 5), exactly(torch.int64, [3], 4, 0, 2)]
    ).exact(),
    portable(
        "portable_upsample",
        "upsample",
        fn(lambda a: torch.nn.functional.interpolate(a, scale_factor=[2.0, 1.5])),
        [f32(1, 2, 4, 4)],
    ).exact(),
    portable("portable_clamp_none", "clamp", fn(lambda a: torch.clamp(a, min=-0.5)), [f32(9)]),
    portable("portable_argmax", "argmax", fn(lambda a: torch.argmax(a, dim=-1, keepdim=True)), [f32(3, 7)]).exact(),
    portable("portable_bool", "logical_not", fn(lambda a, b: torch.logical_not(a) | b), [flag(5), flag(5)]).exact(),
    portable("portable_int16", "add", fn(lambda a, b: a + b), [ints(torch.int16, 6), ints(torch.int16, 6)]).exact(),
    portable(
        "portable_float64",
        "mul",
        fn(lambda a, b: a * b),
        [exactly(torch.float64, [3], 0.5, 1.5, 2.5), exactly(torch.float64, [3], 0.25, 3, 4)],
    ).exact(),
    portable("portable_float16", "mul", fn(lambda a: a * 2.0), [exactly(torch.float16, [3], 0.5, 1.5, 2.5)]).exact(),
    portable(
        "portable_uint8_int8",
        "to_copy",
        fn(lambda a, b: (a.to(torch.int32), b.to(torch.float32))),
        [ints(torch.uint8, 5, below=255), ints(torch.int8, 5, below=127)],
    ).exact(),
    portable(
        "portable_dynamic",
        "mul",
        fn(lambda a: a.reshape(a.shape[0] * 2, 3) * 2.0),
        [f32(9, 6)],
        [f32(1, 6)],
        [f32(16, 6)],
        dynamic=({0: LENGTH},),
    ).exact(),
    portable("portable_nonzero", "nonzero", fn(torch.nonzero), [flag(7)], [flag(7)]).exact(),
    portable("portable_channels_last", "relu", fn(through_channels_last), [f32(1, 2, 3, 4)]).exact(),
    portable("portable_map", "map", fn(mapped), [f32(5, 3), f32(3)], [f32(5, 3), f32(3)]),
    portable("portable_scan", "scan", fn(scanned), [f32(2, 3), f32(4, 2, 3)], [f32(2, 3), f32(4, 2, 3)]),
    portable("portable_mask_index", "index", fn(lambda a: a[a > 0]), [f32(4, 5)], [f32(4, 5)]).exact(),
    portable(
        "portable_put_by_mask",
        "index_put",
        fn(put_by_mask),
        [f32(3, 2), exactly(torch.bool, [3], 1, 0, 1), f32(1, 2)],
        [f32(3, 2), exactly(torch.bool, [3], 0, 1, 1), f32(1, 2)],
    ),
    portable("portable_antialias", "_upsample_bilinear2d_aa", fn(resized), [f32(1, 2, 9, 7)]),
    portable(
        "portable_scatter_bytes",
        "scatter_add",
        fn(sums_of_bytes),
        [ints(torch.uint8, 6, below=100), exactly(torch.int64, [4], 5, 0, 5, 2), ints(torch.uint8, 4, below=100)],
    ).exact(),
    portable(
        "portable_integer_table",
        "embedding",
        fn(lambda table, ids: nn.functional.embedding(ids, table) * 2),
        [ints(torch.int64, 5, 3), exactly(torch.int64, [2, 2], 4, 0, 4, 1)],
    ).exact(),
    portable("portable_eye", "arange", fn(lambda a: torch.eye(4) + a), [f32(4, 4)]).exact(),
    portable(
        "portable_masked_scatter", "masked_scatter", fn(torch.masked_scatter), [f32(3, 4), flag(3, 4), f32(12)]
    ).exact(),
    portable("portable_view_of_input", "mul", fn(lambda a: (a.view(6) * 2.0).view(3, 2)), [f32(2, 3)]).exact(),
    portable("portable_viewed_state", "add", ViewedState, [f32(2, 3)], [f32(2, 3)], [f32(2, 3)]),
    portable("portable_bf16_table", "embedding", HalfTable, [exactly(torch.int64, [3], 8, 0, 5)]).exact(),
]
