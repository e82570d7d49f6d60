//! The report of a conversion.

use serde::{Serialize, Serializer};

use crate::config::Weight;
use crate::quantise::QuantisationError;
use crate::template::WeightFormat;

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The file's length in bytes.
    pub bytes: u64,
    /// Constants of the graph.
    pub constants: usize,
    /// Distinct constants stored.
    pub stored: usize,
    /// L2 norm of the quantisation error divided by that of the weights, over all quantised weights.
    pub relative_error: f64,
    /// The weights, in the order of writing.
    pub weights: Vec<ConvertedWeight>,
}

/// A converted weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConvertedWeight {
    /// The weight; its name in JSON.
    #[serde(serialize_with = "name")]
    pub weight: Weight,
    /// The storage format.
    pub form: WeightFormat,
    /// The number of elements.
    pub numbers: u64,
    /// The largest absolute error.
    #[serde(rename = "greatest_error")]
    pub max_error: f32,
    /// L2 norm of the error divided by that of the weight.
    pub relative_error: f64,
    /// Whether every value equals the checkpoint's.
    pub lossless: bool,
}

/// A weight that was computed, before it is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) weight: Weight,
    pub(super) form: WeightFormat,
    pub(super) numbers: u64,
    pub(super) deviation: QuantisationError,
}

impl Report {
    pub(super) fn new(bytes: u64, constants: usize, stored: usize, weights: Vec<Measured>) -> Self {
        let all = weights.iter().fold(QuantisationError::default(), |all, weight| all.merge(weight.deviation));
        let weights = weights.into_iter().map(ConvertedWeight::from).collect();
        Self { bytes, constants, stored, relative_error: all.relative_error(), weights }
    }
}

impl From<Measured> for ConvertedWeight {
    fn from(Measured { weight, form, numbers, deviation }: Measured) -> Self {
        let (max_error, relative_error) = (deviation.max_error(), deviation.relative_error());
        Self { weight, form, numbers, max_error, relative_error, lossless: deviation.is_lossless() }
    }
}

fn name<S: Serializer>(weight: &Weight, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(weight)
}
