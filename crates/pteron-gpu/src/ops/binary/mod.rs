//! Elementwise operators of two tensors. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{
    self, ALL, Formula, Host, INTEGERS, ResultType, Row, ScalarArgs, Scalars, div_rounded, int_div_rounded, int_fmod,
    int_remainder, remainder, requantised, rounding_mode, shift_left, shift_right,
};
use crate::error::OpError;
use crate::graph::Elem;
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
            ("div_rounded(x, y, params.q.x)", |x, y, p| div_rounded(x, y, p[0])),
            ("int_div_rounded(x, y, params.q.x)", |x, y, q| int_div_rounded(x, y, q[0])),
        )
    },
    row("aten.minimum.default", ("min_ieee(x, y)", min_ieee), ("min(x, y)", |x, y, _| x.min(y))),
    row("aten.maximum.default", ("max_ieee(x, y)", max_ieee), ("max(x, y)", |x, y, _| x.max(y))),
    row(
        "aten.pow.Tensor_Tensor",
        ("pow_ieee(x, y)", |x, y, _| x.powf(y)),
        ("int_pow(x, y)", |x, y, _| elementwise::int_pow(x, y)),
    ),
    row(
        "aten.floor_divide.default",
        ("floor_div(x, y)", |x, y, _| div_rounded(x, y, 1.0)),
        ("int_div_rounded(x, y, 1)", |x, y, _| int_div_rounded(x, y, 1)),
    ),
    row("aten.fmod.Tensor", ("fmod(x, y)", |x, y, _| x % y), ("x - x / y * y", |x, y, _| int_fmod(x, y))),
    row(
        "aten.remainder.Tensor",
        ("remainder(x, y)", |x, y, _| remainder(x, y)),
        ("int_remainder(x, y)", |x, y, _| int_remainder(x, y)),
    ),
    Row {
        result: ResultType::Float,
        ..row("aten.atan2.default", ("atan2_ieee(x, y)", |x, y, _| x.atan2(y)), ("x", |x, _, _| x))
    },
    Row {
        result: ResultType::Output,
        scalars: |args| args.ignore("non_blocking").map(|()| ScalarArgs::default()),
        ..row("aten.copy.default", ("y", |_, y, _| y), ("y", |_, y, _| y))
    },
    Row { result: ResultType::Output, ..row("aten.fill.Tensor", ("y", |_, y, _| y), ("y", |_, y, _| y)) },
    Row {
        tensors: &["self", "mask"],
        result: ResultType::Output,
        scalars: |args| ScalarArgs::number(args, "value"),
        ..row(
            "aten.masked_fill.Scalar",
            ("select(x, X(params.p.x), !(y == Y()))", |x, y, p| if y == 0.0 { x } else { p[0] }),
            ("select(x, X(params.q.x), !(y == Y()))", |x, y, q| if y == 0 { x } else { q[0] }),
        )
    },
    Row {
        dtypes: &[Elem::I8],
        result: ResultType::Output,
        scalars: q8ta_add,
        integer: None,
        ..row(
            "et_vk.q8ta_add.default",
            (
                "requantised((x - params.p.y) * params.p.x + params.r.z * ((y - params.p.w) * params.p.z), params.r.x, params.r.y)",
                |x, y, p| requantised((x - p[1]) * p[0] + p[6] * ((y - p[3]) * p[2]), p[4], p[5]),
            ),
            ("x", |x, _, _| x),
        )
    },
    on_bits("aten.bitwise_and.Tensor", "x & y", |x, y, _| x & y),
    on_bits("aten.bitwise_or.Tensor", "x | y", |x, y, _| x | y),
    on_bits("aten.bitwise_xor.Tensor", "x ^ y", |x, y, _| x ^ y),
    on_bits("aten.bitwise_left_shift.Tensor", "shift_left(x, y)", |x, y, _| shift_left(x, y)),
    on_bits("aten.bitwise_right_shift.Tensor", "shift_right(x, y)", |x, y, _| shift_right(x, y)),
];

type OnFloats = (&'static str, fn(f64, f64, &Scalars<f64>) -> f64);
type OnIntegers = (&'static str, fn(i64, i64, &Scalars<i64>) -> i64);

const fn row(name: &'static str, float: OnFloats, integer: OnIntegers) -> Row {
    Row {
        name,
        tensors: &["self", "other"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new(float.0, Host::Binary(float.1))),
        integer: Some(Formula::new(integer.0, Host::Binary(integer.1))),
    }
}

const fn on_bits(name: &'static str, wgsl: &'static str, host: fn(i64, i64, &Scalars<i64>) -> i64) -> Row {
    let integer = Some(Formula::new(wgsl, Host::Binary(host)));
    Row { name, dtypes: INTEGERS, float: None, integer, ..row(name, ("x", |x, _, _| x), ("x", |x, _, _| x)) }
}

/// Scale and zero point of both inputs, the reciprocal of the output's scale, its zero point, and the factor of the second input.
fn q8ta_add(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let a = elementwise::quantisation(args, ["input_a_scale", "input_a_zero_point"])?;
    let b = elementwise::quantisation(args, ["input_b_scale", "input_b_zero_point"])?;
    let out = elementwise::quantisation(args, ["output_scale", "output_zero_point"])?;
    let scalars = ScalarArgs::of(&[a.0, a.1, b.0, b.1, out.0.recip(), out.1, args.float("alpha")?]);
    Ok(ScalarArgs { floats: true, ..scalars })
}

fn alpha(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    Ok(ScalarArgs::of(&[args.float("alpha")?]))
}

fn rounding(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let (mode, floats) = rounding_mode(args)?;
    Ok(ScalarArgs { floats, ..ScalarArgs::of(&[mode]) })
}

fn min_ieee(x: f64, y: f64, _: &Scalars<f64>) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }
}

fn max_ieee(x: f64, y: f64, _: &Scalars<f64>) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}
