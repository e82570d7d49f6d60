//! Quantisation error.

use super::simd::squared_error;

/// The error of quantised weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuantisationError {
    max_error: f32,
    squared_errors: f64,
    squared_weights: f64,
}

impl QuantisationError {
    /// Returns the largest absolute error.
    #[must_use]
    pub fn max_error(&self) -> f32 {
        self.max_error
    }

    /// Returns the L2 norm of the error divided by that of the weights; 0 if there is no error.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        if self.squared_errors == 0.0 { 0.0 } else { (self.squared_errors / self.squared_weights).sqrt() }
    }

    /// Whether every value is unchanged.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        self.max_error == 0.0
    }

    /// Combines two errors.
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
