//! `aten.where.self`: each element from one tensor or another, as a third one says.

#[cfg(test)]
mod tests;

use crate::map::{self, ALL, Formula, Gives, Host, MAP3, Numbers, Row};
use crate::ops::OpDef;

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &map::names::<{ TABLE.len() }>(TABLE),
    internal: &[],
    kernels: &[&MAP3],
    decode: |args| map::decode(TABLE, args),
};

/// A family of one: the only operator of three tensors.
pub(crate) const TABLE: &[Row] = &[Row {
    name: "aten.where.self",
    tensors: &["condition", "self", "other"],
    takes: ALL,
    gives: Gives::Same,
    numbers: Numbers::none,
    float: Some(Formula { wgsl: CHOICE, host: Host::Three(|truth, y, z| if truth != 0 { y } else { z }) }),
    integer: Some(Formula { wgsl: CHOICE, host: Host::Three(|truth, y, z| if truth != 0 { y } else { z }) }),
}];

const CHOICE: &str = "select(y, z, x == X())";
