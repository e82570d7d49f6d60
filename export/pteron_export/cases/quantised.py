"""Layers with 4-bit weights, made the way the Llama exporter makes them."""

from collections.abc import Callable

import torch
from executorch.examples.models.llama.source_transformation.quantize import EmbeddingQuantHandler
from torch import Tensor, nn
from torch.export import Dim
from torchao.quantization.granularity import PerGroup
from torchao.quantization.quant_api import (
    Int8DynamicActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.utils import unwrap_tensor_subclass

from ..case import Case, case, exactly, f32, fill_parameters, ints
from .function import fn

LENGTH = Dim("length", min=1, max=16)
GROUP = 32

WEIGHT_ONLY = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(GROUP))
DYNAMIC = Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(GROUP))


def linear(inputs: int, outputs: int, config: object, bias: bool = False) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module = nn.Sequential(nn.Linear(inputs, outputs, bias=bias))
        quantize_(fill_parameters(module, "q4"), config)
        return unwrap_tensor_subclass(module)

    return make


def embedding(rows: int, width: int) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        module = nn.Sequential(nn.Embedding(rows, width))
        fill_parameters(module, "embedding_q4")
        return EmbeddingQuantHandler(module, bitwidth=4, group_size=GROUP, packed=True).quantized_model()

    return make


def there_and_back(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """int8 as an output and as an input; of a direct round trip the exporter would leave nothing."""
    ops = torch.ops.quantized_decomposed
    q = ops.quantize_per_tensor(x, 1 / 32, 3, -128, 127, torch.int8)
    return q, ops.dequantize_per_tensor(y, 1 / 32, 3, -128, 127, torch.int8)


CASES: list[Case] = [
    case("quantize_int8", "quantize_per_tensor", fn(there_and_back), [f32(3, 8), ints(torch.int8, 3, 8, below=127)]),
    case("linear_q4", "linear_q4gsw", linear(64, 24, WEIGHT_ONLY), [f32(1, 3, 64)]),
    case("linear_q4_bias", "linear_q4gsw", linear(32, 12, WEIGHT_ONLY, bias=True), [f32(5, 32)]),
    case(
        "linear_q4_dynamic",
        "linear_q4gsw",
        linear(96, 16, WEIGHT_ONLY),
        [f32(1, 16, 96)],
        [f32(1, 1, 96)],
        [f32(1, 6, 96)],
        dynamic=({1: LENGTH},),
        vulkan={"require_dynamic_shapes": True},
    ),
    case(
        "linear_q4_fp16",
        "linear_q4gsw",
        linear(32, 16, WEIGHT_ONLY),
        [f32(3, 32)],
        vulkan={"force_fp16": True},
        atol=2e-2,
        rtol=5e-3,
    ),
    case(
        "linear_8da4w",
        "linear_dq8ca_q4gsw",
        linear(64, 16, DYNAMIC),
        [f32(1, 16, 64)],
        [f32(1, 1, 64)],
        [f32(1, 5, 64)],
        dynamic=({1: LENGTH},),
        # One activation may round the other way: a step of its scale times one weight.
        atol=3e-2,
        rtol=1e-3,
    ),
    case(
        "embedding_q4",
        "embedding_q4gsw",
        embedding(16, 64),
        [exactly(torch.int64, [1, 4], 3, 0, 15, 9)],
        [exactly(torch.int64, [1, 1], 7)],
        dynamic=({1: LENGTH},),
    ),
]
