//! Integers of a graph input that name elements of a tensor, which the host can check.

use crate::live::TensorId;
use crate::shape::Dims;

/// A graph input whose integers name elements along a dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexInput {
    /// The input.
    pub indices: TensorId,
    /// The tensor whose elements they name.
    pub of: TensorId,
    /// The dimension. A single number counts as one element of dimension 0.
    pub axis: usize,
    /// Whether negative indices count from the end.
    pub from_end: bool,
}

impl IndexInput {
    /// The valid indices if `of` has these dims, as a half-open range.
    #[must_use]
    pub fn range(&self, dims: &Dims) -> (i64, i64) {
        let end = dims.get(self.axis).map_or(1, |&dim| i64::from(dim));
        (if self.from_end { -end } else { 0 }, end)
    }
}
