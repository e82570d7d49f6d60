//! `llama.fast_hadamard_transform`: the Walsh–Hadamard transform of rows of a power of two, or of 28 times one.
//!
//! A power of two that workgroup memory does not hold is transformed in two passes: parts of a row, then across parts. Rows of 28
//! times a power of two end with a pass of a Hadamard matrix of order 28 across the 28 parts.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static LINES: KernelDef = KernelDef::new("hadamard", include_str!("hadamard.wgsl"), Params::FIELDS);
static PARTS: KernelDef = KernelDef::new("hadamard_28", include_str!("hadamard_28.wgsl"), Params::FIELDS);

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &["llama.fast_hadamard_transform.default"], internal: &[], kernels: &[&LINES, &PARTS], decode };

params! {
    /// Of `hadamard.wgsl` and `hadamard_28.wgsl`.
    struct Params { lines: u32, length: u32, stride: u32, scale: f32 }
}

/// The longest line that a workgroup transforms; `LONGEST` in its kernel.
const LONGEST: u32 = 2048;
/// The order of the other matrix.
const PARTS_28: u32 = 28;

#[derive(Debug)]
struct Hadamard {
    x: TensorId,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("mat", &[Elem::F32])?;
    Ok(Box::new(Hadamard { x, out: args.output_of("out", Elem::F32)? }))
}

/// The power of two that a row consists of, and how often.
fn parts(dims: &Dims) -> Result<(u32, u32), OpError> {
    let row = dims.last();
    for count in [1, PARTS_28] {
        let part = row / count;
        if row.is_multiple_of(count) && part.is_power_of_two() && part <= LONGEST * LONGEST {
            return Ok((part, count));
        }
    }
    Err(OpError::new("mat", format!("is {dims}, expected rows of a power of two, or of {PARTS_28} times one")))
}

/// A pass over the tensor.
enum Pass {
    Lines { length: u32, stride: u32, scale: f32 },
    Parts,
}

fn passes(part: u32, count: u32) -> Vec<Pass> {
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let scale = f64::from(part).sqrt().recip() as f32;
    let inner = part.min(LONGEST);
    let mut passes = vec![Pass::Lines { length: inner, stride: 1, scale }];
    if part > LONGEST {
        passes.push(Pass::Lines { length: part / LONGEST, stride: LONGEST, scale: 1.0 });
    }
    if count > 1 {
        passes.push(Pass::Parts);
    }
    passes
}

/// The recipe of a pass from one buffer to another: of lines, and of parts after them. Passes alternate between two scratch buffers.
fn recipe(pass: &Pass, index: usize, last: bool) -> usize {
    // From the input, from the first scratch buffer, from the second; to scratch or to the output.
    let lines = [[0, 1], [2, 3], [4, 5]];
    match pass {
        Pass::Lines { .. } => lines[index.min(2)][usize::from(last)],
        Pass::Parts => 5 + index,
    }
}

impl Op for Hadamard {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let scratch = Bind::Scratch;
        let (x, out) = (Bind::Tensor(self.x), Bind::Tensor(self.out));
        let lines = |from, to| Recipe::new(Variant::new(&LINES), [from, to]);
        let parts = |from| Recipe::new(Variant::new(&PARTS), [from, out]);
        let mut recipes = Recipes::of([
            lines(x, scratch(0)),
            lines(x, out),
            lines(scratch(0), scratch(1)),
            lines(scratch(0), out),
            lines(scratch(1), scratch(0)),
            lines(scratch(1), out),
            parts(scratch(0)),
            parts(scratch(1)),
        ]);
        recipes.scratch = vec![cx.bound(self.x).count().saturating_mul(4).max(4); 2];
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.x);
        let (part, count) = parts(&dims)?;
        let mut plan = Plan::new(self.out, dims, None);
        let passes = passes(part, count);
        let elements = dims.count();
        for (index, pass) in passes.iter().enumerate() {
            let last = index + 1 == passes.len();
            let recipe = recipe(pass, index, last);
            let step = match *pass {
                Pass::Lines { length, stride, scale } => {
                    let lines = elements / u64::from(length);
                    let params = Params { lines: u32::try_from(lines).unwrap_or(u32::MAX), length, stride, scale };
                    Dispatch::groups(recipe, &params, lines)?
                }
                Pass::Parts => {
                    let lines = elements / u64::from(PARTS_28);
                    let lines_u32 = u32::try_from(lines).unwrap_or(u32::MAX);
                    let params = Params { lines: lines_u32, length: PARTS_28, stride: part, scale: 1.0 };
                    Dispatch::items(recipe, &params, lines, 256)?
                }
            };
            plan.steps.extend(step);
        }
        plan.scratch = vec![if passes.len() > 1 { elements * 4 } else { 0 }; 2];
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let dims = cx.dims(self.x);
        let (part, count) = parts(&dims)?;
        let (part, count) = (part as usize, count as usize);
        let x = tensors.numbers(Elem::F32, self.x);
        #[allow(clippy::cast_precision_loss, reason = "a short row")]
        let scale = (part as f64).sqrt().recip();
        let sign = |odd: u32| if odd.is_multiple_of(2) { 1.0 } else { -1.0 };
        let mut values = Vec::with_capacity(x.len());
        for row in x.chunks(part * count) {
            let transformed: Vec<f64> = (0..row.len())
                .map(|at| {
                    let (own, k) = (at / part * part, at % part);
                    (0..part).map(|j| sign((j & k).count_ones()) * row[own + j]).sum::<f64>() * scale
                })
                .collect();
            let across = |at: usize| {
                let terms = (0..count).map(|j| sign(ORDER_28[at / part] >> j) * transformed[j * part + at % part]);
                if count == 1 { transformed[at] } else { terms.sum() }
            };
            values.extend((0..row.len()).map(across));
        }
        tensors.set(self.out, dims, HostData::from_numbers(Elem::F32, values));
        Ok(())
    }
}

/// The negative elements of each row of the Hadamard matrix of order 28, as bits.
#[cfg(any(test, feature = "reference"))]
const ORDER_28: [u32; 28] = [
    0x0cd6_9e7e,
    0x09ad_7c7d,
    0x037a_b8fb,
    0x06d5_71f7,
    0x0d8a_e3ef,
    0x0b35_87df,
    0x066b_4f3f,
    0x0b46_7f43,
    0x06ac_be87,
    0x0d59_3d8e,
    0x0ab2_7b9c,
    0x0564_f7b8,
    0x0ac9_aff0,
    0x05b3_1fe1,
    0x087f_b325,
    0x00ff_66ca,
    0x01de_cd95,
    0x039d_db2a,
    0x071b_f654,
    0x0e17_eca9,
    0x0c2f_d9d2,
    0x0fcf_1299,
    0x0fbe_2532,
    0x0f7c_4ae4,
    0x0ef8_d549,
    0x0df1_ea13,
    0x0be3_d4a6,
    0x07e7_a94c,
];
