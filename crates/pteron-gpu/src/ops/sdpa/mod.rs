//! Attention over a cache that grows in place: the new keys and values are written, and queries meet all that is cached.
//!
//! Heads of whole vectors go in one sweep over the context (`stream.rs`), which writes few new tokens on its way. For others scores go through scratch: keys against
//! queries, softmax in place, weights against values. Where they would take too much, the plan does the three in rounds, a slice
//! of heads or rows each. What changes with every step (position, context and how it is cut) is in step words; parameters
//! depend on the number of new tokens alone.
//!
//! A device may have several kernels for the sweep (`sweep.rs`): a portable one, one for subgroups and few rows (`few.rs`), and one
//! that multiplies matrices of 16-bit floats for many (`matrix.rs`).
//!
//! `pteron.rotary_sdpa` is the same with queries and keys that are turned by their position on the way.

mod flash;
mod flash_coop_matrix;
mod flash_decode;
mod materialised;
mod reach;
mod selection;
pub(crate) mod slices;
#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::kernel::Include;
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::ops::update_cache::{self, Write, WriteNames};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;
use flash::Cut;
use selection::Sweep;
use slices::MAX_SCORE_BYTES;

/// WGSL that the kernels here share.
const INCLUDES: &[Include] = includes!["flash_new_kv", "flash_params", "materialised_params", "saturate_f16"];

pub(crate) const NAME: &str = "sdpa_with_kv_cache.default";
/// The same operator with tables of cosines and sines behind the values, by which queries and keys are turned; no file has it.
pub(crate) const ROTARY: &str = "pteron.rotary_sdpa";
/// The same operator with one thread an element, for benchmarks to measure against.
const NAIVE: &str = "sdpa_with_kv_cache.naive";
/// The same operator with scratch for a few rows of scores, so that small tests have rounds.
const SLICED: &str = "sdpa_with_kv_cache.sliced";

/// The registry entry. What only benchmarks and tests use is in no other build's table.
pub static DEF: OpDef = OpDef {
    names: if cfg!(any(test, feature = "bench")) { &[NAME, ROTARY, NAIVE, SLICED] } else { &[NAME, ROTARY] },
    internal: &[ROTARY],
    kernels: &[
        &flash::WRITE,
        &flash::STREAM,
        &flash::COMBINE,
        &flash_decode::FEW_SUBGROUPS,
        &flash_coop_matrix::MATRIX,
        &materialised::QK_SCALAR,
        &materialised::QK_NAIVE,
        &materialised::SOFTMAX,
        &materialised::AV,
        &materialised::AV_FEW,
        &materialised::AV_NAIVE,
        &update_cache::COPY,
    ],
    decode,
};

/// Which kernels the head dim, or the benchmark, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernels {
    /// Head dims of so many whole vectors.
    Stream(u32),
    /// Any head dim.
    Scalar,
    /// One thread an element.
    Naive,
}

#[derive(Debug)]
struct Sdpa {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    k_cache: TensorId,
    v_cache: TensorId,
    input_pos: Scalar,
    causal: bool,
    scale: Option<f64>,
    out: TensorId,
    /// Tables of cosines and sines, `[positions, dim / 2]`, by which queries and keys are turned.
    rotary: Option<[TensorId; 2]>,
    /// Whether the kernels for these caches also take them in 16-bit floats.
    accepts_f16: bool,
    /// Whether caches hold 16-bit floats.
    halves: bool,
    how: How,
    score_bytes: u64,
}

/// Whether the best kernels run, or others that benchmarks and tests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Best,
    Naive,
    Sliced,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let how = match args.operator() {
        NAIVE => How::Naive,
        SLICED => How::Sliced,
        _ => How::Best,
    };
    let score_bytes = if how == How::Sliced { 2048 } else { MAX_SCORE_BYTES };
    let q = args.tensor_of("q", &[Elem::F32])?;
    let k = args.tensor_of("k", &[Elem::F32])?;
    let v = args.tensor_of("v", &[Elem::F32])?;
    let rotary = if args.operator() == ROTARY {
        Some([args.tensor_of("cosines", &[Elem::F32])?, args.tensor_of("sines", &[Elem::F32])?])
    } else {
        None
    };
    let k_cache = args.mutated("k_cache")?;
    let v_cache = args.mutated("v_cache")?;
    let input_pos = args.scalar("input_pos")?;
    // Exporters write a literal that is not the number of new tokens; that is in `q`.
    args.ignore("seq_len")?;
    args.none("attn_mask")?;
    let dropout = args.float("dropout_p")?;
    if dropout != 0.0 {
        return Err(OpError::new("dropout_p", format!("is {dropout}, supported is 0")));
    }
    let causal = args.bool("is_causal")?;
    let scale = args.optional_float("scale")?;
    let out = args.output("out")?;
    let dim = args.info(k_cache).bound.last();
    let accepts_f16 = how == How::Best && streams(dim);
    let halves = args.info(k_cache).elem == Elem::F16 && accepts_f16;
    let of_caches = if halves { Elem::F16 } else { Elem::F32 };
    for (name, tensor, wanted) in [("k_cache", k_cache, of_caches), ("v_cache", v_cache, of_caches), ("out", out, Elem::F32)]
    {
        let elem = args.info(tensor).elem;
        if elem != wanted {
            return Err(OpError::new(name, format!("has elements {elem:?}, supported: {wanted:?}")));
        }
    }
    if k_cache == v_cache || [q, k, v].iter().any(|input| [k_cache, v_cache].contains(input)) {
        return Err(OpError::new("k_cache", "and `v_cache` must be two tensors that are no other argument"));
    }
    let sdpa =
        Sdpa { q, k, v, k_cache, v_cache, input_pos, causal, scale, out, rotary, accepts_f16, halves, how, score_bytes };
    if rotary.is_some() && sdpa.kernels(dim) == Kernels::Scalar {
        return Err(OpError::new("q", format!("has head dim {dim}, but only whole vectors can be turned on the way")));
    }
    if let Some(table) = rotary.into_iter().flatten().find(|table| !args.is_constant(*table)) {
        return Err(OpError::new("cosines", format!("and `sines` must be constants, but tensor {table} is none")));
    }
    // One row per position of a token.
    rotary.into_iter().flatten().for_each(|table| args.reads_slices(table, 0));
    Ok(Box::new(sdpa))
}

/// Whether heads are of whole vectors, and not too many, so that one sweep does.
fn streams(dim: u32) -> bool {
    dim > 0 && dim.is_multiple_of(4) && dim / 4 <= flash::MOST_LANES
}

/// Live sizes that go together.
struct Shape {
    q: Dims,
    tokens: u32,
    kv_heads: u32,
    /// Query heads of a KV head.
    group: u32,
    /// Query rows of a KV head.
    rows: u32,
    dim: u32,
    k: Write,
    v: Write,
}

impl Shape {
    fn position(&self) -> u32 {
        self.k.position
    }

    fn context(&self) -> u32 {
        self.position() + self.tokens
    }
}

/// Query rows of a KV head: none where the queries hold nothing.
fn rows(q: &Dims, group: u32) -> u32 {
    if q.count() == 0 { 0 } else { group * q[1] }
}

/// KV heads, query heads of each, and head dim, of queries and a cache.
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
        for (name, new) in [("k", self.k), ("v", self.v)] {
            let new = cx.dims(new);
            if new.get(1) != Some(&q[1]) {
                return Err(OpError::new(name, format!("is {new}, but `q` has {} tokens", q[1])));
            }
        }
        self.check_tables(cx, dim)?;
        let names = |value, cache| WriteNames { value, cache, position: "input_pos" };
        let k = Write::check(cx, names("k", "k_cache"), (self.k, self.k_cache), self.input_pos)?;
        let v = Write::check(cx, names("v", "v_cache"), (self.v, self.v_cache), self.input_pos)?;
        Ok(Shape { q, tokens: q[1], kv_heads, group, rows: rows(&q, group), dim, k, v })
    }

    /// Tables have a row for every position that the cache has.
    fn check_tables(&self, cx: &PlanCx<'_>, dim: u32) -> Result<(), OpError> {
        let positions = cx.dims(self.k_cache)[1];
        for (name, table) in ["cosines", "sines"].into_iter().zip(self.rotary.into_iter().flatten()) {
            let table = cx.dims(table);
            if table.len() != 2 || table[0] < positions || table[1] != dim / 2 {
                return Err(OpError::new(name, format!("is {table}, expected [{positions} or more, {}]", dim / 2)));
            }
        }
        Ok(())
    }

    /// The head dim of the bound is the live one: caches keep their rows.
    fn kernels(&self, dim: u32) -> Kernels {
        match self.how {
            How::Naive => Kernels::Naive,
            How::Best if streams(dim) => Kernels::Stream(dim / 4),
            How::Best | How::Sliced => Kernels::Scalar,
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
        match self.kernels(dim) {
            Kernels::Stream(lanes) => Ok(self.stream_recipes(cx, kv_heads, rows, lanes)),
            kernels => self.round_recipes(cx, kv_heads, rows, kernels),
        }
    }

    fn accepts_f16_state(&self, state: TensorId) -> bool {
        self.accepts_f16 && [self.k_cache, self.v_cache].contains(&state)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let shape = self.shape(cx)?;
        match self.kernels(shape.dim) {
            Kernels::Stream(lanes) => self.plan_stream(cx, &shape, lanes),
            Kernels::Scalar | Kernels::Naive => self.plan_rounds(cx, &shape),
        }
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let shape = self.shape(cx)?;
        let turned = |x| self.turned(tensors, &shape, x);
        let keys = shape.k.reference(cx, &turned(self.k), tensors.f32(self.k_cache));
        let values = shape.v.reference(cx, tensors.f32(self.v), tensors.f32(self.v_cache));
        let out = self.attend(&shape, &turned(self.q), &keys, &values);
        tensors.set(self.k_cache, cx.dims(self.k_cache), HostData::F32(keys));
        tensors.set(self.v_cache, cx.dims(self.v_cache), HostData::F32(values));
        tensors.set(self.out, shape.q, HostData::F32(out));
        Ok(())
    }
}

impl Sdpa {
    fn plan_stream(&self, cx: &PlanCx<'_>, shape: &Shape, lanes: u32) -> Result<Plan, OpError> {
        let mut plan = Plan::new(self.out, shape.q, None);
        let cut = Cut::new(cx.caps(), &Sweep::all(cx.caps(), lanes), shape.kv_heads, shape.rows, shape.context());
        plan.step_words = vec![shape.position(), shape.context(), cut.parts, cut.part];
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
            sines: self.sines_at(cx)?,
        };
        let (steps, scratch) = self.stream_steps(&params, lanes, &cut)?;
        (plan.steps, plan.scratch) = (steps, vec![scratch]);
        Ok(plan)
    }

    /// Queries or keys as they meet: turned by their position where there are tables.
    fn turned(&self, tensors: &HostTensors, shape: &Shape, x: TensorId) -> Vec<f32> {
        let x = tensors.f32(x);
        let Some(tables) = self.rotary else { return x.to_vec() };
        let [cosines, sines] = tables.map(|table| tensors.f32(table));
        let (dim, tokens) = (shape.dim as usize, (shape.tokens as usize).max(1));
        let width = (x.len() / tokens).max(1);
        let turn = |(pair, x): (usize, &[f32])| {
            let position = shape.position() as usize + pair * 2 / width;
            let angle = position * (dim / 2) + pair % (dim / 2);
            let [c, s, a, b] = [cosines[angle], sines[angle], x[0], x[1]].map(f64::from);
            #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
            let turned = [(a * c - b * s) as f32, (a * s + b * c) as f32];
            turned
        };
        x.chunks_exact(2).enumerate().flat_map(turn).collect()
    }

    /// Softmax(scale · q kᵀ) v, head by head, in double precision.
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
            #[allow(clippy::cast_possible_truncation, reason = "the answer is in 32 bits")]
            out.extend(sums.iter().map(|sum| (sum / total) as f32));
        }
        out
    }
}
