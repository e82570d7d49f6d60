"""Matrix products, 4-bit weights with per-channel scales, and layer normalisation with all of its outputs."""

from collections.abc import Callable, Sequence

import torch
from executorch.backends.vulkan.quantizer.vulkan_quantizer import VulkanQuantizer, get_symmetric_quantization_config
from torch import Tensor, nn
from torch.export import Dim
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from ..case import Arg, Case, exactly, f16, f32, fill_parameters, lowered, random_tensor
from .function import fn
from .patterns import ARITHMETIC, HALF, INF, LENGTH, NAN, TRANSCENDENTAL, live

MM, BMM, ADDMM = "aten.mm.default", "aten.bmm.default", "aten.addmm.default"
QCS4W, LAYER_NORM = "et_vk.linear_qcs4w.default", "aten.native_layer_norm.default"

OTHER = Dim("other", min=1, max=8)
FIRST, SECOND, LAST = {0: LENGTH}, {1: LENGTH}, {2: LENGTH}
# Lengths of two dims at once: both bounds, both at 1, and neither.
BOTH = [(5, 3), (9, 8), (1, 1)]


class ByConstant(nn.Module):
    """The second matrix is part of the program."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inner, outer))
        fill_parameters(self, "by_constant")

    def forward(self, a: Tensor) -> Tensor:
        return a @ self.weight


class FourBits(nn.Module):
    """A linear layer as the quantizer leaves it: whole numbers, a scale for each output, and no zero points."""

    def __init__(self, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__()
        self.register_buffer(
            "weight", random_tensor([outputs, inputs], torch.int8, f"qcs4w/{inputs}/{outputs}", below=8)
        )
        self.register_buffer("scales", random_tensor([outputs], torch.float32, "qcs4w/scales").abs() / 16 + 1 / 64)
        self.register_buffer("zeros", torch.zeros(outputs, dtype=torch.int64))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        fill_parameters(self, "qcs4w")

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -8, 7, torch.int8)
        return functional.linear(x, weight, self.bias)


class Exported(nn.Module):
    """A graph that was exported once: it has no training mode, and refuses to be asked to leave it."""

    def __init__(self, exported: nn.Module) -> None:
        super().__init__()
        self.exported = exported

    def train(self, mode: bool = True) -> "Exported":
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.exported(x)


def quantizers_own() -> nn.Module:
    """A layer as the backend's quantizer converts it."""
    linear = fill_parameters(nn.Sequential(nn.Linear(32, 12, bias=False)), "qcs4w_quantizer")
    example = (torch.zeros(3, 32),)
    quantizer = VulkanQuantizer().set_global(get_symmetric_quantization_config(weight_bits=4))
    prepared = prepare_pt2e(torch.export.export(linear, example).module(), quantizer)
    prepared(*example)
    return Exported(convert_pt2e(prepared))


def products(name: str, op: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, op, fn(function), *calls, **{**ARITHMETIC, **options})


PRODUCTS = [
    products("mm_odd", MM, torch.mm, [f32(5, 7), f32(7, 3)]),
    products("mm_row", MM, torch.mm, [f32(1, 67), f32(67, 5)]),
    products("mm_column", MM, torch.mm, [f32(35, 9), f32(9, 1)]),
    products("mm_outer", MM, torch.mm, [f32(5, 1), f32(1, 7)]),
    # Past the edge of every usual tile.
    products("mm_tiles", MM, torch.mm, [f32(67, 35), f32(35, 69)]),
    products("mm_special", MM, torch.mm, [exactly(torch.float32, [2, 3], 1, INF, 0, NAN, 1, 2), f32(3, 2)]),
    products("mm_f16", MM, torch.mm, [f16(5, 7), f16(7, 3)], atol=1e-2, rtol=2e-3),
    lowered("mm_constant", MM, lambda: ByConstant(16, 12), [f32(5, 16)], **ARITHMETIC),
    products("mm_dynamic", MM, torch.mm, *live(lambda n: [f32(n, 7), f32(7, 3)]), dynamic=(FIRST, None)),
    products("mm_dynamic_inner", MM, torch.mm, *live(lambda n: [f32(3, n), f32(n, 5)]), dynamic=(SECOND, FIRST)),
    products("mm_dynamic_both", MM, torch.mm, *([f32(n, 4), f32(4, m)] for n, m in BOTH), dynamic=(FIRST, {1: OTHER})),
    products("bmm_odd", BMM, torch.bmm, [f32(3, 5, 7), f32(3, 7, 2)]),
    products("bmm_rows", BMM, torch.bmm, [f32(2, 1, 35), f32(2, 35, 9)]),
    products("bmm_tiles", BMM, torch.bmm, [f32(2, 35, 20), f32(2, 20, 67)]),
    products("bmm_f16", BMM, torch.bmm, [f16(2, 3, 5), f16(2, 5, 7)], atol=1e-2, rtol=2e-3),
    products("bmm_of_rank4", BMM, torch.matmul, [f32(2, 3, 5, 4), f32(2, 3, 4, 7)]),
    products(
        "bmm_dynamic_batch", BMM, torch.bmm, *live(lambda n: [f32(n, 3, 5), f32(n, 5, 2)]), dynamic=(FIRST, FIRST)
    ),
    products(
        "bmm_dynamic_scores", BMM, torch.bmm, *live(lambda n: [f32(2, n, 5), f32(2, 5, n)]), dynamic=(SECOND, LAST)
    ),
    products(
        "bmm_dynamic_inner", BMM, torch.bmm, *live(lambda n: [f32(2, 3, n), f32(2, n, 5)]), dynamic=(LAST, SECOND)
    ),
    products("addmm_row", ADDMM, torch.addmm, [f32(3), f32(5, 7), f32(7, 3)]),
    products("addmm_matrix", ADDMM, torch.addmm, [f32(5, 3), f32(5, 7), f32(7, 3)]),
    products(
        "addmm_factors",
        ADDMM,
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        [f32(5, 3), f32(5, 7), f32(7, 3)],
    ),
    products(
        "addmm_column",
        ADDMM,
        lambda c, a, b: torch.addmm(c, a, b, beta=-1, alpha=0.25),
        [f32(5, 1), f32(5, 7), f32(7, 3)],
    ),
    products("addmm_rank0", ADDMM, torch.addmm, [f32(), f32(5, 7), f32(7, 3)]),
    products("addmm_tiles", ADDMM, torch.addmm, [f32(69), f32(35, 20), f32(20, 69)]),
    # Then what is added does not count, not even where it is no number.
    products(
        "addmm_beta_0",
        ADDMM,
        lambda c, a, b: torch.addmm(c, a, b, beta=0),
        [exactly(torch.float32, [3], NAN, INF, 1), f32(5, 7), f32(7, 3)],
    ),
    products(
        "addmm_dynamic",
        ADDMM,
        torch.addmm,
        *live(lambda n: [f32(3), f32(n, 7), f32(7, 3)]),
        dynamic=(None, FIRST, None),
    ),
]

FOUR_BITS = [
    lowered("qcs4w_rank2", QCS4W, lambda: FourBits(32, 16), [f32(3, 32)], **TRANSCENDENTAL),
    lowered("qcs4w_odd_outputs", QCS4W, lambda: FourBits(12, 5), [f32(3, 12)], **TRANSCENDENTAL),
    # Not a multiple of four inputs.
    lowered("qcs4w_few_inputs", QCS4W, lambda: FourBits(6, 8), [f32(3, 6)], **TRANSCENDENTAL),
    lowered("qcs4w_row", QCS4W, lambda: FourBits(132, 20), [f32(1, 132)], **TRANSCENDENTAL),
    lowered("qcs4w_vector", QCS4W, lambda: FourBits(16, 8), [f32(16)], **TRANSCENDENTAL),
    lowered("qcs4w_bias", QCS4W, lambda: FourBits(16, 8, bias=True), [f32(3, 16)], **TRANSCENDENTAL),
    lowered("qcs4w_tiles", QCS4W, lambda: FourBits(68, 67), [f32(35, 68)], **TRANSCENDENTAL),
    lowered("qcs4w_quantizer", QCS4W, quantizers_own, [f32(3, 32)], **TRANSCENDENTAL),
    lowered(
        "qcs4w_dynamic",
        QCS4W,
        lambda: FourBits(16, 12),
        *live(lambda n: [f32(n, 16)]),
        dynamic=(FIRST,),
        **TRANSCENDENTAL,
    ),
    lowered(
        "qcs4w_dynamic_rank3",
        QCS4W,
        lambda: FourBits(16, 12),
        *live(lambda n: [f32(2, n, 16)]),
        dynamic=(SECOND,),
        **TRANSCENDENTAL,
    ),
]


def normed(name: str, function: Callable[..., object], *calls: Sequence[Arg], **options: object) -> Case:
    return lowered(name, LAYER_NORM, fn(function), *calls, **{**TRANSCENDENTAL, **options})


def all_three(*shape: int) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    """The normalised tensor, the mean and one by the deviation."""

    def function(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        return torch.native_layer_norm(x, shape, weight, bias, 1e-5)

    return function


# Nothing but the epsilon is left to divide by, in the first row of the two.
CONSTANT_ROW = exactly(torch.float32, [2, 5], 2, 2, 2, 2, 2, 1, -1, 1, -1, 3)

NORMS = [
    normed("layer_norm_plain", lambda x: functional.layer_norm(x, (7,)), [f32(3, 5, 7)]),
    normed("layer_norm_all_outputs", all_three(7), [f32(3, 5, 7), f32(7), f32(7)]),
    normed("layer_norm_plain_outputs", all_three(7), [f32(5, 7)]),
    normed("layer_norm_weight_only", lambda x, w: functional.layer_norm(x, (7,), w), [f32(5, 7), f32(7)]),
    normed("layer_norm_bias_only", lambda x, b: functional.layer_norm(x, (7,), None, b), [f32(5, 7), f32(7)]),
    normed("layer_norm_two_dims", all_three(5, 7), [f32(3, 5, 7), f32(5, 7), f32(5, 7)]),
    normed("layer_norm_three_dims", all_three(2, 3, 5), [f32(2, 2, 3, 5)]),
    normed("layer_norm_everything", all_three(5, 7), [f32(5, 7)]),
    normed("layer_norm_constant_row", all_three(5), [CONSTANT_ROW]),
    normed("layer_norm_long_row", all_three(517), [f32(2, 517), f32(517), f32(517)]),
    normed("layer_norm_f16", lambda x: functional.layer_norm(x, (7,)), [f16(3, 7)], **HALF),
    normed(
        "layer_norm_dynamic",
        all_three(7),
        *live(lambda n: [f32(2, n, 7), f32(7), f32(7)]),
        dynamic=(SECOND, None, None),
    ),
]

CASES: list[Case] = [*PRODUCTS, *FOUR_BITS, *NORMS]
