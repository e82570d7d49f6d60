"""Operators that only move elements: any difference is an error."""

import torch
from torch.export import Dim

from ..case import Case, case, exactly, f32, flag
from .function import fn

LENGTH = Dim("length", min=1, max=16)

CASES: list[Case] = [
    row.exact()
    for row in [
        case("view_flatten", "view_copy", fn(lambda a: a.reshape(-1)), [f32(3, 4, 5)]),
        case("view_rank5", "view_copy", fn(lambda a: a.reshape(2, 3, 1, 2, 5) * 2.0), [f32(6, 10)]),
        case("view_to_rank0", "view_copy", fn(lambda a: a.reshape(()) * 2.0), [f32(1, 1)]),
        case(
            "view_dynamic",
            "view_copy",
            fn(lambda a: a.view(1, a.shape[1], 4, 6) * 2.0),
            [f32(1, 16, 24)],
            [f32(1, 1, 24)],
            [f32(1, 7, 24)],
            dynamic=({1: LENGTH},),
            vulkan={"require_dynamic_shapes": True},
        ),
        case(
            "view_dynamic_product",
            "view_copy",
            fn(lambda a: a.reshape(a.shape[0] * 3, 5) + 1),
            [f32(9, 3, 5)],
            [f32(1, 3, 5)],
            [f32(16, 3, 5)],
            dynamic=({0: LENGTH},),
        ),
        case("select_last", "select_copy", fn(lambda a: a[:, -1, :] * 2.0), [f32(2, 7, 5)]),
        case("select_first_dim", "select_copy", fn(lambda a: a[1]), [f32(3, 5)]),
        case(
            "select_last_dynamic",
            "select_copy",
            fn(lambda a: a[:, -1, :] + 1),
            [f32(1, 16, 5)],
            [f32(1, 1, 5)],
            [f32(1, 9, 5)],
            dynamic=({1: LENGTH},),
        ),
        case("slice_middle", "slice_copy", fn(lambda a: a[:, 2:5]), [f32(3, 9)]),
        case("slice_step", "slice_copy", fn(lambda a: a[1::2, :] * 2.0), [f32(7, 3)]),
        case("slice_tail_rank4", "slice_copy", fn(lambda a: a[:, :, :, -3:]), [f32(1, 2, 3, 7)]),
        case(
            "slice_dynamic",
            "slice_copy",
            fn(lambda a, b: b[: a.shape[1]] + a[0]),
            [f32(1, 16, 6), f32(16, 6)],
            [f32(1, 3, 6), f32(16, 6)],
            [f32(1, 1, 6), f32(16, 6)],
            dynamic=({1: LENGTH}, None),
        ),
        case(
            "slice_dynamic_but_last",
            "slice_copy",
            fn(lambda a: a[:, : a.shape[1] - 1] + 1.0),
            [f32(1, 16, 3)],
            [f32(1, 3, 3)],
            dynamic=({1: Dim("several", min=3, max=16)},),
        ),
        case(
            "view_dynamic_halves",
            "view_copy",
            fn(lambda a: a.reshape(a.shape[0] // 2, 2, 3) + 1.0),
            [f32(16, 3)],
            [f32(4, 3)],
            dynamic=({0: 2 * Dim("half", min=1, max=8)},),
        ),
        case("clone_identity", "clone", fn(torch.clone), [f32(3, 5)]),
        case("permute_rank3", "permute", fn(lambda a: a.permute(2, 0, 1)), [f32(3, 5, 7)]),
        case("transpose_rank4", "permute", fn(lambda a: a.transpose(1, 2) * 2.0), [f32(1, 5, 3, 4)]),
        case(
            "unsqueeze_squeeze",
            "unsqueeze",
            fn(lambda a, b: (a.unsqueeze(1) * 2.0, b.squeeze(1) * 2.0)),
            [f32(3, 5), f32(3, 1, 5)],
        ),
        case("cat_odd", "cat", fn(lambda a, b, c: torch.cat([a, b, c], dim=1)), [f32(2, 3), f32(2, 1), f32(2, 7)]),
        case("expand", "expand_copy", fn(lambda a: a.expand(4, 3, 5)), [f32(3, 5)]),
        case("repeat", "repeat", fn(lambda a: a.repeat(2, 3)), [f32(3, 5)]),
        case("split_outputs", "split_with_sizes_copy", fn(lambda a: torch.split(a, [2, 5], dim=1)), [f32(3, 7)]),
        case(
            "gather_rows", "index", fn(lambda a, i: a[i] * 2.0), [f32(9, 4), exactly(torch.int64, [5], 3, 0, 8, 8, 1)]
        ),
        case("bool_not", "bitwise_not", fn(torch.bitwise_not), [flag(3, 7)]),
    ]
]
