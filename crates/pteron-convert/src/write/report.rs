//! What a conversion did.

use serde::{Serialize, Serializer};

use crate::config::Weight;
use crate::quantise::QuantisationError;
use crate::template::WeightFormat;

/// What a conversion did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The file's length in bytes.
    pub bytes: u64,
    /// Constants of the graph.
    pub constants: usize,
    /// Constants that were stored: equal ones are once.
    pub stored: usize,
    /// Of all weights that were rounded: the length of the error divided by the length of the weights, as vectors.
    pub relative_error: f64,
    /// Each weight, in the order in which they were written.
    pub weights: Vec<ConvertedWeight>,
}

/// What became of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ConvertedWeight {
    /// The weight; as JSON its name.
    #[serde(serialize_with = "name")]
    pub weight: Weight,
    /// How it is stored.
    pub form: WeightFormat,
    /// How many numbers it has.
    pub numbers: u64,
    /// The greatest error of a number.
    pub max_error: f32,
    /// The length of the error divided by the length of the weight, both as vectors.
    pub relative_error: f64,
    /// Whether every number is the checkpoint's.
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
