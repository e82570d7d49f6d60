//! `pteron.sample_row`: the next token from the last row of logits, the likeliest or a sample. No file has it: it is put
//! behind a graph so that a token need not come to the host before the next step begins.
//!
//! A sample is drawn by adding noise to every logit and taking the greatest. The noise is a function of a seed, of a number that
//! differs from draw to draw, and of the token, so that a seed draws the same tokens every time on one adapter.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::includes;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::shape::Dims;

static PARTS: KernelDef =
    KernelDef::new("sample_row", include_str!("sample_row.wgsl"), Row::FIELDS).with_includes(&[includes!["argmax"]]);
static LAST: KernelDef = KernelDef::new("sample_row_reduce", include_str!("sample_row_reduce.wgsl"), Parts::FIELDS)
    .with_includes(&[includes!["argmax"]]);

params! {
    /// Of `sample_row.wgsl`.
    struct Row { start: u32, length: u32, part: u32, parts: u32 }
}
params! {
    /// Of `sample_row_reduce.wgsl`.
    struct Parts { parts: u32, pad: [u32; 3] }
}

/// The operator's name.
pub const NAME: &str = "pteron.sample_row";

/// The registry entry.
pub static DEF: OpDef = OpDef { names: &[NAME], internal: &[NAME], kernels: &[&PARTS, &LAST], decode };

/// Words of `sampling`: one over the temperature, two of seed, and the draw.
const SAMPLING_WORDS: u64 = 4;
/// Logits that a workgroup looks through.
const PART: u32 = 2048;
/// Bytes of what a workgroup found.
const FOUND: u64 = 8;

#[derive(Debug)]
struct SampleRow {
    logits: TensorId,
    sampling: TensorId,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let logits = args.tensor_of("logits", &[Elem::F32])?;
    let sampling = args.tensor_of("sampling", &[Elem::I32])?;
    if args.info(sampling).bound.count() != SAMPLING_WORDS {
        let bound = args.info(sampling).bound;
        return Err(OpError::new("sampling", format!("is {bound}, it must have {SAMPLING_WORDS} numbers")));
    }
    Ok(Box::new(SampleRow { logits, sampling, out: args.output_of("out", Elem::I32)? }))
}

fn parts(row: u32) -> u32 {
    row.div_ceil(PART)
}

/// The shape of one token, as a graph takes it.
fn one_token() -> Dims {
    Dims::new(&[1, 1]).unwrap_or(Dims::SCALAR)
}

impl Op for SampleRow {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let found = Bind::Scratch(0);
        let list = vec![
            Recipe::new(Variant::new(&PARTS), [self.logits.into(), self.sampling.into(), found]),
            Recipe::new(Variant::new(&LAST), [found, self.out.into()]),
        ];
        let scratch = vec![FOUND * u64::from(parts(cx.bound(self.logits).last()))];
        Ok(Recipes { list, scratch, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.logits);
        if dims.count() == 0 {
            return Err(OpError::new("logits", format!("is {dims}, which has no last row to choose from")));
        }
        let (length, parts) = (dims.last(), parts(dims.last()));
        let row = Row { start: dims.count_u32() - length, length, part: PART, parts };
        let steps = [Dispatch::groups(0, &row, parts.into())?, Dispatch::groups(1, &Parts { parts, pad: [0; 3] }, 1)?];
        let plan = Plan::new(self.out, one_token(), steps.into_iter().flatten());
        Ok(Plan { scratch: vec![FOUND * u64::from(parts)], ..plan })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let length = cx.dims(self.logits).last() as usize;
        let logits = tensors.f32(self.logits);
        let row = &logits[logits.len() - length..];
        let words: Vec<u32> = tensors.i32(self.sampling).iter().map(|word| word.cast_unsigned()).collect();
        let scale = f64::from(f32::from_bits(words[0]));
        let mut best: Option<(f64, usize)> = None;
        for (token, &logit) in row.iter().enumerate() {
            let noise = || noise(&words, u32::try_from(token).unwrap_or(0));
            let value = if scale == 0.0 { logit.into() } else { f64::from(logit) * scale + noise() };
            if best.is_none_or(|(highest, _)| value > highest) {
                best = Some((value, token));
            }
        }
        let token =
            best.and_then(|(_, token)| i32::try_from(token).ok()).filter(|_| !row.iter().any(|logit| logit.is_nan()));
        tensors.set(self.out, one_token(), HostData::I32(vec![token.unwrap_or(-1)]));
        Ok(())
    }
}

#[cfg(any(test, feature = "reference"))]
fn noise(words: &[u32], token: u32) -> f64 {
    let bits = words[1..].iter().rev().fold(mixed(token), |bits, word| mixed(word ^ bits));
    let uniform = (f64::from(bits >> 8) + 0.5) / f64::from(1 << 24);
    -(-uniform.ln()).ln()
}

/// Bits of which each depends on every one of these.
#[cfg(any(test, feature = "reference"))]
fn mixed(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
