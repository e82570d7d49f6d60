//! `aten.native_group_norm`: normalisation of groups of channels of each image, with a weight and a bias per channel. The mean and the
//! reciprocal standard deviation (`rstd`) of each group are outputs too. Batch normalisation by the moments of the batch itself is the
//! same with one group per channel of all images.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::error::OpError;
use crate::fuse::Relayout;
use crate::graph::Elem;
use crate::ir::{Call, Value, ValueId};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostData, HostTensors};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

static KERNEL: KernelDef = KernelDef::new("group_norm", include_str!("group_norm.wgsl"), Params::FIELDS);

/// The name for tensors with channels last.
pub(crate) const CHANNELS_LAST: &str = "pteron.group_norm_channels_last";

/// Batch normalisation by the moments of the batch.
const BATCH: &str = "aten._native_batch_norm_legit.no_stats";

/// The registry entry.
pub static DEF: OpDef = OpDef {
    names: &["aten.native_group_norm.default", CHANNELS_LAST, BATCH],
    internal: &[CHANNELS_LAST],
    kernels: &[&KERNEL],
    decode,
};

params! {
    /// Of `group_norm.wgsl`.
    struct Params {
        rows: u32, groups: u32, length: u32, run: u32, stride: u32, group_stride: u32, image_stride: u32, inner: u32,
        channels: u32, splits: u32, chunk: u32, has_weight: u32, has_bias: u32, eps: f32, pad: [u32; 2],
    }
}

/// Groups with more elements are split, if there are too few of them to occupy a large GPU. A segment has at least so many.
const SEGMENT: u32 = 4096;
const FULL_GRID: u64 = 512;
/// The most segments of a group: a thread combines one.
const MAX_SPLITS: u32 = 256;

/// The recipes: whole groups, moments of segments, and segments after their moments.
const WHOLE: usize = 0;
const MOMENTS: usize = 1;
const SEGMENTS: usize = 2;

/// Group normalisation.
#[derive(Debug)]
pub(crate) struct GroupNorm {
    pub(crate) x: TensorId,
    weight: Option<TensorId>,
    bias: Option<TensorId>,
    groups: Groups,
    eps: f64,
    pub(crate) channels_last: bool,
    pub(crate) out: TensorId,
    mean: TensorId,
    rstd: TensorId,
}

/// The elements that are normalised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Groups {
    /// So many groups of channels, in each image.
    OfImage(u32),
    /// A channel, in all images.
    OfBatch,
}

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let channels_last = args.operator() == CHANNELS_LAST;
    let x = args.tensor_of("input", &[Elem::F32])?;
    let weight = args.optional_tensor_of("weight", &[Elem::F32])?;
    let bias = args.optional_tensor_of("bias", &[Elem::F32])?;
    let groups = if args.operator() == BATCH {
        // Programs of both modes normalise by the batch, where there are no other moments.
        args.ignore("training")?;
        args.ignore("momentum")?;
        Groups::OfBatch
    } else {
        decode_groups(args)?
    };
    let eps = args.float("eps")?;
    if !eps.is_finite() || eps < 0.0 {
        return Err(OpError::new("eps", format!("is {eps}, it must be a number of at least 0")));
    }
    let outputs = args.outputs("out", 3)?;
    if let Some(&other) = outputs.iter().find(|&&output| args.info(output).elem != Elem::F32) {
        return Err(OpError::new("out", format!("has elements {:?}, but the result's are F32", args.info(other).elem)));
    }
    let [out, mean, rstd] = outputs[..] else { return Err(OpError::new("out", "is not three tensors")) };
    Ok(Box::new(GroupNorm { x, weight, bias, groups, eps, channels_last, out, mean, rstd }))
}

fn decode_groups(args: &mut Args<'_>) -> Result<Groups, OpError> {
    // The sizes of the input at its bound: a live input may be smaller.
    for name in ["N", "C", "HxW"] {
        args.scalar(name)?;
    }
    let groups = args.int("group")?;
    match u32::try_from(groups).ok().filter(|&groups| groups > 0) {
        Some(groups) => Ok(Groups::OfImage(groups)),
        None => Err(OpError::new("group", format!("is {groups}, expected at least 1"))),
    }
}

/// The segments of each of `rows` groups of `length` elements, and the elements of a segment.
fn split(rows: u64, length: u32) -> (u32, u32) {
    let wanted = u32::try_from(FULL_GRID.div_ceil(rows.max(1))).unwrap_or(1).min(MAX_SPLITS);
    let splits = (length / SEGMENT).min(wanted).max(1);
    let chunk = length.div_ceil(splits).max(1);
    (length.div_ceil(chunk).max(1), chunk)
}

/// The most segments of any live shape within a bound of `elements` elements.
fn max_segments(elements: u64) -> u64 {
    // Groups are split only while there are fewer than a full grid, into segments of `SEGMENT` elements or more.
    (elements / u64::from(SEGMENT)).min(2 * FULL_GRID)
}

impl GroupNorm {
    fn params(&self, cx: &PlanCx<'_>) -> Result<(Params, Dims), OpError> {
        let x = cx.dims(self.x);
        if x.len() < 2 {
            return Err(OpError::new("input", format!("is {x}, expected 2 dimensions or more")));
        }
        let axis = if self.channels_last { x.len() - 1 } else { 1 };
        let (images, all) = (x[0], x[axis]);
        let groups = match self.groups {
            Groups::OfImage(groups) => groups,
            Groups::OfBatch => all.max(1),
        };
        if !all.is_multiple_of(groups) {
            let reason = format!("is {groups}, which does not divide the {all} channels of the input");
            return Err(OpError::new("group", reason));
        }
        for (name, tensor) in [("weight", self.weight), ("bias", self.bias)] {
            let dims = tensor.map(|tensor| cx.dims(tensor));
            if let Some(dims) = dims.filter(|dims| dims.len() != 1 || dims[0] != all) {
                return Err(OpError::new(name, format!("is {dims}, but the input has {all} channels")));
            }
        }
        let pixels = x.iter().enumerate().filter(|&(dim, _)| dim != 0 && dim != axis).map(|(_, &size)| size);
        let pixels = pixels.fold(1u32, u32::saturating_mul);
        let channels = all / groups;
        let of_batch = self.groups == Groups::OfBatch;
        let image_stride = all.saturating_mul(pixels);
        let length = if of_batch { images } else { channels }.saturating_mul(pixels);
        let (inner, run, stride, group_stride) = match (of_batch, self.channels_last) {
            (true, _) => (pixels, pixels, image_stride, pixels),
            (_, true) => (1, channels, all, channels),
            (_, false) => (pixels, length, length, length),
        };
        let rows = if of_batch { all } else { images.saturating_mul(groups) };
        let (splits, chunk) = split(rows.into(), length);
        #[allow(clippy::cast_possible_truncation, reason = "kernels compute in 32 bits")]
        let eps = if length == 0 { f32::NAN } else { self.eps as f32 };
        let params = Params {
            rows,
            groups,
            length,
            run: run.max(1),
            stride,
            group_stride,
            image_stride,
            inner: inner.max(1),
            channels: channels.max(1),
            splits,
            chunk,
            has_weight: self.weight.is_some().into(),
            has_bias: self.bias.is_some().into(),
            eps,
            pad: [0; 2],
        };
        Ok((params, if of_batch { Dims::of([all]) } else { Dims::of([images, groups]) }))
    }
}

impl Op for GroupNorm {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let fixed = [self.weight, self.bias].into_iter().flatten().all(|tensor| rows.axis(tensor).is_none());
        rows.batch(self.x).filter(|_| fixed && self.groups != Groups::OfBatch)
    }

    fn channels_last(&self, layout: &mut Relayout<'_>) -> Option<Call> {
        let movable = self.groups != Groups::OfBatch && !self.channels_last && layout.can_move(self.out);
        let x = layout.moved(self.x).filter(|_| movable)?;
        let mut args = layout.call.args.clone();
        *args.first_mut()? = ValueId(x.0);
        let out = layout.output(self.out);
        let outputs = [out, self.mean, self.rstd].map(|tensor| ValueId(tensor.0)).to_vec();
        *args.last_mut()? = layout.source.add(Value::ValueList(outputs));
        Some(Call::new(&DEF, CHANNELS_LAST, args))
    }

    fn recipes(&self, cx: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        let [weight, bias] = [self.weight, self.bias].map(|tensor| tensor.unwrap_or(self.x));
        let recipe = |stage| {
            let read = [self.x, weight, bias].map(Bind::Tensor);
            let written = [self.out, self.mean, self.rstd].map(Bind::Tensor);
            let binds = read.into_iter().chain([Bind::Scratch(0)]).chain(written);
            Recipe::new(Variant::new(&KERNEL).with("STAGE", stage), binds)
        };
        let mut recipes = Recipes::of([0, 1, 2].map(recipe));
        recipes.scratch.push(max_segments(cx.bound(self.x).count()).max(1) * 16);
        Ok(recipes)
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (params, moments) = self.params(cx)?;
        let groups = moments.count() * u64::from(params.splits);
        let stages: &[usize] = if params.splits > 1 { &[MOMENTS, SEGMENTS] } else { &[WHOLE] };
        let mut steps = Vec::new();
        for &stage in stages {
            steps.extend(Dispatch::groups(stage, &params, groups)?);
        }
        let outputs = vec![(self.out, cx.dims(self.x)), (self.mean, moments), (self.rstd, moments)];
        let scratch = vec![if params.splits > 1 { groups * 16 } else { 0 }];
        Ok(Plan { outputs, steps, scratch, ..Plan::default() })
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (params, moments) = self.params(cx)?;
        let x = tensors.f32(self.x).to_vec();
        let parameter = |tensor: Option<TensorId>| tensor.map(|tensor| tensors.f32(tensor).to_vec());
        let (weight, bias) = (parameter(self.weight), parameter(self.bias));
        let all = (params.groups * params.channels) as usize;
        let plane = (params.image_stride as usize).checked_div(all).unwrap_or(0);
        let channel_of = |index: usize| if self.channels_last { index % all } else { index / plane % all };
        let group_of = |index: usize| match self.groups {
            Groups::OfBatch => channel_of(index),
            Groups::OfImage(groups) => {
                index / params.image_stride as usize * groups as usize + channel_of(index) / params.channels as usize
            }
        };
        let rows = params.rows as usize;
        let (mut sums, mut squares) = (vec![0.0; rows], vec![0.0; rows]);
        let count = f64::from(params.length);
        x.iter().enumerate().for_each(|(index, &value)| sums[group_of(index)] += f64::from(value));
        let means: Vec<f64> = sums.iter().map(|sum| sum / count.max(1.0)).collect();
        for (index, &value) in x.iter().enumerate() {
            squares[group_of(index)] += (f64::from(value) - means[group_of(index)]).powi(2);
        }
        let rstds: Vec<f64> = squares.iter().map(|sum| (sum / count + self.eps).sqrt().recip()).collect();
        let normalised = |(index, &value): (usize, &f32)| {
            let (group, channel) = (group_of(index), channel_of(index));
            let scaled = (f64::from(value) - means[group]) * rstds[group];
            let weighted = scaled * weight.as_ref().map_or(1.0, |weight| f64::from(weight[channel]));
            weighted + bias.as_ref().map_or(0.0, |bias| f64::from(bias[channel]))
        };
        let out = x.iter().enumerate().map(normalised).collect();
        for (tensor, dims, values) in
            [(self.out, cx.dims(self.x), out), (self.mean, moments, means), (self.rstd, moments, rstds)]
        {
            tensors.set(tensor, dims, HostData::F32(values.into_iter().map(crate::matmul::to_f32).collect()));
        }
        Ok(())
    }
}
