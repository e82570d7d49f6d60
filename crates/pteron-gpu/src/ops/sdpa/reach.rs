//! Largest indices of the attention kernels: first those of flash attention (`flash_params.wgsl`), then those with materialised
//! scores (`materialised_params.wgsl`).

use super::flash::Rotation;
use super::{flash, materialised};
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// Sizes of a flash attention call, in vectors of four floats.
struct FlashCall {
    params: flash::Params,
    head_vectors: Counts,
    position: Counts,
    splits: Counts,
    /// Positions up to the last that a row sees or a new token takes.
    seen: Counts,
    rotation: Rotation,
}

impl FlashCall {
    fn new(call: &DispatchView<'_>) -> Option<Self> {
        let params = call.params::<flash::Params>()?;
        let [position, context, splits, split_keys] = call.step(params.step_base)?;
        let vectors = call.constant("HEAD_VECTORS").filter(|vectors| (1..=flash::MAX_HEAD_VECTORS).contains(vectors))?;
        let head_vectors = count(vectors);
        if params.rows == 0 || params.group == 0 || params.heads == 0 || splits.get() == 0 {
            return None;
        }
        // Kernels compare where a split ends with the keys a row sees.
        if (splits * split_keys).get() > u32::MAX.into() {
            return None;
        }
        let causal = position + (count(params.rows) - count(1)) / count(params.group) + count(1);
        let seen = if params.causal == 1 { causal } else { context };
        let rotation = Rotation::of(call.constant("ROTATED").unwrap_or(0))?;
        // A vector's partner is within the head.
        if rotation == Rotation::SplitHalf && count(params.rotary_vectors) > head_vectors {
            return None;
        }
        Some(Self { params, head_vectors, position, splits, seen, rotation })
    }

    /// Tokens that have a query.
    fn tokens(&self) -> Counts {
        (count(self.params.rows) - count(1)) / count(self.params.group) + count(1)
    }

    /// Queries, or the output of a call without splits.
    fn queries(&self) -> Counts {
        self.tokens() * count(self.params.heads) * count(self.params.group) * self.head_vectors
    }

    fn output(&self) -> Counts {
        if self.splits.get() > 1 { self.partials() } else { self.queries() }
    }

    /// Partial results of all splits: a weighted sum of values, then a vector with the row's maximum and sum.
    fn partials(&self) -> Counts {
        count(self.params.heads) * count(self.params.rows) * self.splits * (self.head_vectors + count(1))
    }

    /// Keys or values of this many positions or tokens.
    fn rows(&self, positions: Counts) -> Counts {
        positions * count(self.params.heads) * self.head_vectors
    }

    /// Pairs of floats of the rotary tables for this many new tokens: cosines, then sines.
    fn rope_table(&self, tokens: Counts) -> Counts {
        let row = match self.rotation {
            Rotation::None => return count(0),
            Rotation::Interleaved => return self.sines() + (self.position + tokens) * self.head_vectors,
            Rotation::SplitHalf => count(2) * count(self.params.rotary_vectors),
        };
        self.sines() + tokens * row
    }

    fn sines(&self) -> Counts {
        count(self.params.sin_offset)
    }
}

/// `sdpa_flash.wgsl` and `sdpa_flash_decode_subgroups.wgsl`, which with few rows read new keys and values from the inputs and append
/// them to the caches.
pub(super) fn flash(call: &DispatchView<'_>) -> Option<Reached> {
    let sizes = FlashCall::new(call)?;
    // The subgroup kernel always appends.
    let appends = call.flag("APPEND_KV") || call.variant.kernel.subgroups;
    let new = count(sizes.params.tokens).max(sizes.seen - sizes.position);
    let cached = if appends { sizes.seen.max(sizes.position + new) } else { sizes.seen };
    // The subgroup kernel loads another position where no key is cached.
    let cached = if appends { cached.max(count(sizes.params.free_position) + count(1)) } else { cached };
    let rotated = if appends { new.max(sizes.tokens()) } else { sizes.tokens() };
    let read = Reached::new().array(sizes.queries(), 16);
    let read = read.array_if(appends, sizes.rows(new), 16).array_if(appends, sizes.rows(new), 16);
    let caches = read.array(sizes.rope_table(rotated), 8).step(sizes.params.step_base, 4);
    let kv = call.type_bytes("KV")?;
    // The subgroup kernel may bind several vectors as one element; all heads are whole elements.
    let vectors = call.variant.counts.iter().find(|(name, _)| *name == "KV_VECTORS").map_or(1, |&(_, vectors)| vectors);
    let elements = sizes.rows(cached).div_ceil(vectors);
    let caches = caches.array(elements, kv).array(elements, kv);
    Some(caches.array(sizes.output(), 16))
}

/// `sdpa_flash_coop_matrix.wgsl`, which reads all keys and values from the caches.
pub(super) fn flash_coop_matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let sizes = FlashCall::new(call)?;
    let rotated = sizes.tokens();
    let kv = call.type_bytes("KV")?;
    let read = Reached::new().array(sizes.queries(), 16).array(sizes.rope_table(rotated), 8).step(sizes.params.step_base, 4);
    Some(read.array(sizes.rows(sizes.seen), kv).array(sizes.rows(sizes.seen), kv).array(sizes.output(), 16))
}

/// `sdpa_append_kv.wgsl`: new keys and values, and the caches up to the last of them.
pub(super) fn append_kv(call: &DispatchView<'_>) -> Option<Reached> {
    let sizes = FlashCall::new(call)?;
    let (new, end) = (count(sizes.params.tokens), sizes.position + count(sizes.params.tokens));
    let kv = call.type_bytes("KV")?;
    let read = Reached::new().array(sizes.rows(new), 16).array(sizes.rows(new), 16).array(sizes.rope_table(new), 8);
    Some(read.step(sizes.params.step_base, 4).array(sizes.rows(end), kv).array(sizes.rows(end), kv))
}

/// `sdpa_split_kv_combine.wgsl`: the partial results of all splits of each row.
pub(super) fn combine(call: &DispatchView<'_>) -> Option<Reached> {
    let sizes = FlashCall::new(call)?;
    Some(Reached::new().array(sizes.partials(), 16).step(sizes.params.step_base, 3).array(sizes.queries(), 16))
}

/// A slice of the score matrix, as `slice()` of the shaders finds it.
struct Slice {
    params: materialised::Params,
    context: Counts,
    stride: Counts,
    /// The end of its heads.
    heads_end: Counts,
    /// Its rows of all heads.
    all_rows: Counts,
    /// The last of its rows among those of the call.
    last_row: Counts,
    /// Positions that the last row sees.
    seen: Counts,
}

impl Slice {
    fn new(call: &DispatchView<'_>) -> Option<Self> {
        let params = call.params::<materialised::Params>()?;
        let [position, context, stride, heads, rows] = call.step(params.step_base)?;
        if params.group == 0 || rows.get() == 0 || heads.get() == 0 || stride.get() == 0 {
            return None;
        }
        let row_slices = count(params.rows).div_ceil(u32::try_from(rows.get()).ok()?);
        let slice = params.slice_index.checked_div(u32::try_from(row_slices.get()).ok()?)?;
        let (head, row) = (count(slice) * heads, count(params.slice_index % u32::try_from(row_slices.get()).ok()?) * rows);
        // Past the last slice differences would wrap.
        if head >= count(params.heads) || row >= count(params.rows) {
            return None;
        }
        let (own_heads, own_rows) = (heads.min(count(params.heads) - head), rows.min(count(params.rows) - row));
        let last_row = row + own_rows - count(1);
        let causal = position + last_row / count(params.group) + count(1);
        let seen = if params.causal == 0 { context } else { causal };
        let (heads_end, all_rows) = (head + own_heads, own_heads * own_rows);
        Some(Self { params, context, stride, heads_end, all_rows, last_row, seen })
    }

    /// Floats of the queries, or of the output.
    fn queries(&self) -> Counts {
        let token = self.last_row / count(self.params.group);
        (token * count(self.params.heads) + self.heads_end) * count(self.params.group) * count(self.params.head_dim)
    }

    /// Floats of a cache up to this many positions.
    fn cache(&self, positions: Counts) -> Counts {
        let before = (positions - count(1)) * count(self.params.heads);
        if positions.get() == 0 { positions } else { (before + self.heads_end) * count(self.params.head_dim) }
    }

    /// Floats of the scores, with `width` of them used in the last row.
    fn scores(&self, width: Counts) -> Counts {
        (self.all_rows - count(1)) * self.stride + width
    }
}

/// `sdpa_qk.wgsl`: scores of the whole context, stored as vectors.
pub(super) fn qk(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.queries(), 4).array(slice.cache(slice.context), 4);
    Some(read.step(slice.params.step_base, 5).fours(slice.scores(slice.context), 16))
}

/// `sdpa_qk_naive.wgsl`: scores stored one by one, with the padding of each row.
#[cfg(any(test, feature = "bench"))]
pub(super) fn qk_naive(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.queries(), 4).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.scores(slice.stride), 4))
}

/// `sdpa_softmax.wgsl`: whole rows.
pub(super) fn softmax(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    Some(Reached::new().step(slice.params.step_base, 5).array(slice.all_rows * (slice.stride / count(4)), 16))
}

/// `sdpa_av.wgsl` and `sdpa_av_split_k.wgsl`: weights read as vectors, values up to the last key that the last row sees.
pub(super) fn av(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().fours(slice.scores(slice.seen), 16).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.queries(), 4))
}

/// `sdpa_av_naive.wgsl`: the same, read one by one.
#[cfg(any(test, feature = "bench"))]
pub(super) fn av_naive(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.scores(slice.seen), 4).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.queries(), 4))
}
