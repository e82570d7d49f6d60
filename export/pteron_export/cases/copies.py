"""Operators that give each element another place and change none: any difference is an error."""

from collections.abc import Callable, Sequence

import torch
from torch.export import Dim

from ..case import Arg, Case, f16, f32, flag, lowered
from .function import fn
from .patterns import EXACT, LENGTH, SPECIAL, i32, i64, listed, live

SEVERAL = Dim("several", min=2, max=9)
OTHER = Dim("other", min=1, max=8)

PERMUTE, CAT = "aten.permute_copy.default", "aten.cat.default"
UNSQUEEZE, SQUEEZE = "aten.unsqueeze_copy.default", "aten.squeeze_copy.dims"
EXPAND, SPLIT = "aten.expand_copy.default", "aten.split_with_sizes_copy.default"
VIEW, SELECT, SLICE = "aten.view_copy.default", "aten.select_copy.int", "aten.slice_copy.Tensor"


def row(name: str, op: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, op, fn(function), *calls, **EXACT, **options)


def growing(
    name: str, op: str, function: Callable[..., object], make: Callable[[int], Sequence[Arg]], *dims: object
) -> Case:
    """A row with live lengths: `dims` as `torch.export` takes them, one an input."""
    return row(name, op, function, *live(make), dynamic=dims)


FIRST, SECOND, LAST = {0: LENGTH}, {1: LENGTH}, {2: LENGTH}

PERMUTED = [
    row("permute_rank0", PERMUTE, lambda a: a.permute(()), [f32()]),
    row("permute_matrix", PERMUTE, lambda a: a.t(), [f32(5, 7)]),
    # Larger than the tiles that a transposition may go by.
    row("permute_matrix_tiles", PERMUTE, lambda a: a.t(), [f32(35, 67)]),
    row("permute_batches", PERMUTE, lambda a: a.permute(0, 2, 1), [f32(3, 5, 7)]),
    row("permute_negative", PERMUTE, lambda a: a.permute(-1, 0, -2), [f32(3, 5, 7)]),
    row("permute_rank4", PERMUTE, lambda a: a.permute(3, 1, 0, 2), [f32(2, 3, 5, 7)]),
    row("permute_rank5", PERMUTE, lambda a: a.permute(4, 2, 0, 3, 1), [f32(2, 1, 3, 2, 5)]),
    row("permute_bool", PERMUTE, lambda a: a.permute(1, 2, 0), [flag(3, 5, 7)]),
    row("permute_int64", PERMUTE, lambda a: a.t(), [i64(5, 7)]),
    growing("permute_dynamic", PERMUTE, lambda a: a.permute(1, 0, 2), lambda n: [f32(3, n, 5)], SECOND),
    growing("permute_dynamic_last", PERMUTE, lambda a: a.t(), lambda n: [f32(n, 5)], FIRST),
]

JOINED = [
    row("cat_first", CAT, lambda a, b: torch.cat([a, b]), [f32(2, 3), f32(5, 3)]),
    row("cat_last_rank4", CAT, lambda a, b: torch.cat([a, b], -1), [f32(2, 1, 3, 5), f32(2, 1, 3, 2)]),
    row("cat_middle", CAT, lambda a, b, c: torch.cat([a, b, c], 1), [f32(2, 1, 3), f32(2, 4, 3), f32(2, 2, 3)]),
    row("cat_vectors", CAT, lambda a, b: torch.cat([a, b]), [f32(67), f32(1)]),
    row("cat_itself", CAT, lambda a: torch.cat([a, a, a], 1), [f32(3, 5)]),
    row("cat_single", CAT, lambda a: torch.cat([a], 1), [f32(3, 5)]),
    row("cat_ten", CAT, lambda a, b: torch.cat([a, b] * 5, 1), [f32(2, 3), f32(2, 1)]),
    row("cat_int32", CAT, lambda a, b: torch.cat([a, b]), [i32(3, 5), i32(1, 5)]),
    row("cat_mixed_types", CAT, lambda a, b: torch.cat([a, b], 1), [f32(3, 5), i32(3, 2)]),
    growing("cat_dynamic", CAT, lambda a, b: torch.cat([a, b]), lambda n: [f32(n, 3), f32(2, 3)], FIRST, None),
    growing(
        "cat_dynamic_beside", CAT, lambda a, b: torch.cat([a, b], 1), lambda n: [f32(n, 3), f32(n, 2)], FIRST, FIRST
    ),
    row(
        "cat_dynamic_both",
        CAT,
        lambda a, b: torch.cat([a, b], 1),
        *([f32(2, n, 3), f32(2, m, 3)] for n, m in [(5, 3), (9, 8), (1, 1)]),
        dynamic=(SECOND, {1: OTHER}),
    ),
]

RANKED = [
    row("unsqueeze_rank0", UNSQUEEZE, lambda a: a.unsqueeze(0), [f32()]),
    row("unsqueeze_last", UNSQUEEZE, lambda a: a.unsqueeze(-1), [f32(3, 5)]),
    row("unsqueeze_middle", UNSQUEEZE, lambda a: a.unsqueeze(2), [f32(2, 3, 5)]),
    row("unsqueeze_to_rank5", UNSQUEEZE, lambda a: a.unsqueeze(0), [f32(2, 3, 1, 5)]),
    row("unsqueeze_bool", UNSQUEEZE, lambda a: a.unsqueeze(1), [flag(3, 5)]),
    growing("unsqueeze_dynamic", UNSQUEEZE, lambda a: a.unsqueeze(1), lambda n: [f32(n, 3)], FIRST),
    row("squeeze_to_rank0", SQUEEZE, lambda a: a.squeeze(0), [f32(1)]),
    row("squeeze_all", SQUEEZE, torch.squeeze, [f32(1, 3, 1, 5)]),
    row("squeeze_two", SQUEEZE, lambda a: a.squeeze((0, -2)), [f32(1, 3, 1, 5)]),
    # A dim that is not 1 stays.
    row("squeeze_not_one", SQUEEZE, lambda a: a.squeeze((0, 1)), [f32(1, 3, 5)]),
    row("squeeze_rank5", SQUEEZE, lambda a: a.squeeze(3), [f32(2, 3, 2, 1, 5)]),
    row("squeeze_bool", SQUEEZE, lambda a: a.squeeze(1), [flag(3, 1, 5)]),
    growing("squeeze_dynamic", SQUEEZE, lambda a: a.squeeze(1), lambda n: [f32(n, 1, 3)], FIRST),
]

EXPANDED = [
    row("expand_rank0", EXPAND, lambda a: a.expand(3, 5), [f32()]),
    row("expand_column", EXPAND, lambda a: a.expand(-1, 7), [f32(5, 1)]),
    row("expand_inner_and_outer", EXPAND, lambda a: a.expand(2, 3, 4, 5), [f32(3, 1, 5)]),
    row("expand_rank5", EXPAND, lambda a: a.expand(2, 3, 2, 1, 5), [f32(1, 2, 1, 5)]),
    row("expand_bool", EXPAND, lambda a: a.expand(3, 7), [flag(3, 1)]),
    row("expand_int64", EXPAND, lambda a: a.expand(3, 7), [i64(7)]),
    row("expand_to_the_same", EXPAND, lambda a: a.expand(3, 7), [f32(3, 7)], kept=[EXPAND]),
    growing("expand_dynamic_kept", EXPAND, lambda a: a[None].expand(2, a.shape[0], 3), lambda n: [f32(n, 3)], FIRST),
    growing(
        "expand_dynamic", EXPAND, lambda a, b: b.expand(a.shape[0], 3), lambda n: [f32(n, 3), f32(1, 3)], FIRST, None
    ),
    growing("expand_dynamic_new_dim", EXPAND, lambda a, b: b.expand_as(a), lambda n: [f32(2, n), f32(1)], SECOND, None),
]

DIVIDED = [
    row("split_first", SPLIT, lambda a: torch.split(a, [1, 3, 2]), [f32(6, 5)]),
    row("split_last_negative", SPLIT, lambda a: torch.split(a, [4, 3], -1), [f32(2, 3, 7)]),
    row("split_even", SPLIT, lambda a: torch.split(a, 2, 1), [f32(3, 5)]),
    row("split_chunks", SPLIT, lambda a: torch.chunk(a, 3, 1), [f32(2, 7, 3, 1)]),
    row("split_rank5", SPLIT, lambda a: torch.split(a, [1, 2], 2), [f32(2, 1, 3, 2, 5)]),
    row("split_bool", SPLIT, lambda a: torch.split(a, [3, 1, 5], 1), [flag(3, 9)]),
    row("split_int64", SPLIT, lambda a: torch.split(a, [3, 4], 0), [i64(7)]),
    row("split_one_used", SPLIT, lambda a: torch.split(a, [3, 4], 1)[1], [f32(3, 7)]),
    growing("split_dynamic_beside", SPLIT, lambda a: torch.split(a, [2, 5], 1), lambda n: [f32(n, 7)], FIRST),
    row(
        "split_dynamic_sizes",
        SPLIT,
        lambda a, b: torch.split(b, [a.shape[0], 12 - a.shape[0]]),
        *([f32(n, 1), f32(12, 2)] for n in (5, 2, 9)),
        # Neither part may be 1: PyTorch takes that for a broadcast.
        dynamic=({0: SEVERAL}, None),
    ),
]

VIEWED = [
    row("view_rank0", VIEW, lambda a: a.reshape(1, 1, 1), [f32()]),
    row("view_special", VIEW, lambda a: a.view(3, 5), [listed(*SPECIAL)]),
    row("view_split_last", VIEW, lambda a: a.view(3, 2, 5), [f32(3, 10)]),
    row("view_rank5_to_matrix", VIEW, lambda a: a.reshape(6, -1), [f32(2, 1, 3, 2, 5)]),
    row("view_bool", VIEW, lambda a: a.view(-1), [flag(3, 5)]),
    row("view_int64", VIEW, lambda a: a.view(7, 2), [i64(2, 7)]),
    growing("view_dynamic_inferred", VIEW, lambda a: a.view(-1, 2), lambda n: [f32(n, 4)], FIRST),
    growing("view_dynamic_flat", VIEW, lambda a: a.flatten(), lambda n: [f32(3, n, 2)], SECOND),
]

SELECTED = [
    row("select_to_rank0", SELECT, lambda a: a.select(0, 2), [f32(5)]),
    row("select_first", SELECT, lambda a: a.select(-1, 0), [f32(2, 3, 5)]),
    row("select_negative", SELECT, lambda a: a.select(1, -2), [f32(2, 3, 5, 2)]),
    row("select_rank5", SELECT, lambda a: a.select(2, 1), [f32(2, 1, 3, 2, 5)]),
    row("select_bool", SELECT, lambda a: a.select(1, 3), [flag(5, 7)]),
    row("select_int64", SELECT, lambda a: a.select(1, 3), [i64(5, 7)]),
    growing("select_dynamic_beside", SELECT, lambda a: a.select(0, 1), lambda n: [f32(3, n, 5)], SECOND),
    growing("select_dynamic_index", SELECT, lambda a: a.select(0, a.shape[0] - 1), lambda n: [f32(n, 5)], FIRST),
]

SLICED = [
    row("slice_start", SLICE, lambda a: a[2:], [f32(7)]),
    row("slice_beyond_end", SLICE, lambda a: a[:, 1:100], [f32(3, 5)]),
    row("slice_negative", SLICE, lambda a: a[:, -4:-1], [f32(3, 7)]),
    row("slice_step_3", SLICE, lambda a: a[:, :, 1::3], [f32(2, 3, 11)]),
    row("slice_rank5", SLICE, lambda a: a[:, :, 1:3], [f32(2, 1, 4, 2, 5)]),
    row("slice_bool", SLICE, lambda a: a[:, 1:6], [flag(3, 7)]),
    row("slice_int64", SLICE, lambda a: a[1:2], [i64(3, 7)]),
    row("slice_f16", SLICE, lambda a: a[1:], [f16(3, 7)]),
    growing("slice_dynamic_beside", SLICE, lambda a: a[:, 1:4:2], lambda n: [f32(n, 5)], FIRST),
    growing(
        "slice_dynamic_start", SLICE, lambda a, b: b[9 - a.shape[0] :], lambda n: [f32(n, 1), f32(9, 3)], FIRST, None
    ),
    row(
        "slice_dynamic_tail",
        SLICE,
        lambda a: a[-2:],
        *([f32(n, 3)] for n in (5, 3, 9)),
        dynamic=({0: Dim("three", min=3, max=9)},),
    ),
]

CASES: list[Case] = [*PERMUTED, *JOINED, *RANKED, *EXPANDED, *DIVIDED, *VIEWED, *SELECTED, *SLICED]
