//! The precision of kernels.

use crate::plan::Caps;

/// The precision of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats throughout.
    #[default]
    Full,
    /// Factors of matrix products are rounded to 16 bits where that is faster: relative to the largest of 32 neighbours with
    /// few tokens, as 16-bit floats with many, where the GPU has cooperative matrices for them. Sums have 32 bits. Elsewhere
    /// as [`Full`](Self::Full). Precise enough to choose tokens, and many times as fast. Products with an infinite activation are
    /// infinite or NaN, whichever the sign of the weight.
    Fast,
}

impl Precision {
    /// The capabilities of a device that may be used.
    pub(super) fn of(self, caps: Caps) -> Caps {
        let fast = self == Self::Fast;
        Caps { cooperative_matrix: caps.cooperative_matrix && fast, rounded_factors: fast, ..caps }
    }
}
