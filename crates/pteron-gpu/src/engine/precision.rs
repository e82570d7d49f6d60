//! What may be rounded for the sake of speed.

use crate::plan::Caps;

/// How exactly kernels compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// In 32-bit floats throughout.
    #[default]
    Full,
    /// With many tokens at once, factors of products are rounded to 16 bits where the GPU multiplies matrices of such; sums are of
    /// 32 bits. Elsewhere as [`Full`](Self::Full). Good enough to choose tokens by, many times as fast.
    Fast,
}

impl Precision {
    /// What of a device may be used.
    pub(super) fn of(self, caps: Caps) -> Caps {
        Caps { cooperative_matrix: caps.cooperative_matrix && self == Self::Fast, ..caps }
    }
}
