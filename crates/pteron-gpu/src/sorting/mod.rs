//! Sorts rows of pairs in scratch: by key, and of equal keys by index, so that the order is stable and the same on every device.
//!
//! A first kernel of the operator writes the pairs. Tiles of a row are sorted in workgroup memory by a bitonic network, then runs are
//! merged pairwise, from one scratch buffer to the other: each pair finds its place by a binary search in the other run.

use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::params;
use crate::plan::{Bind, Dispatch, Recipe};

static TILES: KernelDef = KernelDef::new("sort_tiles", include_str!("sort_tiles.wgsl"), Params::FIELDS);
static MERGE: KernelDef = KernelDef::new("sort_merge", include_str!("sort_merge.wgsl"), Params::FIELDS);

/// The kernels of every sort.
pub(crate) const KERNELS: [&KernelDef; 2] = [&TILES, &MERGE];

params! {
    /// Of `sort_tiles.wgsl` and `sort_merge.wgsl`.
    struct Params { rows: u32, length: u32, run: u32, pad: u32 }
}

/// The pairs that a workgroup sorts; `TILE` in its kernel.
const TILE: u32 = 1024;

/// Bytes of a pair.
const PAIR: u64 = 8;

/// Merges that rows of at most this length need.
fn merges(length: u32) -> u32 {
    length.div_ceil(TILE).max(1).next_power_of_two().ilog2()
}

/// Recipes and scratch of a sort. Its scratch buffers are those from `scratch` on.
pub(crate) struct Sorting {
    scratch: usize,
    /// The index of its first recipe.
    recipe: usize,
}

impl Sorting {
    pub(crate) fn new(recipe: usize, scratch: usize) -> Self {
        Self { scratch, recipe }
    }

    /// The recipes for rows of at most `length` pairs.
    pub(crate) fn recipes(&self, length: u32, label: &'static str) -> Vec<Recipe> {
        let buffers = [0, 1].map(|index| Bind::Scratch(self.scratch + index));
        let merge = |from: usize| Recipe {
            max_dispatches: merges(length).max(1),
            ..Recipe::new(Variant::new(&MERGE).labelled(label), [buffers[from], buffers[1 - from]])
        };
        vec![Recipe::new(Variant::new(&TILES).labelled(label), [buffers[0]]), merge(0), merge(1)]
    }

    /// Bytes of both scratch buffers for so many pairs.
    pub(crate) fn scratch(pairs: u64, length: u32) -> [u64; 2] {
        let bytes = pairs.saturating_mul(PAIR).max(PAIR);
        [bytes, if merges(length) == 0 { PAIR } else { bytes }]
    }

    /// The dispatches that sort rows of pairs in the first scratch buffer, and which of both buffers holds the result.
    ///
    /// # Errors
    /// More pairs than kernels index.
    pub(crate) fn dispatches(&self, rows: u32, length: u32) -> Result<(Vec<Dispatch>, usize), OpError> {
        let pairs = u64::from(rows) * u64::from(length);
        if pairs.saturating_mul(PAIR) > u64::from(u32::MAX) {
            return Err(OpError::new("self", format!("has {pairs} elements to sort, more than kernels index")));
        }
        let params = |run| Params { rows, length, run, pad: 0 };
        let tiles = u64::from(rows) * u64::from(length.div_ceil(TILE));
        let mut steps: Vec<Dispatch> = Dispatch::groups(self.recipe, &params(TILE), tiles)?.into_iter().collect();
        let mut run = TILE;
        for merge in 0..merges(length) {
            steps.extend(Dispatch::items(self.recipe + 1 + merge as usize % 2, &params(run), pairs, 256)?);
            run = run.saturating_mul(2);
        }
        Ok((steps, merges(length) as usize % 2))
    }
}
