//! Softmax along a dimension, and its logarithm. A row of `TABLE` is an operator.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::lines::fold::EXPONENTIALS;
use crate::lines::{Lines, Params, Pass, REDUCE, TYPES, rewrite};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static SOFTMAX: KernelDef =
    KernelDef::new("softmax", include_str!("softmax.wgsl"), Params::FIELDS).with_types(TYPES).with_variants(variants);

/// The family: names, what becomes of a number `v` of a line whose highest is `high` and in which the exponentials of what the
/// numbers are below it sum to `sum`, and the same in plain Rust.
const TABLE: &[Row] = &[
    Row { name: "aten._softmax.default", wgsl: "exp(v - high) / sum", plain: |below, sum| below.exp() / sum },
    Row { name: "aten._log_softmax.default", wgsl: "(v - high) - log(sum)", plain: |below, sum| below - sum.ln() },
];

#[derive(Debug)]
struct Row {
    name: &'static str,
    wgsl: &'static str,
    plain: fn(f64, f64) -> f64,
}

const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut row = 0;
    while row < names.len() {
        names[row] = TABLE[row].name;
        row += 1;
    }
    names
};

/// The registry entry of the family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: &[&SOFTMAX, &REDUCE], decode };

impl Row {
    fn finish(&self, variant: Variant) -> Variant {
        variant.with_function("fn finish(v: T, high: f32, sum: f32) -> T", self.wgsl).labelled(self.name)
    }
}

fn variants() -> Vec<Variant> {
    let of_row = |row: &'static Row| rewrite::variants(&SOFTMAX, &EXPONENTIALS).map(|variant| row.finish(variant));
    TABLE.iter().flat_map(of_row).collect()
}

#[derive(Debug)]
struct Softmax {
    row: &'static Row,
    x: TensorId,
    axis: usize,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    let x = args.tensor_of("self", &[Elem::F32])?;
    let axis = args.axis("dim", args.info(x).bound.len())?;
    if args.bool("half_to_float")? {
        return Err(OpError::new("half_to_float", "is true, only false is supported"));
    }
    Ok(Box::new(Softmax { row, x, axis, out: args.output_of("out", Elem::F32)? }))
}

impl Softmax {
    fn lines(&self, dims: &Dims) -> Lines {
        Lines::along(dims, self.axis..self.axis + 1)
    }
}

impl Op for Softmax {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let bound = self.lines(&cx.bound(self.x));
        let finish = |variant| self.row.finish(variant);
        Ok(rewrite::recipes(&SOFTMAX, &EXPONENTIALS, (self.x, bound), finish, &[self.x.into(), self.out.into()]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let mut plan = Plan::new(self.out, dims, None);
        if dims.count() > 0 {
            let pass = Pass::over_numbers(self.lines(&dims));
            // NaN is what the kernel writes where there is no answer.
            (plan.steps, plan.scratch) = rewrite::steps(&pass, &EXPONENTIALS, f32::NAN)?;
        }
        Ok(plan)
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let x = tensors.f32(self.x);
        let mut out = vec![0.0; x.len()];
        let lines = self.lines(&dims);
        let (length, inner) = (lines.length as usize, lines.inner as usize);
        for line in 0..if x.is_empty() { 0 } else { x.len() / length } {
            let at = |k: usize| line / inner * length * inner + line % inner + k * inner;
            let high = (0..length).map(|k| f64::from(x[at(k)])).fold(f64::NEG_INFINITY, f64::max);
            // Where the highest is infinite, what is below it is not a number; f64::max passes over NaN, the sum does not.
            let sum: f64 = (0..length).map(|k| (f64::from(x[at(k)]) - high).exp()).sum();
            for k in 0..length {
                #[allow(clippy::cast_possible_truncation, reason = "tensors hold 32 bits")]
                let value = (self.row.plain)(f64::from(x[at(k)]) - high, sum) as f32;
                out[at(k)] = value;
            }
        }
        tensors.set(self.out, dims, HostData::F32(out));
        Ok(())
    }
}
