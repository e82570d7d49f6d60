//! Elementwise operators of one tensor. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, ALL, Activation, Formula, Host, ResultType, Row, ScalarArgs, Scalars, requantised};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static KERNEL: KernelDef = elementwise::kernel("unary", 1, || elementwise::variants(&KERNEL, TABLE));

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&KERNEL],
    decode: |args| elementwise::decode(&KERNEL, TABLE, args),
};

/// The operators of the family.
const TABLE: &[Row] = &[
    floats("aten.sigmoid.default", "sigmoid(x)", |x, _| 1.0 / (1.0 + (-x).exp())),
    both("aten.relu.default", "unless_nan(x, max(x, X()))", |x, _| at_least(x, 0.0), "max(x, X())", |x, _| x.max(0)),
    both("aten.abs.default", "abs(x)", |x, _| x.abs(), "abs(x)", |x, _| x.abs()),
    both("aten.neg.default", "-x", |x, _| -x, "-x", |x, _| -x),
    floats("aten.exp.default", "unless_nan(x, exp(x))", |x, _| x.exp()),
    floats("aten.sqrt.default", "sqrt_ieee(x)", |x, _| x.sqrt()),
    floats("aten.rsqrt.default", "inverseSqrt(x)", |x, _| x.sqrt().recip()),
    floats("aten.tanh.default", "tanh_ieee(x)", |x, _| x.tanh()),
    floats("aten.sin.default", "sin_ieee(x)", |x, _| x.sin()),
    floats("aten.cos.default", "cos_ieee(x)", |x, _| x.cos()),
    both("aten.round.default", "round(x)", |x, _| x.round_ties_even(), "x", |x, _| x),
    floats("aten.log10.default", "log2_ieee(x) * 0.30102999566", |x, _| x.log10()),
    floats("aten.hardswish.default", "x * clamp_ieee(x + 3.0, 0.0, 6.0) / 6.0", |x, _| x * clamp(x + 3.0, 0.0, 6.0) / 6.0),
    floats("aten.hardsigmoid.default", "clamp_ieee(x + 3.0, 0.0, 6.0) / 6.0", |x, _| clamp(x + 3.0, 0.0, 6.0) / 6.0),
    floats("aten.relu6.default", "clamp_ieee(x, 0.0, 6.0)", |x, _| clamp(x, 0.0, 6.0)),
    floats("aten.tan.default", "div_ieee(sin_ieee(x), cos_ieee(x))", |x, _| x.tan()),
    floats("aten.log1p.default", "log1p_ieee(x)", |x, _| x.ln_1p()),
    Row {
        scalars: |args| Ok(ScalarArgs::of(&[args.float("alpha")?, args.float("scale")?, args.float("input_scale")?])),
        ..floats("aten.elu.default", "elu(x, params.p.x, params.p.y, params.p.z)", |x, p| {
            if x > 0.0 { x * p[1] } else { (x * p[2]).exp_m1() * p[0] * p[1] }
        })
    },
    Row {
        dtypes: &[Elem::I8],
        result: ResultType::Output,
        scalars: q8ta_relu,
        ..floats(
            "et_vk.q8ta_relu.default",
            "requantised(max((x - params.p.y) * params.p.x, X()), params.p.z, params.p.w)",
            |x, p| requantised(((x - p[1]) * p[0]).max(0.0), p[2], p[3]),
        )
    },
    Row { scalars: approximation, ..floats("aten.gelu.default", "gelu(x, params.p.x == 1.0)", gelu) },
    Row {
        scalars: |args| one(args, "negative_slope"),
        ..floats("aten.leaky_relu.default", "select(x * params.p.x, x, x > X())", |x, p| if x > 0.0 { x } else { x * p[0] })
    },
    Row {
        scalars: |args| one(args, "lambd"),
        ..floats(
            "aten.hardshrink.default",
            "select(x, X(), abs(x) <= X(params.p.x))",
            |x, p| {
                if x.abs() <= p[0] { 0.0 } else { x }
            },
        )
    },
    Row {
        scalars: |args| bounds(args, ["min_val", "max_val"]),
        ..both(
            "aten.hardtanh.default",
            "clamp_ieee(x, params.p.x, params.p.y)",
            |x, p| clamp(x, p[0], p[1]),
            "min(max(x, X(params.q.x)), X(params.q.y))",
            |x, q| x.max(q[0]).min(q[1]),
        )
    },
    Row {
        scalars: |args| bounds(args, ["min", "max"]),
        ..both(
            "aten.clamp.default",
            "clamp_ieee(x, params.p.x, params.p.y)",
            |x, p| clamp(x, p[0], p[1]),
            "min(max(x, X(params.q.x)), X(params.q.y))",
            |x, q| x.max(q[0]).min(q[1]),
        )
    },
    Row {
        scalars: |args| ScalarArgs::number(args, "exponent"),
        ..both("aten.pow.Tensor_Scalar", "pow_scalar(x, params.p.x)", pow_scalar, "int_pow(x, X(params.q.x))", |x, q| {
            elementwise::int_pow(x, q[0])
        })
    },
];

/// The function of an operator of the table with these scalar arguments.
pub(crate) fn activation(name: &str, values: [f64; 4]) -> Option<Activation> {
    Activation::of(TABLE.iter().find(|row| row.name == name)?, values)
}

/// The functions of all operators of the table.
pub(crate) fn activations() -> impl Iterator<Item = Activation> {
    TABLE.iter().filter_map(|row| Activation::of(row, [0.0; 4]))
}

type OnFloat = fn(f64, &Scalars<f64>) -> f64;
type OnInteger = fn(i64, &Scalars<i64>) -> i64;

/// An operator without further arguments whose results are floats.
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
const fn both(name: &'static str, wgsl: &'static str, host: OnFloat, on_integers: &'static str, integers: OnInteger) -> Row {
    let integer = Some(Formula::new(on_integers, Host::Unary(integers)));
    Row { result: ResultType::Promoted, integer, ..floats(name, wgsl, host) }
}

fn one(args: &mut Args<'_>, name: &'static str) -> Result<ScalarArgs, OpError> {
    Ok(ScalarArgs::of(&[args.float(name)?]))
}

/// A lower and an upper bound, each infinite where it is None.
fn bounds(args: &mut Args<'_>, names: [&'static str; 2]) -> Result<ScalarArgs, OpError> {
    let low = args.optional_float(names[0])?.unwrap_or(f64::NEG_INFINITY);
    let high = args.optional_float(names[1])?.unwrap_or(f64::INFINITY);
    match names.into_iter().zip([low, high]).find(|(_, bound)| bound.is_nan()) {
        Some((name, _)) => Err(OpError::new(name, "is NaN, it must be a number")),
        None => Ok(ScalarArgs::of(&[low, high])),
    }
}

/// Scale and zero point of the input, then the reciprocal of the output's scale and its zero point.
fn q8ta_relu(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    let [x, out] = [
        elementwise::quantisation(args, ["input_scale", "input_zero_point"])?,
        elementwise::quantisation(args, ["output_scale", "output_zero_point"])?,
    ];
    Ok(ScalarArgs { floats: true, ..ScalarArgs::of(&[x.0, x.1, out.0.recip(), out.1]) })
}

fn approximation(args: &mut Args<'_>) -> Result<ScalarArgs, OpError> {
    match args.text("approximate")? {
        "none" => Ok(ScalarArgs::of(&[0.0])),
        "tanh" => Ok(ScalarArgs::of(&[1.0])),
        other => Err(OpError::new("approximate", format!("is {other:?}, supported: \"none\", \"tanh\""))),
    }
}

fn at_least(x: f64, low: f64) -> f64 {
    if x < low { low } else { x }
}

/// Clamps as PyTorch does: NaN stays NaN, and where the bounds cross the upper one wins.
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let raised = at_least(x, low);
    if raised > high { high } else { raised }
}

fn gelu(x: f64, p: &Scalars<f64>) -> f64 {
    if p[0] == 1.0 {
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        return 0.5 * x * (1.0 + inner.tanh());
    }
    0.5 * x * (1.0 + elementwise::erf(x / std::f64::consts::SQRT_2))
}

/// As in PyTorch, exponents of ±0.5 use the square root, also for −infinity.
fn pow_scalar(x: f64, p: &Scalars<f64>) -> f64 {
    match p[0] {
        0.5 => x.sqrt(),
        -0.5 => x.sqrt().recip(),
        exponent => x.powf(exponent),
    }
}
