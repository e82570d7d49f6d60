//! Numbers of quantised values.

use pteron_format::xnnpack as file;

/// The scale and the zero point of a value of signed bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantised {
    pub(super) scale: f32,
    pub(super) zero_point: i32,
}

impl Quantised {
    /// The integer of a real number, by the rule for bounds and paddings: divided by the scale, clamped, and rounded to even.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the numbers are those of bytes")]
    pub(super) fn integer(self, real: f32) -> i8 {
        // A float is cast to the nearest byte.
        (real / self.scale + self.zero_point as f32).clamp(-128.0, 127.0).round_ties_even() as i8
    }

    /// The least and the largest integer within a range of real numbers.
    pub(super) fn bounds(self, range: Option<file::OutputRange>) -> [i8; 2] {
        range.map_or([i8::MIN, i8::MAX], |range| [range.min, range.max].map(|bound| self.integer(bound)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_quantised_and_clamped() {
        let quantised = Quantised { scale: 0.5, zero_point: -3 };
        assert_eq!(quantised.bounds(None), [-128, 127]);
        let range = |min, max| Some(file::OutputRange { min, max });
        assert_eq!(quantised.bounds(range(0.0, 6.0)), [-3, 9]);
        assert_eq!(quantised.bounds(range(f32::NEG_INFINITY, f32::INFINITY)), [-128, 127]);
        // Ties go to even.
        assert_eq!(quantised.bounds(range(0.25, 0.75)), [-2, -2]);
    }
}
