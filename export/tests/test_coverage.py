"""Every operator that the delegate can be given has enough cases, and some whose lengths live."""

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch

from pteron_export.case import f32, lowered
from pteron_export.cases import ALL
from pteron_export.cases.function import fn
from pteron_export.fixture import write_case

MANIFEST = Path(__file__).resolve().parents[2] / "fixtures/ops/manifest.json"

ENOUGH = 5
# Fewer shapes than these could pass by luck.
LIVES = 3

COMPARISONS = [f"aten.{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")]

# The exporter writes this one for a single row only.
ONE_ROW = ["et_vk.q8ta_linear_gemv.default"]

# All of these can have a live length.
OPERATORS = """
    aten.permute_copy.default aten.cat.default aten.unsqueeze_copy.default aten.squeeze_copy.dims
    aten.expand_copy.default aten.split_with_sizes_copy.default aten.repeat.default aten.flip.default
    aten.index_select.default aten.gather.default aten.index.Tensor aten.alias_copy.default aten.view_copy.default
    aten.select_copy.int aten.slice_copy.Tensor aten.clone.default dim_order_ops._clone_dim_order.default
    aten.constant_pad_nd.default

    aten.full.default aten.full_like.default aten.zeros.default aten.zeros_like.default aten.ones.default
    aten.ones_like.default aten.scalar_tensor.default aten.arange.start_step

    aten.add.Tensor aten.sub.Tensor aten.mul.Tensor aten.div.Tensor aten.div.Tensor_mode aten.pow.Tensor_Tensor
    aten.pow.Tensor_Scalar aten.minimum.default aten.logical_and.default aten.logical_or.default
    aten.logical_not.default aten.bitwise_and.Tensor aten.bitwise_or.Tensor aten.bitwise_not.default aten.where.self

    aten.gelu.default aten.relu.default aten.leaky_relu.default aten.hardtanh.default aten.hardswish.default
    aten.hardshrink.default aten.clamp.default aten.tanh.default aten.exp.default aten.sqrt.default
    aten.rsqrt.default aten.sin.default aten.cos.default aten.neg.default aten.abs.default aten.round.default
    aten.sigmoid.default aten.log10.default

    aten._softmax.default aten._log_softmax.default aten.sum.dim_IntList aten.mean.dim aten.amax.default
    aten.amin.default aten.argmax.default aten.argmin.default

    aten.native_layer_norm.default aten.mm.default aten.bmm.default aten.addmm.default et_vk.linear_qcs4w.default
    et_vk.sdpa.default et_vk.apply_rotary_emb_hf.default et_vk.apply_rotary_emb_interleaved.default
    aten._to_copy.default dim_order_ops._to_dim_order_copy.default
    aten.convolution.default et_vk.conv_with_clamp.default aten.max_pool2d_with_indices.default aten.avg_pool2d.default
    aten._native_batch_norm_legit_no_training.default aten.native_group_norm.default
    quantized_decomposed.quantize_per_tensor.default quantized_decomposed.dequantize_per_tensor.default

    aten.hardsigmoid.default aten.relu6.default aten.tan.default aten.log1p.default aten.elu.default aten.var.dim
    aten.select.int aten.slice.Tensor aten.repeat_interleave.self_int aten.unfold_copy.default
    aten.pixel_shuffle.default
    aten.upsample_nearest2d.vec aten.upsample_bilinear2d.vec aten.grid_sampler_2d.default et_vk.grid_priors.default

    quantized_decomposed.quantize_per_channel.default quantized_decomposed.dequantize_per_channel.default
    quantized_decomposed.quantize_per_token.default quantized_decomposed.dequantize_per_token.default
    quantized_decomposed.quantize_per_tensor.tensor quantized_decomposed.dequantize_per_tensor.tensor
    quantized_decomposed.choose_qparams.tensor quantized_decomposed.choose_qparams_per_token_asymmetric.default
    torchao.quantize_affine.default torchao.dequantize_affine.default

    et_vk.q8ta_conv2d.default et_vk.q8ta_conv2d_pw.default et_vk.q8ta_conv2d_dw.default
    et_vk.q8ta_conv2d_transposed.default
    et_vk.q8ta_linear.default et_vk.linear_q8ta_q8csw.default aten._weight_int8pack_mm.default
    et_vk.q8ta_add.default et_vk.q8ta_relu.default et_vk.q8ta_pixel_shuffle.default

    et_vk.adamw_step.default et_vk.fused_ce.default et_vk.linear_dW.default et_vk.linear_q4gsw_backward.default
    et_vk.q4gsw_requant.default
""".split()


def shapes(case: dict[str, Any]) -> set[str]:
    """The different shapes that a case is called with."""
    return {json.dumps([entry["shape"] for entry in call["inputs"]]) for call in case["calls"]}


class Operators(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cases = json.loads(MANIFEST.read_text())

    def about(self, operator: str) -> list[dict[str, Any]]:
        """Cases made for this operator, not those that happen to have it as well."""
        return [case for case in self.cases if case["op"] == operator]

    def test_each_has_enough_cases(self) -> None:
        for operator in [*OPERATORS, *COMPARISONS, *ONE_ROW]:
            with self.subTest(operator):
                self.assertGreaterEqual(len(self.about(operator)), ENOUGH)

    def test_each_has_one_with_live_lengths(self) -> None:
        for operator in [*OPERATORS, *COMPARISONS]:
            with self.subTest(operator):
                self.assertTrue(any(len(shapes(case)) >= LIVES for case in self.about(operator)))

    def test_each_is_really_in_the_delegate(self) -> None:
        for case in self.cases:
            if case["op"] in {*OPERATORS, *COMPARISONS, *ONE_ROW}:
                with self.subTest(case["name"]):
                    self.assertIn(case["op"], case["vk_ops"])
                    self.assertEqual(case["portable_ops"], [])

    def test_every_operator_of_a_row_is_counted(self) -> None:
        rows = {case.op for case in ALL if case.delegated}
        self.assertEqual(rows, {*OPERATORS, *COMPARISONS, *ONE_ROW})


class Delegated(unittest.TestCase):
    """A row that names an operator is not written unless the program is about it."""

    def refuse(self, op: str, function: Any, message: str) -> None:
        row = lowered("refused", op, fn(function), [f32(3, 5)])
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ValueError, message):
            write_case(Path(folder), row)

    def test_rejects_operators_outside_the_delegate(self) -> None:
        self.refuse("aten.relu.default", lambda a: torch.relu(a).cumsum(0), "outside the delegate: aten::cumsum")

    def test_refuses_another_operator(self) -> None:
        self.refuse("aten.clone.default", lambda a: torch.relu(a).clone(), "only aten.relu.default")


if __name__ == "__main__":
    unittest.main()
