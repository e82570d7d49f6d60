//! Attention in one sweep over the context, for heads of whole vectors: how a call is cut into workgroups, and what runs.

use super::Sdpa;
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Recipe, Recipes};

pub(super) static WRITE: KernelDef =
    KernelDef::new("sdpa_write", include_str!("sdpa_write.wgsl"), Params::FIELDS).with_variants(write_variants).proven();
pub(super) static STREAM: KernelDef =
    KernelDef::new("sdpa_stream", include_str!("sdpa_stream.wgsl"), Params::FIELDS).with_variants(stream_variants).proven();
pub(super) static COMBINE: KernelDef =
    KernelDef::new("sdpa_combine", include_str!("sdpa_combine.wgsl"), Params::FIELDS).proven();

params! {
    /// Of `include/stream_params.wgsl`.
    pub(super) struct Params {
        heads: u32, group: u32, rows: u32, tokens: u32, scale: f32, causal: u32, step_base: u32, pad: u32,
    }
}

/// Vectors in the longest head that the kernels take.
pub(super) const MOST_LANES: u32 = 64;

/// Position, context, parts of the context, and positions in each.
pub(super) const STEP_WORDS: usize = 4;

const WRITE_RECIPE: usize = 0;
const FEW_RECIPE: usize = 1;
const FEWEST_RECIPE: usize = 2;
const MANY_RECIPE: usize = 3;
const COMBINE_RECIPE: usize = 4;

/// What a workgroup has in hand: rows and positions, and how many of them each thread scores and sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    rows: u32,
    keys: u32,
    query_rows: u32,
    query_keys: u32,
    value_rows: u32,
}

/// A step of one or a few tokens: all threads along the context.
const FEW: Tile = Tile { rows: 8, keys: 128, query_rows: 8, query_keys: 1, value_rows: 8 };
const FEWEST: Tile = Tile { rows: 4, keys: 128, query_rows: 4, query_keys: 1, value_rows: 4 };

/// Many tokens: as many rows as workgroup memory has room for with heads of up to so many vectors.
const MANY: [(u32, Tile); 3] = [
    (16, Tile { rows: 32, keys: 32, query_rows: 4, query_keys: 2, value_rows: 4 }),
    (32, Tile { rows: 16, keys: 32, query_rows: 4, query_keys: 1, value_rows: 4 }),
    (MOST_LANES, Tile { rows: 8, keys: 64, query_rows: 4, query_keys: 1, value_rows: 4 }),
];

/// Up to so many rows of a KV head, workgroups hold few of them.
const FEW_ROWS: u32 = 32;

/// Workgroups that fill a large GPU. Where rows and heads give fewer, the context is cut into parts.
const FULL_GRID: u32 = 512;

/// The least positions of a part: less is not worth a workgroup.
const LEAST_PART: u32 = 128;

impl Tile {
    fn many(lanes: u32) -> Self {
        MANY.iter().find(|(most, _)| lanes <= *most).map_or(MANY[MANY.len() - 1].1, |(_, tile)| *tile)
    }

    fn variant(self, lanes: u32, rotated: bool) -> Variant {
        with_head(Variant::new(&STREAM), lanes, rotated)
            .with("ROWS", self.rows)
            .with("KEYS", self.keys)
            .with("QUERY_ROWS", self.query_rows)
            .with("QUERY_KEYS", self.query_keys)
            .with("VALUE_ROWS", self.value_rows)
    }
}

fn with_head(variant: Variant, lanes: u32, rotated: bool) -> Variant {
    variant.with("LANES", lanes).with("ROTATED", rotated.into())
}

fn write_variants() -> Vec<Variant> {
    [false, true].map(|rotated| with_head(Variant::new(&WRITE), 16, rotated)).into()
}

fn stream_variants() -> Vec<Variant> {
    let of_head = |lanes| [FEW, FEWEST, Tile::many(lanes)].map(|tile| tile.variant(lanes, true));
    MANY.iter().flat_map(|&(lanes, _)| of_head(lanes)).chain([FEW.variant(1, false)]).collect()
}

/// How a call is cut: the recipe, its tile, and the parts of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    recipe: usize,
    /// Workgroups of one part.
    groups: u32,
    pub(super) parts: u32,
    pub(super) part: u32,
}

impl Cut {
    pub(super) fn new(lanes: u32, heads: u32, rows: u32, context: u32) -> Self {
        let (recipe, tile) = match rows {
            rows if rows <= FEWEST.rows => (FEWEST_RECIPE, FEWEST),
            rows if rows <= FEW_ROWS => (FEW_RECIPE, FEW),
            _ => (MANY_RECIPE, Tile::many(lanes)),
        };
        let groups = heads.saturating_mul(rows.div_ceil(tile.rows)).max(1);
        let blocks = context.div_ceil(LEAST_PART).max(1);
        let part = blocks.div_ceil(FULL_GRID.div_ceil(groups).min(blocks)) * LEAST_PART;
        Self { recipe, groups, parts: context.div_ceil(part).max(1), part }
    }

    /// Bytes that sums of the parts take.
    fn bytes(&self, lanes: u32, heads: u32, rows: u32) -> u64 {
        if self.parts == 1 { 0 } else { sums(lanes, u64::from(heads) * u64::from(rows) * u64::from(self.parts)) }
    }
}

fn sums(lanes: u32, rows: u64) -> u64 {
    rows * u64::from(lanes + 1) * 16
}

/// The most that any call within the bounds needs. Where the context has parts, all workgroups together are fewer than two full
/// grids, and none has more rows than the largest tile.
fn worst_sums(lanes: u32, heads: u32, rows: u32, context: u32) -> u64 {
    let parts = u64::from(context.div_ceil(LEAST_PART));
    if parts <= 1 {
        return 0;
    }
    let held = [FEW, FEWEST, Tile::many(lanes)].iter().map(|tile| tile.rows).max().unwrap_or(1);
    let all = u64::from(heads) * u64::from(rows) * parts;
    sums(lanes, all.min(2 * u64::from(FULL_GRID) * u64::from(held)))
}

impl Sdpa {
    pub(super) fn stream_recipes(&self, cx: &BoundsCx<'_>, heads: u32, rows: u32, lanes: u32) -> Recipes {
        let rotated = self.rotary.is_some();
        // Without tables something else is bound in their place, which is not read.
        let [cosines, sines] = self.rotary.unwrap_or([self.q; 2]);
        let parts = Bind::Scratch(0);
        let write = [self.k, self.v, cosines, sines].map(Bind::from).into_iter();
        let write = write.chain([Bind::Step, self.k_cache.into(), self.v_cache.into()]);
        let stream = |tile: Tile| {
            let read = [self.q, cosines, sines, self.k_cache, self.v_cache].map(Bind::from).into_iter();
            Recipe::new(tile.variant(lanes, rotated), read.chain([Bind::Step, parts, self.out.into()]))
        };
        let combine = with_head(Variant::new(&COMBINE), lanes, rotated);
        let list = vec![
            Recipe::new(with_head(Variant::new(&WRITE), lanes, rotated), write),
            stream(FEW),
            stream(FEWEST),
            stream(Tile::many(lanes)),
            Recipe::new(combine, [parts, Bind::Step, self.out.into()]),
        ];
        let scratch = vec![worst_sums(lanes, heads, rows, cx.bound(self.k_cache)[1])];
        Recipes { list, scratch, step_words: STEP_WORDS, ..Recipes::default() }
    }

    /// What runs for such a cut, and the bytes of scratch it touches.
    pub(super) fn stream_steps(&self, params: &Params, lanes: u32, cut: &Cut) -> Result<(Vec<Dispatch>, u64), OpError> {
        let [heads, rows, tokens, parts] = [params.heads, params.rows, params.tokens, cut.parts].map(u64::from);
        let lanes_in_all = u64::from(lanes);
        let write = Dispatch::items(WRITE_RECIPE, params, tokens * heads * lanes_in_all, 64)?;
        let stream = Dispatch::groups(cut.recipe, params, u64::from(cut.groups) * parts)?;
        let combine =
            if cut.parts > 1 { Dispatch::items(COMBINE_RECIPE, params, heads * rows * lanes_in_all, 64)? } else { None };
        Ok(([write, stream, combine].into_iter().flatten().collect(), cut.bytes(lanes, params.heads, params.rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_cut_until_the_grid_is_full() {
        let cut = |heads, rows, context| {
            let cut = Cut::new(16, heads, rows, context);
            (cut.recipe, cut.groups, cut.parts, cut.part)
        };
        assert_eq!(cut(8, 4, 1), (FEWEST_RECIPE, 8, 1, 128));
        assert_eq!(cut(8, 4, 129), (FEWEST_RECIPE, 8, 2, 128));
        assert_eq!(cut(8, 4, 8192), (FEWEST_RECIPE, 8, 64, 128));
        assert_eq!(cut(8, 4, 100_000), (FEWEST_RECIPE, 8, 61, 1664));
        assert_eq!(cut(8, 5, 300), (FEW_RECIPE, 8, 3, 128));
        assert_eq!(cut(8, 33, 8192), (MANY_RECIPE, 16, 32, 256));
        assert_eq!(cut(8, 2048, 2048), (MANY_RECIPE, 512, 1, 2048));
    }

    #[test]
    fn no_call_within_the_bounds_needs_more_than_the_worst() {
        for (heads, rows, context, lanes) in [(8, 2048, 8192, 16), (1, 300, 5000, 64), (32, 64, 700, 20), (2, 1, 129, 1)] {
            let worst = worst_sums(lanes, heads, rows, context);
            for rows in [1, 4, 5, 32, 33, 64, rows / 2, rows].into_iter().filter(|&live| live <= rows) {
                for context in [1, 127, 128, 129, 1000, context / 2, context].into_iter().filter(|&live| live <= context) {
                    let used = Cut::new(lanes, heads, rows, context).bytes(lanes, heads, rows);
                    assert!(used <= worst, "{heads} × {rows} over {context}: {used} of {worst}");
                }
            }
        }
    }

    #[test]
    fn a_workgroup_has_threads_for_its_tile() {
        for (most, tile) in MANY.into_iter().chain([(MOST_LANES, FEW), (MOST_LANES, FEWEST)]) {
            assert_eq!(tile.rows * tile.keys, 128 * tile.query_rows * tile.query_keys, "{tile:?}");
            assert!(most * tile.rows / tile.value_rows <= 128, "{tile:?}");
        }
    }
}
