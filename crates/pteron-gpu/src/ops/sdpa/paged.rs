//! `pteron.paged_sdpa`: attention for rows of many sequences, whose keys and values are in blocks of two pools. Files do not contain it:
//! a rewrite puts it in the place of attention over a KV cache, so that one call can run decode rows and prefill chunks of many sequences.
//!
//! A work list ([`work_list`]) says which rows belong to which sequence. Sequences with few rows run in small tiles, whose workgroups
//! append new keys and values themselves and split long contexts; sequences with many rows run in large tiles, after a dispatch that
//! appends the keys and values of all. Indices come from the work list: it is checked where it is built, and kernels keep their bounds
//! checks.

#[cfg(any(test, feature = "reference"))]
mod reference;
#[cfg(test)]
pub(crate) mod tests;
pub mod work_list;

use super::flash::{DECODE_4, DECODE_8, HeadConfig, Rotation, Tile, partial_bytes};
use super::flash_decode::SubgroupTile;
use super::selection::SplitPolicy;
use super::{INCLUDES, Sdpa, has_flash_kernel};
use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::graph::Elem;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::memory::joined;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, GridKind, JoinedConstants, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use work_list::{BLOCK_POSITIONS, Header, MAX_ONE_ROW_TILES, OneRowPolicy, PagedTiling};

static COPY_BLOCKS: KernelDef =
    KernelDef::new("sdpa_copy_blocks", include_str!("sdpa_copy_blocks.wgsl"), CopyParams::FIELDS)
        .with_types(&[("KV", &["vec4<f32>", "vec4<f16>"])]);
static APPEND_KV: KernelDef =
    KernelDef::new("sdpa_paged_append_kv", include_str!("sdpa_paged_append_kv.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(append_variants);
static FLASH: KernelDef = KernelDef::new("sdpa_paged_flash", include_str!("sdpa_paged_flash.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_variants(flash_variants);
static SUBGROUPS: KernelDef =
    KernelDef::new("sdpa_paged_decode_subgroups", include_str!("sdpa_paged_decode_subgroups.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_variants(subgroup_variants)
        .with_subgroups();
static COMBINE: KernelDef =
    KernelDef::new("sdpa_paged_combine", include_str!("sdpa_paged_combine.wgsl"), Params::FIELDS).with_includes(&[INCLUDES]);

params! {
    /// Of `include/paged_params.wgsl`.
    struct Params {
        heads: u32, group: u32, tokens: u32, scale: f32, causal: u32, sin_offset: u32, first_tile: u32, tiles: u32,
        is_split: u32, rotary_vectors: u32, pad: [u32; 2],
    }
}
params! {
    /// Of `sdpa_copy_blocks.wgsl`.
    struct CopyParams { block_vectors: u32, copies: u32, pad: [u32; 2] }
}

/// The operator's name, which files do not contain.
pub(crate) const NAME: &str = "pteron.paged_sdpa";

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &[NAME], internal: &[NAME], kernels: &[&COPY_BLOCKS, &APPEND_KV, &FLASH, &SUBGROUPS, &COMBINE], decode };

/// The fewest query rows of a tile.
const FEWEST_ROWS: u32 = DECODE_4.rows;

const COPY_RECIPE: usize = 0;
const APPEND_RECIPE: usize = 1;
const COMBINE_RECIPE: usize = 2;
const MANY_RECIPE: usize = 3;
/// The first recipe of tiles of few rows: which read new keys and values from the inputs or from the pools, and which write the output or
/// partial results.
const FEW_RECIPES: usize = 4;
/// Tiles of one row, where there are any.
const ONE_RECIPE: usize = 8;
/// Up to this many workgroups of one row each are faster than tiles of several.
const ONE_ROW_GROUPS: u32 = 512;
const _: () = assert!(ONE_ROW_GROUPS <= MAX_ONE_ROW_TILES);

/// Attention over paged caches.
#[derive(Debug)]
pub(crate) struct PagedSdpa {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    /// Rotary tables of cosines and sines, `[positions, dim / 2]`.
    rotary: Option<[TensorId; 2]>,
    k_pool: TensorId,
    v_pool: TensorId,
    work: TensorId,
    copies: TensorId,
    /// The most positions of a sequence.
    positions: u32,
    scale: Option<f64>,
    out: TensorId,
    f16_cache: bool,
}

/// The inputs of all paged attention calls of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagedInputs {
    /// The work list `[words]`, and pairs of blocks to copy `[copies, 2]`.
    pub(crate) work: ValueId,
    pub(crate) copies: ValueId,
}

impl Sdpa {
    /// Creates a call over pools in the place of this one, or says why there is none.
    pub(crate) fn paged_call(
        &self,
        graph: &mut Graph,
        inputs: PagedInputs,
        caches: [ValueId; 2],
        positions: u32,
    ) -> Result<Call, &'static str> {
        if !self.causal {
            return Err("attends to positions after a row's own");
        }
        if self.how != super::How::Fastest {
            return Err("reads caches that another operator appends to");
        }
        if self.token_table.is_some() {
            return Err("rotates queries and keys by angles that the graph computes");
        }
        let value = |tensor: TensorId| ValueId(tensor.0);
        let none = graph.add(Value::Null);
        let tables = self.rotary.map_or([none; 2], |tables| tables.map(value));
        let positions = graph.add(Value::Int(positions.into()));
        let scale = self.scale.map_or(none, |scale| graph.add(Value::Double(scale)));
        let [q, k, v, out] = [self.q, self.k, self.v, self.out].map(value);
        let args = vec![
            q,
            k,
            v,
            tables[0],
            tables[1],
            caches[0],
            caches[1],
            inputs.work,
            inputs.work,
            inputs.copies,
            positions,
            scale,
            out,
        ];
        Ok(Call::new(&DEF, NAME, args))
    }
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let [q, k, v] =
        [args.tensor_of("q", &[Elem::F32])?, args.tensor_of("k", &[Elem::F32])?, args.tensor_of("v", &[Elem::F32])?];
    let tables = [args.optional_tensor_of("cosines", &[Elem::F32])?, args.optional_tensor_of("sines", &[Elem::F32])?];
    let rotary = match tables {
        [Some(cosines), Some(sines)] => Some([cosines, sines]),
        [None, None] => None,
        _ => return Err(OpError::new("sines", "must be given with `cosines`, and only then")),
    };
    let (k_pool, v_pool) = (args.mutated("k_pool")?, args.mutated("v_pool")?);
    // Once for plans on the host, and once for kernels.
    args.host_tensor("work")?;
    let work = args.tensor_of("work", &[Elem::I32])?;
    let copies = args.tensor_of("copies", &[Elem::I32])?;
    args.check_indices("copies", IndexInput { indices: copies, of: k_pool, axis: 0, from_end: false })?;
    let positions = args.int("positions")?;
    let positions = u32::try_from(positions).map_err(|_| OpError::new("positions", format!("is {positions}")))?;
    let scale = args.optional_float("scale")?;
    let out = args.output_of("out", Elem::F32)?;
    let pool = args.info(k_pool);
    let f16_cache = pool.elem == Elem::F16;
    if args.info(v_pool) != pool || !matches!(pool.elem, Elem::F16 | Elem::F32) {
        return Err(OpError::new("v_pool", "must be floats of the same type and dims as `k_pool`"));
    }
    let dim = pool.bound.last();
    if !has_flash_kernel(dim) {
        return Err(OpError::new("q", format!("has head dim {dim}, expected a multiple of 4 up to 256")));
    }
    if rotary.into_iter().flatten().any(|table| !args.is_constant(table)) {
        return Err(OpError::new("cosines", "and `sines` must be constants"));
    }
    rotary.into_iter().flatten().for_each(|table| args.reads_slices(table, 0));
    Ok(Box::new(PagedSdpa { q, k, v, rotary, k_pool, v_pool, work, copies, positions, scale, out, f16_cache }))
}

/// KV heads, query heads per KV head, and vectors per head.
#[derive(Clone, Copy, Debug)]
struct Heads {
    kv_heads: u32,
    group: u32,
    dim: u32,
}

impl Heads {
    fn of(q: &Dims, pool: &Dims) -> Result<Self, OpError> {
        let (&[1, _, q_heads, dim], &[_, BLOCK_POSITIONS, kv_heads, pool_dim]) = (&**q, &**pool) else {
            let expected = format!("[1, tokens, heads, head dim] as in the pool {pool}");
            return Err(OpError::new("q", format!("is {q}, expected {expected}")));
        };
        if kv_heads == 0 || q_heads % kv_heads != 0 || dim != pool_dim {
            return Err(OpError::new("q", format!("is {q}, expected heads of the pool {pool} or a multiple")));
        }
        Ok(Self { kv_heads, group: q_heads / kv_heads, dim })
    }

    fn vectors(self) -> u32 {
        self.dim / 4
    }

    /// The tile of sequences with few rows: all query heads of a token in one tile, where they fit.
    fn few_tile(self) -> Tile {
        if self.group <= DECODE_4.rows { DECODE_4 } else { DECODE_8 }
    }
}

/// The kernel of tiles of few rows.
enum FewKernel {
    Portable(Tile),
    Subgroups(SubgroupTile),
}

impl FewKernel {
    fn of(caps: Caps, heads: Heads, f16_cache: bool) -> Self {
        let tile = heads.few_tile();
        SubgroupTile::of(caps, heads.vectors(), f16_cache, tile.rows).map_or(Self::Portable(tile), Self::Subgroups)
    }

    fn split_policy(&self, caps: Caps) -> SplitPolicy {
        let policy = match self {
            Self::Portable(_) => Tile::SPLIT,
            Self::Subgroups(tile) => tile.split_policy(),
        };
        SplitPolicy { full_grid: caps.filled(GridKind::SplitKv, policy.full_grid), ..policy }
    }
}

impl PagedSdpa {
    /// Queries, keys, values and output.
    pub(crate) fn operands(&self) -> [TensorId; 4] {
        [self.q, self.k, self.v, self.out]
    }

    /// Whether adjacent elements of queries and keys are rotated as pairs.
    pub(crate) fn rotates_pairs(&self) -> bool {
        self.rotary.is_some()
    }

    /// How calls divide rows into tiles on a device.
    ///
    /// # Errors
    /// Dims that no kernel takes.
    pub(crate) fn tiling(&self, cx: &BoundsCx<'_>) -> Result<PagedTiling, OpError> {
        let pool = cx.bound(self.k_pool);
        let heads = Heads::of(&cx.bound(self.q), &pool)?;
        let one_row = SubgroupTile::one_row(cx.caps(), heads.vectors(), self.f16_cache).and_then(|tile| tile.short_context);
        Ok(PagedTiling {
            kv_heads: heads.kv_heads,
            group: heads.group,
            few_rows: heads.few_tile().rows,
            many_rows: Tile::prefill(heads.vectors()).rows,
            split: FewKernel::of(cx.caps(), heads, self.f16_cache).split_policy(cx.caps()),
            one_row: one_row.map(|longest| OneRowPolicy { longest, most_groups: ONE_ROW_GROUPS }),
            blocks: pool[0],
            positions: self.positions,
        })
    }

    fn sin_offset(&self, cx: &PlanCx<'_>) -> Result<u32, OpError> {
        let Some(tables) = self.rotary else { return Ok(0) };
        let at = joined(tables.map(|table| Elem::F32.bytes(cx.dims(table).count()))).0[1] / 8;
        u32::try_from(at).map_err(|_| OpError::new("sines", format!("begin at pair {at}, beyond 32-bit indices")))
    }

    fn params(&self, cx: &PlanCx<'_>, heads: Heads, tokens: u32) -> Result<Params, OpError> {
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let scale = self.scale.unwrap_or_else(|| f64::from(heads.dim).sqrt().recip()) as f32;
        let sin_offset = self.sin_offset(cx)?;
        Ok(Params { heads: heads.kv_heads, group: heads.group, tokens, scale, causal: 1, sin_offset, ..Params::default() })
    }

    fn copy_step(&self, cx: &PlanCx<'_>, heads: Heads) -> Result<Option<Dispatch>, OpError> {
        let copies = cx.dims(self.copies);
        let &[copies, 2] = &*copies else {
            return Err(OpError::new("copies", format!("is {copies}, expected pairs of blocks")));
        };
        let block_vectors = BLOCK_POSITIONS * heads.kv_heads * heads.vectors();
        let params = CopyParams { block_vectors, copies, pad: [0; 2] };
        Dispatch::items(COPY_RECIPE, &params, u64::from(copies) * u64::from(block_vectors), 64)
    }
}

impl Op for PagedSdpa {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let meets = [self.q, self.k, self.v].iter().all(|&tensor| rows.axis(tensor) == Some(1));
        meets.then_some(1)
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let heads = Heads::of(&cx.bound(self.q), &cx.bound(self.k_pool))?;
        // Without rotary tables another buffer is bound in their place and never read.
        let (rotation, rope_table) = match self.rotary {
            Some(_) => (Rotation::Interleaved, Bind::Joined(0)),
            None => (Rotation::None, self.q.into()),
        };
        let config = HeadConfig { head_vectors: heads.vectors(), rotation, f16_cache: self.f16_cache };
        let new = [self.k.into(), self.v.into(), rope_table, self.work.into()];
        let pools = [self.k_pool.into(), self.v_pool.into()];
        let (partials, out) = (Bind::Scratch(0), self.out.into());
        let tile = |variant: Variant, into: Bind| {
            Recipe::new(variant, [self.q.into()].into_iter().chain(new).chain(pools).chain([into]))
        };
        let few = FewKernel::of(cx.caps(), heads, self.f16_cache);
        let few_variant = |appends: bool| match &few {
            FewKernel::Portable(tile) => flash_variant(*tile, config, appends),
            FewKernel::Subgroups(tile) => tile.variant_of(&SUBGROUPS, config),
        };
        let elem = if self.f16_cache { "vec4<f16>" } else { "vec4<f32>" };
        let copy = Variant::new(&COPY_BLOCKS).with_type("KV", elem);
        let combine = config.with(Variant::new(&COMBINE)).with("ROWS", heads.few_tile().rows);
        let mut list = vec![
            Recipe::new(copy, [self.copies.into()].into_iter().chain(pools)),
            Recipe::new(config.with_caches(Variant::new(&APPEND_KV)), new.into_iter().chain(pools)),
            Recipe::new(combine, [partials, self.work.into(), out]),
            tile(flash_variant(Tile::prefill(heads.vectors()), config, false), out),
        ];
        list.extend(
            [true, false].into_iter().flat_map(|appends| [out, partials].map(|into| tile(few_variant(appends), into))),
        );
        let one_row = SubgroupTile::one_row(cx.caps(), heads.vectors(), self.f16_cache);
        list.extend(one_row.map(|one| tile(one.variant_of(&SUBGROUPS, config), out)));
        // Where the context is split, the workgroups of all splits are fewer than two full grids.
        let SplitPolicy { full_grid, unsplit_keys, .. } = few.split_policy(cx.caps());
        let split_rows = if self.positions <= unsplit_keys { 0 } else { 2 * full_grid * heads.few_tile().rows };
        let scratch = vec![partial_bytes(heads.vectors(), split_rows.into())];
        Ok(Recipes { list, scratch, joined: self.rotary.into_iter().map(JoinedConstants::from).collect(), step_words: 0 })
    }

    fn accepts_f16_state(&self, state: TensorId) -> bool {
        [self.k_pool, self.v_pool].contains(&state)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let q = cx.dims(self.q);
        let heads = Heads::of(&q, &cx.dims(self.k_pool))?;
        let mut plan = Plan::new(self.out, q, None);
        // While loading there is no work list.
        let Some(words) = cx.host_values(self.work).filter(|_| q.count() > 0) else { return Ok(plan) };
        let header = Header::read(words).ok_or_else(|| OpError::new("work", "is no work list"))?;
        let params = self.params(cx, heads, q[1])?;
        plan.steps.extend(self.copy_step(cx, heads)?);
        if header.appends {
            let vectors = u64::from(q[1]) * u64::from(heads.kv_heads * heads.vectors());
            plan.steps.extend(Dispatch::items(APPEND_RECIPE, &params, vectors, 64)?);
        }
        let (kv_heads, splits) = (u64::from(heads.kv_heads), u64::from(header.splits));
        let is_split = header.splits > 1;
        let few = Params { tiles: header.few, is_split: is_split.into(), ..params };
        let recipe = match header.few_rows {
            1 => ONE_RECIPE,
            _ => FEW_RECIPES + 2 * usize::from(header.appends) + usize::from(is_split),
        };
        plan.steps.extend(Dispatch::groups(recipe, &few, kv_heads * u64::from(header.few) * splits)?);
        if is_split {
            let rows = kv_heads * u64::from(header.few) * u64::from(heads.few_tile().rows);
            plan.steps.extend(Dispatch::groups(COMBINE_RECIPE, &few, rows)?);
            plan.scratch = vec![partial_bytes(heads.vectors(), rows.saturating_mul(splits))];
        }
        let many = Params { first_tile: header.few, tiles: header.many, ..params };
        plan.steps.extend(Dispatch::groups(MANY_RECIPE, &many, kv_heads * u64::from(header.many))?);
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        self.attend_on_host(cx, tensors)
    }
}

fn flash_variant(tile: Tile, heads: HeadConfig, appends: bool) -> Variant {
    let mut variant = tile.variant_of(&FLASH, heads);
    variant.constants.retain(|(name, _)| *name != "APPEND_KV");
    variant.with("APPEND_KV", appends.into())
}

fn configs() -> impl Iterator<Item = HeadConfig> {
    let plain = HeadConfig { head_vectors: 4, rotation: Rotation::None, f16_cache: false };
    let rotated = [16, 32, 64].into_iter().flat_map(HeadConfig::rotated);
    rotated.filter(|heads| heads.rotation == Rotation::Interleaved).chain([plain])
}

fn append_variants() -> Vec<Variant> {
    configs().map(|config| config.with_caches(Variant::new(&APPEND_KV))).collect()
}

fn flash_variants() -> Vec<Variant> {
    let of = |config: HeadConfig| {
        let few = [DECODE_4, DECODE_8].into_iter().flat_map(move |tile| [true, false].map(|appends| (tile, appends)));
        let all = few.chain([(Tile::prefill(config.head_vectors), false)]);
        all.map(move |(tile, appends)| flash_variant(tile, config, appends))
    };
    configs().flat_map(of).collect()
}

fn subgroup_variants() -> Vec<Variant> {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    let of = |config: HeadConfig| {
        let tiles = [1, 4, 8].map(|rows| SubgroupTile::of(caps, config.head_vectors, config.f16_cache, rows));
        tiles.into_iter().flatten().map(move |tile| tile.variant_of(&SUBGROUPS, config))
    };
    configs().flat_map(of).collect()
}
