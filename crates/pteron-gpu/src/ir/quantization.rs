//! Quantised tensors: how integers represent real numbers.

use super::ValueId;

/// How the integers of a quantised tensor represent real numbers: `real = (integer − zero point) · scale`.
///
/// Scales and zero points that differ within a tensor are tensors of the graph themselves: constants for weights, computed ones
/// for activations that are quantised when the graph runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantization {
    /// One pair for the whole tensor.
    PerTensor {
        /// The scale.
        scale: f32,
        /// The integer that represents 0.
        zero_point: i32,
    },
    /// One scale per index along a dim, such as per output channel of a weight.
    PerChannel {
        /// The dim.
        axis: usize,
        /// Scales `[size of the dim]`.
        scales: ValueId,
        /// The integer that represents 0.
        zero_point: i32,
    },
    /// One scale per group of adjacent elements along the last dim, such as groups of 4-bit weights.
    PerGroup {
        /// Elements per group.
        group_size: u32,
        /// Scales `[.., last dim / group size]`.
        scales: ValueId,
        /// The integer that represents 0.
        zero_point: i32,
    },
    /// One pair per row, computed when the graph runs: an activation quantised per token.
    PerToken {
        /// The number of trailing dims per row: 1 before linears, 3 before convolutions of images.
        row_dims: usize,
        /// One scale per row.
        scales: ValueId,
        /// One zero point per row.
        zero_points: ValueId,
    },
}

impl Quantization {
    /// The tensors that hold its parameters.
    pub fn parameters(&self) -> impl Iterator<Item = ValueId> + use<> {
        let (scales, zero_points) = match *self {
            Self::PerTensor { .. } => (None, None),
            Self::PerChannel { scales, .. } | Self::PerGroup { scales, .. } => (Some(scales), None),
            Self::PerToken { scales, zero_points, .. } => (Some(scales), Some(zero_points)),
        };
        scales.into_iter().chain(zero_points)
    }
}
