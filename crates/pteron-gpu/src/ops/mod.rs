//! The operators: one folder each, or a row of a family's table. [`OPS`] is the whole registry.

pub mod arange;
pub mod attention;
pub mod binary;
pub mod choose_qparams;
pub mod compare;
pub mod convert;
pub mod copy;
pub mod embedding;
pub mod embedding_q4gsw;
pub mod fill;
pub mod fused_linear_q4gsw;
pub mod gather;
pub mod layer_norm;
pub mod linear;
pub mod linear_dq8ca_q4gsw;
pub mod linear_q4gsw;
pub mod mm;
pub mod pad;
pub mod reduce;
pub mod rms_norm;
pub mod rotary;
pub mod sample_row;
pub mod sdpa;
pub mod softmax;
pub mod symint;
pub mod unary;
pub mod update_cache;
pub mod where_self;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::args::Args;
use crate::error::OpError;
use crate::kernel::KernelDef;
use crate::plan::Op;

/// An entry of the registry: the names in files, the kernels, and how arguments become an operator.
#[derive(Debug)]
pub struct OpDef {
    /// The names it goes by.
    pub names: &'static [&'static str],
    /// Those of its names that no file may call: only the rewrites and fusions of this crate write them.
    pub internal: &'static [&'static str],
    /// The kernels it may use; the tests that run over every kernel take them from here.
    pub kernels: &'static [&'static KernelDef],
    /// Decodes the arguments of a call.
    pub decode: fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>,
}

impl OpDef {
    /// Whether a file may call the operator by this name.
    #[must_use]
    pub fn is_in_files(&self, name: &str) -> bool {
        self.names.contains(&name) && !self.internal.contains(&name)
    }
}

/// Finds the operator that goes by a name, internal ones included.
#[must_use]
pub fn find(name: &str) -> Option<&'static OpDef> {
    static BY_NAME: LazyLock<HashMap<&str, &OpDef>> =
        LazyLock::new(|| OPS.iter().flat_map(|&def| def.names.iter().map(move |&name| (name, def))).collect());
    BY_NAME.get(name).copied()
}

/// Finds the operator that a file may call by a name.
#[must_use]
pub fn find_in_files(name: &str) -> Option<&'static OpDef> {
    find(name).filter(|def| def.is_in_files(name))
}

/// The names of a family, off its table.
pub(crate) const fn names<Row, const N: usize>(table: &[(&'static str, Row)]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut row = 0;
    while row < N {
        names[row] = table[row].0;
        row += 1;
    }
    names
}

/// Every operator there is.
pub static OPS: &[&OpDef] = &[
    &arange::DEF,
    &attention::DEF,
    &binary::DEF,
    &choose_qparams::DEF,
    &sample_row::DEF,
    &compare::UNARY_OPS,
    &compare::BINARY_OPS,
    &convert::DEF,
    &copy::DEF,
    &embedding::DEF,
    &embedding_q4gsw::DEF,
    &fill::DEF,
    &gather::DEF,
    &layer_norm::DEF,
    &linear::DEF,
    &linear_dq8ca_q4gsw::DEF,
    &linear_q4gsw::DEF,
    &fused_linear_q4gsw::DEF,
    &mm::DEF,
    &pad::DEF,
    &reduce::DEF,
    &rms_norm::DEF,
    &rotary::DEF,
    &sdpa::DEF,
    &softmax::DEF,
    &symint::DEF,
    &unary::DEF,
    &update_cache::DEF,
    &where_self::DEF,
];

/// The tables of elementwise operators.
pub(crate) static ELEMENTWISE_TABLES: &[&[crate::elementwise::Row]] =
    &[unary::TABLE, binary::TABLE, compare::BINARY_TABLE, compare::UNARY_TABLE, convert::TABLE, where_self::TABLE];
