//! Elementwise operators of two tensors. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, Formula, Host, INTEGERS, NUMBERS, ResultType, Row, ScalarArgs};
use crate::error::OpError;
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static KERNEL: KernelDef = elementwise::kernel("binary", 2, || elementwise::variants(&KERNEL, TABLE));

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&KERNEL],
    decode: |args| elementwise::decode(&KERNEL, TABLE, args),
};

/// The operators of the family.
const TABLE: &[Row] = &[
    Row {
        scalars: alpha,
        ..row(
            "aten.add.Tensor",
            ("x + params.p.x * y", |x, y, p| x + p[0] * y),
            ("x + params.q.x * y", |x, y, q| x + q[0] * y),
        )
    },
    Row {
        scalars: alpha,
        ..row(
            "aten.sub.Tensor",
            ("x - params.p.x * y", |x, y, p| x - p[0] * y),
            ("x - params.q.x * y", |x, y, q| x - q[0] * y),
        )
    },
    row("aten.mul.Tensor", ("x * y", |x, y, _| x * y), ("x * y", |x, y, _| x * y)),
    Row { result: ResultType::Float, ..row("aten.div.Tensor", ("div_ieee(x, y)", |x, y, _| x / y), ("x / y", |x, _, _| x)) },
    Row {
        scalars: rounding,
        ..row(
            "aten.div.Tensor_mode",
            ("div_rounded(x, y, params.q.x)", div_rounded),
            ("int_div_rounded(x, y, params.q.x)", int_div_rounded),
        )
    },
    row("aten.minimum.default", ("min_ieee(x, y)", min_ieee), ("min(x, y)", |x, y, _| x.min(y))),
    row("aten.pow.Tensor_Tensor", ("pow_ieee(x, y)", |x, y, _| x.powf(y)), ("int_pow(x, y)", int_pow)),
    on_bits("aten.bitwise_and.Tensor", "x & y", |x, y, _| x & y),
    on_bits("aten.bitwise_or.Tensor", "x | y", |x, y, _| x | y),
];

type OnFloats = (&'static str, fn(f64, f64, &[f64; 4]) -> f64);
type OnIntegers = (&'static str, fn(i64, i64, &[i64; 4]) -> i64);

const fn row(name: &'static str, float: OnFloats, integer: OnIntegers) -> Row {
    Row {
        name,
        tensors: &["self", "other"],
        dtypes: NUMBERS,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new(float.0, Host::Binary(float.1))),
        integer: Some(Formula::new(integer.0, Host::Binary(integer.1))),
    }
}

const fn on_bits(name: &'static str, wgsl: &'static str, host: fn(i64, i64, &[i64; 4]) -> i64) -> Row {
    let integer = Some(Formula::new(wgsl, Host::Binary(host)));
    let tensors = &["self", "other"];
    Row { name, tensors, dtypes: INTEGERS, result: ResultType::Promoted, scalars: ScalarArgs::none, float: None, integer }
}

fn alpha(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    Ok(ScalarArgs::of(&[args.float("alpha")?]))
}

/// The rounding mode as the expressions number it: 0 none, 1 floor, 2 trunc.
fn rounding(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    match args.optional_text("rounding_mode")? {
        // Without rounding the quotient of integers is a float.
        None => Ok(ScalarArgs { floats: true, ..ScalarArgs::of(&[0.0]) }),
        Some("floor") => Ok(ScalarArgs::of(&[1.0])),
        Some("trunc") => Ok(ScalarArgs::of(&[2.0])),
        Some(other) => Err(OpError::new("rounding_mode", format!("is {other:?}, supported: None, \"floor\", \"trunc\""))),
    }
}

/// In double precision the quotient of two floats is never rounded up to an integer, so its floor equals
/// PyTorch's, which corrects by the remainder. Truncation uses the 32-bit quotient.
fn div_rounded(x: f64, y: f64, mode: &[f64; 4]) -> f64 {
    let apart = x != 0.0 && (x < 0.0) != (y < 0.0);
    match mode[0] {
        1.0 if x.is_infinite() && y != 0.0 => f64::NAN,
        1.0 if y.is_infinite() && !x.is_nan() => -f64::from(u8::from(apart)),
        1.0 => (x / y).floor(),
        #[allow(clippy::cast_possible_truncation, reason = "the quotient of 32-bit floats")]
        2.0 => f64::from((x as f32 / y as f32).trunc()),
        _ => x / y,
    }
}

fn int_div_rounded(x: i64, y: i64, mode: &[i64; 4]) -> i64 {
    if y == 0 {
        return x;
    }
    if mode[0] == 1 { x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0) } else { x / y }
}

fn min_ieee(x: f64, y: f64, _: &[f64; 4]) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }
}

/// PyTorch's integer powers wrap at 32 bits.
fn int_pow(x: i64, y: i64, _: &[i64; 4]) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "the operands are 32-bit integers")]
    let x = x as i32;
    match u32::try_from(y) {
        Ok(y) => x.wrapping_pow(y).into(),
        Err(_) => match x {
            1 => 1,
            -1 if y % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        },
    }
}
