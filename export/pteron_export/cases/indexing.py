"""Operators that take elements by number, turn them round, repeat them, or copy them as they are."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from ..case import Arg, Case, exactly, f32, flag, lowered
from .function import fn
from .patterns import EXACT, INF, LENGTH, SPECIAL, Options, i64, indices, listed, live

FLIP, REPEAT = "aten.flip.default", "aten.repeat.default"
INDEX_SELECT, GATHER, INDEX = "aten.index_select.default", "aten.gather.default", "aten.index.Tensor"
PAD = "aten.constant_pad_nd.default"

FIRST, SECOND = {0: LENGTH}, {1: LENGTH}


def row(name: str, op: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, op, fn(function), *calls, **EXACT, **options)


def growing(
    name: str, op: str, function: Callable[..., object], make: Callable[[int], Sequence[Arg]], *dims: object
) -> Case:
    return row(name, op, function, *live(make), dynamic=dims)


TURNED = [
    row("flip_vector", FLIP, lambda a: a.flip(0), [f32(67)]),
    row("flip_both", FLIP, lambda a: a.flip(0, 1), [f32(5, 7)]),
    row("flip_negative", FLIP, lambda a: a.flip(-2), [f32(3, 5, 7)]),
    row("flip_rank4", FLIP, lambda a: a.flip((0, 3)), [f32(2, 3, 1, 5)]),
    row("flip_bool", FLIP, lambda a: a.flip(1), [flag(3, 7)]),
    row("flip_int64", FLIP, lambda a: a.flip(1), [i64(3, 7)]),
    growing("flip_dynamic", FLIP, lambda a: a.flip(0), lambda n: [f32(n, 3)], FIRST),
    growing("flip_dynamic_beside", FLIP, lambda a: a.flip(2), lambda n: [f32(2, n, 3)], SECOND),
]

REPEATED = [
    row("repeat_rank0", REPEAT, lambda a: a.repeat(5), [f32()]),
    row("repeat_last", REPEAT, lambda a: a.repeat(1, 3), [f32(5, 7)]),
    row("repeat_more_dims", REPEAT, lambda a: a.repeat(2, 1, 2, 3), [f32(3, 5)]),
    row("repeat_bool", REPEAT, lambda a: a.repeat(2, 3), [flag(3, 3)]),
    row("repeat_int64", REPEAT, lambda a: a.repeat(3), [i64(7)]),
    growing("repeat_dynamic", REPEAT, lambda a: a.repeat(2, 3), lambda n: [f32(n, 3)], FIRST),
    growing(
        "repeat_dynamic_times",
        REPEAT,
        lambda a, b: b.repeat(a.shape[0], 1),
        lambda n: [f32(n, 1), f32(2, 3)],
        FIRST,
        None,
    ),
]

NUMBERED = [
    row("index_select_first", INDEX_SELECT, lambda a, i: a.index_select(0, i), [f32(5, 7), indices(5, 8)]),
    row("index_select_last", INDEX_SELECT, lambda a, i: a.index_select(-1, i), [f32(2, 3, 7), indices(7, 5)]),
    row("index_select_rank4", INDEX_SELECT, lambda a, i: a.index_select(2, i), [f32(2, 1, 5, 3), indices(5, 4)]),
    row("index_select_vector", INDEX_SELECT, lambda a, i: a.index_select(0, i), [f32(67), indices(67, 9)]),
    row(
        "index_select_int32",
        INDEX_SELECT,
        lambda a, i: a.index_select(1, i),
        [i64(3, 5), indices(5, 3, dtype=torch.int32)],
    ),
    row("index_select_bool", INDEX_SELECT, lambda a, i: a.index_select(1, i), [flag(3, 5), indices(5, 7)]),
    growing(
        "index_select_dynamic",
        INDEX_SELECT,
        lambda a, i: a.index_select(0, i),
        lambda n: [f32(5, 3), indices(5, n)],
        None,
        FIRST,
    ),
    growing(
        "index_select_dynamic_beside",
        INDEX_SELECT,
        lambda a, i: a.index_select(1, i),
        lambda n: [f32(n, 5), indices(5, 3)],
        FIRST,
        None,
    ),
    # The length that is picked from lives, and the numbers stay below it.
    growing(
        "index_select_dynamic_source",
        INDEX_SELECT,
        lambda a, i: a.index_select(0, i),
        lambda n: [f32(n, 3), indices(n, 4)],
        FIRST,
        None,
    ),
    row("gather_last", GATHER, lambda a, i: a.gather(-1, i), [f32(3, 7), indices(7, 3, 4)]),
    row("gather_first", GATHER, lambda a, i: a.gather(0, i), [f32(5, 7), indices(5, 2, 7)]),
    # The numbers reach over a corner of the others only.
    row("gather_corner", GATHER, lambda a, i: a.gather(1, i), [f32(3, 5, 7), indices(5, 2, 6, 3)]),
    row("gather_rank5", GATHER, lambda a, i: a.gather(2, i), [f32(2, 1, 5, 2, 3), indices(5, 2, 1, 3, 2, 3)]),
    row("gather_bool", GATHER, lambda a, i: a.gather(1, i), [flag(3, 7), indices(7, 3, 5)]),
    row("gather_int64", GATHER, lambda a, i: a.gather(0, i), [i64(7), indices(7, 9)]),
    growing(
        "gather_dynamic", GATHER, lambda a, i: a.gather(1, i), lambda n: [f32(3, 5), indices(5, 3, n)], None, SECOND
    ),
    growing(
        "gather_dynamic_source",
        GATHER,
        lambda a, i: a.gather(0, i),
        lambda n: [f32(n, 3), indices(n, 4, 3)],
        FIRST,
        None,
    ),
    row("index_vector", INDEX, lambda a, i: a[i], [f32(67), indices(67, 9)]),
    row("index_negative", INDEX, lambda a, i: a[i], [f32(5), exactly(torch.int64, [4], -1, 0, -5, 4)]),
    row("index_rows", INDEX, lambda a, i: a[i], [f32(5, 7), indices(5, 8)]),
    row("index_second", INDEX, lambda a, i: a[:, i], [f32(2, 5, 3), indices(5, 7)]),
    row("index_last_rank4", INDEX, lambda a, i: a[..., i], [f32(2, 1, 3, 5), indices(5, 3)]),
    row("index_int64", INDEX, lambda a, i: a[i], [i64(5, 3), indices(5, 4)]),
    growing("index_dynamic", INDEX, lambda a, i: a[i], lambda n: [f32(5, 3), indices(5, n)], None, FIRST),
    growing("index_dynamic_beside", INDEX, lambda a, i: a[:, i], lambda n: [f32(n, 5), indices(5, 3)], FIRST, None),
]

PADDED = [
    row("pad_last", PAD, lambda a: functional.pad(a, (1, 2), value=0.5), [f32(3, 5)]),
    row("pad_two_dims", PAD, lambda a: functional.pad(a, (0, 1, 2, 0)), [f32(2, 3, 5)]),
    row("pad_rank4", PAD, lambda a: functional.pad(a, (1, 0, 2, 1, 0, 1), value=-1.0), [f32(1, 2, 3, 5)]),
    row("pad_crop", PAD, lambda a: functional.pad(a, (-1, 2, 1, -2)), [f32(5, 7)]),
    row("pad_infinite", PAD, lambda a: functional.pad(a, (1, 1), value=-INF), [listed(*SPECIAL)]),
    row("pad_int64", PAD, lambda a: functional.pad(a, (1, 2), value=3), [i64(3, 5)]),
    row("pad_bool", PAD, lambda a: functional.pad(a, (1, 2), value=True), [flag(3, 5)]),
    growing("pad_dynamic", PAD, lambda a: functional.pad(a, (0, 1, 2, 1)), lambda n: [f32(n, 3)], FIRST),
    row(
        "pad_dynamic_to_length",
        PAD,
        lambda a: functional.pad(a, (0, 0, 0, 10 - a.shape[0])),
        *live(lambda n: [f32(n, 3)]),
        dynamic=(FIRST,),
    ),
]


def copied(name: str, op: str, function: Callable[[Tensor], Tensor], options: Options) -> Iterator[Case]:
    """The same over an operator that changes nothing at all, and that ExecuTorch therefore removes."""
    keep = {"kept": [op], **options}
    yield row(f"{name}_rank0", op, function, [f32()], **keep)
    yield row(f"{name}_special", op, function, [listed(*SPECIAL)], **keep)
    yield row(f"{name}_rank5", op, function, [f32(2, 1, 3, 2, 5)], **keep)
    yield row(f"{name}_bool", op, function, [flag(3, 7)], **keep)
    yield row(f"{name}_int64", op, function, [i64(3, 7)], **keep)
    yield row(f"{name}_dynamic", op, function, *live(lambda n: [f32(2, n, 3)]), dynamic=(SECOND,), **keep)


CASES: list[Case] = [
    *TURNED,
    *REPEATED,
    *NUMBERED,
    *PADDED,
    *copied("clone", "aten.clone.default", torch.clone, {"edge": {"_skip_dim_order": True}}),
    *copied("clone_dim_order", "dim_order_ops._clone_dim_order.default", torch.clone, {}),
    *copied("alias_copy", "aten.alias_copy.default", torch.ops.aten.alias_copy.default, {}),
]
