//! Symmetric 4-bit group quantisation: value = (nibble − 8) · scale.
//!
//! A row is split into groups with one scale per group. Scales are float32 and may be negative, which mirrors the range −8..7.

mod error;
mod exporter;
mod search;
mod simd;
#[cfg(test)]
mod tests;

pub use error::QuantisationError;

use simd::{LANES, absmax, level, nibble, round_all};

/// The smallest and the largest level: a quantised value before scaling.
const MIN_LEVEL: f32 = -8.0;
const MAX_LEVEL: f32 = 7.0;

/// The method that chooses the scale of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScaleMethod {
    /// The least squared error among many candidates of either sign.
    #[default]
    Search,
    /// Bit for bit the scales of ExecuTorch's exporter (`-qmode 4w`, `--embedding-quantize 4,32`) for groups of up to 512 elements:
    /// torchao's scale-only HQQ.
    Exporter,
    /// absmax / 7.5, as that exporter does without HQQ.
    MaxAbs,
}

/// The first value of a row that is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotFinite {
    /// Its column.
    pub column: usize,
    /// The number.
    pub value: f32,
}

/// Whether rows of this many columns can be split into groups of this size.
#[must_use]
pub fn fits(columns: usize, group: usize) -> bool {
    group > 0 && group.is_multiple_of(LANES) && columns.is_multiple_of(group)
}

/// Checks that every value is finite.
///
/// # Errors
/// The first value that is not.
pub fn finite(row: &[f32]) -> Result<(), NotFinite> {
    // A pass that never leaves early is many times faster than one that may.
    if row.iter().fold(true, |all, value| all & value.is_finite()) {
        return Ok(());
    }
    match row.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(column) => Err(NotFinite { column, value: row[column] }),
    }
}

/// Quantises a row. `nibbles` has one byte per two values of `row`, `scales` one number per group, and the group must [fit](fits).
///
/// # Errors
/// The first value that is not finite.
pub fn quantise_row(
    how: ScaleMethod,
    row: &[f32],
    group: usize,
    nibbles: &mut [u8],
    scales: &mut [f32],
) -> Result<QuantisationError, NotFinite> {
    debug_assert!(fits(row.len(), group), "{} columns in groups of {group}", row.len());
    finite(row)?;
    let mut deviation = QuantisationError::default();
    let mut levels = vec![0.0; group];
    let groups = row.chunks_exact(group).zip(nibbles.chunks_exact_mut(group / 2));
    for ((weights, nibbles), scale) in groups.zip(scales) {
        *scale = match how {
            ScaleMethod::Search => search::group(weights, &mut levels),
            ScaleMethod::Exporter => exporter::group(weights, &mut levels),
            ScaleMethod::MaxAbs => max_abs(weights, &mut levels),
        };
        pack(&levels, nibbles);
        deviation.add_group(weights, &levels, *scale);
    }
    Ok(deviation)
}

/// Dequantises a row. `out` has two elements per byte of `nibbles`.
pub fn dequantise_row(nibbles: &[u8], scales: &[f32], out: &mut [f32]) {
    let group = out.len() / scales.len().max(1);
    let groups = out.chunks_exact_mut(group.max(2)).zip(nibbles.chunks_exact((group / 2).max(1)));
    for ((out, nibbles), &scale) in groups.zip(scales) {
        for (pair, &byte) in out.chunks_exact_mut(2).zip(nibbles) {
            pair[0] = level(byte & 15) * scale;
            pair[1] = level(byte >> 4) * scale;
        }
    }
}

/// Computes levels and scale from the largest magnitude.
fn max_abs(weights: &[f32], levels: &mut [f32]) -> f32 {
    // The least normal number keeps the reciprocal finite where all weights are zero.
    let scale = (absmax(weights) / 7.5).max(f32::MIN_POSITIVE);
    round_all(weights, 1.0 / scale, levels);
    scale
}

/// Packs two levels per byte, the first in the low nibble.
fn pack(levels: &[f32], nibbles: &mut [u8]) {
    for (pair, byte) in levels.chunks_exact(2).zip(nibbles) {
        *byte = nibble(pair[0]) | nibble(pair[1]) << 4;
    }
}
