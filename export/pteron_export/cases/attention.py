"""Attention without a cache, and the rotary embeddings beside Llama's own."""

from collections.abc import Callable, Sequence

import torch
from executorch.backends.vulkan import custom_ops_lib  # noqa: F401 (registers torch.ops.et_vk)
from executorch.backends.vulkan.patterns.rope_hf import HfRotaryEmbeddingPattern
from torch import Tensor, nn
from torch.export import Dim

from ..case import Arg, Case, exactly, f16, f32, lowered, position
from .function import fn
from .patterns import ARITHMETIC, INF, LENGTH, TRANSCENDENTAL, live

SDPA = "et_vk.sdpa.default"
HF, INTERLEAVED = "et_vk.apply_rotary_emb_hf.default", "et_vk.apply_rotary_emb_interleaved.default"

CONTEXT = Dim("context", min=1, max=12)
# Queries and keys: a prompt, a step, both bounds, and the shortest of all.
STEPS = [(5, 7), (9, 12), (1, 12), (1, 1)]


def sdpa(name: str, function: Callable[..., Tensor], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, SDPA, fn(function), *calls, **{**TRANSCENDENTAL, **options})


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.ops.et_vk.sdpa(q, k, v)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.ops.et_vk.sdpa(q, k, v, mask)


def heads(queries: int, keys: int, width: int = 4, *, batch: int = 1, count: int = 2) -> list[Arg]:
    kv = f32(batch, count, keys, width)
    return [f32(batch, count, queries, width), kv, kv]


def causal(length: int) -> Arg:
    """Nothing is added at or before a query's own position, minus infinity after it."""
    return exactly(
        torch.float32,
        [1, 1, length, length],
        *(0.0 if key <= query else -INF for query in range(length) for key in range(length)),
    )


ATTENTION = [
    sdpa("sdpa_plain", plain, heads(5, 7)),
    sdpa("sdpa_odd_heads", plain, heads(3, 5, 6, batch=2, count=3)),
    sdpa("sdpa_one_query", plain, heads(1, 67, 8)),
    sdpa("sdpa_one_key", plain, heads(5, 1)),
    sdpa("sdpa_tiles", plain, heads(35, 67, 12, count=1)),
    sdpa("sdpa_scale", lambda q, k, v: torch.ops.et_vk.sdpa(q, k, v, None, 0.25), heads(5, 7)),
    sdpa("sdpa_mask", masked, [*heads(5, 7), f32(1, 1, 5, 7)]),
    sdpa("sdpa_mask_of_heads", masked, [*heads(5, 7, batch=2), f32(2, 2, 5, 7)]),
    sdpa("sdpa_mask_matrix", masked, [*heads(5, 7), f32(5, 7)]),
    sdpa(
        "sdpa_mask_and_scale", lambda q, k, v, m: torch.ops.et_vk.sdpa(q, k, v, m, 0.5), [*heads(5, 7), f32(1, 1, 5, 7)]
    ),
    sdpa("sdpa_causal", masked, [*heads(5, 5), causal(5)]),
    sdpa("sdpa_rank3", plain, [f32(2, 5, 4), f32(2, 7, 4), f32(2, 7, 4)]),
    sdpa("sdpa_f16", plain, [f16(1, 2, 5, 4), f16(1, 2, 7, 4), f16(1, 2, 7, 4)], atol=5e-3, rtol=5e-3),
    sdpa("sdpa_dynamic", plain, *live(lambda n: heads(n, n)), dynamic=({2: LENGTH},) * 3),
    sdpa(
        "sdpa_dynamic_causal",
        masked,
        *live(lambda n: [*heads(n, n), causal(n)]),
        dynamic=({2: LENGTH}, {2: LENGTH}, {2: LENGTH}, {2: LENGTH, 3: LENGTH}),
    ),
    sdpa(
        "sdpa_dynamic_both",
        plain,
        *(heads(n, m) for n, m in STEPS),
        dynamic=({2: LENGTH}, {2: CONTEXT}, {2: CONTEXT}),
    ),
    sdpa(
        "sdpa_dynamic_both_mask",
        masked,
        *([*heads(n, m), f32(1, 1, n, m)] for n, m in STEPS),
        dynamic=({2: LENGTH}, {2: CONTEXT}, {2: CONTEXT}, {2: LENGTH, 3: CONTEXT}),
    ),
]


class FromPosition(nn.Module):
    """The pattern as a model has it: rows of a table, from a position that is an input."""

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, input_pos: Tensor) -> tuple[Tensor, Tensor]:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start <= cos.shape[0] - 9)
        length = q.shape[1]
        return HfRotaryEmbeddingPattern()(q, k, cos.narrow(0, start, length), sin.narrow(0, start, length))


def hf(start: int) -> Callable[[], nn.Module]:
    return fn(lambda q, k, cos, sin: torch.ops.et_vk.apply_rotary_emb_hf(q, k, cos, sin, start))


def rotated(
    length: int, *, rows: int | None = None, turned: int = 8, q: int = 4, k: int = 2, batch: int = 1
) -> list[Arg]:
    table = f32(rows or length, turned)
    return [f32(batch, length, q, 8), f32(batch, length, k, 8), table, table]


ROTATED = [
    lowered("rope_hf_call", HF, hf(0), rotated(5), **ARITHMETIC),
    lowered("rope_hf_start", HF, hf(3), rotated(5, rows=9), **ARITHMETIC),
    lowered("rope_hf_partial", HF, hf(0), rotated(5, turned=6), **ARITHMETIC),
    lowered("rope_hf_batch", HF, hf(1), rotated(3, rows=7, q=3, k=1, batch=2), **ARITHMETIC),
    lowered("rope_hf_pattern", HF, HfRotaryEmbeddingPattern, rotated(5), **ARITHMETIC),
    lowered("rope_hf_pattern_partial", HF, HfRotaryEmbeddingPattern, rotated(5, turned=4), **ARITHMETIC),
    lowered(
        "rope_hf_dynamic",
        HF,
        HfRotaryEmbeddingPattern,
        *live(rotated),
        dynamic=({1: LENGTH}, {1: LENGTH}, {0: LENGTH}, {0: LENGTH}),
        **ARITHMETIC,
    ),
    lowered(
        "rope_hf_position_dynamic",
        HF,
        FromPosition,
        *([*rotated(n, rows=20), position(at)] for n, at in [(5, 2), (9, 11), (1, 7)]),
        dynamic=({1: LENGTH}, {1: LENGTH}, None, None, None),
        **ARITHMETIC,
    ),
]


def interleaved(x: Tensor, freqs: Tensor) -> Tensor:
    return torch.ops.et_vk.apply_rotary_emb_interleaved(x, freqs)


PAIRS = [
    lowered("rope_pairs", INTERLEAVED, fn(interleaved), [f32(2, 5, 8), f32(5, 8)], **ARITHMETIC),
    lowered("rope_pairs_rank4", INTERLEAVED, fn(interleaved), [f32(2, 5, 8), f32(1, 5, 4, 2)], **ARITHMETIC),
    lowered("rope_pairs_one_pair", INTERLEAVED, fn(interleaved), [f32(3, 7, 2), f32(7, 2)], **ARITHMETIC),
    lowered("rope_pairs_odd_pairs", INTERLEAVED, fn(interleaved), [f32(1, 3, 10), f32(3, 10)], **ARITHMETIC),
    lowered(
        "rope_pairs_dynamic",
        INTERLEAVED,
        fn(interleaved),
        *live(lambda n: [f32(2, n, 6), f32(n, 6)]),
        dynamic=({1: LENGTH}, {0: LENGTH}),
        **ARITHMETIC,
    ),
    lowered(
        "rope_pairs_dynamic_rank4",
        INTERLEAVED,
        fn(interleaved),
        *live(lambda n: [f32(1, n, 4), f32(1, n, 2, 2)]),
        dynamic=({1: LENGTH}, {1: LENGTH}),
        **ARITHMETIC,
    ),
]

CASES: list[Case] = [*ATTENTION, *ROTATED, *PAIRS]
