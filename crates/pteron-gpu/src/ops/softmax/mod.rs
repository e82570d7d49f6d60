//! Softmax along a dimension, and its logarithm. Each row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reduction::reducer::SOFTMAX_STATS;
use crate::reduction::{INCLUDES, Params, REDUCE, ReducePass, RowShape, TYPES, normalise};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static SOFTMAX: KernelDef = KernelDef::new("softmax", include_str!("softmax.wgsl"), Params::FIELDS)
    .with_includes(&[INCLUDES])
    .with_types(TYPES)
    .with_variants(variants);

/// The operators of the family: for an element `v` of a row with maximum `high` and sum of exponentials `sum`, the result in WGSL, and
/// the same on the host from `v - high` and `sum`.
const TABLE: &[Row] = &[
    Row {
        name: "aten._softmax.default",
        wgsl: "exp(v - high) / sum",
        #[cfg(any(test, feature = "reference"))]
        host: |below, sum| below.exp() / sum,
    },
    Row {
        name: "aten._log_softmax.default",
        wgsl: "(v - high) - log(sum)",
        #[cfg(any(test, feature = "reference"))]
        host: |below, sum| below - sum.ln(),
    },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    wgsl: &'static str,
    #[cfg(any(test, feature = "reference"))]
    host: fn(f64, f64) -> f64,
}

static NAMES: [&str; TABLE.len()] = names!(TABLE, name);

/// The registry entry of the family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&SOFTMAX, &REDUCE], decode };

impl Row {
    fn finish(&self, variant: Variant) -> Variant {
        variant.with_function("fn normalise(v: T, high: f32, sum: f32) -> T", self.wgsl).labelled(self.name)
    }
}

fn variants() -> Vec<Variant> {
    let of_row = |row: &'static Row| normalise::variants(&SOFTMAX, &SOFTMAX_STATS).map(|variant| row.finish(variant));
    TABLE.iter().flat_map(of_row).collect()
}

#[derive(Debug)]
pub(crate) struct Softmax {
    row: &'static Row,
    x: TensorId,
    axis: usize,
    out: TensorId,
}

impl Softmax {
    /// The input and the dimension, if the result is the softmax, not its logarithm.
    pub(crate) fn input_and_axis(&self) -> Option<(TensorId, usize)> {
        (self.row.name == TABLE[0].name).then_some((self.x, self.axis))
    }
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let row = args.row(TABLE);
    let x = args.tensor_of("self", &[Elem::F32])?;
    let axis = args.axis("dim", args.info(x).bound.len())?;
    // Both are 32-bit floats here.
    args.bool("half_to_float")?;
    Ok(Box::new(Softmax { row, x, axis, out: args.output_of("out", Elem::F32)? }))
}

impl Softmax {
    fn rows(&self, dims: &Dims) -> RowShape {
        RowShape::along(dims, self.axis..self.axis + 1)
    }
}

impl Op for Softmax {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.axis(self.x).filter(|&axis| axis != self.axis)
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = self.rows(&cx.bound(self.x));
        let finish = |variant| self.row.finish(variant);
        Ok(normalise::recipes(&SOFTMAX, &SOFTMAX_STATS, (self.x, bound), finish, &[self.x.into(), self.out.into()]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let mut plan = Plan::new(self.out, dims, None);
        if dims.count() > 0 {
            let pass = ReducePass::over_elements(self.rows(&dims));
            // The kernel stores NaN for a row that has no softmax.
            (plan.steps, plan.scratch) = normalise::steps(&pass, &SOFTMAX_STATS, f32::NAN)?;
        }
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let x = tensors.f32(self.x);
        let mut out = vec![0.0; x.len()];
        let rows = self.rows(&dims);
        let (length, inner) = (rows.length as usize, rows.inner as usize);
        for row in 0..if x.is_empty() { 0 } else { x.len() / length } {
            let at = |k: usize| row / inner * length * inner + row % inner + k * inner;
            let high = (0..length).map(|k| f64::from(x[at(k)])).fold(f64::NEG_INFINITY, f64::max);
            // An infinite maximum makes NaN of the differences; f64::max ignores NaN, the sum does not.
            let sum: f64 = (0..length).map(|k| (f64::from(x[at(k)]) - high).exp()).sum();
            for k in 0..length {
                #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
                let value = (self.row.host)(f64::from(x[at(k)]) - high, sum) as f32;
                out[at(k)] = value;
            }
        }
        tensors.set(self.out, dims, HostData::F32(out));
        Ok(())
    }
}
