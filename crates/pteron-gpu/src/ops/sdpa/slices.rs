//! How the scores of a call are cut so that their scratch stays small: by KV heads, and where one is too much, by rows.

use crate::error::OpError;

/// The most scratch for scores, in bytes. A 1B model's 2,048 × 2,048 scores would take 512 MiB at once, more than a portable
/// binding can hold.
pub(crate) const MAX_SCORE_BYTES: u64 = 64 << 20;

/// The most slices one call may have: each takes a parameter slot for each of its kernels.
const MAX_ROUNDS: u64 = 4096;

/// Rows of a slice are whole workgroup tiles of the score kernel, where that many fit.
const TILE_ROWS: u64 = 32;

/// The slices of a call. A round works on one of them; `include/materialised_params.wgsl` finds a round's slice from the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    total_heads: u32,
    total_rows: u32,
    /// Floats from one row of scores to the next: the context, in whole vectors.
    pub(crate) stride: u32,
    /// KV heads in a slice; fewer in the last.
    pub(crate) heads: u32,
    /// Rows of each head in a slice; fewer in the last.
    pub(crate) rows: u32,
}

/// One slice: its first head and row, and how many of each it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) head: u32,
    pub(crate) row: u32,
    pub(crate) heads: u32,
    pub(crate) rows: u32,
}

/// Heads and rows of a slice are no more than those of the call.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Slices {
    /// Cuts `heads` × `rows` × `context` scores into slices of at most `most` bytes.
    ///
    /// More rows or more context never give fewer rounds, so what the bounds give holds for every call within them.
    pub(crate) fn new(heads: u32, rows: u32, context: u32, most: u64) -> Result<Self, OpError> {
        let wide = u64::from(context).next_multiple_of(4).max(4);
        let fit = most / (wide * 4);
        let (stride, fit_rows) = match (u32::try_from(wide), u32::try_from(fit)) {
            (Ok(stride), Ok(fit)) if fit > 0 => (stride, fit),
            (Ok(stride), Err(_)) => (stride, u32::MAX),
            _ => {
                let what = format!("holds {context} tokens: one row of scores takes {} bytes, allowed are {most}", wide * 4);
                return Err(OpError::new("k_cache", what));
            }
        };
        let (slice_heads, slice_rows) = if fit_rows >= rows {
            ((fit_rows / rows.max(1)).min(heads), rows)
        } else {
            let tiles = fit / TILE_ROWS * TILE_ROWS;
            (1.min(heads), if tiles > 0 { u32::try_from(tiles).unwrap_or(fit_rows) } else { fit_rows })
        };
        let slices = Self { total_heads: heads, total_rows: rows, stride, heads: slice_heads, rows: slice_rows };
        if slices.rounds() > MAX_ROUNDS {
            let what = format!(
                "brings {rows} rows of scores for each of {heads} heads over a context of {context}: {} slices of {most} \
                 bytes, allowed are {MAX_ROUNDS}; load with a smaller bound on new tokens",
                slices.rounds()
            );
            return Err(OpError::new("q", what));
        }
        Ok(slices)
    }

    fn row_slices(&self) -> u64 {
        u64::from(self.total_rows).div_ceil(u64::from(self.rows.max(1)))
    }

    /// How many slices there are.
    pub(crate) fn rounds(&self) -> u64 {
        u64::from(self.total_heads).div_ceil(u64::from(self.heads.max(1))) * self.row_slices()
    }

    /// The KV heads and rows that a round has.
    pub(crate) fn round(&self, round: u64) -> (u64, u64) {
        let row_slices = self.row_slices().max(1);
        let left = |total: u32, slice: u32, index: u64| {
            let slice = u64::from(slice);
            slice.min(u64::from(total).saturating_sub(index * slice))
        };
        let heads = left(self.total_heads, self.heads, round / row_slices);
        (heads, left(self.total_rows, self.rows, round % row_slices))
    }

    /// What a round has.
    pub(crate) fn part(&self, round: u64) -> Part {
        let (heads, rows) = self.round(round);
        let row_slices = self.row_slices().max(1);
        let start = |slice: u32, index: u64| narrow(u64::from(slice) * index);
        Part {
            head: start(self.heads, round / row_slices),
            row: start(self.rows, round % row_slices),
            heads: narrow(heads),
            rows: narrow(rows),
        }
    }

    /// Bytes of scratch to reserve where these are the bounds: once there are rounds, any smaller call may fill all of `most`.
    pub(crate) fn reserve(&self, most: u64) -> u64 {
        if self.rounds() > 1 { most } else { self.bytes() }
    }

    /// Bytes of scratch that the largest slice takes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.rows) * u64::from(self.stride) * 4
    }
}
