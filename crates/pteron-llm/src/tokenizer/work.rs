//! The limits of one call on the length of a text, its growth and the number of steps.

use super::TokenizerError;

/// The longest text that is encoded, in bytes. Millions of tokens, more than any context has room for.
pub const MAX_TEXT: usize = 16 << 20;
/// The most bytes that all steps of a tokenizer may write together, per byte of the text. Real ones write about ten.
pub const MAX_GROWTH: usize = 64;
/// The most steps of matching and lookup per byte of the text. Real tokenizers take about fifty.
pub const MAX_STEPS: usize = 1000;

/// Bytes that may be written for any text, however short.
const FLOOR_BYTES: usize = 1 << 20;
/// Steps that may be taken for any text, however short.
const FLOOR_STEPS: usize = 1 << 22;

/// The bytes and steps that are left.
#[derive(Debug)]
pub(super) struct Work {
    bytes: usize,
    steps: usize,
}

impl Work {
    /// The budget for a text of this many bytes.
    ///
    /// # Errors
    /// A text that is too long.
    pub(super) fn new(len: usize) -> Result<Self, TokenizerError> {
        if len > MAX_TEXT {
            return Err(TokenizerError::TextTooLong { bytes: len, most: MAX_TEXT });
        }
        let limit = |floor: usize, each: usize| len.saturating_mul(each).saturating_add(floor);
        Ok(Self { bytes: limit(FLOOR_BYTES, MAX_GROWTH), steps: limit(FLOOR_STEPS, MAX_STEPS) })
    }

    /// Charges bytes that are about to be written.
    pub(super) fn write(&mut self, bytes: usize) -> Result<(), TokenizerError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(TokenizerError::Growth { most: MAX_GROWTH })?;
        Ok(())
    }

    /// Charges steps.
    pub(super) fn step(&mut self, steps: usize) -> Result<(), TokenizerError> {
        self.steps = self.steps.checked_sub(steps).ok_or(TokenizerError::Steps { most: MAX_STEPS })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_follow_the_text_and_end() {
        let mut work = Work::new(10).unwrap();
        assert!(work.write(FLOOR_BYTES + 10 * MAX_GROWTH).is_ok());
        assert!(matches!(work.write(1), Err(TokenizerError::Growth { .. })));
        assert!(work.step(FLOOR_STEPS + 10 * MAX_STEPS).is_ok());
        assert!(matches!(work.step(1), Err(TokenizerError::Steps { .. })));
        assert!(Work::new(MAX_TEXT).is_ok());
        let error = Work::new(MAX_TEXT + 1).unwrap_err();
        assert!(matches!(error, TokenizerError::TextTooLong { .. }));
        assert!(error.to_string().contains("16777217 bytes"), "{error}");
    }
}
