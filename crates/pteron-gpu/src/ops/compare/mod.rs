//! Comparisons and logic: truth values out. A row of `TABLE` or `ALONE` is an operator.

#[cfg(test)]
mod tests;

use crate::graph::Elem;
use crate::map::{self, ALL, Formula, Gives, Host, MAP1, MAP2, Numbers, Row};
use crate::ops::OpDef;

/// Of two tensors.
pub static OF_TWO: OpDef = OpDef {
    names: &map::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&MAP2],
    decode: |args| map::decode(TABLE, args),
};
/// Of one tensor, and perhaps a number.
pub static OF_ONE: OpDef = OpDef {
    names: &map::names::<{ ALONE.len() }>(ALONE),
    internal: &[],
    kernels: &[&MAP1],
    decode: |args| map::decode(ALONE, args),
};

/// Two tensors.
pub(crate) const TABLE: &[Row] = &[
    two("aten.eq.Tensor", ["x == y"; 2], |x, y, _| f(x == y), |x, y, _| i(x == y)),
    // Not `!=`: compilers differ on whether NaN is unlike itself.
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
];

/// One tensor, and perhaps a number.
pub(crate) const ALONE: &[Row] = &[
    with_number("aten.eq.Scalar", ["x == X(params.p.x)", "x == X(params.q.x)"], |x, p| f(x == p[0]), |x, q| i(x == q[0])),
    with_number(
        "aten.ne.Scalar",
        ["!(x == X(params.p.x))", "!(x == X(params.q.x))"],
        |x, p| f(x != p[0]),
        |x, q| i(x != q[0]),
    ),
    with_number("aten.lt.Scalar", ["x < X(params.p.x)", "x < X(params.q.x)"], |x, p| f(x < p[0]), |x, q| i(x < q[0])),
    with_number("aten.le.Scalar", ["x <= X(params.p.x)", "x <= X(params.q.x)"], |x, p| f(x <= p[0]), |x, q| i(x <= q[0])),
    with_number("aten.gt.Scalar", ["x > X(params.p.x)", "x > X(params.q.x)"], |x, p| f(x > p[0]), |x, q| i(x > q[0])),
    with_number("aten.ge.Scalar", ["x >= X(params.p.x)", "x >= X(params.q.x)"], |x, p| f(x >= p[0]), |x, q| i(x >= q[0])),
    Row {
        numbers: Numbers::none,
        ..with_number("aten.logical_not.default", ["x == X()"; 2], |x, _| f(x == 0.0), |x, _| i(x == 0))
    },
    Row {
        takes: &[Elem::Bool],
        float: None,
        numbers: Numbers::none,
        ..with_number("aten.bitwise_not.default", ["x == X()"; 2], |x, _| f(x == 0.0), |x, _| i(x == 0))
    },
    Row {
        takes: &[Elem::I32, Elem::U8, Elem::I8],
        gives: Gives::Same,
        float: None,
        numbers: Numbers::none,
        ..with_number("aten.bitwise_not.default", ["~x"; 2], |x, _| x, |x, _| !x)
    },
];

const fn f(truth: bool) -> f64 {
    if truth { 1.0 } else { 0.0 }
}

const fn i(truth: bool) -> i64 {
    if truth { 1 } else { 0 }
}

type OfTwo<N> = fn(N, N, &[N; 4]) -> N;
type OfOne<N> = fn(N, &[N; 4]) -> N;

const fn two(name: &'static str, wgsl: [&'static str; 2], floats: OfTwo<f64>, integers: OfTwo<i64>) -> Row {
    Row {
        name,
        tensors: &["self", "other"],
        takes: ALL,
        gives: Gives::Truth,
        numbers: Numbers::none,
        float: Some(Formula { wgsl: wgsl[0], host: Host::Two(floats) }),
        integer: Some(Formula { wgsl: wgsl[1], host: Host::Two(integers) }),
    }
}

const fn with_number(name: &'static str, wgsl: [&'static str; 2], floats: OfOne<f64>, integers: OfOne<i64>) -> Row {
    Row {
        name,
        tensors: &["self"],
        takes: ALL,
        gives: Gives::Truth,
        numbers: |args| Ok(Numbers::of(&[args.float("other")?])),
        float: Some(Formula { wgsl: wgsl[0], host: Host::One(floats) }),
        integer: Some(Formula { wgsl: wgsl[1], host: Host::One(integers) }),
    }
}
