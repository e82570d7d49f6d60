//! Comparisons and logic, with boolean results. Each row of `BINARY_TABLE` or `UNARY_TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::elementwise::{self, ALL, Formula, Host, ResultType, Row, ScalarArgs, Scalars};
use crate::graph::Elem;
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static BINARY_KERNEL: KernelDef =
    elementwise::kernel("compare_tensors", 2, || elementwise::variants(&BINARY_KERNEL, BINARY_TABLE));
static UNARY_KERNEL: KernelDef =
    elementwise::kernel("compare_scalar", 1, || elementwise::variants(&UNARY_KERNEL, UNARY_TABLE));

/// The registry entry of operators of two tensors.
pub static BINARY_OPS: OpDef = OpDef {
    names: &elementwise::names::<{ BINARY_TABLE.len() }>(BINARY_TABLE),
    internal: &[],
    kernels: &[&BINARY_KERNEL],
    decode: |args| elementwise::decode(&BINARY_KERNEL, BINARY_TABLE, args),
};
/// The registry entry of operators of one tensor and perhaps a scalar.
pub static UNARY_OPS: OpDef = OpDef {
    names: &elementwise::names::<{ UNARY_TABLE.len() }>(UNARY_TABLE),
    internal: &[],
    kernels: &[&UNARY_KERNEL],
    decode: |args| elementwise::decode(&UNARY_KERNEL, UNARY_TABLE, args),
};

/// Operators of two tensors.
const BINARY_TABLE: &[Row] = &[
    two("aten.eq.Tensor", ["x == y"; 2], |x, y, _| f(x == y), |x, y, _| i(x == y)),
    // Not `!=`: shader compilers differ on whether NaN != NaN.
    two("aten.ne.Tensor", ["!(x == y)"; 2], |x, y, _| f(x != y), |x, y, _| i(x != y)),
    two("aten.lt.Tensor", ["x < y"; 2], |x, y, _| f(x < y), |x, y, _| i(x < y)),
    two("aten.le.Tensor", ["x <= y"; 2], |x, y, _| f(x <= y), |x, y, _| i(x <= y)),
    two("aten.gt.Tensor", ["x > y"; 2], |x, y, _| f(x > y), |x, y, _| i(x > y)),
    two("aten.ge.Tensor", ["x >= y"; 2], |x, y, _| f(x >= y), |x, y, _| i(x >= y)),
    two(
        "aten.logical_and.default",
        ["!(x == X()) & !(y == Y())"; 2],
        |x, y, _| f(x != 0.0 && y != 0.0),
        |x, y, _| i(x != 0 && y != 0),
    ),
    two(
        "aten.logical_or.default",
        ["!(x == X()) | !(y == Y())"; 2],
        |x, y, _| f(x != 0.0 || y != 0.0),
        |x, y, _| i(x != 0 || y != 0),
    ),
    two(
        "aten.logical_xor.default",
        ["(x == X()) != (y == Y())"; 2],
        |x, y, _| f((x != 0.0) != (y != 0.0)),
        |x, y, _| i((x != 0) != (y != 0)),
    ),
];

/// Operators of one tensor and perhaps a scalar.
const UNARY_TABLE: &[Row] = &[
    with_scalar("aten.eq.Scalar", ["x == X(params.p.x)", "x == X(params.q.x)"], |x, p| f(x == p[0]), |x, q| i(x == q[0])),
    with_scalar(
        "aten.ne.Scalar",
        ["!(x == X(params.p.x))", "!(x == X(params.q.x))"],
        |x, p| f(x != p[0]),
        |x, q| i(x != q[0]),
    ),
    with_scalar("aten.lt.Scalar", ["x < X(params.p.x)", "x < X(params.q.x)"], |x, p| f(x < p[0]), |x, q| i(x < q[0])),
    with_scalar("aten.le.Scalar", ["x <= X(params.p.x)", "x <= X(params.q.x)"], |x, p| f(x <= p[0]), |x, q| i(x <= q[0])),
    with_scalar("aten.gt.Scalar", ["x > X(params.p.x)", "x > X(params.q.x)"], |x, p| f(x > p[0]), |x, q| i(x > q[0])),
    with_scalar("aten.ge.Scalar", ["x >= X(params.p.x)", "x >= X(params.q.x)"], |x, p| f(x >= p[0]), |x, q| i(x >= q[0])),
    Row {
        scalars: ScalarArgs::none,
        ..with_scalar("aten.logical_not.default", ["x == X()"; 2], |x, _| f(x == 0.0), |x, _| i(x == 0))
    },
    Row {
        scalars: ScalarArgs::none,
        ..with_scalar("aten.isnan.default", ["is_nan(x)", "vec4<bool>()"], |x, _| f(x.is_nan()), |_, _| 0)
    },
    Row {
        scalars: ScalarArgs::none,
        ..with_scalar(
            "aten.isinf.default",
            ["!(is_finite(x) | is_nan(x))", "vec4<bool>()"],
            |x, _| f(x.is_infinite()),
            |_, _| 0,
        )
    },
    Row {
        dtypes: &[Elem::Bool],
        float: None,
        scalars: ScalarArgs::none,
        ..with_scalar("aten.bitwise_not.default", ["x == X()"; 2], |x, _| f(x == 0.0), |x, _| i(x == 0))
    },
    Row {
        dtypes: &[Elem::I32, Elem::U8, Elem::I8],
        result: ResultType::Promoted,
        float: None,
        scalars: ScalarArgs::none,
        ..with_scalar("aten.bitwise_not.default", ["~x"; 2], |x, _| x, |x, _| !x)
    },
];

const fn f(truth: bool) -> f64 {
    if truth { 1.0 } else { 0.0 }
}

const fn i(truth: bool) -> i64 {
    if truth { 1 } else { 0 }
}

type OfTwo<N> = fn(N, N, &Scalars<N>) -> N;
type OfOne<N> = fn(N, &Scalars<N>) -> N;

const fn two(name: &'static str, wgsl: [&'static str; 2], floats: OfTwo<f64>, integers: OfTwo<i64>) -> Row {
    Row {
        name,
        tensors: &["self", "other"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Bool,
        scalars: ScalarArgs::none,
        float: Some(Formula::new(wgsl[0], Host::Binary(floats))),
        integer: Some(Formula::new(wgsl[1], Host::Binary(integers))),
    }
}

const fn with_scalar(name: &'static str, wgsl: [&'static str; 2], floats: OfOne<f64>, integers: OfOne<i64>) -> Row {
    Row {
        name,
        tensors: &["self"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Bool,
        scalars: |args| ScalarArgs::number(args, "other"),
        float: Some(Formula::new(wgsl[0], Host::Unary(floats))),
        integer: Some(Formula::new(wgsl[1], Host::Unary(integers))),
    }
}
