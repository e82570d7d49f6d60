//! Attention in one sweep over the context, for heads of whole vectors: how a call is cut into workgroups, and what runs.

use super::selection::{Spread, Sweep};
use super::{INCLUDES, Sdpa, reach};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::memory::joined;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, PlanCx, Recipe, Recipes};

pub(super) static WRITE: KernelDef = KernelDef::new("sdpa_append_kv", include_str!("sdpa_append_kv.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(write_variants)
    .proven(reach::write);
pub(super) static STREAM: KernelDef = KernelDef::new("sdpa_flash", include_str!("sdpa_flash.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(stream_variants)
    .proven(reach::sweep);
pub(super) static COMBINE: KernelDef =
    KernelDef::new("sdpa_split_kv_combine", include_str!("sdpa_split_kv_combine.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::combine);

params! {
    /// Of `include/flash_params.wgsl`.
    pub(super) struct Params {
        heads: u32, group: u32, rows: u32, tokens: u32, scale: f32, causal: u32, step_base: u32, sines: u32,
    }
}

/// Vectors in the longest head that the kernels take.
pub(super) const MOST_LANES: u32 = 64;

/// Position, context, parts of the context, and positions in each.
pub(super) const STEP_WORDS: usize = 4;

const WRITE_RECIPE: usize = 0;
const COMBINE_RECIPE: usize = 1;
/// Where the recipes of the sweeps start, two for each: all of the context at once, and one of several parts.
const SWEEP_RECIPES: usize = 2;

/// What a workgroup has in hand: rows and positions, and how many of them each thread scores and sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: u32,
    keys: u32,
    query_rows: u32,
    query_keys: u32,
    value_rows: u32,
}

/// A step of one or a few tokens: all threads along the context.
pub(super) const FEW: Tile = Tile { rows: 8, keys: 128, query_rows: 8, query_keys: 1, value_rows: 8 };
pub(super) const FEWEST: Tile = Tile { rows: 4, keys: 128, query_rows: 4, query_keys: 1, value_rows: 4 };

/// Many tokens: as many rows as workgroup memory has room for with heads of up to so many vectors.
const MANY: [(u32, Tile); 3] = [
    (16, Tile { rows: 32, keys: 32, query_rows: 4, query_keys: 2, value_rows: 4 }),
    (32, Tile { rows: 16, keys: 32, query_rows: 4, query_keys: 1, value_rows: 4 }),
    (MOST_LANES, Tile { rows: 8, keys: 64, query_rows: 4, query_keys: 1, value_rows: 4 }),
];

impl Tile {
    /// How workgroups spread over a GPU.
    pub(super) const SPREAD: Spread = Spread { grid: 512, least: 128, alone: 128 };

    pub(super) fn many(lanes: u32) -> Self {
        MANY.iter().find(|(most, _)| lanes <= *most).map_or(MANY[MANY.len() - 1].1, |(_, tile)| *tile)
    }

    pub(super) fn variant(self, heads: Heads) -> Variant {
        heads
            .with_caches(Variant::new(&STREAM))
            .with("ROWS", self.rows)
            .with("KEYS", self.keys)
            .with("QUERY_ROWS", self.query_rows)
            .with("QUERY_KEYS", self.query_keys)
            .with("VALUE_ROWS", self.value_rows)
            .with("WRITES", self.writes().into())
    }

    /// Whether workgroups write new keys and values themselves.
    pub(super) fn writes(self) -> bool {
        [FEW, FEWEST].contains(&self)
    }
}

/// What heads are like: vectors of each, whether queries and keys are turned, and whether caches hold 16-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heads {
    pub(super) lanes: u32,
    pub(super) rotated: bool,
    pub(super) halves: bool,
}

/// What writes a vector into a cache.
const CACHED: &str = "fn cached(v: vec4<f32>) -> KV";

impl Heads {
    /// Turned ones of so many vectors, with caches of 32 bits and of 16.
    pub(super) fn rotated(lanes: u32) -> [Self; 2] {
        [false, true].map(|halves| Self { lanes, rotated: true, halves })
    }

    pub(super) fn with(self, variant: Variant) -> Variant {
        variant.with("LANES", self.lanes).with("ROTATED", self.rotated.into())
    }

    /// The same for a kernel that has caches.
    pub(super) fn with_caches(self, variant: Variant) -> Variant {
        let variant = self.with(variant);
        if self.halves {
            // What 16 bits cannot hold becomes the largest that they can: an infinity would spoil all that meets it.
            let clamped = "vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)))";
            variant.with_type("KV", "vec4<f16>").with_function(CACHED, clamped)
        } else {
            variant.with_type("KV", "vec4<f32>").with_function(CACHED, "v")
        }
    }
}

fn write_variants() -> Vec<Variant> {
    let plain = Heads { lanes: 16, rotated: false, halves: false };
    Heads::rotated(16).into_iter().chain([plain]).map(|heads| heads.with_caches(Variant::new(&WRITE))).collect()
}

fn stream_variants() -> Vec<Variant> {
    let tiles = |heads: Heads| [FEW, FEWEST, Tile::many(heads.lanes)].map(|tile| tile.variant(heads));
    let shortest = Heads { lanes: 1, rotated: false, halves: false };
    let all = MANY.iter().flat_map(|&(lanes, _)| Heads::rotated(lanes)).flat_map(tiles);
    all.chain([FEW.variant(shortest)]).collect()
}

/// How a call is cut: which of a device's sweeps runs, and the parts of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    sweep: usize,
    /// Whether new keys and values are written on the way.
    writes: bool,
    /// Workgroups of one part.
    groups: u32,
    pub(super) parts: u32,
    pub(super) part: u32,
}

impl Cut {
    pub(super) fn new(caps: Caps, sweeps: &[Sweep], heads: u32, rows: u32, context: u32) -> Self {
        let index = Sweep::choose(sweeps, heads, rows, context);
        let sweep = &sweeps[index];
        let Spread { grid, least, alone } = sweep.spread(caps);
        let groups = heads.saturating_mul(rows.div_ceil(sweep.rows())).max(1);
        let blocks = context.div_ceil(least).max(1);
        let most = if context <= alone { 1 } else { grid.div_ceil(groups).min(blocks) };
        let part = blocks.div_ceil(most) * least;
        Self { sweep: index, writes: sweep.writes(), groups, parts: context.div_ceil(part).max(1), part }
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
/// grids.
fn worst_sums(caps: Caps, sweeps: &[Sweep], lanes: u32, heads: u32, rows: u32, context: u32) -> u64 {
    let of_sweep = |sweep: &Sweep| {
        let Spread { grid, least, alone } = sweep.spread(caps);
        let all = u64::from(heads) * u64::from(rows) * u64::from(context.div_ceil(least));
        if context <= alone { 0 } else { all.min(2 * u64::from(grid) * u64::from(sweep.rows())) }
    };
    sums(lanes, sweeps.iter().map(of_sweep).max().unwrap_or(0))
}

impl Sdpa {
    pub(super) fn stream_recipes(&self, cx: &BoundsCx<'_>, heads: u32, rows: u32, lanes: u32) -> Recipes {
        let rotated = self.rotary.is_some();
        let like = Heads { lanes, rotated, halves: self.halves };
        // Without tables something else is bound in their place, which is not read.
        let angles = if rotated { Bind::Joined(0) } else { self.q.into() };
        let caches = [Bind::Step, self.k_cache.into(), self.v_cache.into()];
        let new = [self.k.into(), self.v.into(), angles];
        let (parts, out) = (Bind::Scratch(0), self.out.into());
        let sweeps = Sweep::all(cx.caps(), lanes);
        let recipe = |sweep: &Sweep, into: Bind| {
            let mut binds = vec![self.q.into()];
            match sweep {
                // Nothing new is left to read.
                Sweep::Matrices(_) => binds.push(angles),
                Sweep::Portable(_) | Sweep::Subgroups(_) => binds.extend(new),
            }
            Recipe::new(sweep.variant(like), binds.into_iter().chain(caches).chain([into]))
        };
        let mut list = vec![
            Recipe::new(like.with_caches(Variant::new(&WRITE)), new.into_iter().chain(caches)),
            Recipe::new(like.with(Variant::new(&COMBINE)), [parts, Bind::Step, out]),
        ];
        list.extend(sweeps.iter().flat_map(|sweep| [out, parts].map(|into| recipe(sweep, into))));
        Recipes {
            list,
            scratch: vec![worst_sums(cx.caps(), &sweeps, lanes, heads, rows, cx.bound(self.k_cache)[1])],
            joined: self.rotary.into_iter().map(Vec::from).collect(),
            step_words: STEP_WORDS,
        }
    }

    /// Where sines begin behind the cosines, in pairs of them.
    pub(super) fn sines_at(&self, cx: &PlanCx<'_>) -> Result<u32, OpError> {
        let Some([cosines, sines]) = self.rotary else { return Ok(0) };
        let bytes = [cosines, sines].map(|table| Elem::F32.bytes(cx.dims(table).count()));
        let at = joined(bytes).0[1] / 8;
        u32::try_from(at).map_err(|_| OpError::new("sines", format!("begin at pair {at}, past what kernels index")))
    }

    /// What runs for such a cut, and the bytes of scratch it touches.
    pub(super) fn stream_steps(&self, params: &Params, lanes: u32, cut: &Cut) -> Result<(Vec<Dispatch>, u64), OpError> {
        let [heads, rows, tokens, parts] = [params.heads, params.rows, params.tokens, cut.parts].map(u64::from);
        let lanes_in_all = u64::from(lanes);
        let new = if cut.writes { 0 } else { tokens * heads * lanes_in_all };
        let write = Dispatch::items(WRITE_RECIPE, params, new, 64)?;
        let recipe = SWEEP_RECIPES + 2 * cut.sweep + usize::from(cut.parts > 1);
        let stream = Dispatch::groups(recipe, params, u64::from(cut.groups) * parts)?;
        let combine = if cut.parts > 1 { Dispatch::groups(COMBINE_RECIPE, params, heads * rows)? } else { None };
        Ok(([write, stream, combine].into_iter().flatten().collect(), cut.bytes(lanes, params.heads, params.rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBGROUPS: Caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    const MATRICES: Caps = Caps { cooperative_matrix: true, ..SUBGROUPS };

    #[test]
    fn contexts_are_cut_until_the_grid_is_full() {
        let cut = |caps, heads, rows, context| {
            let cut = Cut::new(caps, &Sweep::all(caps, 16), heads, rows, context);
            (cut.sweep, cut.groups, cut.parts, cut.part)
        };
        assert_eq!(cut(Caps::PORTABLE, 8, 4, 1), (0, 8, 1, 128));
        assert_eq!(cut(Caps::PORTABLE, 8, 4, 129), (0, 8, 2, 128));
        assert_eq!(cut(Caps::PORTABLE, 8, 4, 8192), (0, 8, 64, 128));
        assert_eq!(cut(Caps::PORTABLE, 8, 4, 100_000), (0, 8, 61, 1664));
        assert_eq!(cut(Caps::PORTABLE, 8, 5, 300), (1, 8, 3, 128));
        assert_eq!(cut(Caps::PORTABLE, 8, 33, 8192), (2, 16, 32, 256));
        assert_eq!(cut(Caps::PORTABLE, 8, 2048, 2048), (2, 512, 1, 2048));
        assert_eq!(cut(SUBGROUPS, 8, 4, 256), (0, 8, 1, 256));
        assert_eq!(cut(SUBGROUPS, 8, 4, 257), (0, 8, 5, 64));
        assert_eq!(cut(SUBGROUPS, 8, 4, 8192), (0, 8, 32, 256));
        assert_eq!(cut(MATRICES, 8, 256, 2048), (2, 32, 8, 256));
        assert_eq!(cut(MATRICES, 8, 2048, 512), (2, 256, 1, 512));
        assert_eq!(cut(MATRICES, 8, 8192, 2048), (3, 512, 1, 2048));
        assert_eq!(cut(Caps { fill_percent: 25, ..SUBGROUPS }, 8, 4, 8192), (0, 8, 8, 1024));
        assert_eq!(cut(Caps { fill_percent: 400, ..SUBGROUPS }, 8, 4, 8192), (0, 8, 128, 64));
    }

    #[test]
    fn no_call_within_the_bounds_needs_more_than_the_worst() {
        let shapes = [(8, 2048, 8192, 16), (1, 300, 5000, 64), (32, 64, 700, 20), (2, 1, 129, 1), (8, 64, 300, 32)];
        let filled = |caps| [25, 100, 400].map(|fill_percent| Caps { fill_percent, ..caps });
        let devices = [Caps::PORTABLE, SUBGROUPS, MATRICES].map(filled).concat();
        for (caps, (heads, rows, context, lanes)) in devices.iter().flat_map(|caps| shapes.map(|shape| (*caps, shape))) {
            let sweeps = Sweep::all(caps, lanes);
            let worst = worst_sums(caps, &sweeps, lanes, heads, rows, context);
            for rows in [1, 4, 5, 32, 33, 64, rows / 2, rows].into_iter().filter(|&live| live <= rows) {
                for context in
                    [1, 127, 128, 129, 257, 1000, context / 2, context].into_iter().filter(|&live| live <= context)
                {
                    let used = Cut::new(caps, &sweeps, heads, rows, context).bytes(lanes, heads, rows);
                    assert!(used <= worst, "{heads} × {rows} over {context}: {used} of {worst} on {caps:?}");
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
