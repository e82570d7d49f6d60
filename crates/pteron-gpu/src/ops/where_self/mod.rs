//! `aten.where.self`: selects each element from one of two tensors by a condition.

#[cfg(test)]
mod tests;

use crate::elementwise::{self, ALL, Formula, Host, ResultType, Row, ScalarArgs};
use crate::kernel::KernelDef;
use crate::ops::OpDef;

static KERNEL: KernelDef = elementwise::kernel("where_self", 3, || elementwise::variants(&KERNEL, TABLE));

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &elementwise::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&KERNEL],
    decode: |args| elementwise::decode(&KERNEL, TABLE, args),
};

/// The only operator of three tensors.
const TABLE: &[Row] = &[Row {
    name: "aten.where.self",
    tensors: &["condition", "self", "other"],
    dtypes: ALL,
    result: ResultType::Promoted,
    scalars: ScalarArgs::none,
    float: Some(Formula::new(SELECT, Host::Ternary(|truth, y, z| if truth != 0 { y } else { z }))),
    integer: Some(Formula::new(SELECT, Host::Ternary(|truth, y, z| if truth != 0 { y } else { z }))),
}];

const SELECT: &str = "select(y, z, x == X())";
