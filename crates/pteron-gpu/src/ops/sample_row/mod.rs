//! `pteron.sample_row`: the index of one element of the last row, or of every row (`pteron.sample_rows`), by argmax (greedy) or by Gumbel-max sampling of the
//! softmax. Files do not contain it: it is appended to a graph, so that the index need not be read back before the next
//! call.
//!
//! Gumbel-max adds noise to every element and takes the argmax. The noise is a function of a seed, the number of the draw and the index, so a
//! seed gives the same samples every time on one adapter.

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
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static BLOCKS: KernelDef =
    KernelDef::new("sample_row", include_str!("sample_row.wgsl"), BlockParams::FIELDS).with_includes(&[includes!["argmax"]]);
static REDUCE: KernelDef = KernelDef::new("sample_row_reduce", include_str!("sample_row_reduce.wgsl"), ReduceParams::FIELDS)
    .with_includes(&[includes!["argmax"]]);

params! {
    /// Of `sample_row.wgsl`.
    struct BlockParams { start: u32, length: u32, block: u32, blocks: u32, rows: u32, pad: [u32; 3] }
}
params! {
    /// Of `sample_row_reduce.wgsl`.
    struct ReduceParams { blocks: u32, rows: u32, pad: [u32; 2] }
}

/// The operator's name.
pub const NAME: &str = "pteron.sample_row";

/// The operator that samples from every row, each with its own parameters.
pub const ROWS_NAME: &str = "pteron.sample_rows";

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &[NAME, ROWS_NAME], internal: &[NAME, ROWS_NAME], kernels: &[&BLOCKS, &REDUCE], decode };

/// Words of `sampling` per row: inverse temperature, two of seed, and the number of the draw.
const SAMPLING_WORDS: u32 = 4;
/// Elements per workgroup.
const BLOCK_LEN: u32 = 2048;
/// Bytes of a workgroup's result.
const RESULT_BYTES: u64 = 8;

#[derive(Debug)]
struct SampleRow {
    logits: TensorId,
    sampling: TensorId,
    /// Whether it samples from every row, not from the last alone.
    every_row: bool,
    out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let logits = args.tensor_of("logits", &[Elem::F32])?;
    let sampling = args.tensor_of("sampling", &[Elem::I32])?;
    let every_row = args.operator() == ROWS_NAME;
    let bound = args.info(sampling).bound;
    let valid = if every_row {
        bound.len() == 2 && bound.last() == SAMPLING_WORDS
    } else {
        bound.count() == u64::from(SAMPLING_WORDS)
    };
    if !valid {
        let rows = if every_row { " per row" } else { "" };
        return Err(OpError::new("sampling", format!("is {bound}, expected {SAMPLING_WORDS} elements{rows}")));
    }
    Ok(Box::new(SampleRow { logits, sampling, every_row, out: args.output_of("out", Elem::I32)? }))
}

fn blocks(row: u32) -> u32 {
    row.div_ceil(BLOCK_LEN)
}

impl SampleRow {
    /// The rows that it samples from, and the dims of the output: `[1, 1]`, or one index per row.
    fn rows(&self, cx: &PlanCx<'_>) -> Result<(u32, Dims), OpError> {
        let (dims, sampling) = (cx.dims(self.logits), cx.dims(self.sampling));
        if !self.every_row {
            return Ok((1, Dims::of([1, 1])));
        }
        let rows = sampling.first().copied().unwrap_or(0);
        if dims.rows() != u64::from(rows) {
            return Err(OpError::new("sampling", format!("is {sampling}, but `logits` is {dims}")));
        }
        Ok((rows, Dims::of([rows])))
    }
}

impl Op for SampleRow {
    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let block_best = Bind::Scratch(0);
        let list = vec![
            Recipe::new(Variant::new(&BLOCKS), [self.logits.into(), self.sampling.into(), block_best]),
            Recipe::new(Variant::new(&REDUCE), [block_best, self.out.into()]),
        ];
        let logits = cx.bound(self.logits);
        let rows = if self.every_row { logits.rows() } else { 1 };
        let scratch = vec![RESULT_BYTES * u64::from(blocks(logits.last())) * rows];
        Ok(Recipes { list, scratch, ..Recipes::default() })
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.logits);
        let (rows, out) = self.rows(cx)?;
        if self.every_row && rows == 0 {
            return Ok(Plan::new(self.out, out, None));
        }
        if dims.count() == 0 {
            return Err(OpError::new("logits", format!("is {dims}, expected at least one row")));
        }
        let (length, blocks) = (dims.last(), blocks(dims.last()));
        let start = if self.every_row { 0 } else { dims.count_u32() - length };
        let row = BlockParams { start, length, block: BLOCK_LEN, blocks, rows, pad: [0; 3] };
        let groups = u64::from(blocks) * u64::from(rows);
        let reduce = ReduceParams { blocks, rows, pad: [0; 2] };
        let steps = [Dispatch::groups(0, &row, groups)?, Dispatch::groups(1, &reduce, rows.into())?];
        let plan = Plan::new(self.out, out, steps.into_iter().flatten());
        Ok(Plan { scratch: vec![RESULT_BYTES * groups], ..plan })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let length = cx.dims(self.logits).last() as usize;
        let (rows, out) = self.rows(cx)?;
        let logits = tensors.f32(self.logits);
        let logits = &logits[logits.len() - length * rows as usize..];
        let words: Vec<u32> = tensors.i32(self.sampling).iter().map(|word| word.cast_unsigned()).collect();
        let sampled = logits.chunks_exact(length).zip(words.chunks_exact(SAMPLING_WORDS as usize));
        let sampled = sampled.map(|(row, words)| sampled_index(row, words)).collect();
        tensors.set(self.out, out, HostData::I32(sampled));
        Ok(())
    }

    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        (self.every_row && rows.outer(self.logits, 1).is_some()).then_some(0)
    }
}

/// The sampled index of a row, −1 if an element is NaN.
#[cfg(any(test, feature = "reference"))]
fn sampled_index(row: &[f32], words: &[u32]) -> i32 {
    let scale = f64::from(f32::from_bits(words[0]));
    let mut best: Option<(f64, usize)> = None;
    for (index, &logit) in row.iter().enumerate() {
        let noise = || gumbel_noise(words, u32::try_from(index).unwrap_or(0));
        let value = if scale == 0.0 { logit.into() } else { f64::from(logit) * scale + noise() };
        if best.is_none_or(|(highest, _)| value > highest) {
            best = Some((value, index));
        }
    }
    let index = best.and_then(|(_, index)| i32::try_from(index).ok()).filter(|_| !row.iter().any(|logit| logit.is_nan()));
    index.unwrap_or(-1)
}

#[cfg(any(test, feature = "reference"))]
fn gumbel_noise(words: &[u32], index: u32) -> f64 {
    let bits = words[1..].iter().rev().fold(hash(index), |bits, word| hash(word ^ bits));
    let uniform = (f64::from(bits >> 8) + 0.5) / f64::from(1 << 24);
    -(-uniform.ln()).ln()
}

/// An integer hash: every output bit depends on every input bit.
#[cfg(any(test, feature = "reference"))]
fn hash(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}
