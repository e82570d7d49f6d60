//! Casts between element types, quantisation and dequantisation. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, ALL, FLOATS, Formula, Host, ResultType, Row, ScalarArgs};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static KERNEL: KernelDef = elementwise::kernel("convert", 1, || elementwise::variants(&KERNEL, TABLE));

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[AS_BF16, AS_F16],
    kernels: &[&KERNEL],
    decode: |args| elementwise::decode(&KERNEL, TABLE, args),
};

/// The nearest numbers that 16-bit floats of either kind hold, still as 32-bit floats. Front ends call them; no file does.
pub(crate) const AS_BF16: &str = "pteron.as_bf16";
pub(crate) const AS_F16: &str = "pteron.as_f16";

/// The operators of the family.
const TABLE: &[Row] = &[
    cast("aten._to_copy.default", |args| {
        options(args)?;
        // All tensors are contiguous here.
        args.ignore("memory_format")?;
        Ok(ScalarArgs::default())
    }),
    cast("dim_order_ops._to_dim_order_copy.default", |args| {
        options(args)?;
        args.contiguous_order("dim_order")?;
        Ok(ScalarArgs::default())
    }),
    Row {
        dtypes: FLOATS,
        result: ResultType::Output,
        scalars: |args| {
            let scalars = quantisation(args)?;
            args.ignore("dtype")?;
            Ok(scalars)
        },
        float: Some(Formula::new("clamp(round(x * params.p.x) + params.p.y, X(params.p.z), X(params.p.w))", QUANTISE)),
        integer: None,
        ..cast("quantized_decomposed.quantize_per_tensor.default", ScalarArgs::none)
    },
    Row {
        dtypes: &[Elem::I8, Elem::U8, Elem::I32],
        result: ResultType::Float,
        scalars: |args| {
            let [inverse, zero, ..] = quantisation(args)?.values;
            args.ignore("dtype")?;
            args.none("out_dtype")?;
            Ok(ScalarArgs::of(&[inverse.recip(), zero]))
        },
        float: Some(Formula::new("(x - params.p.y) * params.p.x", Host::Unary(|x, p| (x - p[1]) * p[0]))),
        integer: None,
        ..cast("quantized_decomposed.dequantize_per_tensor.default", ScalarArgs::none)
    },
    narrowed(AS_BF16, Formula::new("as_brain_float(x)", Host::Unary(|x, _| half::bf16::from_f64(x).to_f64()))),
    narrowed(AS_F16, Formula::new("as_half(x)", Host::Unary(|x, _| half::f16::from_f64(x).to_f64()))),
];

const fn narrowed(name: &'static str, formula: Formula<f64>) -> Row {
    Row { dtypes: FLOATS, result: ResultType::Float, float: Some(formula), integer: None, ..cast(name, ScalarArgs::none) }
}

const fn cast(name: &'static str, scalars: fn(&mut Args<'_>) -> Result<ScalarArgs, OpError>) -> Row {
    Row {
        name,
        tensors: &["self"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Cast,
        scalars,
        float: Some(Formula::new("x", Host::Unary(|x, _| x))),
        integer: Some(Formula::new("x", Host::Unary(|x, _| x))),
    }
}

/// Skips the arguments of every cast: the output's declared type decides, and layout and device do not apply.
fn options(args: &mut Args<'_>) -> Result<(), OpError> {
    ["dtype", "layout", "device", "pin_memory", "non_blocking"].iter().try_for_each(|name| args.ignore(name))
}

/// The reciprocal of the scale, the zero point and the bounds.
fn quantisation(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let scale = args.float("scale")?;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(OpError::new("scale", format!("is {scale}, it must be above 0")));
    }
    let scalars = [scale.recip(), args.float("zero_point")?, args.float("quant_min")?, args.float("quant_max")?];
    Ok(ScalarArgs::of(&scalars))
}

const QUANTISE: Host<f64> = Host::Unary(|x, p| {
    // Multiplied in 32 bits as PyTorch does: rounding of ties depends on it.
    #[allow(clippy::cast_possible_truncation, reason = "the scalars of the operator are 32-bit floats on the GPU")]
    let steps = f64::from(x as f32 * p[0] as f32).round_ties_even();
    (steps + p[1]).clamp(p[2], p[3])
});
