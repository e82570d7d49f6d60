//! Attention over a KV cache that grows in place (`sdpa_with_kv_cache`): appends new keys and values, then attends over the cached
//! context.
//!
//! Head dims of whole vectors run flash attention (`flash.rs`): a portable kernel, a split-KV decode kernel with subgroups for few
//! rows (`flash_decode.rs`) and a cooperative matrix kernel for many (`flash_coop_matrix.rs`); `selection.rs` selects among them. Other
//! head dims materialise scores in scratch (`materialised.rs`). Values that change with every step (position, context and its split) are
//! in step words; parameters depend on the number of new tokens alone.
//!
//! `llama.custom_sdpa` is the same over caches that another operator has appended to, which it only reads. `pteron.rotary_sdpa` is the same with rotary position embedding of queries and keys.

mod flash;
mod flash_coop_matrix;
mod flash_decode;
mod general;
mod materialised;
pub mod paged;
mod reach;
mod rotary_call;
mod selection;
#[cfg(test)]
mod tests;

use crate::append_rows::{self, AppendRows, ArgNames};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::kernel::Include;
use crate::live::{Scalar, TensorId};
use crate::matmul::score_slices::MAX_SCORE_BYTES;
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;
pub(crate) use rotary_call::RotaryInputs;

use flash::KvSplit;
use selection::FlashKernel;

/// WGSL that the kernels here share.
const INCLUDES: &[Include] = includes![
    "flash_combine",
    "flash_decode_tile",
    "flash_heads",
    "flash_new_kv",
    "flash_new_rows",
    "flash_params",
    "flash_rotation",
    "flash_tile",
    "materialised_params",
    "paged_params",
    "paged_tile",
    "saturate_f16"
];

pub(crate) const NAME: &str = "sdpa_with_kv_cache.default";
/// The operator with rotary tables of cosines and sines after the values. Only a fusion writes it.
pub(crate) const ROTARY: &str = "pteron.rotary_sdpa";
/// The operator with one tensor of cosines and sines after the values, of which elements of two halves form pairs: a row of cosines per new
/// token, then as many of sines. Only a fusion writes it.
pub(crate) const SPLIT_HALF: &str = "pteron.split_half_rotary_sdpa";
/// The operator over caches that hold the new keys and values already.
const CUSTOM: &str = "llama.custom_sdpa.default";
/// The operator's name in programs for ExecuTorch's own kernels.
const LLAMA: &str = "llama.sdpa_with_kv_cache.default";
/// The operator with one thread per element, as a baseline for benchmarks.
const NAIVE: &str = "pteron.sdpa_naive";
/// The operator with scratch for a few rows of scores, so that small tests have several slices.
const SLICED: &str = "pteron.sdpa_sliced";

/// The registry entry. Names for benchmarks and tests alone are in no other build's table.
pub static DEF: OpDef = OpDef {
    names: if cfg!(any(test, feature = "bench")) {
        &[NAME, CUSTOM, ROTARY, SPLIT_HALF, LLAMA, NAIVE, SLICED]
    } else {
        &[NAME, CUSTOM, ROTARY, SPLIT_HALF, LLAMA]
    },
    internal: &[ROTARY, SPLIT_HALF, NAIVE, SLICED],
    kernels: &[
        &flash::APPEND_KV,
        &flash::FLASH,
        &flash::COMBINE,
        &flash_decode::SUBGROUPS_KERNEL,
        &flash_coop_matrix::COOP_MATRIX,
        &materialised::QK,
        #[cfg(any(test, feature = "bench"))]
        &materialised::QK_NAIVE,
        &materialised::SOFTMAX,
        &materialised::AV,
        &materialised::AV_SPLIT_K,
        #[cfg(any(test, feature = "bench"))]
        &materialised::AV_NAIVE,
        &append_rows::KERNEL,
        &general::KERNEL,
    ],
    decode,
};
pub(crate) use general::GeneralSdpa;
/// The registry entry of attention over quantised caches.
pub use general::QUANTISED;

/// The algorithm for a head dim, or the one that a benchmark names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    /// Flash attention, for head dims of this many vectors of four.
    Flash(u32),
    /// Materialised scores, for any head dim.
    Materialised,
    /// One thread per element.
    Naive,
}

#[derive(Debug)]
pub(crate) struct Sdpa {
    pub(crate) q: TensorId,
    pub(crate) k: TensorId,
    pub(crate) v: TensorId,
    pub(crate) k_cache: TensorId,
    pub(crate) v_cache: TensorId,
    pub(crate) input_pos: Scalar,
    causal: bool,
    scale: Option<f64>,
    pub(crate) out: TensorId,
    /// Rotary tables of cosines and sines, `[positions, dim / 2]`.
    rotary: Option<[TensorId; 2]>,
    /// Cosines and sines of the new tokens, `[2 · tokens, rotated elements]`.
    token_table: Option<TensorId>,
    /// Whether the kernels for these caches also take them as `f16`.
    accepts_f16: bool,
    /// Whether the caches are `f16`.
    f16_cache: bool,
    how: How,
    score_bytes: u64,
}

/// Whether the fastest kernels run, or those that benchmarks and tests name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Fastest,
    Naive,
    SmallSlices,
    /// Caches are only read, and scores are materialised.
    Cached,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let how = match args.operator() {
        NAIVE => How::Naive,
        SLICED => How::SmallSlices,
        CUSTOM => How::Cached,
        _ => How::Fastest,
    };
    let score_bytes = if how == How::SmallSlices { 2048 } else { MAX_SCORE_BYTES };
    let q = args.tensor_of("q", &[Elem::F32])?;
    let k = args.tensor_of("k", &[Elem::F32])?;
    let v = args.tensor_of("v", &[Elem::F32])?;
    let cached = how == How::Cached;
    let rotary = if args.operator() == ROTARY {
        Some([args.tensor_of("cosines", &[Elem::F32])?, args.tensor_of("sines", &[Elem::F32])?])
    } else {
        None
    };
    let token_table = if args.operator() == SPLIT_HALF { Some(args.tensor_of("angles", &[Elem::F32])?) } else { None };
    let (k_cache, v_cache) = if cached { (k, v) } else { (args.mutated("k_cache")?, args.mutated("v_cache")?) };
    let input_pos = args.scalar(if cached { "start_pos" } else { "input_pos" })?;
    if !cached {
        // Exporters write a literal that is not the number of new tokens; that is in `q`.
        args.ignore("seq_len")?;
    }
    let mask =
        if cached { args.optional_tensor_of("attn_mask", &[Elem::F32])? } else { args.none("attn_mask").map(|()| None)? };
    let dropout = args.float("dropout_p")?;
    if dropout != 0.0 {
        return Err(OpError::new("dropout_p", format!("is {dropout}, expected 0")));
    }
    let causal = args.bool("is_causal")?;
    let scale = args.optional_float("scale")?;
    let out = args.output("out")?;
    if cached && (mask.is_some() || args.info(k).bound.first() != Some(&1)) {
        let inputs = general::Inputs { q, k, v, mask, start_pos: input_pos, causal, scale, sequence_last: false, out };
        return general::GeneralSdpa::decoded(args, inputs, None);
    }
    let dim = args.info(k_cache).bound.last();
    let accepts_f16 = how == How::Fastest && has_flash_kernel(dim);
    let f16_cache = args.info(k_cache).elem == Elem::F16 && accepts_f16;
    let of_caches = if f16_cache { Elem::F16 } else { Elem::F32 };
    for (name, tensor, wanted) in [("k_cache", k_cache, of_caches), ("v_cache", v_cache, of_caches), ("out", out, Elem::F32)]
    {
        let elem = args.info(tensor).elem;
        if elem != wanted {
            return Err(OpError::new(name, format!("has elements {elem:?}, supported: {wanted:?}")));
        }
    }
    if !cached && (k_cache == v_cache || [q, k, v].iter().any(|input| [k_cache, v_cache].contains(input))) {
        return Err(OpError::new("k_cache", "and `v_cache` must be two tensors that are no other argument"));
    }
    let sdpa = Sdpa {
        q,
        k,
        v,
        k_cache,
        v_cache,
        input_pos,
        causal,
        scale,
        out,
        rotary,
        token_table,
        accepts_f16,
        f16_cache,
        how,
        score_bytes,
    };
    if let Some(table) = token_table {
        let (columns, tables) = (args.info(table).bound.last(), args.info(table).bound.len());
        if tables != 2 || columns == 0 || columns % 8 != 0 || columns > dim {
            let bound = args.info(table).bound;
            let expected = format!("is {bound}, expected [2 · tokens, a multiple of 8 up to the head dim {dim}]");
            return Err(OpError::new("angles", expected));
        }
    }
    if (rotary.is_some() || token_table.is_some()) && sdpa.algorithm(dim) == Algorithm::Materialised {
        return Err(OpError::new("q", format!("has head dim {dim}, expected a multiple of 4 up to 256 with rotary tables")));
    }
    if let Some(table) = rotary.into_iter().flatten().find(|table| !args.is_constant(*table)) {
        return Err(OpError::new("cosines", format!("and `sines` must be constants, but tensor {table} is none")));
    }
    // One row per position of a token.
    rotary.into_iter().flatten().for_each(|table| args.reads_slices(table, 0));
    Ok(Box::new(sdpa))
}

/// Whether flash kernels take this head dim: whole vectors, at most [`flash::MAX_HEAD_VECTORS`].
fn has_flash_kernel(dim: u32) -> bool {
    dim > 0 && dim.is_multiple_of(4) && dim / 4 <= flash::MAX_HEAD_VECTORS
}

/// Queries or keys whose elements of two halves are rotated by a row of cosines and one of sines per token.
#[cfg(any(test, feature = "reference"))]
fn rotated_halves(x: &[f32], table: &[f32], shape: &Shape) -> Vec<f32> {
    let (dim, tokens) = (shape.dim as usize, (shape.tokens as usize).max(1));
    let (columns, per_token) = (table.len() / (2 * tokens), (x.len() / tokens).max(1));
    let (cosines, sines) = table.split_at(table.len() / 2);
    let rotated = |(at, &own): (usize, &f32)| {
        let column = at % dim.max(1);
        if column >= columns {
            return own;
        }
        let first = column < columns / 2;
        let other = if first { -x[at + columns / 2] } else { x[at - columns / 2] };
        let angle = at / per_token * columns + column;
        own * cosines[angle] + other * sines[angle]
    };
    x.iter().enumerate().map(rotated).collect()
}

/// Checked live sizes.
struct Shape {
    q: Dims,
    tokens: u32,
    kv_heads: u32,
    /// Query heads per KV head.
    group: u32,
    /// Query rows per KV head.
    rows: u32,
    dim: u32,
    k: AppendRows,
    v: AppendRows,
}

impl Shape {
    fn position(&self) -> u32 {
        self.k.position
    }

    fn context(&self) -> u32 {
        self.position() + self.tokens
    }
}

/// Query rows per KV head: none where the queries are empty.
fn rows(q: &Dims, group: u32) -> u32 {
    if q.count() == 0 { 0 } else { group * q[1] }
}

/// KV heads, query heads per KV head, and head dim.
fn heads(q: &Dims, k_cache: &Dims) -> Result<(u32, u32, u32), OpError> {
    let (&[1, _, q_heads, dim], &[1, _, kv_heads, cache_dim]) = (&**q, &**k_cache) else {
        return Err(OpError::new("q", format!("is {q}, expected [1, tokens, heads, head dim] as in the cache {k_cache}")));
    };
    if kv_heads == 0 || q_heads % kv_heads != 0 {
        return Err(OpError::new("q", format!("has {q_heads} heads, expected a multiple of the cache's {kv_heads}")));
    }
    if dim != cache_dim {
        return Err(OpError::new("q", format!("has head dim {dim}, but the cache {cache_dim}")));
    }
    Ok((kv_heads, q_heads / kv_heads, dim))
}

impl Sdpa {
    fn shape(&self, cx: &PlanCx<'_>) -> Result<Shape, OpError> {
        let (q, k_cache, v_cache) = (cx.dims(self.q), cx.dims(self.k_cache), cx.dims(self.v_cache));
        let (kv_heads, group, dim) = heads(&q, &k_cache)?;
        if v_cache != k_cache {
            return Err(OpError::new("v_cache", format!("is {v_cache}, expected {k_cache} as `k_cache`")));
        }
        if self.how == How::Cached {
            let cached = self.cached_rows(cx, &q, &k_cache)?;
            let v = AppendRows { cache: self.v_cache, ..cached };
            return Ok(Shape { q, tokens: q[1], kv_heads, group, rows: rows(&q, group), dim, k: cached, v });
        }
        for (name, new) in [("k", self.k), ("v", self.v)] {
            let new = cx.dims(new);
            if new.get(1) != Some(&q[1]) {
                return Err(OpError::new(name, format!("is {new}, but `q` has {} tokens", q[1])));
            }
        }
        self.check_tables(cx, dim)?;
        let names = |value, cache| ArgNames { value, cache, position: "input_pos" };
        let k = AppendRows::check(cx, names("k", "k_cache"), (self.k, self.k_cache), self.input_pos)?;
        let v = AppendRows::check(cx, names("v", "v_cache"), (self.v, self.v_cache), self.input_pos)?;
        Ok(Shape { q, tokens: q[1], kv_heads, group, rows: rows(&q, group), dim, k, v })
    }

    /// The rows that the caches hold already for the new tokens.
    fn cached_rows(&self, cx: &PlanCx<'_>, q: &Dims, cache: &Dims) -> Result<AppendRows, OpError> {
        let (at, tokens, length) = (cx.scalar(self.input_pos), q[1], cache[1]);
        let position = u32::try_from(at).ok().filter(|&at| u64::from(at) + u64::from(tokens) <= length.into());
        let position = position.ok_or_else(|| {
            OpError::new("start_pos", format!("is {at} with {tokens} new tokens, outside the cache's {length}"))
        })?;
        Ok(AppendRows { value: self.q, cache: self.k_cache, rows: tokens, position })
    }

    /// Checks that the rotary tables have a row per position of the cache.
    fn check_tables(&self, cx: &PlanCx<'_>, dim: u32) -> Result<(), OpError> {
        let positions = cx.dims(self.k_cache)[1];
        for (name, table) in ["cosines", "sines"].into_iter().zip(self.rotary.into_iter().flatten()) {
            let table = cx.dims(table);
            if table.len() != 2 || table[0] < positions || table[1] != dim / 2 {
                return Err(OpError::new(name, format!("is {table}, expected [{positions} or more, {}]", dim / 2)));
            }
        }
        if let Some(table) = self.token_table.map(|table| cx.dims(table)) {
            let tokens = cx.dims(self.q)[1];
            if table.len() != 2 || u64::from(table[0]) != 2 * u64::from(tokens) || table[1] > dim {
                return Err(OpError::new("angles", format!("is {table}, expected [2 · {tokens}, {dim} or fewer]")));
            }
        }
        Ok(())
    }

    /// The algorithm for a head dim. The bound's head dim is the live one: rows of caches have a fixed length.
    fn algorithm(&self, dim: u32) -> Algorithm {
        match self.how {
            How::Naive => Algorithm::Naive,
            How::Fastest if has_flash_kernel(dim) => Algorithm::Flash(dim / 4),
            How::Fastest | How::SmallSlices | How::Cached => Algorithm::Materialised,
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    fn scale(&self, dim: u32) -> f32 {
        self.scale.unwrap_or_else(|| f64::from(dim).sqrt().recip()) as f32
    }
}

impl Op for Sdpa {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let (q, k_cache) = (cx.bound(self.q), cx.bound(self.k_cache));
        let (kv_heads, group, dim) = heads(&q, &k_cache)?;
        let rows = rows(&q, group);
        match self.algorithm(dim) {
            Algorithm::Flash(head_vectors) => Ok(self.flash_recipes(cx, kv_heads, rows, head_vectors)),
            kernels => self.materialised_recipes(cx, kv_heads, rows, kernels),
        }
    }

    fn accepts_f16_state(&self, state: TensorId) -> bool {
        self.accepts_f16 && [self.k_cache, self.v_cache].contains(&state)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let shape = self.shape(cx)?;
        match self.algorithm(shape.dim) {
            Algorithm::Flash(head_vectors) => self.plan_flash(cx, &shape, head_vectors),
            Algorithm::Materialised | Algorithm::Naive => self.plan_materialised(cx, &shape),
        }
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let shape = self.shape(cx)?;
        if self.how == How::Cached {
            let out = self.attend(&shape, tensors.f32(self.q), tensors.f32(self.k_cache), tensors.f32(self.v_cache));
            tensors.set(self.out, shape.q, HostData::F32(out));
            return Ok(());
        }
        let rotated = |x| self.rotated_rows(tensors, &shape, x);
        let keys = shape.k.reference(cx, &rotated(self.k), tensors.f32(self.k_cache));
        let values = shape.v.reference(cx, tensors.f32(self.v), tensors.f32(self.v_cache));
        let out = self.attend(&shape, &rotated(self.q), &keys, &values);
        tensors.set(self.k_cache, cx.dims(self.k_cache), HostData::F32(keys));
        tensors.set(self.v_cache, cx.dims(self.v_cache), HostData::F32(values));
        tensors.set(self.out, shape.q, HostData::F32(out));
        Ok(())
    }
}

impl Sdpa {
    fn plan_flash(&self, cx: &PlanCx<'_>, shape: &Shape, head_vectors: u32) -> Result<Plan, OpError> {
        let mut plan = Plan::new(self.out, shape.q, None);
        let split = KvSplit::new(
            cx.caps(),
            &FlashKernel::available(cx.caps(), head_vectors, self.f16_cache),
            shape.kv_heads,
            shape.rows,
            shape.context(),
        );
        plan.step_words = vec![shape.position(), shape.context(), split.splits, split.split_keys];
        if shape.rows == 0 {
            return Ok(plan);
        }
        let params = flash::Params {
            heads: shape.kv_heads,
            group: shape.group,
            rows: shape.rows,
            tokens: shape.tokens,
            scale: self.scale(shape.dim),
            causal: self.causal.into(),
            step_base: cx.step_base(),
            sin_offset: self.sin_offset(cx)?,
            free_position: shape.tokens.min(cx.dims(self.k_cache)[1].saturating_sub(1)),
            rotary_vectors: self.token_table.map_or(0, |table| cx.dims(table).last() / 4),
            pad: [0; 2],
        };
        let (steps, scratch) = self.flash_dispatches(&params, head_vectors, &split)?;
        (plan.steps, plan.scratch) = (steps, vec![scratch]);
        Ok(plan)
    }

    /// Queries or keys, with rotary embedding where there are tables.
    #[cfg(any(test, feature = "reference"))]
    fn rotated_rows(&self, tensors: &HostTensors, shape: &Shape, x: TensorId) -> Vec<f32> {
        let x = tensors.f32(x);
        if let Some(table) = self.token_table {
            return rotated_halves(x, tensors.f32(table), shape);
        }
        let Some(tables) = self.rotary else { return x.to_vec() };
        let [cosines, sines] = tables.map(|table| tensors.f32(table));
        let (dim, tokens) = (shape.dim as usize, (shape.tokens as usize).max(1));
        let width = (x.len() / tokens).max(1);
        let rotate = |(pair, x): (usize, &[f32])| {
            let position = shape.position() as usize + pair * 2 / width;
            let angle = position * (dim / 2) + pair % (dim / 2);
            let [c, s, a, b] = [cosines[angle], sines[angle], x[0], x[1]].map(f64::from);
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let rotated = [(a * c - b * s) as f32, (a * s + b * c) as f32];
            rotated
        };
        x.chunks_exact(2).enumerate().flat_map(rotate).collect()
    }

    /// Softmax(scale · q kᵀ) v, head by head, in double precision.
    #[cfg(any(test, feature = "reference"))]
    fn attend(&self, shape: &Shape, q: &[f32], keys: &[f32], values: &[f32]) -> Vec<f32> {
        let [dim, kv_heads, group] = [shape.dim, shape.kv_heads, shape.group].map(|size| size as usize);
        let heads = kv_heads * group;
        let scale = self.scale.unwrap_or(1.0 / f64::from(shape.dim).sqrt());
        let mut out = Vec::with_capacity(q.len());
        for (row, query) in q.chunks_exact(dim.max(1)).enumerate() {
            let (token, head) = (row / heads, row % heads / group);
            let sees = if self.causal { shape.position() as usize + token + 1 } else { shape.context() as usize };
            let cached = |cache: &[f32], at: usize| cache[(at * kv_heads + head) * dim..][..dim].to_vec();
            let dot = |key: &[f32]| -> f64 { query.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
            let scores: Vec<f64> = (0..sees).map(|at| scale * dot(&cached(keys, at))).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut sums = vec![0.0; dim];
            for (at, weight) in weights.iter().enumerate() {
                sums.iter_mut().zip(cached(values, at)).for_each(|(sum, value)| *sum += weight * f64::from(value));
            }
            #[allow(clippy::cast_possible_truncation, reason = "the result fits 32 bits")]
            out.extend(sums.iter().map(|sum| (sum / total) as f32));
        }
        out
    }
}
