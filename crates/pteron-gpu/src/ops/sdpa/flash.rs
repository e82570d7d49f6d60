//! Flash attention, for head dims that are whole vectors of four: tiles of query rows pass over the keys with an online softmax, so
//! scores never reach memory. Short query blocks split the context over workgroups (split-KV) and combine the partial results.

use super::selection::{FlashKernel, SplitPolicy};
use super::{INCLUDES, Sdpa, reach};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::memory::joined;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, JoinedConstants, PlanCx, Recipe, Recipes};

pub(super) static APPEND_KV: KernelDef =
    KernelDef::new("sdpa_append_kv", include_str!("sdpa_append_kv.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(append_variants)
        .proven(reach::append_kv);
pub(super) static FLASH: KernelDef = KernelDef::new("sdpa_flash", include_str!("sdpa_flash.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(flash_variants)
    .proven(reach::flash);
pub(super) static COMBINE: KernelDef =
    KernelDef::new("sdpa_split_kv_combine", include_str!("sdpa_split_kv_combine.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::combine);

params! {
    /// Of `include/flash_params.wgsl`.
    pub(super) struct Params {
        heads: u32, group: u32, rows: u32, tokens: u32, scale: f32, causal: u32, step_base: u32, sin_offset: u32,
        free_position: u32, rotary_vectors: u32, pad: [u32; 2],
    }
}

/// The most vectors of four per head that the kernels support.
pub(super) const MAX_HEAD_VECTORS: u32 = 64;

/// Position, context, splits of the context, and keys per split.
pub(super) const STEP_WORDS: usize = 4;

const APPEND_RECIPE: usize = 0;
const COMBINE_RECIPE: usize = 1;
/// The index of the first recipe of the flash kernels, two per kernel: one that writes the output, and one that writes
/// partial results of a split.
const FLASH_RECIPES: usize = 2;

/// Tile of a workgroup: query rows and keys, and the rows and keys per thread in the two products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: u32,
    keys: u32,
    query_rows: u32,
    query_keys: u32,
    value_rows: u32,
}

/// Tiles for decode, with one or a few tokens: all threads along the keys.
pub(super) const DECODE_8: Tile = Tile { rows: 8, keys: 128, query_rows: 8, query_keys: 1, value_rows: 8 };
pub(super) const DECODE_4: Tile = Tile { rows: 4, keys: 128, query_rows: 4, query_keys: 1, value_rows: 4 };

/// Tiles for prefill, by the largest number of vectors per head: as many rows as fit workgroup memory.
const PREFILL: [(u32, Tile); 3] = [
    (16, Tile { rows: 32, keys: 32, query_rows: 4, query_keys: 2, value_rows: 4 }),
    (32, Tile { rows: 16, keys: 32, query_rows: 4, query_keys: 1, value_rows: 4 }),
    (MAX_HEAD_VECTORS, Tile { rows: 8, keys: 64, query_rows: 4, query_keys: 1, value_rows: 4 }),
];

impl Tile {
    /// When the context is split.
    pub(super) const SPLIT: SplitPolicy = SplitPolicy { full_grid: 512, min_keys: 128, unsplit_keys: 128 };

    pub(super) fn prefill(head_vectors: u32) -> Self {
        PREFILL.iter().find(|(most, _)| head_vectors <= *most).map_or(PREFILL[PREFILL.len() - 1].1, |(_, tile)| *tile)
    }

    pub(super) fn variant(self, heads: HeadConfig) -> Variant {
        self.variant_of(&FLASH, heads)
    }

    /// The variant of a kernel that computes such tiles.
    pub(super) fn variant_of(self, kernel: &'static KernelDef, heads: HeadConfig) -> Variant {
        heads
            .with_caches(Variant::new(kernel))
            .with("ROWS", self.rows)
            .with("KEYS", self.keys)
            .with("QUERY_ROWS", self.query_rows)
            .with("QUERY_KEYS", self.query_keys)
            .with("VALUE_ROWS", self.value_rows)
            .with("APPEND_KV", self.appends_kv().into())
    }

    /// Whether workgroups append new keys and values to the caches themselves.
    pub(super) fn appends_kv(self) -> bool {
        [DECODE_8, DECODE_4].contains(&self)
    }
}

/// The parameters that kernels are specialised on: vectors per head, rotary embedding of queries and keys, and the caches'
/// element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadConfig {
    pub(super) head_vectors: u32,
    pub(super) rotation: Rotation,
    pub(super) f16_cache: bool,
}

/// Rotary embedding of queries and new keys; `ROTATED` in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rotation {
    None = 0,
    /// Adjacent elements form pairs; constant tables have a row per position.
    Interleaved = 1,
    /// Elements of two halves form pairs; a computed table has a row per new token.
    SplitHalf = 2,
}

impl Rotation {
    pub(super) fn of(constant: u32) -> Option<Self> {
        [Self::None, Self::Interleaved, Self::SplitHalf].into_iter().find(|rotation| *rotation as u32 == constant)
    }
}

/// The function that converts a vector to the caches' element type.
const TO_CACHE: &str = "fn to_cache(v: vec4<f32>) -> KV";

impl HeadConfig {
    /// Rotated heads of `head_vectors` vectors, with `f32` and with `f16` caches.
    pub(super) fn rotated(head_vectors: u32) -> [Self; 3] {
        [(Rotation::Interleaved, false), (Rotation::Interleaved, true), (Rotation::SplitHalf, false)]
            .map(|(rotation, f16_cache)| Self { head_vectors, rotation, f16_cache })
    }

    pub(super) fn with(self, variant: Variant) -> Variant {
        variant.with("HEAD_VECTORS", self.head_vectors).with("ROTATED", self.rotation as u32)
    }

    /// The same for a kernel that binds the caches.
    pub(super) fn with_caches(self, variant: Variant) -> Variant {
        let variant = self.with(variant);
        if self.f16_cache {
            // Saturate instead of overflowing: one infinity would spoil every later result.
            let clamped = "vec4<f16>(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0)))";
            variant.with_type("KV", "vec4<f16>").with_function(TO_CACHE, clamped)
        } else {
            variant.with_type("KV", "vec4<f32>").with_function(TO_CACHE, "v")
        }
    }
}

fn append_variants() -> Vec<Variant> {
    let plain = HeadConfig { head_vectors: 16, rotation: Rotation::None, f16_cache: false };
    HeadConfig::rotated(16).into_iter().chain([plain]).map(|heads| heads.with_caches(Variant::new(&APPEND_KV))).collect()
}

fn flash_variants() -> Vec<Variant> {
    let tiles = |heads: HeadConfig| [DECODE_8, DECODE_4, Tile::prefill(heads.head_vectors)].map(|tile| tile.variant(heads));
    let shortest = HeadConfig { head_vectors: 1, rotation: Rotation::None, f16_cache: false };
    let all = PREFILL.iter().flat_map(|&(head_vectors, _)| HeadConfig::rotated(head_vectors)).flat_map(tiles);
    all.chain([DECODE_8.variant(shortest)]).collect()
}

/// The kernel of a call and its split of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KvSplit {
    /// Index among the device's flash kernels.
    kernel: usize,
    /// Whether the kernel appends new keys and values itself.
    appends_kv: bool,
    /// Workgroups per split.
    groups: u32,
    pub(super) splits: u32,
    /// Keys per split.
    pub(super) split_keys: u32,
}

impl KvSplit {
    pub(super) fn new(caps: Caps, kernels: &[FlashKernel], heads: u32, rows: u32, context: u32) -> Self {
        let index = FlashKernel::select(kernels, heads, rows, context);
        let kernel = &kernels[index];
        let groups = heads.saturating_mul(rows.div_ceil(kernel.rows())).max(1);
        let (splits, split_keys) = kernel.split_policy(caps).split(groups, context);
        Self { kernel: index, appends_kv: kernel.appends_kv(), groups, splits, split_keys }
    }

    /// Bytes of the splits' partial results.
    fn bytes(&self, head_vectors: u32, heads: u32, rows: u32) -> u64 {
        if self.splits == 1 {
            return 0;
        }
        partial_bytes(head_vectors, u64::from(heads) * u64::from(rows) * u64::from(self.splits))
    }
}

/// Bytes of `rows` partial rows: the weighted sum of values, and a vector with the row's maximum and sum.
pub(super) fn partial_bytes(head_vectors: u32, rows: u64) -> u64 {
    rows * u64::from(head_vectors + 1) * 16
}

/// Bytes of partial results at worst within the bounds. Where the context is split, the workgroups of all splits are fewer than two
/// full grids.
fn worst_partials(caps: Caps, kernels: &[FlashKernel], head_vectors: u32, heads: u32, rows: u32, context: u32) -> u64 {
    let of_kernel = |kernel: &FlashKernel| {
        let SplitPolicy { full_grid, min_keys, unsplit_keys } = kernel.split_policy(caps);
        let all = u64::from(heads) * u64::from(rows) * u64::from(context.div_ceil(min_keys));
        if context <= unsplit_keys { 0 } else { all.min(2 * u64::from(full_grid) * u64::from(kernel.rows())) }
    };
    partial_bytes(head_vectors, kernels.iter().map(of_kernel).max().unwrap_or(0))
}

impl Sdpa {
    pub(super) fn flash_recipes(&self, cx: &BoundsCx<'_>, heads: u32, rows: u32, head_vectors: u32) -> Recipes {
        // Without rotary tables another buffer is bound in their place and never read.
        let (rotation, rope_table) = match (self.rotary, self.token_table) {
            (Some(_), _) => (Rotation::Interleaved, Bind::Joined(0)),
            (None, Some(table)) => (Rotation::SplitHalf, table.into()),
            (None, None) => (Rotation::None, self.q.into()),
        };
        let like = HeadConfig { head_vectors, rotation, f16_cache: self.f16_cache };
        let caches = [Bind::Step, self.k_cache.into(), self.v_cache.into()];
        let new = [self.k.into(), self.v.into(), rope_table];
        let (partials, out) = (Bind::Scratch(0), self.out.into());
        let kernels = FlashKernel::available(cx.caps(), head_vectors, self.f16_cache);
        let recipe = |kernel: &FlashKernel, into: Bind| {
            let mut binds = vec![self.q.into()];
            match kernel {
                // New keys and values are in the caches already.
                FlashKernel::CoopMatrix(..) => binds.push(rope_table),
                FlashKernel::Portable(_) | FlashKernel::Subgroups(_) => binds.extend(new),
            }
            Recipe::new(kernel.variant(like), binds.into_iter().chain(caches).chain([into]))
        };
        let mut list = vec![
            Recipe::new(like.with_caches(Variant::new(&APPEND_KV)), new.into_iter().chain(caches)),
            Recipe::new(like.with(Variant::new(&COMBINE)), [partials, Bind::Step, out]),
        ];
        list.extend(kernels.iter().flat_map(|kernel| [out, partials].map(|into| recipe(kernel, into))));
        Recipes {
            list,
            scratch: vec![worst_partials(cx.caps(), &kernels, head_vectors, heads, rows, cx.bound(self.k_cache)[1])],
            joined: self.rotary.into_iter().map(JoinedConstants::from).collect(),
            step_words: STEP_WORDS,
        }
    }

    /// The offset of the sines after the cosines, in pairs of floats.
    pub(super) fn sin_offset(&self, cx: &PlanCx<'_>) -> Result<u32, OpError> {
        if let Some(table) = self.token_table {
            let at = cx.dims(table).count() / 4;
            return u32::try_from(at).map_err(|_| OpError::new("angles", format!("has {at} pairs, beyond 32-bit indices")));
        }
        let Some([cosines, sines]) = self.rotary else { return Ok(0) };
        let bytes = [cosines, sines].map(|table| Elem::F32.bytes(cx.dims(table).count()));
        let at = joined(bytes).0[1] / 8;
        u32::try_from(at).map_err(|_| OpError::new("sines", format!("begin at pair {at}, beyond 32-bit indices")))
    }

    /// The dispatches of a call, and the bytes of scratch they use.
    pub(super) fn flash_dispatches(
        &self,
        params: &Params,
        head_vectors: u32,
        split: &KvSplit,
    ) -> Result<(Vec<Dispatch>, u64), OpError> {
        let [heads, rows, tokens, splits] = [params.heads, params.rows, params.tokens, split.splits].map(u64::from);
        let lanes_in_all = u64::from(head_vectors);
        let new = if split.appends_kv { 0 } else { tokens * heads * lanes_in_all };
        let append = Dispatch::items(APPEND_RECIPE, params, new, 64)?;
        let recipe = FLASH_RECIPES + 2 * split.kernel + usize::from(split.splits > 1);
        let flash = Dispatch::groups(recipe, params, u64::from(split.groups) * splits)?;
        let combine = if split.splits > 1 { Dispatch::groups(COMBINE_RECIPE, params, heads * rows)? } else { None };
        Ok(([append, flash, combine].into_iter().flatten().collect(), split.bytes(head_vectors, params.heads, params.rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBGROUPS: Caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    const COOP_MATRIX_CAPS: Caps = Caps { cooperative_matrix: true, workgroup_memory: 48 * 1024, ..SUBGROUPS };

    #[test]
    fn contexts_are_split_until_the_grid_is_full() {
        let split = |caps, heads, rows, context| {
            let split = KvSplit::new(caps, &FlashKernel::available(caps, 16, true), heads, rows, context);
            (split.kernel, split.groups, split.splits, split.split_keys)
        };
        assert_eq!(split(Caps::PORTABLE, 8, 4, 1), (0, 8, 1, 128));
        assert_eq!(split(Caps::PORTABLE, 8, 4, 129), (0, 8, 2, 128));
        assert_eq!(split(Caps::PORTABLE, 8, 4, 8192), (0, 8, 64, 128));
        assert_eq!(split(Caps::PORTABLE, 8, 4, 100_000), (0, 8, 61, 1664));
        assert_eq!(split(Caps::PORTABLE, 8, 5, 300), (1, 8, 3, 128));
        assert_eq!(split(Caps::PORTABLE, 8, 33, 8192), (2, 16, 32, 256));
        assert_eq!(split(Caps::PORTABLE, 8, 2048, 2048), (2, 512, 1, 2048));
        assert_eq!(split(SUBGROUPS, 8, 4, 768), (0, 32, 1, 768));
        assert_eq!(split(SUBGROUPS, 8, 4, 769), (1, 8, 13, 64));
        assert_eq!(split(SUBGROUPS, 8, 4, 8192), (1, 8, 32, 256));
        assert_eq!(split(SUBGROUPS, 8, 5, 8192), (2, 8, 32, 256));
        assert_eq!(split(COOP_MATRIX_CAPS, 8, 256, 2048), (3, 32, 8, 256));
        assert_eq!(split(COOP_MATRIX_CAPS, 8, 2048, 512), (3, 256, 1, 512));
        assert_eq!(split(COOP_MATRIX_CAPS, 8, 8192, 2048), (4, 512, 1, 2048));
        assert_eq!(split(Caps { fill_percent: 25, ..SUBGROUPS }, 8, 4, 8192), (1, 8, 8, 1024));
        assert_eq!(split(Caps { fill_percent: 400, ..SUBGROUPS }, 8, 4, 8192), (1, 8, 128, 64));
    }

    #[test]
    fn scratch_of_every_call_is_within_the_worst_case() {
        let shapes = [(8, 2048, 8192, 16), (1, 300, 5000, 64), (32, 64, 700, 20), (2, 1, 129, 1), (8, 64, 300, 32)];
        let filled = |caps| [25, 100, 400].map(|fill_percent| Caps { fill_percent, ..caps });
        let devices = [Caps::PORTABLE, SUBGROUPS, COOP_MATRIX_CAPS].map(filled).concat();
        for (caps, (heads, rows, context, head_vectors)) in
            devices.iter().flat_map(|caps| shapes.map(|shape| (*caps, shape)))
        {
            let kernels = FlashKernel::available(caps, head_vectors, true);
            let worst = worst_partials(caps, &kernels, head_vectors, heads, rows, context);
            for rows in [1, 4, 5, 32, 33, 64, rows / 2, rows].into_iter().filter(|&live| live <= rows) {
                for context in
                    [1, 127, 128, 129, 257, 1000, context / 2, context].into_iter().filter(|&live| live <= context)
                {
                    let used = KvSplit::new(caps, &kernels, heads, rows, context).bytes(head_vectors, heads, rows);
                    assert!(used <= worst, "{heads} × {rows} over {context}: {used} of {worst} on {caps:?}");
                }
            }
        }
    }

    #[test]
    fn tiles_match_the_threads_of_a_workgroup() {
        for (most, tile) in PREFILL.into_iter().chain([(MAX_HEAD_VECTORS, DECODE_8), (MAX_HEAD_VECTORS, DECODE_4)]) {
            assert_eq!(tile.rows * tile.keys, 128 * tile.query_rows * tile.query_keys, "{tile:?}");
            assert!(most * tile.rows / tile.value_rows <= 128, "{tile:?}");
        }
    }
}
