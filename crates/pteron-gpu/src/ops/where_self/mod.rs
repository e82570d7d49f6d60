//! Elementwise operators of three tensors, some of which may be None.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::elementwise::{self, ALL, Formula, Host, ResultType, Row, ScalarArgs};
use crate::error::OpError;
use crate::kernel::KernelDef;
use crate::ops::OpDef;
use crate::plan::Op;

static KERNEL: KernelDef = elementwise::kernel("where_self", 3, || elementwise::variants(&KERNEL, TABLE));
static ONE_SIDED: KernelDef = elementwise::kernel("clamp_tensor", 2, || elementwise::variants(&ONE_SIDED, CLAMPS));

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&KERNEL, &ONE_SIDED],
    decode: |args| {
        if args.operator() == CLAMP { decode_clamp(args) } else { elementwise::decode(&KERNEL, TABLE, args) }
    },
};

const CLAMP: &str = "aten.clamp.Tensor";

/// Operators of three tensors.
const TABLE: &[Row] = &[
    Row {
        name: "aten.where.self",
        tensors: &["condition", "self", "other"],
        dtypes: ALL,
        conditional: true,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new(SELECT, Host::Select(|truth, y, z| if truth != 0 { y } else { z }))),
        integer: Some(Formula::new(SELECT, Host::Select(|truth, y, z| if truth != 0 { y } else { z }))),
    },
    Row {
        name: CLAMP,
        tensors: &["self", "min", "max"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new("min_ieee(max_ieee(x, y), z)", Host::Ternary(|x, y, z| below(above(x, y), z)))),
        integer: Some(Formula::new("min(max(x, y), z)", Host::Ternary(|x, y, z| x.max(y).min(z)))),
    },
];

const SELECT: &str = "select(y, z, x == X())";

/// A clamp with a lower bound alone, and one with an upper bound alone.
const CLAMPS: &[Row] = &[
    Row {
        name: CLAMP,
        tensors: &["self", "min"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new("max_ieee(x, y)", Host::Binary(|x, y, _| above(x, y)))),
        integer: Some(Formula::new("max(x, y)", Host::Binary(|x, y, _| x.max(y)))),
    },
    Row {
        name: CLAMP,
        tensors: &["self", "max"],
        dtypes: ALL,
        conditional: false,
        result: ResultType::Promoted,
        scalars: ScalarArgs::none,
        float: Some(Formula::new("min_ieee(x, y)", Host::Binary(|x, y, _| below(x, y)))),
        integer: Some(Formula::new("min(x, y)", Host::Binary(|x, y, _| x.min(y)))),
    },
];

fn decode_clamp(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor("self")?;
    match (args.optional_tensor("min")?, args.optional_tensor("max")?) {
        (Some(low), Some(high)) => elementwise::finish(&KERNEL, &TABLE[1], vec![x, low, high], ScalarArgs::default(), args),
        (Some(low), None) => elementwise::finish(&ONE_SIDED, &CLAMPS[0], vec![x, low], ScalarArgs::default(), args),
        (None, Some(high)) => elementwise::finish(&ONE_SIDED, &CLAMPS[1], vec![x, high], ScalarArgs::default(), args),
        (None, None) => Err(OpError::new("min", "and `max` are both None, expected a bound")),
    }
}

/// The larger of two numbers, NaN if one is.
fn above(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

fn below(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }
}
