//! The same numbers as elements of another type, quantised ones among them. A row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::map::{self, ALL, FLOATS, Formula, Gives, Host, MAP1, Numbers, Row};
use crate::ops::OpDef;

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &map::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&MAP1],
    decode: |args| map::decode(TABLE, args),
};

/// The family.
pub(crate) const TABLE: &[Row] = &[
    conversion("aten._to_copy.default", |args| {
        options(args)?;
        // Tensors lie contiguously here, whatever lay where the program was exported.
        args.ignore("memory_format")?;
        Ok(Numbers::default())
    }),
    conversion("dim_order_ops._to_dim_order_copy.default", |args| {
        options(args)?;
        args.contiguous_order("dim_order")?;
        Ok(Numbers::default())
    }),
    Row {
        takes: FLOATS,
        gives: Gives::Output,
        numbers: |args| {
            let numbers = quantisation(args)?;
            args.ignore("dtype")?;
            Ok(numbers)
        },
        float: Some(Formula {
            wgsl: "clamp(round(x * params.p.x) + params.p.y, X(params.p.z), X(params.p.w))",
            host: QUANTISE,
        }),
        integer: None,
        ..conversion("quantized_decomposed.quantize_per_tensor.default", Numbers::none)
    },
    Row {
        takes: &[Elem::I8, Elem::U8, Elem::I32],
        gives: Gives::Floats,
        numbers: |args| {
            let [inverse, zero, ..] = quantisation(args)?.values;
            args.ignore("dtype")?;
            args.none("out_dtype")?;
            Ok(Numbers::of(&[inverse.recip(), zero]))
        },
        float: Some(Formula { wgsl: "(x - params.p.y) * params.p.x", host: Host::One(|x, p| (x - p[1]) * p[0]) }),
        integer: None,
        ..conversion("quantized_decomposed.dequantize_per_tensor.default", Numbers::none)
    },
];

const fn conversion(name: &'static str, numbers: fn(&mut Args<'_>) -> Result<Numbers, OpError>) -> Row {
    Row {
        name,
        tensors: &["self"],
        takes: ALL,
        gives: Gives::Converted,
        numbers,
        float: Some(Formula { wgsl: "x", host: Host::One(|x, _| x) }),
        integer: Some(Formula { wgsl: "x", host: Host::One(|x, _| x) }),
    }
}

/// What every conversion has: the type is the output's own, and where a tensor lies is not the file's matter.
fn options(args: &mut Args<'_>) -> Result<(), OpError> {
    ["dtype", "layout", "device", "pin_memory", "non_blocking"].iter().try_for_each(|name| args.ignore(name))
}

/// One over the scale, the zero point and the bounds.
fn quantisation(args: &mut Args<'_>) -> Result<Numbers, OpError> {
    let scale = args.float("scale")?;
    if !(scale.is_finite() && scale > 0.0) {
        return Err(OpError::new("scale", format!("is {scale}, it must be above 0")));
    }
    let numbers = [scale.recip(), args.float("zero_point")?, args.float("quant_min")?, args.float("quant_max")?];
    Ok(Numbers::of(&numbers))
}

const QUANTISE: Host<f64> = Host::One(|x, p| {
    // Multiplied in 32 bits as PyTorch does: which way a tie is rounded depends on it.
    #[allow(clippy::cast_possible_truncation, reason = "the numbers of the operator are 32-bit floats on the GPU")]
    let steps = f64::from(x as f32 * p[0] as f32).round_ties_even();
    (steps + p[1]).clamp(p[2], p[3])
});
