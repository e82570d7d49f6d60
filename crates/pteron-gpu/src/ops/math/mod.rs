//! Mathematical functions of one tensor, and arithmetic with a scalar. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, ALL, Formula, Host, INTEGERS, ResultType, Row, ScalarArgs, Scalars};
use crate::error::OpError;
use crate::kernel::KernelDef;
use crate::ops::OpDef;
use crate::plan::Op;

static KERNEL: KernelDef = elementwise::kernel("math", 1, || elementwise::variants(&KERNEL, TABLE));

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&KERNEL],
    decode: |args| {
        if args.operator() == POW_OF_SCALAR { decode_pow(args) } else { elementwise::decode(&KERNEL, TABLE, args) }
    },
};

const POW_OF_SCALAR: &str = "aten.pow.Scalar";

/// The operators of the family.
const TABLE: &[Row] = &[
    floats("aten.log.default", "log_ieee(x)", |x, _| x.ln()),
    floats("aten.log2.default", "log2_ieee(x)", |x, _| x.log2()),
    floats("aten.expm1.default", "expm1(x)", |x, _| x.exp_m1()),
    floats("aten.reciprocal.default", "div_ieee(X(1.0), x)", |x, _| x.recip()),
    floats("aten.erf.default", "erf(x)", |x, _| if x.is_nan() { x } else { elementwise::erf(x) }),
    floats("aten.sinh.default", "sinh_ieee(x)", |x, _| x.sinh()),
    floats("aten.cosh.default", "cosh_ieee(x)", |x, _| x.cosh()),
    floats("aten.asin.default", "asin_ieee(x)", |x, _| x.asin()),
    floats("aten.acos.default", "acos_ieee(x)", |x, _| x.acos()),
    floats("aten.atan.default", "atan_ieee(x)", |x, _| x.atan()),
    floats("aten.asinh.default", "asinh_ieee(x)", |x, _| x.asinh()),
    floats("aten.acosh.default", "acosh_ieee(x)", |x, _| x.acosh()),
    floats("aten.atanh.default", "atanh_ieee(x)", |x, _| x.atanh()),
    Row {
        scalars: |args| Ok(ScalarArgs::of(&[args.optional_float("eps")?.unwrap_or(-1.0)])),
        ..floats("aten.logit.default", "logit(x, params.p.x)", |x, p| {
            let x = if p[0] < 0.0 || x.is_nan() { x } else { x.max(p[0]).min(1.0 - p[0]) };
            (x / (1.0 - x)).ln()
        })
    },
    both("aten.sign.default", ("sign_ieee(x)", |x, _| sign(x)), ("sign(x)", |x, _| x.signum())),
    both("aten.floor.default", ("floor(x)", |x, _| x.floor()), ("x", |x, _| x)),
    both("aten.ceil.default", ("ceil(x)", |x, _| x.ceil()), ("x", |x, _| x)),
    both("aten.trunc.default", ("trunc(x)", |x, _| x.trunc()), ("x", |x, _| x)),
    both("aten.frac.default", ("x - trunc(x)", |x, _| x - x.trunc()), ("X()", |_, _| 0)),
    Row {
        scalars: |args| Ok(ScalarArgs::of(&[10f64.powi(decimals(args)?)])),
        ..both(
            "aten.round.decimals",
            ("div_ieee(round(x * params.p.x), X(params.p.x))", |x, p| (x * p[0]).round_ties_even() / p[0]),
            ("x", |x, _| x),
        )
    },
    Row {
        scalars: with_alpha,
        ..both(
            "aten.add.Scalar",
            ("x + params.p.x * params.p.y", |x, p| x + p[0] * p[1]),
            ("x + params.q.x * params.q.y", |x, q| x + q[0] * q[1]),
        )
    },
    Row {
        scalars: with_alpha,
        ..both(
            "aten.sub.Scalar",
            ("x - params.p.x * params.p.y", |x, p| x - p[0] * p[1]),
            ("x - params.q.x * params.q.y", |x, q| x - q[0] * q[1]),
        )
    },
    Row {
        scalars: with_alpha,
        ..both(
            "aten.rsub.Scalar",
            ("params.p.x - x * params.p.y", |x, p| p[0] - x * p[1]),
            ("params.q.x - x * params.q.y", |x, q| q[0] - x * q[1]),
        )
    },
    scalar("aten.mul.Scalar", ("x * params.p.x", |x, p| x * p[0]), ("x * params.q.x", |x, q| x * q[0])),
    Row {
        result: ResultType::Float,
        ..scalar("aten.div.Scalar", ("div_ieee(x, X(params.p.x))", |x, p| x / p[0]), ("x", |x, _| x))
    },
    Row {
        scalars: |args| {
            let other = ScalarArgs::number(args, "other")?;
            let (mode, floats) = elementwise::rounding_mode(args)?;
            let scalars = other.and(mode);
            Ok(ScalarArgs { floats: floats || scalars.floats, ..scalars })
        },
        ..scalar(
            "aten.div.Scalar_mode",
            ("div_rounded(x, X(params.p.x), params.q.y)", |x, p| elementwise::div_rounded(x, p[0], p[1])),
            ("int_div_rounded(x, X(params.q.x), params.q.y)", |x, q| elementwise::int_div_rounded(x, q[0], q[1])),
        )
    },
    scalar(
        "aten.floor_divide.Scalar",
        ("floor_div(x, X(params.p.x))", |x, p| elementwise::div_rounded(x, p[0], 1.0)),
        ("int_div_rounded(x, X(params.q.x), 1)", |x, q| elementwise::int_div_rounded(x, q[0], 1)),
    ),
    scalar(
        "aten.fmod.Scalar",
        ("fmod(x, X(params.p.x))", |x, p| x % p[0]),
        ("x - x / params.q.x * params.q.x", |x, q| elementwise::int_fmod(x, q[0])),
    ),
    scalar(
        "aten.remainder.Scalar",
        ("remainder(x, X(params.p.x))", |x, p| elementwise::remainder(x, p[0])),
        ("int_remainder(x, X(params.q.x))", |x, q| elementwise::int_remainder(x, q[0])),
    ),
    Row {
        tensors: &["exponent"],
        ..both(
            POW_OF_SCALAR,
            ("pow_ieee(X(params.p.x), x)", |x, p| p[0].powf(x)),
            ("int_pow(X(params.q.x), x)", |x, q| elementwise::int_pow(q[0], x)),
        )
    },
    on_bits("aten.bitwise_and.Scalar", "x & X(params.q.x)", |x, q| x & q[0]),
    on_bits("aten.bitwise_or.Scalar", "x | X(params.q.x)", |x, q| x | q[0]),
    on_bits("aten.bitwise_xor.Scalar", "x ^ X(params.q.x)", |x, q| x ^ q[0]),
    on_bits("aten.bitwise_left_shift.Tensor_Scalar", "shift_left(x, X(params.q.x))", |x, q| {
        elementwise::shift_left(x, q[0])
    }),
    on_bits("aten.bitwise_right_shift.Tensor_Scalar", "shift_right(x, X(params.q.x))", |x, q| {
        elementwise::shift_right(x, q[0])
    }),
];

/// Decodes a power of a scalar, which is before the tensor.
fn decode_pow(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let row = args.row(TABLE);
    let base = ScalarArgs::number(args, "self")?;
    let exponent = args.tensor("exponent")?;
    elementwise::finish(&KERNEL, row, vec![exponent], base, args)
}

type OnFloat = fn(f64, &Scalars<f64>) -> f64;
type OnInteger = fn(i64, &Scalars<i64>) -> i64;

/// An operator whose results are floats.
const fn floats(name: &'static str, wgsl: &'static str, host: OnFloat) -> Row {
    Row {
        name,
        tensors: &["self"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Float,
        scalars: ScalarArgs::none,
        float: Some(Formula::new(wgsl, Host::Unary(host))),
        integer: None,
    }
}

/// An operator with a formula for integers, whose results are integers.
const fn both(name: &'static str, float: (&'static str, OnFloat), integer: (&'static str, OnInteger)) -> Row {
    let integer = Some(Formula::new(integer.0, Host::Unary(integer.1)));
    Row { result: ResultType::Promoted, integer, ..floats(name, float.0, float.1) }
}

/// The same with a scalar.
const fn scalar(name: &'static str, float: (&'static str, OnFloat), integer: (&'static str, OnInteger)) -> Row {
    Row { scalars: |args| ScalarArgs::number(args, "other"), ..both(name, float, integer) }
}

/// An operator on integers and a scalar.
const fn on_bits(name: &'static str, wgsl: &'static str, host: OnInteger) -> Row {
    Row { dtypes: INTEGERS, float: None, ..scalar(name, ("x", |x, _| x), (wgsl, host)) }
}

/// A scalar and its factor.
fn with_alpha(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let other = ScalarArgs::number(args, "other")?;
    Ok(other.and(args.float("alpha")?))
}

/// Decimal places to round to, as many as 32-bit floats can have.
fn decimals(args: &mut Args<'_>) -> Result<i32, OpError> {
    let given = args.int("decimals")?;
    let decimals = i32::try_from(given).ok().filter(|decimals| decimals.unsigned_abs() <= 38);
    decimals.ok_or_else(|| OpError::new("decimals", format!("is {given}, expected at most 38 in magnitude")))
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}
