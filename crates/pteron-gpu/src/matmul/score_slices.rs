//! Slices of a materialised score matrix `[heads, rows, context]`, so that its scratch stays small: by heads, and where one head is
//! too large, by rows.

use crate::error::OpError;

/// The most scratch for scores, in bytes. A 1B model's 2,048 × 2,048 scores would take 512 MiB at once, more than a portable
/// binding can hold.
pub(crate) const MAX_SCORE_BYTES: u64 = 64 << 20;

/// The most slices per call: each takes a parameter slot per kernel.
const MAX_SLICES: u64 = 4096;

/// Rows of a slice are whole workgroup tiles of the score kernel, where that many fit.
const TILE_ROWS: u64 = 32;

/// The slices of a call. Kernels find a slice from its index and the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScoreSlices {
    total_heads: u32,
    total_rows: u32,
    /// Floats from one row of scores to the next: the context, rounded up to whole vectors.
    pub(crate) stride: u32,
    /// Heads per slice; fewer in the last.
    pub(crate) heads: u32,
    /// Rows per head and slice; fewer in the last.
    pub(crate) rows: u32,
}

/// One slice: its first head and row, and how many of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScoreSlice {
    pub(crate) head: u32,
    pub(crate) row: u32,
    pub(crate) heads: u32,
    pub(crate) rows: u32,
}

/// Heads and rows of a slice are no more than those of the call.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl ScoreSlices {
    /// Cuts `heads` × `rows` × `context` scores into slices of at most `most` bytes.
    ///
    /// More rows or more context never give fewer slices, so the count of the bounds covers every call within them.
    pub(crate) fn new(heads: u32, rows: u32, context: u32, most: u64) -> Result<Self, OpError> {
        let wide = u64::from(context).next_multiple_of(4).max(4);
        let fit = most / (wide * 4);
        let (stride, fit_rows) = match (u32::try_from(wide), u32::try_from(fit)) {
            (Ok(stride), Ok(fit)) if fit > 0 => (stride, fit),
            (Ok(stride), Err(_)) => (stride, u32::MAX),
            _ => {
                let what = format!(
                    "holds {context} tokens: one row of scores takes {} bytes, more than the limit of {most}",
                    wide * 4
                );
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
        if slices.count() > MAX_SLICES {
            let what = format!(
                "has {rows} rows of scores for each of {heads} heads over a context of {context}: {} slices of {most} \
                 bytes, more than the limit of {MAX_SLICES}; load with a smaller bound on new tokens",
                slices.count()
            );
            return Err(OpError::new("q", what));
        }
        Ok(slices)
    }

    fn row_slices(&self) -> u64 {
        u64::from(self.total_rows).div_ceil(u64::from(self.rows.max(1)))
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.total_heads).div_ceil(u64::from(self.heads.max(1))) * self.row_slices()
    }

    /// The heads and rows of a slice.
    pub(crate) fn extent(&self, index: u64) -> (u64, u64) {
        let row_slices = self.row_slices().max(1);
        let left = |total: u32, slice: u32, index: u64| {
            let slice = u64::from(slice);
            slice.min(u64::from(total).saturating_sub(index * slice))
        };
        let heads = left(self.total_heads, self.heads, index / row_slices);
        (heads, left(self.total_rows, self.rows, index % row_slices))
    }

    /// A slice by its index.
    pub(crate) fn slice(&self, index: u64) -> ScoreSlice {
        let (heads, rows) = self.extent(index);
        let row_slices = self.row_slices().max(1);
        let start = |slice: u32, index: u64| narrow(u64::from(slice) * index);
        ScoreSlice {
            head: start(self.heads, index / row_slices),
            row: start(self.rows, index % row_slices),
            heads: narrow(heads),
            rows: narrow(rows),
        }
    }

    /// Bytes of scratch to reserve for these bounds: with several slices, any smaller call may fill all of `most`.
    pub(crate) fn reserve(&self, most: u64) -> u64 {
        if self.count() > 1 { most } else { self.bytes() }
    }

    /// Bytes of scratch of the largest slice.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.heads) * u64::from(self.rows) * u64::from(self.stride) * 4
    }
}
