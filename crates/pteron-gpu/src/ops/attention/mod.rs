//! `et_vk.sdpa`: attention of queries over whole keys and values, softmax(scale · q kᵀ + mask) v, with leading dims that
//! broadcast.
//!
//! Scores are materialised in scratch: `QKᵀ`, softmax in place, AV. Scores larger than the scratch limit are computed in slices of
//! batches or rows, one after the other.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::ir::{Call, Graph, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::matmul::batched::{self, MatrixDims, OperandLayout, Params};
use crate::matmul::score_slices::{MAX_SCORE_BYTES, ScoreSlices};
use crate::matmul::to_f32;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors, broadcast_offset, indices};
use crate::shape::{Dims, MAX_RANK, broadcast, innermost_first};

static SOFTMAX: KernelDef =
    KernelDef::new("attention_softmax", include_str!("attention_softmax.wgsl"), SoftmaxParams::FIELDS);

const NAME: &str = "et_vk.sdpa.default";

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &[NAME], internal: &[], kernels: &[&batched::GEMV, &batched::GEMM, &SOFTMAX], decode };

params! {
    /// Of `attention_softmax.wgsl`.
    struct SoftmaxParams { rows: u32, context: u32, vectors: u32, threads: u32 }
}

/// The threads of a softmax workgroup.
const SOFTMAX_THREADS: u32 = 256;

/// The most scratch for scores; less in tests, so that small calls have several slices.
const SCORE_BYTES: u64 = if cfg!(test) { 1 << 21 } else { MAX_SCORE_BYTES };

#[derive(Debug)]
struct Attention {
    q: TensorId,
    k: TensorId,
    v: TensorId,
    mask: Option<TensorId>,
    scale: Option<f64>,
    out: TensorId,
}

/// Creates a call of the operator without a mask.
pub(crate) fn call(graph: &mut Graph, inputs: [TensorId; 3], scale: f64, out: TensorId) -> Call {
    let [q, k, v] = inputs.map(|tensor| ValueId(tensor.0));
    let (mask, scale) = (graph.add(Value::Null), graph.add(Value::Double(scale)));
    Call::new(&DEF, NAME, vec![q, k, v, mask, scale, ValueId(out.0)])
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let q = args.tensor_of("q", &[Elem::F32])?;
    let k = args.tensor_of("k", &[Elem::F32])?;
    let v = args.tensor_of("v", &[Elem::F32])?;
    let mask = args.optional_tensor_of("attn_mask", &[Elem::F32])?;
    let scale = args.optional_float("scale")?;
    Ok(Box::new(Attention { q, k, v, mask, scale, out: args.output_of("out", Elem::F32)? }))
}

/// `QKᵀ`: rows of both are read along the head.
fn qk_layout(dim: u32) -> OperandLayout {
    let wide = dim.is_multiple_of(4);
    OperandLayout { transposed: true, wide_x: wide, wide_weight: wide, few_rows: false }
}

/// AV: rows of scratch are whole vectors.
fn av_layout(dim: u32) -> OperandLayout {
    OperandLayout { transposed: false, wide_x: true, wide_weight: dim.is_multiple_of(4), few_rows: false }
}

/// The layouts of both products, in the order of the recipes, which softmax follows.
fn layouts() -> [OperandLayout; 4] {
    [qk_layout(4), qk_layout(1), av_layout(4), av_layout(1)]
}

/// The recipe of softmax comes after those of the products.
fn softmax_recipe() -> usize {
    layouts().iter().map(OperandLayout::count).sum()
}

/// Checked sizes of a call.
struct Shape {
    q: MatrixDims,
    k: MatrixDims,
    v: MatrixDims,
    /// The leading dims of the output.
    batch: Dims,
    out: Dims,
    /// The mask's strides at indices of the scores, outermost first; 0 where it is broadcast.
    mask: Option<[u32; MAX_RANK]>,
    scale: f64,
}

impl Shape {
    fn slices(&self, caps: Caps) -> Result<ScoreSlices, OpError> {
        let most = most_scratch(caps);
        let slices = ScoreSlices::new(self.batch.count_u32(), self.q.rows, self.k.rows, most);
        slices.map_err(|error| OpError { argument: if error.argument == "q" { "q" } else { "k" }, ..error })
    }

    /// The two products of one slice.
    fn products(&self, slices: &ScoreSlices, index: u64) -> [Params; 2] {
        let Self { q, k, v, batch, .. } = self;
        let slice = slices.slice(index);
        let slice_batch = slice.rows * slices.stride;
        let both = Params {
            m: slice.rows,
            batches: slice.heads,
            first_batch: slice.head,
            x_column: 1,
            out_column: 1,
            ..batched::batches(batch)
        };
        let scores = Params {
            n: k.rows,
            k: q.columns,
            x_base: slice.row * q.columns,
            x_row: q.columns,
            x_strides: q.strides(batch).unwrap_or_default(),
            weight_strides: k.strides(batch).unwrap_or_default(),
            out_row: slices.stride,
            out_batch: slice_batch,
            alpha: to_f32(self.scale),
            ..both
        };
        let values = Params {
            n: v.columns,
            k: v.rows,
            x_row: slices.stride,
            x_batch: slice_batch,
            weight_strides: v.strides(batch).unwrap_or_default(),
            out_base: (slice.head * q.rows + slice.row) * v.columns,
            out_row: v.columns,
            out_batch: q.rows * v.columns,
            alpha: 1.0,
            ..both
        };
        [self.masked(scores, slice.row), values]
    }

    /// A product of scores with the mask added.
    fn masked(&self, scores: Params, first_row: u32) -> Params {
        let Some(strides) = self.mask else { return scores };
        let lead = self.batch.len();
        let (addend_row, addend_column) = (strides[lead], strides[lead + 1]);
        Params {
            has_addend: 1,
            beta: 1.0,
            addend_base: first_row * addend_row,
            addend_row,
            addend_column,
            addend_strides: innermost_first(&strides[..lead], 0),
            ..scores
        }
    }
}

fn most_scratch(caps: Caps) -> u64 {
    SCORE_BYTES.min(caps.max_binding) / 16 * 16
}

/// Leading dims followed by rows and columns.
fn with_matrix(batch: &Dims, rows: u32, columns: u32) -> Option<Dims> {
    Dims::new(&[batch, [rows, columns].as_slice()].concat())
}

impl Attention {
    fn shape(&self, dims: impl Fn(TensorId) -> Dims) -> Result<Shape, OpError> {
        let of = |name, tensor| {
            let dims = dims(tensor);
            MatrixDims::of(&dims).ok_or_else(|| OpError::new(name, format!("is {dims}, expected at least two dimensions")))
        };
        let (q, k, v) = (of("q", self.q)?, of("k", self.k)?, of("v", self.v)?);
        if k.columns != q.columns {
            return Err(OpError::new("k", format!("has head dim {}, but `q` {}", k.columns, q.columns)));
        }
        if v.rows != k.rows {
            return Err(OpError::new("v", format!("has {} positions, but `k` {}", v.rows, k.rows)));
        }
        if q.columns == 0 && self.scale.is_none() {
            return Err(OpError::new("q", format!("is {}: a head dim of 0 gives no scale", dims(self.q))));
        }
        let scale = self.scale.unwrap_or_else(|| f64::from(q.columns).sqrt().recip());
        let mask_dims = self.mask.map(&dims);
        let mask_batch = mask_dims.and_then(|mask| MatrixDims::of(&mask)).map_or(Dims::SCALAR, |mask| mask.batch);
        let mut batch = q.batch;
        for (name, other) in [("k", k.batch), ("v", v.batch), ("attn_mask", mask_batch)] {
            let unlike = || OpError::new(name, format!("has leading dims {other}, which cannot be broadcast with {batch}"));
            batch = broadcast(&batch, &other).ok_or_else(unlike)?;
        }
        let too_many =
            || OpError::new("q", format!("meets keys, values and a mask in leading dims {batch}: more than kernels count"));
        let scores = with_matrix(&batch, q.rows, k.rows).ok_or_else(too_many)?;
        let out =
            with_matrix(&batch, q.rows, v.columns).filter(|out| out.count() <= u32::MAX.into()).ok_or_else(too_many)?;
        let strides = |mask: Dims| {
            let unlike =
                || OpError::new("attn_mask", format!("is {mask}, which cannot be broadcast to the scores {scores}"));
            mask.broadcast_strides(&scores).ok_or_else(unlike)
        };
        Ok(Shape { q, k, v, batch, out, mask: mask_dims.map(strides).transpose()?, scale })
    }
}

/// Softmax over the scores of a slice.
fn softmax(scores: &Params, stride: u32) -> Result<Option<Dispatch>, OpError> {
    let (rows, vectors) = (scores.batches * scores.m, stride / 4);
    let threads = vectors.next_power_of_two().min(SOFTMAX_THREADS);
    // Without a context there are no scores.
    let items = if scores.n == 0 { 0 } else { rows };
    let params = SoftmaxParams { rows, context: scores.n, vectors, threads };
    Dispatch::items(softmax_recipe(), &params, items.into(), (SOFTMAX_THREADS / threads).into())
}

impl Op for Attention {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let slices = self.shape(|tensor| cx.bound(tensor))?.slices(cx.caps())?;
        let scores = Bind::Scratch(0);
        let product = |layout: &OperandLayout| {
            let binds = if layout.transposed {
                [self.q.into(), self.k.into(), self.mask.unwrap_or(self.k).into(), scores]
            } else {
                [scores, self.v.into(), self.v.into(), self.out.into()]
            };
            layout.recipes(&binds)
        };
        let mut list: Vec<Recipe> = layouts().iter().flat_map(product).collect();
        list.push(Recipe::new(Variant::new(&SOFTMAX), [scores]));
        for recipe in &mut list {
            recipe.max_dispatches = u32::try_from(slices.count()).unwrap_or(u32::MAX);
        }
        Ok(Recipes { list, scratch: vec![slices.reserve(most_scratch(cx.caps()))], ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let shape = self.shape(|tensor| cx.dims(tensor))?;
        let mut plan = Plan::new(self.out, shape.out, None);
        if shape.out.count() == 0 {
            return Ok(plan);
        }
        let slices = shape.slices(cx.caps())?;
        let (score, value) = (qk_layout(shape.q.columns), av_layout(shape.v.columns));
        for index in 0..slices.count() {
            let [scores, values] = shape.products(&slices, index);
            let steps =
                [score.dispatch(&layouts(), scores)?, softmax(&scores, slices.stride)?, value.dispatch(&layouts(), values)?];
            plan.steps.extend(steps.into_iter().flatten());
        }
        plan.scratch = vec![slices.bytes()];
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let shape = self.shape(|tensor| cx.dims(tensor))?;
        let Shape { q, k, v, batch, out, scale, .. } = &shape;
        let [dim, context, columns] = [q.columns, k.rows, v.columns].map(|size| size as usize);
        let mask = self.mask.map(|mask| (cx.dims(mask), tensors.f32(mask)));
        let rows = |tensor, of: &MatrixDims, index: &[u32]| -> &[f32] {
            let start = broadcast_offset(&of.batch, index) * of.rows as usize * of.columns as usize;
            &tensors.f32(tensor)[start..]
        };
        let mut data = Vec::new();
        for index in indices(batch) {
            let (queries, keys, values) = (rows(self.q, q, &index), rows(self.k, k, &index), rows(self.v, v, &index));
            for row in 0..q.rows {
                let score = |at: usize| -> f64 {
                    let pairs = queries[row as usize * dim..].iter().zip(&keys[at * dim..]).take(dim);
                    let place = [index.as_slice(), &[row, u32::try_from(at).unwrap_or(0)]].concat();
                    let mask = mask.as_ref().map_or(0.0, |(dims, mask)| mask[broadcast_offset(dims, &place)].into());
                    // In 32 bits a large mask value absorbs the score.
                    to_f32(scale * pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>() + mask).into()
                };
                let scores: Vec<f64> = (0..context).map(score).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
                let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp() / total).collect();
                let value = |column: usize| -> f64 {
                    weights.iter().enumerate().map(|(at, weight)| weight * f64::from(values[at * columns + column])).sum()
                };
                data.extend((0..columns).map(|column| to_f32(value(column))));
            }
        }
        tensors.set(self.out, *out, HostData::F32(data));
        Ok(())
    }
}
