//! The precision of kernels.

use crate::plan::Caps;

/// The precision of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats throughout.
    #[default]
    Full,
    /// With many tokens at once, factors of matrix products are rounded to 16 bits where the GPU has cooperative matrices
    /// for them; sums have 32 bits. Elsewhere as [`Full`](Self::Full). Precise enough to choose tokens, and many times as
    /// fast.
    Fast,
}

impl Precision {
    /// The capabilities of a device that may be used.
    pub(super) fn of(self, caps: Caps) -> Caps {
        Caps { cooperative_matrix: caps.cooperative_matrix && self == Self::Fast, ..caps }
    }
}
