//! How far quantised weights are from the original.

use super::simd::squared_error;

/// How far quantised numbers are from the originals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuantisationError {
    max_error: f32,
    squared_errors: f64,
    squared_weights: f64,
}

impl QuantisationError {
    /// The max_error error of a number.
    #[must_use]
    pub fn max_error(&self) -> f32 {
        self.max_error
    }

    /// The length of the error divided by the length of the weight, both as vectors; 0 for zeros that stayed zeros.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        if self.squared_errors == 0.0 { 0.0 } else { (self.squared_errors / self.squared_weights).sqrt() }
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.max_error == 0.0
    }

    /// Both as one.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            max_error: self.max_error.max(other.max_error),
            squared_errors: self.squared_errors + other.squared_errors,
            squared_weights: self.squared_weights + other.squared_weights,
        }
    }

    pub(super) fn add_group(&mut self, weights: &[f32], levels: &[f32], scale: f32) {
        for (weight, level) in weights.iter().zip(levels) {
            let error = (weight - level * scale).abs();
            self.max_error = if error > self.max_error { error } else { self.max_error };
        }
        self.squared_errors += squared_error(weights, levels, scale);
        self.squared_weights += squared_error(weights, levels, 0.0);
    }
}
