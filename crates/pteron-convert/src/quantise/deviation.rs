//! How far quantised weights are from the original.

use super::lanes::squared_error;

/// How far quantised numbers are from the originals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    greatest: f32,
    squared_errors: f64,
    squared_weights: f64,
}

impl Deviation {
    /// The greatest error of a number.
    #[must_use]
    pub fn greatest(&self) -> f32 {
        self.greatest
    }

    /// The length of the error divided by the length of the weight, both as vectors; 0 for zeros that stayed zeros.
    #[must_use]
    pub fn relative(&self) -> f64 {
        if self.squared_errors == 0.0 { 0.0 } else { (self.squared_errors / self.squared_weights).sqrt() }
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.greatest == 0.0
    }

    /// Both as one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            greatest: self.greatest.max(other.greatest),
            squared_errors: self.squared_errors + other.squared_errors,
            squared_weights: self.squared_weights + other.squared_weights,
        }
    }

    pub(super) fn add_group(&mut self, weights: &[f32], levels: &[f32], scale: f32) {
        for (weight, level) in weights.iter().zip(levels) {
            let error = (weight - level * scale).abs();
            self.greatest = if error > self.greatest { error } else { self.greatest };
        }
        self.squared_errors += squared_error(weights, levels, scale);
        self.squared_weights += squared_error(weights, levels, 0.0);
    }
}
