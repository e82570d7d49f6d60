//! Copies whose dims divide into several axes: sliding windows, pixel shuffles and repeated elements.

use super::{Selection, axis};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::{Scalar, TensorId};
use crate::plan::PlanCx;
use crate::shape::{Dims, MAX_RANK};
use crate::strided_copy::StridedView;

/// The windows of `size` elements of a dimension, every `step` of them; the windows' elements are a new last dimension.
#[derive(Debug)]
struct Unfold {
    axis: usize,
    size: u32,
    step: u32,
}

impl Selection for Unfold {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let (dim, strides) = (dims[self.axis], dims.strides());
        let Some(rest) = dim.checked_sub(self.size) else {
            let reason = format!("is {}, but dimension {} has {dim} elements", self.size, self.axis);
            return Err(OpError::new("size", reason));
        };
        let windows = dims.with(self.axis, rest / self.step + 1);
        let sizes = windows.iter().chain([&self.size]).copied().map(i64::from);
        let out = Dims::from_sizes(sizes).ok_or_else(|| {
            OpError::new("self", format!("is {dims}, with the windows it would have more than {MAX_RANK} dimensions"))
        })?;
        let along = i64::from(strides[self.axis]);
        let mut outer: Vec<i64> = strides[..dims.len()].iter().copied().map(i64::from).collect();
        outer[self.axis] = along * i64::from(self.step);
        Ok(StridedView::new(out, outer.into_iter().chain([along])))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out[..dims.len()].to_vec();
        index[self.axis] = index[self.axis] * self.step + out[dims.len()];
        Ok(index)
    }
}

pub(super) fn decode_unfold(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axis = axis(args, info)?;
    let [size, step] = [positive(args, "size")?, positive(args, "step")?];
    Ok(Box::new(Unfold { axis, size, step }))
}

/// Takes an integer of at least 1.
fn positive(args: &mut Args<'_>, name: &'static str) -> Result<u32, OpError> {
    let value = args.int(name)?;
    let positive = u32::try_from(value).ok().filter(|&value| value > 0);
    positive.ok_or_else(|| OpError::new(name, format!("is {value}, it must be at least 1 and fit 32 bits")))
}

/// Blocks of `factor` × `factor` channels become blocks of pixels of one channel.
#[derive(Debug)]
struct PixelShuffle {
    factor: u32,
}

impl PixelShuffle {
    /// The dims after the leading ones: channels of the output, height and width of the input.
    fn sizes(&self, dims: &Dims) -> Result<[u32; 3], OpError> {
        let Some(&[channels, height, width]) = dims.last_chunk::<3>() else {
            return Err(OpError::new("self", format!("is {dims}, expected at least three dimensions")));
        };
        match self.factor.checked_mul(self.factor) {
            Some(block) if channels % block == 0 => Ok([channels / block, height, width]),
            _ => {
                let reason = format!("is {}, but `self` has {channels} channels, no multiple of its square", self.factor);
                Err(OpError::new("upscale_factor", reason))
            }
        }
    }
}

impl Selection for PixelShuffle {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let [channels, height, width] = self.sizes(&dims)?;
        let (factor, lead) = (self.factor, dims.len() - 3);
        let [tall, wide] = [height, width].map(|size| i64::from(size) * i64::from(factor));
        let sizes = dims[..lead].iter().copied().map(i64::from).chain([channels.into(), tall, wide]);
        let too_large = || OpError::new("upscale_factor", format!("is {factor}, too large for {dims}"));
        let out = Dims::from_sizes(sizes).ok_or_else(too_large)?;
        let [plane, row] = [i64::from(height) * i64::from(width), i64::from(width)];
        let block = i64::from(factor) * plane;
        let strides = dims.strides();
        let leading = (0..lead).map(|axis| (dims[axis], i64::from(strides[axis])));
        let shuffled = [(channels, block * i64::from(factor)), (height, row), (factor, block), (width, 1), (factor, plane)];
        Ok(StridedView::with_axes(out, leading.chain(shuffled)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let lead = dims.len() - 3;
        let (channel, y, x, factor) = (out[lead], out[lead + 1], out[lead + 2], self.factor);
        let from = (channel * factor + y % factor) * factor + x % factor;
        Ok(out[..lead].iter().copied().chain([from, y / factor, x / factor]).collect())
    }
}

pub(super) fn decode_pixel_shuffle(
    args: &mut Args<'_>,
    _: TensorId,
    info: TensorInfo,
) -> Result<Box<dyn Selection>, OpError> {
    let shuffle = PixelShuffle { factor: positive(args, "upscale_factor")? };
    shuffle.sizes(&info.bound)?;
    Ok(Box::new(shuffle))
}

/// Blocks of `factor` × `factor` pixels become channels.
#[derive(Debug)]
struct PixelUnshuffle {
    factor: u32,
}

impl Selection for PixelUnshuffle {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let Some(&[channels, height, width]) = dims.last_chunk::<3>() else {
            return Err(OpError::new("self", format!("is {dims}, expected at least three dimensions")));
        };
        let factor = self.factor;
        if !height.is_multiple_of(factor) || !width.is_multiple_of(factor) {
            let reason = format!("is {factor}, but `self` is {dims}, whose height and width are no multiples of it");
            return Err(OpError::new("downscale_factor", reason));
        }
        let (lead, step) = (dims.len() - 3, i64::from(factor));
        let deep = i64::from(channels).saturating_mul(step).saturating_mul(step);
        let small = [height / factor, width / factor];
        let sizes = dims[..lead].iter().copied().map(i64::from).chain([deep, small[0].into(), small[1].into()]);
        let too_large = || OpError::new("downscale_factor", format!("is {factor}, too large for {dims}"));
        let out = Dims::from_sizes(sizes).ok_or_else(too_large)?;
        let strides = dims.strides();
        let leading = (0..lead).map(|axis| (dims[axis], i64::from(strides[axis])));
        let [plane, row] = [i64::from(height) * i64::from(width), i64::from(width)];
        let moved = [(channels, plane), (factor, row), (factor, 1), (small[0], row * step), (small[1], step)];
        Ok(StridedView::with_axes(out, leading.chain(moved)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let (lead, factor) = (dims.len() - 3, self.factor);
        let (channel, y, x) = (out[lead], out[lead + 1], out[lead + 2]);
        let from = [channel / (factor * factor), y * factor + channel / factor % factor, x * factor + channel % factor];
        Ok(out[..lead].iter().copied().chain(from).collect())
    }
}

pub(super) fn decode_pixel_unshuffle(
    args: &mut Args<'_>,
    _: TensorId,
    _: TensorInfo,
) -> Result<Box<dyn Selection>, OpError> {
    Ok(Box::new(PixelUnshuffle { factor: positive(args, "downscale_factor")? }))
}

/// Each element of a dimension `repeats` times in a row. Without a dimension, of the flattened tensor.
#[derive(Debug)]
struct RepeatInterleave {
    repeats: Scalar,
    axis: Option<usize>,
}

impl RepeatInterleave {
    fn repeats(&self, cx: &PlanCx<'_>) -> Result<u32, OpError> {
        let repeats = cx.scalar(self.repeats);
        u32::try_from(repeats)
            .map_err(|_| OpError::new("repeats", format!("is {repeats}, it must be at least 0 and fit 32 bits")))
    }
}

impl Selection for RepeatInterleave {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let repeats = self.repeats(cx)?;
        let flat = Dims::of([dims.count_u32()]);
        let (from, axis) = self.axis.map_or((flat, 0), |axis| (dims, axis));
        let strides = from.strides();
        let length = i64::from(from[axis]) * i64::from(repeats);
        let sizes = from.iter().enumerate().map(|(at, &dim)| if at == axis { length } else { dim.into() });
        let out = Dims::from_sizes(sizes).ok_or_else(|| {
            OpError::new("repeats", format!("is {repeats}, which makes {length} elements of {}", from[axis]))
        })?;
        let each = |at: usize| {
            let own = (from[at], i64::from(strides[at]));
            [Some(own), (at == axis).then_some((repeats, 0))].into_iter().flatten()
        };
        Ok(StridedView::with_axes(out, (0..from.len()).flat_map(each)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let repeats = self.repeats(cx)?;
        let Some(axis) = self.axis else {
            let strides = dims.strides();
            let at = out[0] / repeats;
            return Ok((0..dims.len()).map(|axis| at / strides[axis] % dims[axis]).collect());
        };
        let mut index = out.to_vec();
        index[axis] /= repeats;
        Ok(index)
    }
}

pub(super) fn decode_repeat_interleave(
    args: &mut Args<'_>,
    _: TensorId,
    info: TensorInfo,
) -> Result<Box<dyn Selection>, OpError> {
    let repeats = args.scalar("repeats")?;
    let axis = match args.optional_scalar("dim")? {
        None => None,
        Some(Scalar::Fixed(dim)) => {
            Some(crate::args::normalise(dim, info.bound.len()).filter(|_| !info.bound.is_empty()).ok_or_else(|| {
                OpError::new("dim", format!("is {dim}, but the tensor has {} dimensions", info.bound.len()))
            })?)
        }
        Some(Scalar::Live(_)) => return Err(OpError::new("dim", "is symbolic, expected an integer or None")),
    };
    // Follows from the tensor and the repeats. Some exporters leave it out.
    if args.left() > 1 {
        args.ignore("output_size")?;
    }
    Ok(Box::new(RepeatInterleave { repeats, axis }))
}
