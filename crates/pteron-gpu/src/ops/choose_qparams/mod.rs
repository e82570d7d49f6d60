//! `torchao.choose_qparams_affine`: the scale and the zero point that map each block of a tensor onto a range of integers,
//! chosen from the block's minimum and maximum.

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
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static KERNEL: KernelDef = KernelDef::new("choose_qparams", include_str!("choose_qparams.wgsl"), Params::FIELDS);

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &["torchao.choose_qparams_affine.default"], internal: &[], kernels: &[&KERNEL], decode };

params! {
    /// Of `choose_qparams.wgsl`.
    struct Params { blocks: u32, length: u32, quant_min: i32, quant_max: i32, eps: f32, pad: [u32; 3] }
}

/// Blocks whose zero points share a word, and so a workgroup.
const BLOCKS_PER_GROUP: u64 = 4;

#[derive(Debug)]
struct ChooseQparams {
    x: TensorId,
    block_size: Vec<i64>,
    quant_min: i32,
    quant_max: i32,
    eps: f32,
    keepdim: bool,
    scale: TensorId,
    zero_point: TensorId,
    zero_point_elem: Elem,
}

/// The division of a tensor into blocks.
struct Blocks {
    out: Dims,
    count: u64,
    length: u32,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let mapping = args.text("mapping_type")?;
    if mapping != "ASYMMETRIC" {
        return Err(OpError::new("mapping_type", format!("is {mapping:?}, supported: \"ASYMMETRIC\"")));
    }
    let block_size = args.ints("block_size")?;
    // Files do not contain these types: the outputs have them, and the range is given in numbers.
    args.ignore("target_dtype")?;
    let (quant_min, quant_max) = (args.int("quant_min")?, args.int("quant_max")?);
    let eps = args.optional_float("eps")?;
    args.none("scale_dtype")?;
    args.none("zero_point_dtype")?;
    let keepdim = args.bool("keepdim")?;
    let outputs = args.outputs("out", 2)?;
    let (scale, zero_point) = (outputs[0], outputs[1]);
    if args.info(scale).elem != Elem::F32 {
        return Err(OpError::new("out", format!("has a scale of {:?}, supported: F32", args.info(scale).elem)));
    }
    let zero_point_elem = args.info(zero_point).elem;
    let (least, most) = match zero_point_elem {
        Elem::I8 => (i8::MIN.into(), i8::MAX.into()),
        Elem::U8 => (0, u8::MAX.into()),
        // Integers that a float holds exactly, because zero points are computed as floats.
        Elem::I32 => (-(1 << 24), 1 << 24),
        other => return Err(OpError::new("out", format!("has a zero point of {other:?}, supported: I8, U8, I32"))),
    };
    let bound = |name, value: i64| match i32::try_from(value) {
        Ok(small) if (least..=most).contains(&small) => Ok(small),
        _ => Err(OpError::new(name, format!("is {value}, which {zero_point_elem:?} zero points cannot hold"))),
    };
    let (quant_min, quant_max) = (bound("quant_min", quant_min)?, bound("quant_max", quant_max)?);
    if quant_min >= quant_max {
        return Err(OpError::new("quant_max", format!("is {quant_max}, expected more than quant_min, {quant_min}")));
    }
    #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
    let eps = eps.map_or(f32::MIN_POSITIVE, |eps| eps as f32);
    Ok(Box::new(ChooseQparams { x, block_size, quant_min, quant_max, eps, keepdim, scale, zero_point, zero_point_elem }))
}

impl ChooseQparams {
    /// Blocks must be contiguous: whole inner dimensions, single indices of outer ones, at most one divided dimension in
    /// between.
    fn blocks(&self, cx: &PlanCx<'_>) -> Result<Blocks, OpError> {
        let x = cx.dims(self.x);
        let fail =
            |why: &str| Err(OpError::new("block_size", format!("is {:?} for an input of {x}: {why}", self.block_size)));
        if self.block_size.len() != x.len() {
            return fail("expected a size for each dimension");
        }
        let mut out = Vec::new();
        let mut length = 1u32;
        let mut inside = true;
        for (&size, &dim) in self.block_size.iter().zip(x.iter()).rev() {
            let Some(size) = u32::try_from(size).ok().filter(|&size| size > 0 && dim % size == 0) else {
                return fail("it must divide the input evenly");
            };
            if size > 1 && !inside {
                return fail("only blocks whose elements lie together are supported");
            }
            inside &= size == dim;
            length = length.saturating_mul(size);
            // Without `keepdim` a dimension that a block covers is removed, unless it was 1 before.
            if self.keepdim || size == 1 || size != dim {
                out.push(i64::from(dim / size));
            }
        }
        out.reverse();
        let Some(out) = Dims::from_sizes(out) else { return fail("the outputs would have too many dimensions") };
        Ok(Blocks { out, count: out.count(), length })
    }
}

impl Op for ChooseQparams {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let packed = self.zero_point_elem != Elem::I32;
        let variant = Variant::new(&KERNEL).with("PACKED", packed.into());
        Ok(Recipes::of([Recipe::new(variant, [self.x, self.scale, self.zero_point].map(Into::into))]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let Blocks { out, count, length } = self.blocks(cx)?;
        let params = Params {
            blocks: out.count_u32(),
            length,
            quant_min: self.quant_min,
            quant_max: self.quant_max,
            eps: self.eps,
            pad: [0; 3],
        };
        let step = Dispatch::items(0, &params, count, BLOCKS_PER_GROUP)?;
        let mut plan = Plan::new(self.scale, out, step);
        plan.outputs.push((self.zero_point, out));
        Ok(plan)
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let Blocks { out, length, .. } = self.blocks(cx)?;
        #[allow(clippy::cast_precision_loss, reason = "decoding has checked that floats hold them")]
        let (least, most) = (self.quant_min as f32, self.quant_max as f32);
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for block in tensors.f32(self.x).chunks_exact(length as usize) {
            let low = block.iter().copied().fold(0.0, f32::min);
            let high = block.iter().copied().fold(0.0, f32::max);
            let scale = ((high - low) / (most - least)).max(self.eps);
            let zero = (least - (low / scale).round_ties_even()).clamp(least, most);
            #[allow(clippy::cast_possible_truncation, reason = "whole and within the range")]
            zeros.push(zero as i32);
            scales.push(scale);
        }
        let zeros = match self.zero_point_elem {
            Elem::I32 => HostData::I32(zeros),
            _ => HostData::U8(zeros.iter().map(|zero| zero.to_le_bytes()[0]).collect()),
        };
        tensors.set(self.scale, out, HostData::F32(scales));
        tensors.set(self.zero_point, out, zeros);
        Ok(())
    }
}
