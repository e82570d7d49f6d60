"""The layers of a Llama in float32, and a few neighbours, each as a program of its own."""

from collections.abc import Callable

import torch
from executorch.examples.models.llama.norm import RMSNorm
from executorch.examples.models.llama.rope import RotaryEmbedding
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401 (registers torch.ops.llama)
from torch import Tensor, nn
from torch.export import Dim

from ..case import Arg, Case, Method, case, exactly, f32, fill_parameters, position
from .function import fn

Make = Callable[[], nn.Module]
LENGTH = Dim("length", min=1, max=16)
CACHE = 16


def linear(inputs: int, outputs: int, bias: bool = False) -> Make:
    return lambda: fill_parameters(nn.Linear(inputs, outputs, bias=bias), "linear")


def embedding(rows: int, width: int) -> Make:
    return lambda: fill_parameters(nn.Embedding(rows, width), "embedding")


def rms_norm(width: int) -> Make:
    return lambda: fill_parameters(RMSNorm(width, eps=1e-5), "rms_norm", scale=1.0)


def layer_norm(width: int) -> Make:
    return lambda: fill_parameters(nn.LayerNorm(width), "layer_norm", scale=1.0)


class UpdateCache(nn.Module):
    """Writes rows into a cache that is an input: the program must hand it back."""

    def forward(self, value: Tensor, cache: Tensor, input_pos: Tensor) -> Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start < CACHE)
        return torch.ops.llama.update_cache(value, cache, start)


class Attention(nn.Module):
    """Attention over caches that are state of the module, as the Llama exporter writes it."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(1, CACHE, heads, width))
        self.register_buffer("v_cache", torch.zeros(1, CACHE, heads, width))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, input_pos: Tensor) -> Tensor:
        start = input_pos[0].item()
        torch._check(start >= 0)
        torch._check(start < CACHE)
        torch.ops.llama.update_cache(k, self.k_cache, start)
        torch.ops.llama.update_cache(v, self.v_cache, start)
        return torch.ops.llama.custom_sdpa(q, self.k_cache, self.v_cache, start, None, 0.0, True)


def attention_step(length: int, start: int, heads: int, kv_heads: int, width: int) -> list[Arg]:
    kv = f32(1, length, kv_heads, width)
    return [f32(1, length, heads, width), kv, kv, position(start)]


def attention(name: str, heads: int, kv_heads: int, width: int, steps: list[int]) -> Case:
    """Calls that follow one another in one cache; the first one is the longest."""
    calls, start = [], 0
    for length in steps:
        calls.append(attention_step(length, start, heads, kv_heads, width))
        start += length
    dynamic = ({1: LENGTH}, {1: LENGTH}, {1: LENGTH}, None)
    return Case(
        name,
        "sdpa_with_kv_cache",
        {"forward": Method(lambda: Attention(kv_heads, width), calls, dynamic)},
        vulkan={"require_dynamic_shapes": True},
        rtol=1e-3,
    )


CASES: list[Case] = [
    case("linear_bias", "linear", linear(12, 7, bias=True), [f32(3, 12)]),
    case("linear_no_bias", "linear", linear(20, 9), [f32(1, 5, 20)]),
    case(
        "linear_dynamic",
        "linear",
        linear(16, 24),
        [f32(1, 16, 16)],
        [f32(1, 1, 16)],
        [f32(1, 5, 16)],
        dynamic=({1: LENGTH},),
    ),
    case("linear_fp16", "linear", linear(16, 8), [f32(3, 16)], vulkan={"force_fp16": True}, atol=2e-2, rtol=5e-3),
    case("matmul", "mm", fn(torch.matmul), [f32(5, 7), f32(7, 3)]),
    case("bmm", "bmm", fn(torch.matmul), [f32(3, 5, 7), f32(3, 7, 2)]),
    case("embedding", "embedding", embedding(11, 8), [exactly(torch.int64, [1, 5], 3, 0, 10, 3, 7)]).exact(),
    case(
        "embedding_dynamic",
        "embedding",
        embedding(16, 12),
        [exactly(torch.int64, [1, 4], 3, 0, 10, 15)],
        [exactly(torch.int64, [1, 1], 7)],
        [exactly(torch.int64, [1, 6], 1, 2, 3, 4, 5, 6)],
        dynamic=({1: LENGTH},),
    ).exact(),
    case("rms_norm", "rms_norm", rms_norm(32), [f32(1, 5, 32)]),
    case(
        "rms_norm_dynamic",
        "rms_norm",
        rms_norm(20),
        [f32(1, 16, 20)],
        [f32(1, 1, 20)],
        [f32(1, 9, 20)],
        dynamic=({1: LENGTH},),
    ),
    case("layer_norm", "layer_norm", layer_norm(21), [f32(3, 21)]),
    case("softmax_last", "softmax", fn(lambda a: torch.softmax(a, dim=-1)), [f32(3, 37)]),
    case("mean_keepdim", "mean.dim", fn(lambda a: a.mean(dim=-1, keepdim=True)), [f32(3, 5, 7)]),
    case("sum_dim", "sum.dim_IntList", fn(lambda a: a.sum(dim=1)), [f32(3, 5)]),
    case(
        "rope",
        "apply_rotary_emb",
        RotaryEmbedding,
        [f32(1, 5, 4, 8), f32(1, 5, 2, 8), f32(5, 4), f32(5, 4)],
    ),
    case(
        "rope_dynamic",
        "apply_rotary_emb",
        RotaryEmbedding,
        [f32(1, 16, 4, 8), f32(1, 16, 2, 8), f32(16, 4), f32(16, 4)],
        [f32(1, 1, 4, 8), f32(1, 1, 2, 8), f32(1, 4), f32(1, 4)],
        [f32(1, 11, 4, 8), f32(1, 11, 2, 8), f32(11, 4), f32(11, 4)],
        dynamic=({1: LENGTH}, {1: LENGTH}, {0: LENGTH}, {0: LENGTH}),
    ),
    case(
        "update_cache_input",
        "update_cache",
        UpdateCache,
        [f32(1, 2, 2, 4), f32(1, CACHE, 2, 4), position(3)],
        [f32(1, 2, 2, 4), f32(1, CACHE, 2, 4), position(14)],
        # The operator's own result is an empty tensor of shape [1]; the cache comes before it.
        unchecked=[1],
    ).exact(),
    attention("sdpa_gqa", heads=4, kv_heads=2, width=8, steps=[7, 1, 1, 5, 2]),
    attention("sdpa_odd_width", heads=3, kv_heads=1, width=6, steps=[3, 1, 12]),
]
