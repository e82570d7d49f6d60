//! Elementwise operators of int8 tensors with the arithmetic of exported int8 networks, and the parametric `ReLU` with one slope per channel.
//! Each row of the tables is an operator. Front ends call them; no file does.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, FLOATS, Formula, Host, ResultType, Row, ScalarArgs, Scalars};
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::{Quantised, take_bounds};
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static UNARY: KernelDef = elementwise::kernel("q8_unary", 1, || elementwise::variants(&UNARY, UNARY_TABLE));
static BINARY: KernelDef = elementwise::kernel("q8_binary", 2, || elementwise::variants(&BINARY, BINARY_TABLE));

/// The registry entry of the operators of one tensor.
pub static UNARY_OPS: OpDef = OpDef {
    names: &elementwise::names::<{ UNARY_TABLE.len() }>(UNARY_TABLE),
    internal: &[CLAMP, REQUANTISE],
    kernels: &[&UNARY],
    decode: |args| elementwise::decode(&UNARY, UNARY_TABLE, args),
};

/// The registry entry of the operators of two tensors.
pub static BINARY_OPS: OpDef = OpDef {
    names: &elementwise::names::<{ BINARY_TABLE.len() }>(BINARY_TABLE),
    internal: &[ADD, MUL, PRELU],
    kernels: &[&BINARY],
    decode: |args| elementwise::decode(&BINARY, BINARY_TABLE, args),
};

/// Integers within bounds.
pub(crate) const CLAMP: &str = "pteron.q8_clamp";
/// Integers with another scale and zero point, in 8-bit fixed point.
pub(crate) const REQUANTISE: &str = "pteron.q8_requantise";
/// A sum or a difference, in 20-bit fixed point.
pub(crate) const ADD: &str = "pteron.q8_add";
/// A product: of the integers, by one factor.
pub(crate) const MUL: &str = "pteron.q8_mul";
/// `x`, or `x · slope` where it is negative.
pub(crate) const PRELU: &str = "pteron.prelu";

const UNARY_TABLE: &[Row] = &[
    Row {
        scalars: |args| Ok(integers(&take_bounds(args)?.map(i64::from))),
        integer: Some(Formula::new(
            "clamp(x, X(params.q.x), X(params.q.y))",
            Host::Unary(|x, q: &Scalars<i64>| x.clamp(q[0], q[1])),
        )),
        ..row(CLAMP, &["input"])
    },
    Row {
        scalars: requantisation,
        integer: Some(Formula::new(
            "clamp((x * params.q.x + params.q.y) >> vec4<u32>(8u), X(-128), X(127))",
            Host::Unary(|x, q: &Scalars<i64>| ((x * q[0] + q[1]) >> 8).clamp(-128, 127)),
        )),
        ..row(REQUANTISE, &["input"])
    },
];

const BINARY_TABLE: &[Row] = &[
    Row {
        scalars: sum,
        integer: Some(Formula::new(
            "clamp(((params.q.z + x * params.q.x + y * params.q.y) >> vec4<u32>(u32(params.q.w))) + i32(params.r.x), \
             X(i32(params.r.y)), X(i32(params.r.z)))",
            Host::Binary(|x, y, q: &Scalars<i64>| (((q[2] + x * q[0] + y * q[1]) >> q[3]) + q[4]).clamp(q[5], q[6])),
        )),
        ..row(ADD, &["a", "b"])
    },
    Row {
        result: ResultType::Output,
        scalars: product,
        float: Some(Formula::new(
            "round(clamp((x - params.p.x) * (y - params.p.y) * params.p.z, X(params.r.x), X(params.r.y))) + params.p.w",
            Host::Binary(|x, y, p: &Scalars<f64>| {
                #[allow(clippy::cast_possible_truncation, reason = "programs compute in 32 bits")]
                let steps = ((x - p[0]) * (y - p[1])) as f32 * p[2] as f32;
                f64::from(steps).clamp(p[4], p[5]).round_ties_even() + p[3]
            }),
        )),
        ..row(MUL, &["a", "b"])
    },
    Row {
        dtypes: FLOATS,
        float: Some(Formula::new(
            "select(x, x * y, x < X())",
            Host::Binary(|x, y, _: &Scalars<f64>| if x < 0.0 { x * y } else { x }),
        )),
        ..row(PRELU, &["input", "slope"])
    },
];

/// An operator without formulas.
const fn row(name: &'static str, tensors: &'static [&'static str]) -> Row {
    Row {
        name,
        tensors,
        conditional: false,
        dtypes: &[Elem::I8],
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: None,
        integer: None,
    }
}

/// Integers as scalar arguments.
#[allow(clippy::cast_precision_loss, reason = "they have 32 bits")]
fn integers(values: &[i64]) -> ScalarArgs {
    let values: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    ScalarArgs { floats: false, ..ScalarArgs::of(&values) }
}

/// The quotient of two scales in 32 bits, as programs compute it.
#[allow(clippy::cast_possible_truncation, reason = "scales of programs are 32-bit floats")]
fn ratio(a: Quantised, b: Quantised) -> f32 {
    a.scale as f32 / b.scale as f32
}

/// Rounds a number of less than 32 bits.
#[allow(clippy::cast_possible_truncation, reason = "callers have checked the range")]
fn rounded(value: f32) -> i64 {
    value.round_ties_even() as i64
}

/// The factor in 1/256, and what is added to products with it.
fn requantisation(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let x = Quantised::take(args, ["input_scale", "input_zero_point"])?;
    let out = Quantised::take(args, ["output_scale", "output_zero_point"])?;
    let ratio = ratio(x, out);
    if !(1.0 / 256.0..=128.0).contains(&ratio) {
        return Err(OpError::new("input_scale", format!("is {ratio} of the output's scale, expected 1/256 to 128 of it")));
    }
    let factor = rounded(256.0 * ratio);
    Ok(integers(&[factor, i64::from(out.zero_point) * 256 - factor * i64::from(x.zero_point) + 128]))
}

/// Both factors in fixed point, what is added to their products, the shift, the output's zero point and bounds.
fn sum(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let a = Quantised::take(args, ["a_scale", "a_zero_point"])?;
    let b = Quantised::take(args, ["b_scale", "b_zero_point"])?;
    let out = Quantised::take(args, ["output_scale", "output_zero_point"])?;
    let subtracts = args.bool("subtract")?;
    let [low, high] = take_bounds(args)?;
    let ratios = [ratio(a, out), ratio(b, out)];
    let largest = ratios[0].max(ratios[1]);
    if !(1.0 / 1024.0..256.0).contains(&largest) {
        let reason =
            format!("is {} and `b_scale` {}, expected at most 256 times and not less than 1/1024", ratios[0], ratios[1]);
        return Err(OpError::new("a_scale", format!("{reason} of the output's scale")));
    }
    // The exponent of a normal float.
    let exponent = i64::from(largest.to_bits() >> 23) - 127;
    let shift = 20 - exponent;
    #[allow(clippy::cast_possible_truncation, reason = "it is 13 to 30")]
    let unit = 2.0f32.powi(shift as i32);
    let [factor_a, factor_b] = ratios.map(|ratio| rounded(ratio * unit));
    let factor_b = if subtracts { -factor_b } else { factor_b };
    let offset = (1 << (shift - 1)) - factor_a * i64::from(a.zero_point) - factor_b * i64::from(b.zero_point);
    Ok(integers(&[factor_a, factor_b, offset, shift, out.zero_point.into(), low.into(), high.into()]))
}

/// The zero points of both inputs, the factor of their product, the output's zero point, and its bounds less that.
fn product(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let a = Quantised::take(args, ["a_scale", "a_zero_point"])?;
    let b = Quantised::take(args, ["b_scale", "b_zero_point"])?;
    let out = Quantised::take(args, ["output_scale", "output_zero_point"])?;
    let bounds = take_bounds(args)?.map(|bound| f64::from(i32::from(bound) - out.zero_point));
    #[allow(clippy::cast_possible_truncation, reason = "scales of programs are 32-bit floats")]
    let factor = a.scale as f32 * b.scale as f32 / out.scale as f32;
    let zero_points = [a, b, out].map(|quantised| f64::from(quantised.zero_point));
    let values = [zero_points[0], zero_points[1], factor.into(), zero_points[2], bounds[0], bounds[1]];
    Ok(ScalarArgs { floats: true, ..ScalarArgs::of(&values) })
}
