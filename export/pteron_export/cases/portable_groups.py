"""Programs without a delegate that call many operators each: every operator's result is an output."""

import torch
from torch import Tensor
from torch.export import Dim

from ..case import Arg, Case, exactly, f32, flag, ints
from .function import fn
from .portable import portable

LENGTH = Dim("length", min=1, max=16)

POSITIVE = Arg((4, 6), torch.float32, positive=True)
UNIT = exactly(torch.float32, [6], -1.0, -0.75, -0.25, 0.0, 0.5, 0.9375)


def functions(a: Tensor, unit: Tensor, positive: Tensor) -> tuple[Tensor, ...]:
    inside = (torch.asin(unit), torch.acos(unit), torch.atanh(unit * 0.9375))
    above = (torch.log(positive), torch.log2(positive), torch.acosh(positive + 1.0), torch.reciprocal(positive))
    anywhere = (torch.expm1(a), torch.erf(a), torch.sinh(a), torch.cosh(a), torch.atan(a), torch.asinh(a))
    return (*inside, *above, *anywhere, torch.special.logit(unit, eps=0.125))


def whole_numbers(a: Tensor) -> tuple[Tensor, ...]:
    return (torch.sign(a), torch.floor(a), torch.ceil(a), torch.trunc(a), torch.isnan(a), torch.isinf(a))


def arithmetic(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, ...]:
    floats = (torch.maximum(a, b), torch.atan2(a, b), torch.fmod(a, 0.75), torch.remainder(a, -0.75), a % b)
    integers = (torch.maximum(i, j), i % 3, torch.fmod(i, -3), i // 2, i * 2.5, i + 1, 3 - i, torch.fmod(i, j))
    shifted = (torch.bitwise_left_shift(i, 2), torch.bitwise_right_shift(i, 1))
    bits = (i ^ j, i & 3, i | 4, i ^ 5, *shifted, torch.logical_xor(i, j))
    powers = (torch.pow(2.0, a), torch.pow(i, 2), torch.clamp(a, min=b), torch.clamp(a, b, b + 1.0))
    return (*floats, *integers, *bits, *powers)


def reduced(a: Tensor, i: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    truth = (torch.any(b), torch.any(b, dim=1), torch.any(b, dim=(0, 1)), torch.any(a > 1.5, dim=0, keepdim=True))
    extremes = (*torch.max(a, dim=1), *torch.min(i, dim=0), torch.max(i), torch.min(a))
    sums = (b.sum(), b.sum(dim=1), i.sum(dim=0), torch.prod(i), torch.prod(a, dim=1), i.to(torch.float32).mean())
    moments = (torch.var(a, dim=1, correction=0), *torch.var_mean(a, dim=0, correction=1))
    return (*truth, *extremes, *sums, *moments, torch.cumsum(i, dim=1), torch.cumsum(a, dim=0), torch.cumsum(b, dim=1))


def moved(a: Tensor, images: Tensor) -> tuple[Tensor, ...]:
    parts = (*torch.split(a, 4, dim=1), *torch.unbind(a, dim=0), torch.stack([a, a + 1.0], dim=1))
    views = (torch.diagonal_copy(a, 1), torch.narrow_copy(a, 1, 2, 3), torch.as_strided_copy(a, [3, 2], [2, 5], 1))
    shuffled = (torch.nn.functional.pixel_unshuffle(images, 2), torch.roll(a, [1, -2], [0, 1]), torch.roll(a, 5))
    pads = (
        torch.nn.functional.pad(images, [1, 2, 3, 0], mode="reflect"),
        torch.nn.functional.pad(images, [1, 2, 3, 0], mode="replicate"),
    )
    replaced = (
        torch.select_scatter(a, a[:, 0] * 2.0, 1, 3),
        torch.slice_scatter(a, a[:, 1:4] * 2.0, 1, 0, 6, 2),
        torch.tril(a, 1),
    )
    return (*parts, *views, *shuffled, *pads, *replaced)


def indexed(a: Tensor, rows: Tensor, columns: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
    put = (
        a.index_put((rows, columns), a[rows, columns] * 2.0),
        a.index_put((rows, columns), a[rows, columns] * 2.0, accumulate=True),
        a.index_put((rows,), a[0] * 3.0),
    )
    scattered = (
        torch.scatter(a, 1, grid, 7.5),
        torch.scatter(a, 0, grid % 4, a * 2.0),
        torch.scatter_add(a, 1, grid, a * 2.0),
    )
    return (a[rows, columns], a[rows[:, None], columns], *put, *scattered, *torch.topk(a, 3, dim=1))


def images(x: Tensor) -> tuple[Tensor, ...]:
    pooled = (
        torch.nn.functional.adaptive_avg_pool2d(x, (3, 2)),
        *torch.nn.functional.adaptive_max_pool2d(x, (3, 2), return_indices=True),
    )
    normed = (torch.nn.functional.instance_norm(x), torch.nn.functional.glu(x, dim=1))
    return (*pooled, *normed)


def sampled(x: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
    sample = torch.nn.functional.grid_sample
    return (
        sample(x, grid, mode="nearest", padding_mode="border", align_corners=True),
        sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False),
        sample(x, grid, mode="bicubic", padding_mode="zeros", align_corners=False),
    )


def half_widths(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (a + b, torch.softmax(a, dim=1), (a * b).to(torch.float32), a.to(torch.float32).sum(dim=0), torch.exp(b))


def dynamic(a: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.cumsum(a, dim=0),
        torch.any(a > 0.5, dim=1),
        *torch.max(a, dim=1),
        torch.stack([a, a * 2.0], dim=0),
        torch.tril(a),
        a * a.shape[0],
        # No two elements of a row are equal: which of them comes first is open.
        *torch.topk(a + torch.arange(6) / 1024, 2, dim=1),
    )


GRID = exactly(torch.float32, [1, 2, 3, 2], -1.25, -0.5, 0.25, 0.75, 1.0, -1.0, 0.0, 0.125, -0.875, 1.5, 0.375, -0.25)
ROWS = exactly(torch.int64, [5], 3, 0, 3, 1, -1)
GRID_INDEX = exactly(torch.int64, [4, 6], *[(5 * k + 3) % 6 for k in range(24)])
COLUMNS = exactly(torch.int64, [5], 0, 5, 0, 2, -2)

CASES: list[Case] = [
    portable("portable_functions", "log", fn(functions), [f32(4, 6), UNIT, POSITIVE]),
    portable("portable_whole_numbers", "sign", fn(whole_numbers), [f32(4, 6)]).exact(),
    portable(
        "portable_arithmetic",
        "fmod",
        fn(arithmetic),
        [
            f32(4, 6),
            exactly(torch.float32, [6], 0.5, -0.75, 1.25, -1.5, 2.0, 3.0),
            ints(torch.int64, 4, 6),
            exactly(torch.int64, [6], 1, -2, 3, -4, 5, 7),
        ],
    ),
    portable(
        "portable_reduced",
        "any",
        fn(reduced),
        [f32(4, 6), ints(torch.int64, 4, 6, below=3), flag(4, 6)],
    ),
    portable("portable_moved", "roll", fn(moved), [f32(4, 6), f32(1, 2, 4, 6)]).exact(),
    portable("portable_indexed", "index_put", fn(indexed), [f32(4, 6), ROWS, COLUMNS, GRID_INDEX]),
    portable("portable_images", "_adaptive_avg_pool2d", fn(images), [f32(2, 4, 7, 5)]),
    portable("portable_sampled", "grid_sampler_2d", fn(sampled), [f32(1, 2, 5, 4), GRID]),
    portable(
        "portable_bfloat16",
        "add",
        fn(half_widths),
        [Arg((4, 6), torch.bfloat16), Arg((6,), torch.bfloat16)],
        atol=2e-2,
        rtol=2e-2,
    ),
    portable(
        "portable_groups_dynamic", "cumsum", fn(dynamic), [f32(9, 6)], [f32(1, 6)], [f32(16, 6)], dynamic=({0: LENGTH},)
    ),
]
