//! The scale and the zero point that map each block of a tensor onto a range of integers, chosen from the block's minimum and maximum:
//! of blocks of a given size, of rows, or of the whole tensor. Each row of `TABLE` is an operator.

use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::int8::MULTIPLIER_RULE;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::{OpDef, names};
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{self, HostData, HostTensors};
use crate::shape::Dims;

#[cfg(test)]
mod tests;

static KERNEL: KernelDef = KernelDef::new("choose_qparams", include_str!("choose_qparams.wgsl"), Params::FIELDS);

/// The registry entry.
pub static DEF: OpDef =
    OpDef { names: &NAMES, internal: &[MULTIPLIERS], kernels: &[&KERNEL], decode: |args| args.row(TABLE).1(args) };

/// The operators of the family: names and decoders.
const TABLE: &[(&str, Decode)] = &[
    ("torchao.choose_qparams_affine.default", decode_affine),
    ("quantized_decomposed.choose_qparams.tensor", decode_tensor),
    ("quantized_decomposed.choose_qparams_per_token_asymmetric.default", decode_per_token),
    ("etvk.choose_qparams_per_row.default", decode_per_row),
    (MULTIPLIERS, decode_multipliers),
];

/// Multipliers and zero points by XNNPACK's rule, of blocks of whole inner dimensions: a multiplier is 255 divided by the range, or 1
/// where that is empty. Front ends call it; no file does.
pub(crate) const MULTIPLIERS: &str = "pteron.choose_multipliers";

type Decode = fn(&mut Args<'_>) -> Result<Box<dyn Op>, OpError>;

static NAMES: [&str; TABLE.len()] = names!(TABLE, 0);

params! {
    /// Of `choose_qparams.wgsl`.
    struct Params { blocks: u32, length: u32, quant_min: i32, quant_max: i32, eps: f32, pad: [u32; 3] }
}

/// Blocks whose zero points share a word, and so a workgroup.
const BLOCKS_PER_GROUP: u64 = 4;

#[derive(Debug)]
pub(crate) struct ChooseQparams {
    pub(crate) x: TensorId,
    division: Division,
    quant_min: i32,
    quant_max: i32,
    eps: f32,
    rule: Rule,
    pub(crate) scale: TensorId,
    pub(crate) zero_point: TensorId,
    zero_point_elem: Elem,
}

/// How scale and zero point follow from a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The zero point is rounded from the lower end of the range.
    LowerEnd,
    /// It is rounded from that end of the range which is represented with the smaller error.
    EitherEnd,
    /// As [`EitherEnd`](Self::EitherEnd), with a multiplier in place of the scale.
    Multiplier,
}

/// The elements that share a scale.
#[derive(Debug)]
enum Division {
    /// So many inner dimensions, which are 1 in the outputs.
    Inner(usize),
    /// Blocks of these sizes.
    Blocks { sizes: Vec<i64>, keepdim: bool },
    /// Rows of the last dimension, which is 1 in the outputs, or removed.
    Rows { keepdim: bool },
    /// The whole tensor; the outputs have one dimension.
    Tensor,
}

/// The division of a tensor into blocks.
struct Blocks {
    out: Dims,
    count: u64,
    length: u32,
}

fn decode_affine(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let mapping = args.text("mapping_type")?;
    if mapping != "ASYMMETRIC" {
        return Err(OpError::new("mapping_type", format!("is {mapping:?}, supported: \"ASYMMETRIC\"")));
    }
    let sizes = args.ints("block_size")?;
    // Files do not contain these types: the outputs have them, and the range is given in numbers.
    args.ignore("target_dtype")?;
    let (quant_min, quant_max) = (args.int("quant_min")?, args.int("quant_max")?);
    let eps = args.optional_float("eps")?;
    args.none("scale_dtype")?;
    args.none("zero_point_dtype")?;
    let keepdim = args.bool("keepdim")?;
    let outputs = args.outputs("out", 2)?;
    let range = [quant_min, quant_max];
    new(args, x, Division::Blocks { sizes, keepdim }, (range, eps), Rule::LowerEnd, [outputs[0], outputs[1]])
}

fn decode_multipliers(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let (rank, inner) = (args.info(x).bound.len(), args.int("inner_dims")?);
    let outputs = [args.output("multipliers")?, args.output_of("zero_points", Elem::I8)?];
    let Some(inner) = usize::try_from(inner).ok().filter(|inner| (1..=rank).contains(inner)) else {
        return Err(OpError::new("inner_dims", format!("is {inner}, but the input has {rank} dimensions")));
    };
    let range = [i8::MIN.into(), i8::MAX.into()];
    new(args, x, Division::Inner(inner), (range, None), Rule::Multiplier, outputs)
}

fn decode_tensor(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let range = [args.int("quant_min")?, args.int("quant_max")?];
    let eps = args.optional_float("eps")?;
    args.ignore("dtype")?;
    let outputs = args.outputs("out", 2)?;
    new(args, x, Division::Tensor, (range, eps), Rule::LowerEnd, [outputs[0], outputs[1]])
}

fn decode_per_token(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    args.ignore("dtype")?;
    let outputs = args.outputs("out", 2)?;
    let range = [i8::MIN.into(), i8::MAX.into()];
    new(
        args,
        x,
        Division::Rows { keepdim: true },
        (range, Some(f32::EPSILON.into())),
        Rule::EitherEnd,
        [outputs[0], outputs[1]],
    )
}

fn decode_per_row(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let x = args.tensor_of("input", &[Elem::F32])?;
    let range = [args.int("quant_min")?, args.int("quant_max")?];
    let outputs = [args.output("scales")?, args.output("zero_points")?];
    let keepdim = args.info(outputs[0]).bound.len() == args.info(x).bound.len();
    new(args, x, Division::Rows { keepdim }, (range, None), Rule::LowerEnd, outputs)
}

fn new(
    args: &Args<'_>,
    x: TensorId,
    division: Division,
    ([quant_min, quant_max], eps): ([i64; 2], Option<f64>),
    rule: Rule,
    [scale, zero_point]: [TensorId; 2],
) -> Result<Box<dyn Op>, OpError> {
    if matches!(division, Division::Rows { .. }) && args.info(x).bound.is_empty() {
        return Err(OpError::new("input", format!("is {}, expected at least one dimension", args.info(x).bound)));
    }
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
    Ok(Box::new(ChooseQparams { x, division, quant_min, quant_max, eps, rule, scale, zero_point, zero_point_elem }))
}

impl ChooseQparams {
    /// The smallest scale, if blocks are rows of this length and values signed bytes; [`MULTIPLIER_RULE`] for XNNPACK's rule.
    pub(crate) fn row_eps(&self, length: u32) -> Option<f32> {
        if let Division::Inner(inner) = self.division {
            return (inner == 1 && self.rule == Rule::Multiplier).then_some(MULTIPLIER_RULE);
        }
        let Division::Blocks { sizes, .. } = &self.division else { return None };
        let (last, leading) = sizes.split_last()?;
        let rows = *last == i64::from(length) && leading.iter().all(|&size| size == 1);
        let range = (i32::from(i8::MIN), i32::from(i8::MAX));
        (rows && (self.quant_min, self.quant_max) == range).then_some(self.eps)
    }

    /// Blocks must be contiguous: whole inner dimensions, single indices of outer ones, at most one divided dimension in
    /// between.
    fn blocks(&self, cx: &PlanCx<'_>) -> Result<Blocks, OpError> {
        let x = cx.dims(self.x);
        let (block_size, keepdim) = match &self.division {
            Division::Blocks { sizes, keepdim } => (sizes, *keepdim),
            Division::Rows { keepdim } => {
                let rows = x.with(x.len() - 1, 1);
                let out = if *keepdim { rows } else { x.without(x.len() - 1) };
                return Ok(Blocks { out, count: out.count(), length: x.last() });
            }
            Division::Inner(inner) => {
                let inner = (x.len() - inner.min(&x.len())..x.len()).map(|axis| (axis, x[axis]));
                let (out, length) =
                    inner.fold((x, 1u32), |(out, length), (axis, dim)| (out.with(axis, 1), length.saturating_mul(dim)));
                return Ok(Blocks { out, count: out.count(), length });
            }
            Division::Tensor => return Ok(Blocks { out: Dims::of([1]), count: 1, length: x.count_u32() }),
        };
        let fail = |why: &str| Err(OpError::new("block_size", format!("is {block_size:?} for an input of {x}: {why}")));
        if block_size.len() != x.len() {
            return fail("expected a size for each dimension");
        }
        let mut out = Vec::new();
        let mut length = 1u32;
        let mut inside = true;
        for (&size, &dim) in block_size.iter().zip(x.iter()).rev() {
            let Some(size) = u32::try_from(size).ok().filter(|&size| size > 0 && dim % size == 0) else {
                return fail("it must divide the input evenly");
            };
            if size > 1 && !inside {
                return fail("only blocks whose elements lie together are supported");
            }
            inside &= size == dim;
            length = length.saturating_mul(size);
            // Without `keepdim` a dimension that a block covers is removed, unless it was 1 before.
            if keepdim || size == 1 || size != dim {
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
        let variant = Variant::new(&KERNEL).with("PACKED", packed.into()).with("RULE", self.rule as u32);
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
        let x = tensors.f32(self.x);
        for block in 0..usize::try_from(out.count()).unwrap_or(0) {
            let block = &x[block * length as usize..][..length as usize];
            let (mut scale, mut zero) = reference::block_qparams(block, least, most, self.eps);
            if self.rule == Rule::Multiplier {
                (scale, zero) = reference::block_multiplier(block);
            }
            if self.rule == Rule::EitherEnd {
                let [low, high] = [f32::min, f32::max].map(|of| block.iter().copied().fold(0.0, of) / scale);
                let from_low = least + low + (most + high) > 0.0;
                zero = if from_low { least - low } else { most - high }.clamp(least, most).round_ties_even();
            }
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
