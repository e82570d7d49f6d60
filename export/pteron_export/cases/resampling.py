"""Images of other sizes, and elements that move between dims."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.export import Dim
from torch.nn import functional

from ..case import Arg, Case, exactly, f16, f32, lowered
from .function import fn
from .patterns import ARITHMETIC, EXACT, HALF, LENGTH, Options, live

NEAREST, BILINEAR = "aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec"
GRID_SAMPLER, GRID_PRIORS = "aten.grid_sampler_2d.default", "et_vk.grid_priors.default"
SHUFFLE, UNFOLD = "aten.pixel_shuffle.default", "aten.unfold_copy.default"
REPEAT, SELECT, SLICE = "aten.repeat_interleave.self_int", "aten.select.int", "aten.slice.Tensor"
HEIGHT, WIDTH = Dim("height", min=1, max=9), Dim("width", min=2, max=11)


def nearest(pattern: str, *calls: Sequence[Arg], dynamic: object = None, more: Options = EXACT, **how: object) -> Case:
    function = fn(partial(functional.interpolate, mode="nearest", **how))
    return lowered(f"upsample_nearest_{pattern}", NEAREST, function, *calls, dynamic=dynamic, **more)


def bilinear(
    pattern: str, *calls: Sequence[Arg], dynamic: object = None, more: Options = ARITHMETIC, **how: object
) -> Case:
    function = fn(partial(functional.interpolate, mode="bilinear", **how))
    return lowered(f"upsample_bilinear_{pattern}", BILINEAR, function, *calls, dynamic=dynamic, **more)


def sampled(x: Tensor, grid: Tensor) -> Tensor:
    return functional.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=True)


def points(*shape: int) -> Arg:
    """Inside the image, on its edges and outside."""
    count = torch.Size(shape).numel()
    return exactly(torch.float32, shape, *(((i * 37) % 83) / 32 - 1.25 for i in range(count)))


def grid(pattern: str, *calls: Sequence[Arg], dynamic: object = None) -> Case:
    return lowered(f"grid_sampler_{pattern}", GRID_SAMPLER, fn(sampled), *calls, dynamic=dynamic, **ARITHMETIC)


def priors(pattern: str, stride: int, offset: float, *calls: Sequence[Arg], dynamic: object = None) -> Case:
    function = fn(lambda a: torch.ops.et_vk.grid_priors(a, stride, offset))
    return lowered(f"grid_priors_{pattern}", GRID_PRIORS, function, *calls, dynamic=dynamic, **EXACT)


def shuffle(pattern: str, factor: int, *calls: Sequence[Arg], dynamic: object = None) -> Case:
    function = fn(partial(functional.pixel_shuffle, upscale_factor=factor))
    return lowered(f"pixel_shuffle_{pattern}", SHUFFLE, function, *calls, dynamic=dynamic, **EXACT)


def unfold(pattern: str, how: tuple[int, int, int], *calls: Sequence[Arg], dynamic: object = None) -> Case:
    return lowered(f"unfold_{pattern}", UNFOLD, fn(lambda a: a.unfold(*how)), *calls, dynamic=dynamic, **EXACT)


def kept(
    name: str, op: str, function: Callable[[Tensor], Tensor], *calls: Sequence[Arg], dynamic: object = None
) -> Case:
    return lowered(name, op, fn(function), *calls, dynamic=dynamic, kept=[op], **EXACT)


def repeated(repeats: int, dim: int | None) -> Callable[[Tensor], Tensor]:
    return lambda a: torch.ops.pteron_export.repeat_interleave(a, repeats, dim)


def selected(dim: int, index: int) -> Callable[[Tensor], Tensor]:
    return lambda a: torch.ops.pteron_export.select(a, dim, index)


def sliced(dim: int, start: int, end: int, step: int) -> Callable[[Tensor], Tensor]:
    return lambda a: torch.ops.pteron_export.slice(a, dim, start, end, step)


CASES: list[Case] = [
    nearest("x2", [f32(1, 3, 5, 7)], scale_factor=2),
    nearest("x3x2_batch", [f32(2, 3, 4, 5)], scale_factor=(3, 2)),
    nearest("fraction", [f32(1, 2, 6, 7)], scale_factor=1.5),
    nearest("down", [f32(1, 3, 9, 8)], scale_factor=0.4),
    nearest("size", [f32(1, 2, 5, 3)], size=(7, 11)),
    nearest("one_pixel", [f32(1, 4, 1, 1)], size=(3, 2)),
    nearest("f16", [f16(1, 2, 3, 5)], scale_factor=2, more=HALF),
    nearest("dynamic", *live(lambda n: [f32(n, 2, 3, 5)]), dynamic=({0: LENGTH},), size=(5, 4)),
    bilinear("x2", [f32(1, 3, 5, 7)], scale_factor=2),
    bilinear("x3x2_batch", [f32(2, 3, 4, 5)], scale_factor=(3, 2)),
    bilinear("fraction", [f32(1, 2, 6, 7)], scale_factor=1.5),
    bilinear("down", [f32(1, 3, 9, 8)], scale_factor=0.4),
    bilinear("size", [f32(1, 2, 5, 3)], size=(7, 11)),
    bilinear("corners", [f32(1, 2, 5, 3)], size=(7, 11), align_corners=True),
    bilinear("corners_to_one", [f32(1, 2, 5, 3)], size=(1, 4), align_corners=True),
    bilinear("one_pixel", [f32(1, 4, 1, 1)], size=(3, 2)),
    bilinear("dynamic", *live(lambda n: [f32(n, 2, 3, 5)]), dynamic=({0: LENGTH},), size=(5, 4)),
    grid("plain", [f32(1, 3, 5, 7), points(1, 4, 6, 2)]),
    grid("batch", [f32(2, 2, 4, 3), points(2, 5, 3, 2)]),
    grid("one_pixel", [f32(1, 2, 1, 1), points(1, 3, 2, 2)]),
    grid("one_point", [f32(1, 5, 6, 4), points(1, 1, 1, 2)]),
    grid("wide", [f32(1, 1, 2, 33), points(1, 3, 40, 2)]),
    grid("dynamic", *live(lambda n: [f32(1, 2, 4, 5), points(1, n, 3, 2)]), dynamic=({}, {1: LENGTH})),
    priors("s8", 8, 0.5, [f32(3, 5)]),
    priors("s3", 3, 0.25, [f32(4, 7)]),
    priors("image", 16, 0.0, [f32(1, 2, 6, 5)]),
    priors("row", 4, 0.5, [f32(1, 9)]),
    priors("column", 32, -1.0, [f32(7, 1)]),
    priors("dynamic", 8, 0.5, *live(lambda n: [f32(n, 5)]), dynamic=({0: LENGTH},)),
    shuffle("r2", 2, [f32(1, 8, 3, 5)]),
    shuffle("r3", 3, [f32(2, 9, 4, 2)]),
    shuffle("r1", 1, [f32(1, 3, 4, 2)]),
    shuffle("rank3", 2, [f32(12, 3, 5)]),
    shuffle("one_pixel", 4, [f32(1, 16, 1, 1)]),
    shuffle("dynamic", 2, *live(lambda n: [f32(1, 8, n, 3)]), dynamic=({2: LENGTH},)),
    unfold("1d", (0, 4, 2), [f32(13)]),
    unfold("last", (1, 4, 2), [f32(3, 12)]),
    unfold("first", (0, 3, 1), [f32(7, 5)]),
    unfold("gaps", (2, 2, 5), [f32(2, 3, 16)]),
    unfold("whole", (1, 6, 1), [f32(2, 6, 3)]),
    unfold("dynamic", (1, 3, 2), *live(lambda n: [f32(n, 9)]), dynamic=({0: LENGTH},)),
    kept("repeat_interleave_last", REPEAT, repeated(3, -1), [f32(2, 5)]),
    kept("repeat_interleave_first", REPEAT, repeated(2, 0), [f32(3, 4)]),
    kept("repeat_interleave_middle", REPEAT, repeated(4, 1), [f32(2, 3, 5)]),
    kept("repeat_interleave_once", REPEAT, repeated(1, 0), [f32(3, 4)]),
    kept("repeat_interleave_flat", REPEAT, repeated(2, None), [f32(3, 4)]),
    kept("repeat_interleave_dynamic", REPEAT, repeated(3, 1), *live(lambda n: [f32(2, n, 3)]), dynamic=({1: LENGTH},)),
    kept("select_int_first", SELECT, selected(0, 1), [f32(3, 4)]),
    kept("select_int_last", SELECT, selected(1, -1), [f32(3, 4)]),
    kept("select_int_middle", SELECT, selected(1, 2), [f32(2, 3, 5)]),
    kept("select_int_to_rank0", SELECT, selected(0, 3), [f32(5)]),
    kept("select_int_rank4", SELECT, selected(2, 0), [f32(2, 3, 2, 5)]),
    kept("select_int_dynamic", SELECT, selected(0, 1), *live(lambda n: [f32(3, n)]), dynamic=({1: LENGTH},)),
    kept("slice_tensor_start", SLICE, sliced(0, 1, 4, 1), [f32(5, 3)]),
    kept("slice_tensor_step", SLICE, sliced(1, 0, 9, 2), [f32(2, 9)]),
    kept("slice_tensor_negative", SLICE, sliced(1, -3, -1, 1), [f32(2, 7)]),
    kept("slice_tensor_past_end", SLICE, sliced(0, 2, 99, 1), [f32(4, 3)]),
    kept("slice_tensor_rank4", SLICE, sliced(2, 1, 4, 2), [f32(2, 3, 5, 2)]),
    kept("slice_tensor_dynamic", SLICE, sliced(1, 1, 3, 1), *live(lambda n: [f32(n, 5)]), dynamic=({0: LENGTH},)),
]
