//! How far the attention kernels reach: those that sweep over the context (`flash_params.wgsl`), then those with scores in scratch
//! (`materialised_params.wgsl`).

use super::{flash, materialised};
use crate::kernel::reach::{Counts, DispatchView, Reached, count};

/// A sweep's sizes, in vectors of four floats.
struct Sweep {
    params: flash::Params,
    lanes: Counts,
    position: Counts,
    parts: Counts,
    /// Positions up to the last that a row sees or a new token takes.
    seen: Counts,
    rotated: bool,
}

impl Sweep {
    fn new(call: &DispatchView<'_>) -> Option<Self> {
        let params = call.params::<flash::Params>()?;
        let [position, context, parts, part] = call.step(params.step_base)?;
        let lanes = count(call.constant("LANES").filter(|lanes| (1..=flash::MOST_LANES).contains(lanes))?);
        if params.rows == 0 || params.group == 0 || params.heads == 0 || parts.get() == 0 {
            return None;
        }
        // Where a part ends is compared with what rows see.
        if (parts * part).get() > u32::MAX.into() {
            return None;
        }
        let causal = position + (count(params.rows) - count(1)) / count(params.group) + count(1);
        let seen = if params.causal == 1 { causal } else { context };
        Some(Self { params, lanes, position, parts, seen, rotated: call.flag("ROTATED") })
    }

    /// Tokens that have a query.
    fn tokens(&self) -> Counts {
        (count(self.params.rows) - count(1)) / count(self.params.group) + count(1)
    }

    /// Queries, and an output that is no sum of parts.
    fn queries(&self) -> Counts {
        self.tokens() * count(self.params.heads) * count(self.params.group) * self.lanes
    }

    fn output(&self) -> Counts {
        if self.parts.get() > 1 { self.sums() } else { self.queries() }
    }

    /// Sums of the parts, each with its highest score and its total after it.
    fn sums(&self) -> Counts {
        count(self.params.heads) * count(self.params.rows) * self.parts * (self.lanes + count(1))
    }

    /// Keys or values of so many positions or tokens.
    fn rows(&self, positions: Counts) -> Counts {
        positions * count(self.params.heads) * self.lanes
    }

    /// Pairs of the tables: cosines, then sines from a place on.
    fn angles(&self, positions: Counts) -> Counts {
        if self.rotated { count(self.params.sines) + positions * self.lanes } else { count(0) }
    }
}

/// `sdpa_flash.wgsl` and `sdpa_flash_decode_subgroups.wgsl`, which find few new tokens outside the caches and write them there.
pub(super) fn sweep(call: &DispatchView<'_>) -> Option<Reached> {
    let sweep = Sweep::new(call)?;
    // Subgroups always write.
    let writes = call.flag("WRITES") || call.variant.kernel.subgroups;
    let new = count(sweep.params.tokens).max(sweep.seen - sweep.position);
    let cached = if writes { sweep.seen.max(sweep.position + new) } else { sweep.seen };
    let turned = sweep.position + if writes { new.max(sweep.tokens()) } else { sweep.tokens() };
    let read = Reached::new().array(sweep.queries(), 16);
    let read = read.array_if(writes, sweep.rows(new), 16).array_if(writes, sweep.rows(new), 16);
    let caches = read.array(sweep.angles(turned), 8).step(sweep.params.step_base, 4);
    let kv = call.type_bytes("KV")?;
    let caches = caches.array(sweep.rows(cached), kv).array(sweep.rows(cached), kv);
    Some(caches.array(sweep.output(), 16))
}

/// `sdpa_flash_coop_matrix.wgsl`, to which all keys and values are in the caches.
pub(super) fn matrix(call: &DispatchView<'_>) -> Option<Reached> {
    let sweep = Sweep::new(call)?;
    let turned = sweep.position + sweep.tokens();
    let kv = call.type_bytes("KV")?;
    let read = Reached::new().array(sweep.queries(), 16).array(sweep.angles(turned), 8).step(sweep.params.step_base, 4);
    Some(read.array(sweep.rows(sweep.seen), kv).array(sweep.rows(sweep.seen), kv).array(sweep.output(), 16))
}

/// `sdpa_append_kv.wgsl`: new keys and values into the caches.
pub(super) fn write(call: &DispatchView<'_>) -> Option<Reached> {
    let sweep = Sweep::new(call)?;
    let (new, end) = (count(sweep.params.tokens), sweep.position + count(sweep.params.tokens));
    let kv = call.type_bytes("KV")?;
    let read = Reached::new().array(sweep.rows(new), 16).array(sweep.rows(new), 16).array(sweep.angles(end), 8);
    Some(read.step(sweep.params.step_base, 4).array(sweep.rows(end), kv).array(sweep.rows(end), kv))
}

/// `sdpa_split_kv_combine.wgsl`: the sums of all parts of each row.
pub(super) fn combine(call: &DispatchView<'_>) -> Option<Reached> {
    let sweep = Sweep::new(call)?;
    Some(Reached::new().array(sweep.sums(), 16).step(sweep.params.step_base, 3).array(sweep.queries(), 16))
}

/// A round's slice of the scores, as `slice()` of the shaders finds it.
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
        let slice = params.round.checked_div(u32::try_from(row_slices.get()).ok()?)?;
        let (head, row) = (count(slice) * heads, count(params.round % u32::try_from(row_slices.get()).ok()?) * rows);
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
        (token * count(self.params.heads) + self.heads_end) * count(self.params.group) * count(self.params.lanes)
    }

    /// Floats of a cache up to so many positions.
    fn cache(&self, positions: Counts) -> Counts {
        let before = (positions - count(1)) * count(self.params.heads);
        if positions.get() == 0 { positions } else { (before + self.heads_end) * count(self.params.lanes) }
    }

    /// Floats of scores, where rows are `width` long.
    fn scores(&self, width: Counts) -> Counts {
        (self.all_rows - count(1)) * self.stride + width
    }
}

/// `sdpa_qk.wgsl`: scores in vectors, of the whole context.
pub(super) fn scores(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.queries(), 4).array(slice.cache(slice.context), 4);
    Some(read.step(slice.params.step_base, 5).fours(slice.scores(slice.context), 16))
}

/// `sdpa_qk_naive.wgsl`: scores one by one, and what fills up a row.
pub(super) fn naive_scores(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.queries(), 4).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.scores(slice.stride), 4))
}

/// `sdpa_softmax.wgsl`: whole rows.
pub(super) fn softmax(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    Some(Reached::new().step(slice.params.step_base, 5).array(slice.all_rows * (slice.stride / count(4)), 16))
}

/// `sdpa_av.wgsl` and `sdpa_av_split_k.wgsl`: weights in vectors against what the last row sees.
pub(super) fn values(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().fours(slice.scores(slice.seen), 16).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.queries(), 4))
}

/// `sdpa_av_naive.wgsl`: the same one by one.
pub(super) fn naive_values(call: &DispatchView<'_>) -> Option<Reached> {
    let slice = Slice::new(call)?;
    let read = Reached::new().array(slice.scores(slice.seen), 4).array(slice.cache(slice.seen), 4);
    Some(read.step(slice.params.step_base, 5).array(slice.queries(), 4))
}
