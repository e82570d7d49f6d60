//! Kernels whose operands are quantised, as operators on what they stand for.

use super::flow::KernelArgs;
use super::{PlanValues, first_output};
use crate::error::Result;
use crate::ir::{DataType, ValueId};

const MUL: &str = "aten.mul.Tensor";

/// The tensors of a product with bytes: input, weight, scales. Zero points are not supported: ExecuTorch's kernels ignore them.
fn operands(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<[ValueId; 3]> {
    let zero_points = values.argument_at(args, 3)?;
    if values.builder.tensor_at(zero_points).is_some() {
        return Err(values.error("weight_zero_points", "is a tensor, supported: None"));
    }
    Ok([values.tensor_in(args, 0)?, values.tensor_in(args, 1)?, values.tensor_in(args, 2)?])
}

fn dims_of(values: &PlanValues<'_>, tensor: ValueId) -> Vec<u32> {
    values.builder.tensor_at(tensor).map(|tensor| tensor.dims.clone()).unwrap_or_default()
}

/// `mixed_mm(input, weight, weight_scales, weight_zero_points)`: rows of the weight have a scale each, which multiplies columns of the input.
pub(super) fn mixed_mm(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let [input, weight, scales] = operands(values, args)?;
    let dims = dims_of(values, input);
    let scaled = values.builder.compute(MUL, &[input, scales], DataType::Float32, &dims)?;
    let weight = values.converted(weight, DataType::Float32)?;
    values.call("aten.mm.default", args, &[scaled, weight]).map(|_| ())
}

/// `mixed_linear(input, weight, weight_scales, weight_zero_points, dtype)`: a row of the weight has a scale, or one for each group of its
/// elements.
pub(super) fn mixed_linear(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let [input, weight, scales] = operands(values, args)?;
    let (weight_dims, scale_dims) = (dims_of(values, weight), dims_of(values, scales));
    let none = values.builder.null()?;
    let (&[n, k], groups) = (weight_dims.as_slice(), scale_dims.get(1).copied().unwrap_or(1)) else {
        return Err(values.error("weight", format!("has sizes {weight_dims:?}, expected two")));
    };
    if scale_dims.len() == 1 {
        return values.call("et_vk.linear_q8csw.default", args, &[input, weight, scales, none]).map(|_| ());
    }
    if groups == 0 || !k.is_multiple_of(groups) {
        return Err(values.error("weight_scales", format!("has {groups} groups, which do not divide {k} columns")));
    }
    let real = values.converted(weight, DataType::Float32)?;
    let grouped = [n, groups, k / groups];
    let real = values.reshaped(real, &grouped)?;
    let scales = values.reshaped(scales, &[n, groups, 1])?;
    let real = values.builder.compute(MUL, &[real, scales], DataType::Float32, &grouped)?;
    let real = values.reshaped(real, &[n, k])?;
    values.call("aten.linear.default", args, &[input, real, none]).map(|_| ())
}

/// `add(a, a_scale, a_zero_point, a_quant_min, a_quant_max, b, …, out_scale, …)` of quantised tensors.
pub(super) fn add(values: &mut PlanValues<'_>, args: &KernelArgs<'_>) -> Result<()> {
    let out = first_output(values, args)?;
    let (dtype, dims) = values.tensor_type(out)?;
    let (none, one) = (values.builder.null()?, values.builder.int(1)?);
    let mut real = Vec::new();
    for first in [0, 5] {
        let mut inputs = (first..first + 5).map(|index| values.argument_at(args, index)).collect::<Result<Vec<_>>>()?;
        inputs.extend([none, none]);
        let own = dims_of(values, inputs[0]);
        let operator = "quantized_decomposed.dequantize_per_tensor.default";
        real.push(values.builder.compute(operator, &inputs, DataType::Float32, &own)?);
    }
    let sum = values.builder.compute("aten.add.Tensor", &[real[0], real[1], one], DataType::Float32, dims)?;
    let mut inputs = vec![sum];
    for index in 10..14 {
        inputs.push(values.argument_at(args, index)?);
    }
    inputs.push(none);
    let sum = values.builder.compute("quantized_decomposed.quantize_per_tensor.default", &inputs, dtype, dims)?;
    values.assign(out, sum)
}
