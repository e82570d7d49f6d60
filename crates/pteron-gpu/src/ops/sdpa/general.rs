//! Attention with a mask, of any batch size, or over int8 caches: `llama.custom_sdpa` and `llama.custom_quantized_sdpa` where the faster
//! kernels do not apply. Integers are converted to floats in scratch first.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::{Scalar, TensorId};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

pub(super) static KERNEL: KernelDef = KernelDef::new("sdpa_general", include_str!("sdpa_general.wgsl"), Params::FIELDS);
static DEQUANTISE: KernelDef = KernelDef::new("sdpa_dequantise", include_str!("sdpa_dequantise.wgsl"), RowParams::FIELDS)
    .with_variants(|| ZERO_POINTS.iter().map(|&elem| dequantise(elem)).collect());

/// The registry entry of attention over quantised caches.
pub static QUANTISED: OpDef = OpDef {
    names: &["llama.custom_quantized_sdpa.default"],
    internal: &[],
    kernels: &[&KERNEL, &DEQUANTISE],
    decode: decode_quantised,
};

params! {
    /// Of `sdpa_general.wgsl`.
    struct Params {
        rows: u32, queries: u32, heads: u32, sharing: u32, dim: u32, q_row: u32, q_head: u32, q_batch: u32,
        k_row: u32, k_head: u32, k_batch: u32, mask_row: u32, causal: u32, scale: f32, step_base: u32, lowest: f32,
    }
}
params! {
    /// Of `sdpa_dequantise.wgsl`.
    struct RowParams { count: u32, dim: u32, pad: [u32; 2] }
}

/// The longest head that a workgroup accumulates; `LONGEST` in the kernel.
const LONGEST: u32 = 1024;
/// The element types of zero points.
const ZERO_POINTS: &[Elem] = &[Elem::I8, Elem::I32, Elem::F32];

/// The arguments of attention.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) q: TensorId,
    pub(super) k: TensorId,
    pub(super) v: TensorId,
    pub(super) mask: Option<TensorId>,
    pub(super) start_pos: Scalar,
    pub(super) causal: bool,
    pub(super) scale: Option<f64>,
    /// Whether tensors are `[batch, heads, tokens, dim]`; otherwise `[batch, tokens, heads, dim]`.
    pub(super) sequence_last: bool,
    pub(super) out: TensorId,
}

/// Zero points and scales of one tensor's rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowScales {
    zero_points: TensorId,
    zero_elem: Elem,
    scales: TensorId,
}

#[derive(Debug)]
pub(crate) struct GeneralSdpa {
    inputs: Inputs,
    /// Of queries, keys and values, if they are integers.
    quantised: Option<[RowScales; 3]>,
}

fn decode_quantised(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let [q, k, v] = ["query", "key", "value"].map(|name| args.tensor_of(name, &[Elem::I8]));
    let start_pos = args.scalar("start_pos")?;
    let mask = args.optional_tensor_of("attn_mask", &[Elem::F32])?;
    let dropout = args.float("dropout_p")?;
    if dropout != 0.0 {
        return Err(OpError::new("dropout_p", format!("is {dropout}, expected 0")));
    }
    let (causal, scale) = (args.bool("is_causal")?, args.optional_float("scale")?);
    let names = [["q_zero_points", "q_scales"], ["k_zero_points", "k_scales"], ["v_zero_points", "v_scales"]];
    let [first, second, third] = names.map(|[zero_points, scales]| {
        let zero_points = args.tensor_of(zero_points, ZERO_POINTS)?;
        let zero_elem = args.info(zero_points).elem;
        Ok::<_, OpError>(RowScales { zero_points, zero_elem, scales: args.tensor_of(scales, &[Elem::F32])? })
    });
    let sequence_last = args.bool("is_seq_at_dim_2")?;
    let out = args.output_of("out", Elem::F32)?;
    let inputs = Inputs { q: q?, k: k?, v: v?, mask, start_pos, causal, scale, sequence_last, out };
    GeneralSdpa::decoded(args, inputs, Some([first?, second?, third?]))
}

/// The kernel that converts rows with zero points of a type.
fn dequantise(zero_points: Elem) -> Variant {
    let (word, zero) = match zero_points {
        Elem::F32 => ("f32", "zero_points[row]"),
        Elem::I32 => ("i32", "f32(zero_points[row])"),
        _ => ("i32", "f32(extractBits(zero_points[row / 4u], 8u * (row % 4u), 8u))"),
    };
    Variant::new(&DEQUANTISE).with_type("Z", word).with_function("fn zero_point(row: u32) -> f32", zero)
}

/// The sizes of a call.
struct Shape {
    batch: u32,
    queries: u32,
    heads: u32,
    kv_heads: u32,
    /// Rows of keys, and those that are attended to.
    length: u32,
    keys: u32,
    dim: u32,
    start: u32,
    out: Dims,
}

impl GeneralSdpa {
    /// The queries, the keys in their cache, and the output, of floats `[batch, tokens, heads, dim]`.
    pub(crate) fn queries_keys_output(&self) -> Option<(TensorId, TensorId, TensorId)> {
        let Inputs { q, k, out, sequence_last, .. } = self.inputs;
        (self.quantised.is_none() && !sequence_last).then_some((q, k, out))
    }

    pub(super) fn decoded(
        args: &Args<'_>,
        inputs: Inputs,
        quantised: Option<[RowScales; 3]>,
    ) -> Result<Box<dyn Op>, OpError> {
        let dim = args.info(inputs.q).bound.last();
        if dim > LONGEST {
            return Err(OpError::new("query", format!("has heads of {dim}, supported: at most {LONGEST}")));
        }
        if inputs.mask.is_some() && inputs.causal {
            return Err(OpError::new("is_causal", "is true, and there is a mask: expected one of them"));
        }
        Ok(Box::new(Self { inputs, quantised }))
    }

    fn shape(&self, cx: &PlanCx<'_>) -> Result<Shape, OpError> {
        let Inputs { q, k, v, mask, start_pos, sequence_last, .. } = self.inputs;
        let sizes = |name: &'static str, tensor| {
            let dims = cx.dims(tensor);
            let sizes = <[u32; 4]>::try_from(&*dims);
            let [batch, a, b, dim] =
                sizes.map_err(|_| OpError::new(name, format!("is {dims}, expected four dimensions")))?;
            Ok(if sequence_last { [batch, b, a, dim] } else { [batch, a, b, dim] })
        };
        let ([batch, queries, heads, dim], keys) = (sizes("query", q)?, sizes("key", k)?);
        let [_, length, kv_heads, _] = keys;
        if keys != [batch, length, kv_heads, dim] || sizes("value", v)? != keys {
            let reason = format!("is {}, but queries are {} and values {}", cx.dims(k), cx.dims(q), cx.dims(v));
            return Err(OpError::new("key", reason));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(OpError::new("key", format!("has {kv_heads} heads, which do not divide the {heads} of the query")));
        }
        let at = cx.scalar(start_pos);
        let start = u32::try_from(at).ok().filter(|&at| u64::from(at) + u64::from(queries) <= length.into());
        let Some(start) = start else {
            return Err(OpError::new("start_pos", format!("is {at} with {queries} queries, past the {length} keys")));
        };
        if let Some(found) = mask.map(|mask| cx.dims(mask)) {
            let leading = &found[..found.len().saturating_sub(2)];
            if found.len() < 2 || found[found.len() - 2..] != [queries, length] || leading.iter().any(|&dim| dim != 1) {
                return Err(OpError::new("attn_mask", format!("is {found}, expected [{queries}, {length}]")));
            }
        }
        let keys = if mask.is_some() { length } else { start + queries };
        for (scales, tensor) in self.quantised.iter().flatten().zip([q, k, v]) {
            let rows = cx.dims(tensor).rows();
            for parameters in [scales.zero_points, scales.scales] {
                let found = cx.dims(parameters);
                if found.count() != rows {
                    return Err(OpError::new("q_scales", format!("and the others: {found} for {rows} rows of integers")));
                }
            }
        }
        Ok(Shape { batch, queries, heads, kv_heads, length, keys, dim, start, out: cx.dims(q) })
    }

    fn params(&self, cx: &PlanCx<'_>, shape: &Shape) -> Params {
        let &Shape { batch, queries, heads, kv_heads, length, dim, .. } = shape;
        let strides = |tokens: u32, heads: u32| {
            let (token, head) = if self.inputs.sequence_last { (dim, tokens * dim) } else { (heads * dim, dim) };
            (token, head, tokens * heads * dim)
        };
        let ((q_row, q_head, q_batch), (k_row, k_head, k_batch)) = (strides(queries, heads), strides(length, kv_heads));
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let scale = self.inputs.scale.unwrap_or_else(|| f64::from(dim.max(1)).sqrt().recip()) as f32;
        Params {
            rows: batch * queries * heads,
            queries,
            heads,
            sharing: heads / kv_heads,
            dim,
            q_row,
            q_head,
            q_batch,
            k_row,
            k_head,
            k_batch,
            mask_row: if self.inputs.mask.is_some() { length } else { 0 },
            causal: self.inputs.causal.into(),
            scale,
            step_base: cx.step_base(),
            lowest: f32::MIN,
        }
    }
}

impl Op for GeneralSdpa {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let Inputs { q, k, v, mask, out, .. } = self.inputs;
        let tensors = [q, k, v];
        let mut recipes = Recipes { step_words: 2, ..Recipes::default() };
        let floats: Vec<Bind> = match &self.quantised {
            None => tensors.map(Bind::Tensor).to_vec(),
            Some(scales) => {
                for (index, (&tensor, scales)) in tensors.iter().zip(scales).enumerate() {
                    let binds = [tensor.into(), scales.zero_points.into(), scales.scales.into(), Bind::Scratch(index)];
                    recipes.list.push(Recipe::new(dequantise(scales.zero_elem), binds));
                    recipes.scratch.push(cx.bound(tensor).count().saturating_mul(4).max(4));
                }
                (0..3).map(Bind::Scratch).collect()
            }
        };
        let variant = Variant::new(&KERNEL).with("MASKED", mask.is_some().into());
        let rest = [mask.unwrap_or(out).into(), Bind::Step, out.into()];
        // Without a mask its binding is not read; the queries stand in for it.
        let rest = if mask.is_some() { rest } else { [floats[0], rest[1], rest[2]] };
        recipes.list.push(Recipe::new(variant, floats.into_iter().chain(rest)));
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let shape = self.shape(cx)?;
        let mut plan = Plan::new(self.inputs.out, shape.out, None);
        plan.step_words = vec![shape.start, shape.keys];
        if shape.out.count() == 0 {
            return Ok(plan);
        }
        if self.quantised.is_some() {
            for (recipe, tensor) in [self.inputs.q, self.inputs.k, self.inputs.v].into_iter().enumerate() {
                let count = cx.dims(tensor).count();
                let params = RowParams { count: cx.dims(tensor).count_u32(), dim: shape.dim, pad: [0; 2] };
                plan.steps.extend(Dispatch::items(recipe, &params, count, 256)?);
                plan.scratch.push(count.saturating_mul(4));
            }
        }
        let params = self.params(cx, &shape);
        let recipe = if self.quantised.is_some() { 3 } else { 0 };
        plan.steps.extend(Dispatch::groups(recipe, &params, params.rows.into())?);
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let shape = self.shape(cx)?;
        let params = self.params(cx, &shape);
        let floats = |index: usize, tensor: TensorId| match &self.quantised {
            None => tensors.numbers(Elem::F32, tensor),
            Some(scales) => {
                let RowScales { zero_points, zero_elem, scales } = scales[index];
                let (zeros, scales) = (tensors.numbers(zero_elem, zero_points), tensors.numbers(Elem::F32, scales));
                let row = |at: usize| at / (shape.dim as usize).max(1);
                let values = tensors.numbers(Elem::I8, tensor).into_iter().enumerate();
                values.map(|(at, value)| (value - zeros[row(at)]) * scales[row(at)]).collect()
            }
        };
        let [q, k, v] = [(0, self.inputs.q), (1, self.inputs.k), (2, self.inputs.v)].map(|(index, x)| floats(index, x));
        let mask = self.inputs.mask.map(|mask| tensors.numbers(Elem::F32, mask));
        let mut out = vec![0.0; q.len()];
        let dim = shape.dim as usize;
        for row in 0..params.rows {
            let (batch, rest) = (row / (shape.queries * shape.heads), row % (shape.queries * shape.heads));
            let (query, head) = (rest / shape.heads, rest % shape.heads);
            let at = (batch * params.q_batch + query * params.q_row + head * params.q_head) as usize;
            let first = (batch * params.k_batch + head / params.sharing * params.k_head) as usize;
            let key_at = |key: u32| first + key as usize * params.k_row as usize;
            let score = |key: u32| {
                let dot: f64 = (0..dim).map(|d| q[at + d] * k[key_at(key) + d]).sum();
                let masked = mask.as_ref().map_or(0.0, |mask| mask[(query * shape.length + key) as usize]);
                dot * f64::from(params.scale) + masked
            };
            let last = if self.inputs.causal { shape.start + query + 1 } else { shape.keys };
            let scores: Vec<f64> = (0..last.min(shape.keys)).map(score).collect();
            let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - high).exp()).sum();
            for (key, score) in (0..).zip(&scores) {
                let weight = (score - high).exp() / sum;
                (0..dim).for_each(|d| out[at + d] += weight * v[key_at(key) + d]);
            }
        }
        tensors.set(self.inputs.out, shape.out, HostData::from_numbers(Elem::F32, out));
        Ok(())
    }
}
