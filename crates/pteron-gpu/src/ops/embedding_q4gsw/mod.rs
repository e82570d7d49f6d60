//! `et_vk.embedding_q4gsw`: gathers rows of a 4-bit table with one scale per group.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;
use crate::strided_copy::gather::{EMBEDDING_NAMES, sliced_dims};

static WORDS: KernelDef = KernelDef::new("embedding_q4gsw_words", include_str!("embedding_q4gsw_words.wgsl"), Words::FIELDS);
static SINGLE: KernelDef = KernelDef::new("embedding_q4gsw", include_str!("embedding_q4gsw.wgsl"), Single::FIELDS);

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &["et_vk.embedding_q4gsw.default"], internal: &[], kernels: &[&WORDS, &SINGLE], decode };

params! {
    /// Of `embedding_q4gsw_words.wgsl`.
    struct Words { count: u32, words: u32, rows: u32, group_words: u32 }
}
params! {
    /// Of `embedding_q4gsw.wgsl`.
    struct Single { count: u32, width: u32, rows: u32, group_size: u32 }
}

const WORDS_RECIPE: usize = 0;
const SINGLE_RECIPE: usize = 1;

/// Numbers per word of the table.
const IN_WORD: u32 = 8;

#[derive(Debug)]
pub(crate) struct EmbeddingQ4 {
    pub(crate) weight: TensorId,
    scales: TensorId,
    group_size: u32,
    pub(crate) indices: TensorId,
    /// Whether the even column of a pair is the high nibble of its byte.
    high_first: bool,
    pub(crate) out: TensorId,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let weight = args.tensor_of("weight", &[Elem::U8])?;
    let scales = args.tensor_of("weight_scales", &[Elem::F32])?;
    let group = args.int("group_size")?;
    let Some(group_size) = u32::try_from(group).ok().filter(|&size| size > 0) else {
        return Err(OpError::new("group_size", format!("is {group}, it must be at least 1")));
    };
    let indices = args.index_tensor("indices", weight, 0)?;
    args.reads_slices(scales, 0);
    // A table that is also the weight of a linear has that linear's order of nibbles.
    let high_first = !args.bool("is_linear_weight")?;
    Ok(Box::new(EmbeddingQ4 { weight, scales, group_size, indices, high_first, out: args.output_of("out", Elem::F32)? }))
}

impl EmbeddingQ4 {
    /// Rows and columns of the table, and the dims of the output.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(u32, u32, Dims), OpError> {
        let (weight, scales) = (cx.dims(self.weight), cx.dims(self.scales));
        let pairs = match *weight {
            [rows, pairs] => pairs.checked_mul(2).map(|width| (rows, width)),
            _ => None,
        };
        let Some((rows, width)) = pairs else {
            return Err(OpError::new("weight", format!("is {weight}, expected rows and pairs of columns")));
        };
        if width % self.group_size != 0 {
            let reason = format!("is {}, which does not divide the {width} columns of the table", self.group_size);
            return Err(OpError::new("group_size", reason));
        }
        if *scales != [rows, width / self.group_size] {
            let reason = format!("is {scales}, expected [{rows}, {}]", width / self.group_size);
            return Err(OpError::new("weight_scales", reason));
        }
        let table = weight.with(1, width);
        Ok((rows, width, sliced_dims(EMBEDDING_NAMES, &table, 0, &cx.dims(self.indices))?))
    }
}

impl Op for EmbeddingQ4 {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        rows.axis(self.indices).filter(|_| rows.axis(self.weight).is_none())
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let binds = [self.weight, self.scales, self.indices, self.out];
        let recipe = |kernel| {
            let variant = Variant::new(kernel).with("HIGH_FIRST", self.high_first.into());
            Recipe::new(variant, binds.map(Into::into))
        };
        Ok(Recipes::of([recipe(&WORDS), recipe(&SINGLE)]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (rows, width, out) = self.dims(cx)?;
        let step = if width.is_multiple_of(IN_WORD) && self.group_size.is_multiple_of(IN_WORD) {
            let words = width / IN_WORD;
            let params = Words { count: out.count_u32() / IN_WORD, words, rows, group_words: self.group_size / IN_WORD };
            Dispatch::items(WORDS_RECIPE, &params, params.count.into(), 256)?
        } else {
            let params = Single { count: out.count_u32(), width, rows, group_size: self.group_size };
            Dispatch::items(SINGLE_RECIPE, &params, params.count.into(), 256)?
        };
        Ok(Plan::new(self.out, out, step))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (rows, width, out) = self.dims(cx)?;
        let (width, group) = (width as usize, self.group_size as usize);
        let (table, scales) = (tensors.u8(self.weight), tensors.f32(self.scales));
        let mut values = Vec::new();
        for &index in tensors.i32(self.indices) {
            let row = usize::try_from(index.max(0)).unwrap_or(0).min((rows as usize).saturating_sub(1));
            for column in 0..width {
                let byte = table[(row * width + column) / 2];
                let high = (column % 2 == 1) != self.high_first;
                let nibble = if high { byte / 16 } else { byte % 16 };
                values.push((f32::from(nibble) - 8.0) * scales[(row * width + column) / group]);
            }
        }
        tensors.set(self.out, out, HostData::F32(values));
        Ok(())
    }
}
