//! `aten.where.self`: selects each element from one of two tensors by a condition.

#[cfg(test)]
mod tests;

use crate::elementwise::{self, ALL, Formula, Host, ResultType, Row, ScalarArgs, TERNARY};
use crate::ops::OpDef;

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&TERNARY],
    decode: |args| elementwise::decode(TABLE, args),
};

/// The only operator of three tensors.
pub(crate) const TABLE: &[Row] = &[Row {
    name: "aten.where.self",
    tensors: &["condition", "self", "other"],
    dtypes: ALL,
    result: ResultType::Promoted,
    scalars: ScalarArgs::none,
    float: Some(Formula { wgsl: SELECT, host: Host::Ternary(|truth, y, z| if truth != 0 { y } else { z }) }),
    integer: Some(Formula { wgsl: SELECT, host: Host::Ternary(|truth, y, z| if truth != 0 { y } else { z }) }),
}];

const SELECT: &str = "select(y, z, x == X())";
