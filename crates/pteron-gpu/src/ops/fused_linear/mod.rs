//! `pteron.fused_linear`: one to three linears of the same rows with 4-bit weights (scales per group) or floats, fused with an
//! RMS norm of the rows, biases, a residual addend, or SwiGLU of two. Files do not contain it: fusions insert it. If only
//! the last row of the output is read, it computes that row alone. Rows may be quantised to 8 bits first, each by its own
//! range, as `et_vk.linear_dq8ca_q4gsw` after `torchao.choose_qparams_affine` does, or by XNNPACK's rule.
//!
//! Few rows are one dispatch (`gemv`): out = rms · Σ x·g·w needs no normalised row first. Many rows run a tiled GEMM (`gemm`), or
//! cooperative matrices where the device has them (`coop_matrix`); there the faster by prediction takes few rows. Kernels that
//! multiply floats take quantised rows from another dispatch (`prologue`).

mod call;
mod coop_matrix;
mod float_gemv;
mod gemm;
mod gemv;
mod prologue;
mod reach;
#[cfg(test)]
mod tests;
mod weights;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::kernel::Include;
use crate::live::TensorId;
use crate::matmul::GEMV_MAX_ROWS;
#[cfg(any(test, feature = "reference"))]
use crate::matmul::to_f32;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, JoinedConstants, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{self, HostData, HostTensors};
use crate::rms_norm;
use crate::row_axes::RowAxes;
use crate::shape::{Dims, broadcast};
pub(crate) use call::FusedLinear;

use weights::{MAX_MATRICES, WeightMatrices};
#[cfg(any(test, feature = "reference"))]
use weights::{Values, WeightMatrix};

/// WGSL that the kernels here share.
const INCLUDES: &[Include] = includes![
    "fused_linear_bias",
    "fused_linear_coop_matrix",
    "fused_linear_coop_store",
    "fused_linear_float",
    "fused_linear_gemm_store",
    "fused_linear_gemv",
    "fused_linear_int8_rows",
    "fused_linear_params",
    "fused_linear_quantise",
    "fused_linear_store",
    "silu"
];

/// The operator's name, which files do not contain.
pub(crate) const NAME: &str = "pteron.fused_linear";

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &[NAME],
    internal: &[NAME],
    kernels: &[
        &gemv::PORTABLE,
        &gemv::SERIAL,
        &gemv::SUBGROUPS,
        &gemv::INT8,
        &float_gemv::GEMV,
        &gemm::GEMM,
        &gemm::FLOAT_GEMM,
        &gemm::SWIGLU,
        &coop_matrix::COOP_MATRIX,
        &coop_matrix::SPLIT_K,
        &coop_matrix::FLOATS,
        &coop_matrix::PACK,
        &prologue::QUANTISE,
        &rms_norm::KERNEL,
    ],
    decode,
};

params! {
    /// Of `include/fused_linear_params.wgsl`.
    struct Params {
        m: u32, n: u32, k: u32, eps: f32, units: u32, scale_lanes: u32, has_addend: u32, x_row: u32,
        first: [u32; 4], width: [u32; 4], bias: [u32; 4], first_tile: [u32; 4], addend_row: u32, tiles: u32, int8_eps: f32, pad: u32,
    }
}

/// Scratch by index: normalised or quantised rows, both factors of SwiGLU, and placeholders for absent outputs. `coop_matrix` has its own in place
/// of the first three.
const NORMED: usize = 0;
const GATE: usize = 1;
const UP: usize = 2;
const IDLE: usize = 3;
/// Bytes of a placeholder that is bound and never written.
const IDLE_BYTES: u64 = 16;

#[derive(Debug)]
pub(crate) struct FusedLinearOp {
    x: TensorId,
    norm: Option<Norm>,
    /// The smallest scale of rows that are quantised to 8 bits, or [`MULTIPLIER_RULE`](crate::int8::MULTIPLIER_RULE); `None` if they are not.
    int8_eps: Option<f32>,
    weights: WeightMatrices,
    addend: Option<TensorId>,
    swiglu: bool,
    /// Whether it computes the last row alone.
    last_row: bool,
    outputs: Vec<TensorId>,
}

#[derive(Debug)]
struct Norm {
    weight: TensorId,
    eps: f64,
}

/// The buffers that the kernels bind.
struct Binds {
    x: Bind,
    norm: Bind,
    weights: Bind,
    scales: Bind,
    addend: Bind,
    outputs: [Bind; MAX_MATRICES],
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("x", &[Elem::F32])?;
    let norm = args.optional_tensor_of("norm", &[Elem::F32])?;
    let norm = match (norm, args.optional_float("eps")?) {
        (Some(weight), Some(eps)) => Some(Norm { weight, eps: rms_norm::check_eps(eps)? }),
        (None, None) => None,
        _ => return Err(OpError::new("eps", "must be given with `norm`, and only then")),
    };
    let int8_eps = args.optional_float("int8_eps")?.map(check_int8_eps).transpose()?;
    let weights = WeightMatrices::take(args)?;
    let addend = args.optional_tensor_of("addend", &[Elem::F32])?;
    if int8_eps.is_some() && weights.are_floats() {
        return Err(OpError::new("int8_eps", "is given with float weights, expected 4-bit ones"));
    }
    let swiglu = args.bool("swiglu")?;
    let last_row = args.bool("last_row")?;
    let widths: Vec<u32> = weights.widths().collect();
    if swiglu && (widths.len() != 2 || widths[0] != widths[1]) {
        return Err(OpError::new("swiglu", format!("is true for weights of {widths:?} rows, expected two of equal length")));
    }
    let outputs = args.outputs("out", if swiglu { 1 } else { widths.len() })?;
    for &out in &outputs {
        let elem = args.info(out).elem;
        if elem != Elem::F32 {
            return Err(OpError::new("out", format!("has elements {elem:?}, expected {:?}", Elem::F32)));
        }
    }
    if addend.is_some() && outputs.len() > 1 {
        return Err(OpError::new("addend", format!("comes with {} outputs, expected one", outputs.len())));
    }
    Ok(Box::new(FusedLinearOp { x, norm, int8_eps, weights, addend, swiglu, last_row, outputs }))
}

/// Checks the smallest scale of quantised rows: a positive number, so that a row of zeros has a scale; XNNPACK's rule has 0.
fn check_int8_eps(eps: f64) -> Result<f32, OpError> {
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let rounded = eps as f32;
    if eps.to_bits() == 0 || (rounded.is_finite() && rounded >= f32::MIN_POSITIVE) {
        return Ok(rounded);
    }
    Err(OpError::new("int8_eps", format!("is {eps:e}, expected a finite number of at least {:e}", f32::MIN_POSITIVE)))
}

/// The rows of a call and the dims of its outputs, checked.
struct Shape {
    m: u32,
    /// The first row in the input and in the addend.
    x_row: u32,
    addend_row: u32,
    outputs: Vec<Dims>,
}

impl FusedLinearOp {
    /// Columns of all outputs.
    fn columns(&self) -> u32 {
        let all = self.weights.widths().sum();
        if self.swiglu { all / 2 } else { all }
    }

    /// Tiles of the outputs' columns.
    fn tiles(&self) -> u32 {
        if self.swiglu { self.weights.tiles() / 2 } else { self.weights.tiles() }
    }

    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    fn norm_eps(&self) -> f32 {
        self.norm.as_ref().map_or(0.0, |norm| norm.eps as f32)
    }

    fn params(&self, caps: Caps) -> Params {
        Params { eps: self.norm_eps(), int8_eps: self.int8_eps.unwrap_or(0.0), ..self.weights.params(caps) }
    }

    /// Checks the live shapes.
    fn shape(&self, cx: &PlanCx<'_>) -> Result<Shape, OpError> {
        let (x, k) = (cx.dims(self.x), self.weights.k);
        if x.is_empty() || x.last() != k {
            return Err(OpError::new("x", format!("is {x}, but the weights have {k} columns")));
        }
        if let Some(weight) = self.norm.as_ref().map(|norm| cx.dims(norm.weight)).filter(|weight| **weight != [k]) {
            return Err(OpError::new("norm", format!("is {weight}, expected [{k}] for rows of {x}")));
        }
        let (x, x_row) = self.computed_rows("x", x)?;
        let m =
            u32::try_from(x.rows()).map_err(|_| OpError::new("x", format!("is {x}, with more rows than kernels count")))?;
        let mut outputs: Vec<Dims> =
            self.weights.widths().take(self.outputs.len()).map(|n| x.with(x.len() - 1, n)).collect();
        let addend = self.addend.map(|addend| self.computed_rows("addend", cx.dims(addend))).transpose()?;
        let addend_row = addend.map_or(0, |(_, row)| row);
        if let Some((addend, _)) = addend.filter(|(addend, _)| *addend != outputs[0]) {
            // The addend's rows may be grouped otherwise.
            if addend.rows() == outputs[0].rows() && !addend.is_empty() && addend.last() == outputs[0].last() {
                outputs[0] = addend;
                return Ok(Shape { m, x_row, addend_row, outputs });
            }
            // Empty outputs broadcast as in a separate sum.
            let empty = broadcast(&outputs[0], &addend).filter(|dims| dims.count() == 0);
            let Some(empty) = empty else {
                return Err(OpError::new("addend", format!("is {addend}, expected {} as the output", outputs[0])));
            };
            outputs[0] = empty;
        }
        Ok(Shape { m, x_row, addend_row, outputs })
    }

    /// The dims of the rows that are computed, and the first of them in the input.
    fn computed_rows(&self, name: &'static str, dims: Dims) -> Result<(Dims, u32), OpError> {
        if !self.last_row {
            return Ok((dims, 0));
        }
        match dims.len().checked_sub(2).map(|axis| (axis, dims[axis])) {
            Some((axis, rows)) if rows > 0 && dims.rows() <= rows.into() => Ok((dims.with(axis, 1), rows - 1)),
            _ => Err(OpError::new(name, format!("is {dims}, expected one batch of at least one row"))),
        }
    }

    /// Bytes of scratch for many rows.
    fn prefill_scratch(&self, caps: Caps, rows: u64) -> [u64; IDLE] {
        if coop_matrix::serves(self, caps) { coop_matrix::scratch(self, caps, rows) } else { gemm::scratch(self, rows) }
    }

    /// Whether the kernels for few rows are predicted to be the fastest.
    fn is_few(&self, caps: Caps, rows: u32) -> bool {
        let slower =
            || coop_matrix::serves(self, caps) && coop_matrix::time(self, caps, rows) < gemv::time(self, caps, rows);
        self.last_row || gemv::takes_any_rows(self, caps) || (rows <= GEMV_MAX_ROWS && !slower())
    }

    fn binds(&self, caps: Caps) -> (Binds, Vec<JoinedConstants>) {
        let (weights, scales, lists) = self.weights.binds(caps);
        // Absent tensors are never read; another buffer is bound in their place.
        let or_scales = |tensor: Option<TensorId>| tensor.map_or(scales, Bind::from);
        let idle = |index: usize| Bind::Scratch(IDLE + index - self.outputs.len());
        let output = |index: usize| self.outputs.get(index).map_or_else(|| idle(index), |&out| out.into());
        let binds = Binds {
            x: self.x.into(),
            norm: or_scales(self.norm.as_ref().map(|norm| norm.weight)),
            weights,
            scales,
            addend: or_scales(self.addend),
            outputs: [output(0), output(1), output(2)],
        };
        (binds, lists)
    }
}

impl Op for FusedLinearOp {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let axis = rows.outer(self.x, 1).filter(|_| !self.last_row)?;
        // An output has the dims of the addend, whose rows may be grouped otherwise.
        self.addend.map_or(Some(axis), |addend| rows.outer(addend, 1))
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let rows = if self.last_row { 1 } else { cx.bound(self.x).rows() };
        let (binds, joined) = self.binds(cx.caps());
        let mut list = gemv::recipes(self, cx.caps(), &binds);
        let few = if gemv::takes_any_rows(self, cx.caps()) { rows } else { rows.min(GEMV_MAX_ROWS.into()) };
        let mut scratch = gemv::scratch(self, cx.caps(), few);
        // One more row than the most is never few.
        if (1..=GEMV_MAX_ROWS + 1).any(|count| u64::from(count) <= rows && !self.is_few(cx.caps(), count)) {
            let cooperative = coop_matrix::serves(self, cx.caps());
            list.extend(if cooperative {
                coop_matrix::recipes(self, cx.caps(), &binds)
            } else {
                gemm::recipes(self, cx.caps(), &binds)
            });
            let prefill = self.prefill_scratch(cx.caps(), rows);
            scratch.iter_mut().zip(prefill).for_each(|(bytes, prefill)| *bytes = prefill.max(*bytes));
        }
        let mut scratch = scratch.to_vec();
        scratch.extend(vec![IDLE_BYTES; MAX_MATRICES - self.outputs.len()]);
        Ok(Recipes { list, scratch, joined, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let shape = self.shape(cx)?;
        let m = shape.m;
        let empty = shape.outputs.iter().all(|dims| dims.count() == 0);
        let outputs = self.outputs.iter().copied().zip(shape.outputs.iter().copied());
        let mut plan = Plan { outputs: outputs.collect(), ..Plan::default() };
        if empty {
            return Ok(plan);
        }
        if self.is_few(cx.caps(), m) {
            plan.steps = gemv::dispatches(self, cx.caps(), 0, &shape)?;
            let scratch = gemv::scratch(self, cx.caps(), m.into());
            plan.scratch = if scratch == [0; IDLE] { Vec::new() } else { scratch.to_vec() };
        } else {
            let dispatches = if coop_matrix::serves(self, cx.caps()) { coop_matrix::dispatches } else { gemm::dispatches };
            plan.steps = dispatches(self, cx.caps(), gemv::recipe_count(self, cx.caps()), m)?;
            plan.scratch = self.prefill_scratch(cx.caps(), m.into()).to_vec();
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Shape { outputs, x_row, addend_row, .. } = self.shape(cx)?;
        let k = self.weights.k as usize;
        let mut results: Vec<Vec<f32>> = vec![Vec::new(); outputs.len()];
        let values: Vec<Vec<f64>> = self.weights.list().iter().map(|matrix| matrix.numbers(tensors)).collect();
        let rows = tensors.f32(self.x).chunks_exact(k).skip(x_row as usize);
        for row in rows.take_while(|_| outputs[0].count() > 0) {
            let x: Vec<f64> = match &self.norm {
                Some(Norm { weight, eps }) => rms_norm::normalised(row, tensors.f32(*weight), *eps),
                None => row.iter().map(|&x| x.into()).collect(),
            };
            let x = self.int8_eps.map_or_else(|| x.clone(), |eps| reference::quantised_row(&x, eps));
            let matrices = self.weights.list().iter().zip(&values);
            let mut products: Vec<Vec<f64>> = matrices.map(|(matrix, values)| matrix.product(&x, values, tensors)).collect();
            if self.swiglu {
                let up = products.pop().unwrap_or_default();
                products[0].iter_mut().zip(up).for_each(|(gate, up)| *gate *= up / (1.0 + (-*gate).exp()));
            }
            let added = addend_row as usize * products[0].len() + results[0].len();
            if let Some(addend) = self.addend.map(|addend| &tensors.f32(addend)[added..]) {
                products[0].iter_mut().zip(addend).for_each(|(product, &addend)| *product += f64::from(addend));
            }
            results.iter_mut().zip(products).for_each(|(all, row)| all.extend(row.into_iter().map(to_f32)));
        }
        for ((&out, dims), data) in self.outputs.iter().zip(outputs).zip(results) {
            tensors.set(out, dims, HostData::F32(data));
        }
        Ok(())
    }
}

#[cfg(any(test, feature = "reference"))]
impl WeightMatrix {
    /// The weights as numbers, row by row, on the host.
    fn numbers(&self, tensors: &HostTensors) -> Vec<f64> {
        match &self.values {
            Values::Floats { weight, .. } => tensors.f32(*weight).iter().map(|&value| value.into()).collect(),
            Values::Q4(weights, layout) => {
                let value = |n, k| weights.value(layout, tensors, n, k) * weights.scale(layout, tensors, n, k);
                let (n, k) = (layout.n as usize, layout.k as usize);
                (0..n).flat_map(|n| (0..k).map(move |k| value(n, k))).collect()
            }
        }
    }

    /// A row times the part's rows, with its bias, on the host.
    fn product(&self, x: &[f64], values: &[f64], tensors: &HostTensors) -> Vec<f64> {
        let sum = |row: &[f64]| -> f64 { x.iter().zip(row).map(|(x, weight)| x * weight).sum() };
        let mut products: Vec<f64> = values.chunks_exact(x.len()).map(sum).collect();
        if let Some(bias) = self.bias.map(|bias| tensors.f32(bias)) {
            products.iter_mut().zip(bias).for_each(|(product, &bias)| *product += f64::from(bias));
        }
        products
    }
}
