//! Linears with int8 weights `[n, ≥ k]`, one scale per row: of quantised activations, with exact integer sums, or of floats. Each row of
//! `TABLE` is an operator.

pub mod rows;
#[cfg(test)]
pub(crate) mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::{self, Factor, LINEAR, MAX_K, Params, Product, Quantised, take_bounds, take_constant};
use crate::ir::{DataType, Graph, Value};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::HostTensors;
use crate::shape::Dims;

/// The operators of the family.
const TABLE: &[(&str, Row)] = &[
    (REQUANTISED, Row::INT8),
    ("et_vk.q8ta_linear.default", Row::INT8),
    ("et_vk.q8ta_linear_gemv.default", Row::INT8),
    (FLOAT_OUT, Row { quantises: false, ..Row::INT8 }),
    ("et_vk.linear_q8csw.default", Row { quantised: false, quantises: false, bias: true }),
    ("aten._weight_int8pack_mm.default", Row { quantised: false, quantises: false, bias: false }),
];

/// Its output is floats, though exporters declare bytes where there is no bias.
const FLOAT_OUT: &str = "et_vk.linear_q8ta_q8csw.default";

/// The arguments of an operator.
#[derive(Debug)]
struct Row {
    /// Whether activations have a scale and a zero point, and weights sums.
    quantised: bool,
    /// Whether the output has a scale and a zero point, and an activation.
    quantises: bool,
    bias: bool,
}

impl Row {
    const INT8: Self = Self { quantised: true, quantises: true, bias: true };
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[REQUANTISED], kernels: &[&LINEAR], decode };

/// A linear with the integer arithmetic of exported int8 networks: sums are exact, with an integer bias; one factor per column and one
/// rounding make them the output's integers. Front ends call it; no file does.
pub(crate) const REQUANTISED: &str = "pteron.q8_linear";

/// Declares the outputs of linears as floats where the file declares bytes, and what is copied from them.
pub(crate) fn correct_output_types(graph: &mut Graph) {
    let mut corrected = std::collections::HashSet::new();
    for call in &graph.calls {
        let (Some(&from), Some(&out)) = (call.args.first(), call.args.last()) else { continue };
        let floats = call.name == FLOAT_OUT || (std::ptr::eq(call.def, &super::copy::DEF) && corrected.contains(&from));
        if let Some(Value::Tensor(tensor)) = graph.values.get_mut(out.index())
            && floats
            && tensor.dtype == DataType::Int8
            && tensor.constant.is_none()
        {
            tensor.dtype = DataType::Float32;
            corrected.insert(out);
        }
    }
}

#[derive(Debug)]
struct Linear {
    product: Product,
    /// Columns of the output.
    n: u32,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let (name, row) = args.row(TABLE);
    if *name == REQUANTISED {
        return decode_requantised(args);
    }
    let x = args.tensor_of("x", if row.quantised { &[Elem::I8, Elem::F32] } else { &[Elem::F32] })?;
    let quantised = if row.quantised { Some(Quantised::take(args, ["input_scale", "input_zero_point"])?) } else { None };
    let weight = args.tensor_of("weights", &[Elem::I8])?;
    let (sums, scales) = Product::take_scales(args, row.quantised)?;
    let out_quantised =
        if row.quantises { Some(Quantised::take(args, ["output_scale", "output_zero_point"])?) } else { None };
    let bias = if row.bias && args.left() > 1 { args.optional_tensor_of("bias", &[Elem::F32])? } else { None };
    let relu = row.quantises && args.left() > 1 && Product::take_activation(args)?;
    let out = Product::take_output(args, out_quantised)?;
    let factor = Factor::of(args.info(x).elem, row.quantised);
    let (requantises, transposed) = (None, false);
    let product =
        Product { x, factor, quantised, weight, sums, scales, bias, out_quantised, requantises, transposed, relu, out };
    Linear::decoded(args, product)
}

fn decode_requantised(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("x", &[Elem::I8])?;
    let quantised = Some(Quantised::take(args, ["input_scale", "input_zero_point"])?);
    let weight = take_constant(args, "weights", Elem::I8)?;
    let scales = take_constant(args, "weight_scales", Elem::F32)?;
    let bias = args.optional_tensor_of("bias", &[Elem::I32])?;
    let out_quantised = Some(Quantised::take(args, ["output_scale", "output_zero_point"])?);
    let requantises = Some(take_bounds(args)?);
    let out = Product::take_output(args, out_quantised)?;
    let (factor, sums, relu) = (Factor::Bytes, None, false);
    let transposed = args.info(weight).bound.len() == 3;
    let product =
        Product { x, factor, quantised, weight, sums, scales, bias, out_quantised, requantises, transposed, relu, out };
    Linear::decoded(args, product)
}

impl Linear {
    fn decoded(args: &Args<'_>, product: Product) -> Result<Box<dyn Op>, OpError> {
        let [x, out] = [product.x, product.out].map(|tensor| args.info(tensor).bound);
        if out.is_empty() || x.is_empty() {
            let reason = format!("is {x} for an output of {out}, expected at least one dimension");
            return Err(OpError::new("x", reason));
        }
        Ok(Box::new(Self { product, n: out.last() }))
    }

    /// The dims of the output and the parameters, for consistent live shapes.
    fn sizes(&self, cx: &PlanCx<'_>) -> Result<(Dims, Params), OpError> {
        let (x, weight, n) = (cx.dims(self.product.x), cx.dims(self.product.weight), self.n);
        let Some([rows, columns]) = int8::matrix(&weight).filter(|_| self.product.transposed == (weight.len() == 3)) else {
            return Err(OpError::new("weights", format!("is {weight}, expected two dimensions")));
        };
        let k = x.last();
        if rows < n || columns < k {
            return Err(OpError::new("weights", format!("is {weight}, expected [{n}, {k}] or more for activations of {x}")));
        }
        if k > MAX_K {
            return Err(OpError::new(
                "weights",
                format!("is {weight}, {k} products per sum are more than the {MAX_K} that are exact"),
            ));
        }
        self.product.check_channels(cx, n)?;
        let slow =
            u32::try_from(x.rows()).map_err(|_| OpError::new("x", format!("is {x}, with more rows than kernels count")))?;
        let params = Params { fast: n, slow, k, batches: 1, groups: 1, weight_stride: columns, ..Params::default() };
        Ok((x.with(x.len() - 1, n), self.product.fill(cx, params)))
    }
}

impl Op for Linear {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let words = int8::matrix(&cx.bound(self.product.weight)).is_some_and(|[_, k]| k.is_multiple_of(4));
        let recipes = self.product.recipes(&LINEAR, |variant| variant.with("WORD_ROWS", words.into()));
        Ok(Recipes { joined: self.product.joined(cx, true), ..Recipes::of(recipes) })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (out, params) = self.sizes(cx)?;
        Ok(Plan::new(self.product.out, out, int8::dispatch(cx.caps(), &params)?))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (out, params) = self.sizes(cx)?;
        let x = self.product.activations(tensors);
        let weights = tensors.u8(self.product.weight).to_vec();
        let columns = int8::matrix(&cx.dims(self.product.weight)).map_or(0, |[n, _]| n as usize);
        let [m, n, k, stride] = [params.slow, params.fast, params.k, params.weight_stride].map(|size| size as usize);
        let place = |n: usize, k: usize| if self.product.transposed { k * columns + n } else { n * stride + k };
        let sum = |index: usize| -> (usize, f64) {
            let (row, column) = (index / n, index % n);
            let product = |at: usize| x[row * k + at] * f64::from(weights[place(column, at)].cast_signed());
            (column, (0..k).map(product).sum())
        };
        if self.product.requantises.is_some() {
            #[allow(clippy::cast_possible_truncation, reason = "sums of integers")]
            let sums: Vec<(usize, i64)> = (0..m * n).map(sum).map(|(column, sum)| (column, sum as i64)).collect();
            self.product.set_requantised(tensors, out, sums.into_iter());
            return Ok(());
        }
        let element = |index: usize| {
            let (column, sum) = sum(index);
            self.product.real(tensors, column, sum)
        };
        let real: Vec<f64> = (0..m * n).map(element).collect();
        self.product.set(tensors, out, &real);
        Ok(())
    }
}
