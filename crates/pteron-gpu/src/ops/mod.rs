//! The operators: one folder per operator or family. [`OPS`] is the registry: deleting an operator takes deleting its folder and its
//! two lines here. Other code knows an operator only through its declarations: in [`OpDef`], in the [`Flow`](crate::args::Flow) that
//! decoding records, and through the methods of [`Op`].

pub mod adamw_step;
pub mod arange;
pub mod attention;
pub mod batch_norm;
pub mod binary;
pub mod cdist;
pub mod choose_qparams;
pub mod compare;
pub mod convert;
pub mod convolution;
pub mod copy;
pub mod embedding;
pub mod embedding_q4gsw;
pub mod embedding_quantised;
pub mod fill;
pub mod fused_ce;
pub mod fused_linear;
pub mod gather;
pub mod glu;
pub mod group_norm;
pub mod hadamard;
pub mod layer_norm;
pub mod linear;
pub mod linear_dq8ca_q4gsw;
pub mod linear_q4gsw;
pub mod linear_q4gsw_backward;
pub mod lora;
pub mod math;
pub mod mm;
pub mod pad;
pub mod pool;
pub mod q4gsw_requant;
pub mod q8_conv;
pub mod q8_elementwise;
pub mod q8_linear;
pub mod q8_mean;
pub mod q8ta_pixel_shuffle;
pub mod quantise;
pub mod reduce;
pub mod resample;
pub mod rms_norm;
pub mod rotary;
pub mod sample_row;
pub mod scan;
pub mod scatter;
pub mod sdpa;
pub mod slice_scatter;
pub mod softmax;
pub mod sort;
pub mod symint;
pub mod triangle;
pub mod unary;
pub mod update_cache;
pub mod where_self;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::args::Args;
use crate::elementwise::Activation;
use crate::error::OpError;
use crate::kernel::KernelDef;
use crate::plan::Op;

/// An entry of the registry: one operator, or a family of operators with a common decoder.
#[derive(Debug)]
pub struct OpDef {
    /// Its names. Operators of a family are rows of a table in the same order, and [`Args::row`] returns the called one.
    pub names: &'static [&'static str],
    /// The names that no file may call: only rewrites and fusions of this crate use them.
    pub internal: &'static [&'static str],
    /// The kernels it may use. Tests over every kernel take them from here.
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

/// Finds the operator of a name, internal ones included.
#[must_use]
pub fn find(name: &str) -> Option<&'static OpDef> {
    find_row(name).map(|(def, _)| def)
}

/// Finds the operator of a name, and the row of its table: the index of the name among the operator's names.
pub(crate) fn find_row(name: &str) -> Option<(&'static OpDef, usize)> {
    static BY_NAME: LazyLock<HashMap<&str, (&OpDef, usize)>> = LazyLock::new(|| {
        let mut by_name = HashMap::new();
        for (def, row, name) in
            OPS.iter().flat_map(|&def| def.names.iter().enumerate().map(move |(row, name)| (def, row, *name)))
        {
            // Overloads of an elementwise operator share a name; decoding starts with the first.
            by_name.entry(name).or_insert((def, row));
        }
        by_name
    });
    BY_NAME.get(name).copied()
}

/// Finds the operator that a file may call by a name.
#[must_use]
pub fn find_in_files(name: &str) -> Option<&'static OpDef> {
    find(name).filter(|def| def.is_in_files(name))
}

/// The function of an elementwise operator of one tensor with these scalar arguments, for kernels that apply it to their results.
pub(crate) fn activation(name: &str, values: [f64; 4]) -> Option<Activation> {
    unary::activation(name, values)
}

/// Every function that [`activation`] returns.
pub(crate) fn activations() -> impl Iterator<Item = Activation> {
    unary::activations()
}

/// The names of a family's table, from the field of its rows that holds them.
macro_rules! names {
    ($table:expr, $field:tt) => {{
        let mut names = [""; $table.len()];
        let mut row = 0;
        while row < names.len() {
            names[row] = $table[row].$field;
            row += 1;
        }
        names
    }};
}
pub(crate) use names;

/// Every operator.
pub static OPS: &[&OpDef] = &[
    &adamw_step::DEF,
    &arange::DEF,
    &attention::DEF,
    &batch_norm::DEF,
    &binary::DEF,
    &cdist::DEF,
    &choose_qparams::DEF,
    &sample_row::DEF,
    &compare::UNARY_OPS,
    &compare::BINARY_OPS,
    &convert::DEF,
    &convolution::DEF,
    &copy::DEF,
    &embedding::DEF,
    &embedding_q4gsw::DEF,
    &embedding_quantised::DEF,
    &fill::DEF,
    &fused_ce::DEF,
    &gather::DEF,
    &glu::DEF,
    &group_norm::DEF,
    &hadamard::DEF,
    &layer_norm::DEF,
    &linear::DEF,
    &linear_dq8ca_q4gsw::DEF,
    &linear_q4gsw::DEF,
    &convolution::fused::DEF,
    &linear_q4gsw_backward::DEF,
    &fused_linear::DEF,
    &lora::DEF,
    &math::DEF,
    &mm::DEF,
    &pad::DEF,
    &pool::DEF,
    &pool::ADAPTIVE,
    &q4gsw_requant::DEF,
    &q8_conv::DEF,
    &q8_conv::requantised::DEF,
    &q8_elementwise::UNARY_OPS,
    &q8_elementwise::BINARY_OPS,
    &q8_linear::DEF,
    &q8_linear::rows::DEF,
    &q8_mean::DEF,
    &q8ta_pixel_shuffle::DEF,
    &quantise::DEF,
    &reduce::DEF,
    &resample::DEF,
    &rms_norm::DEF,
    &rotary::DEF,
    &scan::DEF,
    &scatter::DEF,
    &sdpa::DEF,
    &sdpa::paged::DEF,
    &sdpa::QUANTISED,
    &slice_scatter::DEF,
    &softmax::DEF,
    &sort::DEF,
    &symint::DEF,
    &triangle::DEF,
    &unary::DEF,
    &update_cache::DEF,
    &where_self::DEF,
];
