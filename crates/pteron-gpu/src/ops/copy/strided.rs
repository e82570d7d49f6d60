//! Views by start, length and stride: `narrow`, `diagonal` and `as_strided`.

use super::Selection;
use crate::args::Args;
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::{Scalar, TensorId};
use crate::plan::PlanCx;
use crate::shape::Dims;
use crate::strided_copy::StridedView;

/// A range of a dimension.
#[derive(Debug)]
struct Narrow {
    axis: usize,
    start: Scalar,
    length: Scalar,
}

impl Narrow {
    /// The start and the length, which must be within the dimension.
    fn range(&self, cx: &PlanCx<'_>, dim: u32) -> Result<(u32, u32), OpError> {
        let (start, length) = (cx.scalar(self.start), cx.scalar(self.length));
        let start = if start < 0 { start.saturating_add(dim.into()) } else { start };
        match (u32::try_from(start), u32::try_from(length)) {
            (Ok(start), Ok(length)) if u64::from(start) + u64::from(length) <= dim.into() => Ok((start, length)),
            _ => Err(OpError::new("length", format!("is {length} from {start} on, but the dimension has {dim} elements"))),
        }
    }
}

impl Selection for Narrow {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let (start, length) = self.range(cx, dims[self.axis])?;
        let strides = dims.strides();
        let view = StridedView::new(dims.with(self.axis, length), strides.map(i64::from));
        Ok(view.starting_at(start, strides[self.axis], Some(self.start)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out.to_vec();
        index[self.axis] += self.range(cx, dims[self.axis])?.0;
        Ok(index)
    }
}

pub(super) fn decode_narrow(args: &mut Args<'_>, x: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axis = super::axis(args, info)?;
    args.reads_slices(x, axis);
    Ok(Box::new(Narrow { axis, start: args.scalar("start")?, length: args.scalar("length")? }))
}

/// The elements with equal indices in two dimensions, `offset` apart; they are a new last dimension.
#[derive(Debug)]
struct Diagonal {
    offset: i64,
    axes: [usize; 2],
}

impl Diagonal {
    /// The first index in each of both dimensions, and the number of elements.
    fn range(&self, dims: &Dims) -> ([u32; 2], u32) {
        let first = [self.offset.saturating_neg(), self.offset].map(|start| u32::try_from(start.max(0)).unwrap_or(u32::MAX));
        let left = |at: usize| dims[self.axes[at]].saturating_sub(first[at]);
        (first, left(0).min(left(1)))
    }

    fn kept(&self, dims: &Dims) -> impl Iterator<Item = usize> + use<> {
        let axes = self.axes;
        (0..dims.len()).filter(move |axis| !axes.contains(axis))
    }
}

impl Selection for Diagonal {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let (first, length) = self.range(&dims);
        let strides = dims.strides();
        let sizes = self.kept(&dims).map(|axis| dims[axis]).chain([length]).map(i64::from);
        let out = Dims::from_sizes(sizes).unwrap_or(dims);
        let along = self.axes.map(|axis| i64::from(strides[axis])).iter().sum::<i64>();
        let kept = self.kept(&dims).map(|axis| i64::from(strides[axis]));
        let start = (0..2).fold(0u32, |at, side| at.saturating_add(first[side].saturating_mul(strides[self.axes[side]])));
        Ok(StridedView::new(out, kept.chain([along])).starting_at(start, 1, None))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let (first, _) = self.range(dims);
        let mut index = vec![0; dims.len()];
        self.kept(dims).zip(out).for_each(|(axis, &at)| index[axis] = at);
        (0..2).for_each(|side| index[self.axes[side]] = first[side] + out[out.len() - 1]);
        Ok(index)
    }
}

pub(super) fn decode_diagonal(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let rank = info.bound.len();
    let offset = args.int("offset")?;
    let axes = [args.axis("dim1", rank)?, args.axis("dim2", rank)?];
    if rank < 2 || axes[0] == axes[1] {
        return Err(OpError::new("dim1", format!("and `dim2` are {axes:?}, expected two dimensions of {}", info.bound)));
    }
    Ok(Box::new(Diagonal { offset, axes }))
}

/// The elements at `offset` + Σ index · stride of a contiguous tensor.
#[derive(Debug)]
struct AsStrided {
    sizes: Vec<Scalar>,
    strides: Vec<Scalar>,
    offset: Scalar,
}

impl AsStrided {
    /// The output's dims, the stride of each and the first offset. Every element is within the tensor.
    fn layout(&self, cx: &PlanCx<'_>, dims: &Dims) -> Result<(Dims, Vec<u32>, u32), OpError> {
        let live = |list: &[Scalar]| list.iter().map(|&item| cx.scalar(item)).collect::<Vec<i64>>();
        let (sizes, strides, offset) = (live(&self.sizes), live(&self.strides), cx.scalar(self.offset));
        let fail =
            || OpError::new("size", format!("is {sizes:?} with strides {strides:?} from {offset} on, outside {dims}"));
        let out = Dims::from_sizes(sizes.iter().copied()).ok_or_else(fail)?;
        let strides: Option<Vec<u32>> = strides.iter().map(|&stride| u32::try_from(stride).ok()).collect();
        let (Some(strides), Ok(offset)) = (strides, u32::try_from(offset)) else { return Err(fail()) };
        let last = out.iter().zip(&strides).fold(u64::from(offset), |at, (&dim, &stride)| {
            at.saturating_add(u64::from(dim.saturating_sub(1)).saturating_mul(stride.into()))
        });
        if out.count() > 0 && last >= dims.count() { Err(fail()) } else { Ok((out, strides, offset)) }
    }
}

impl Selection for AsStrided {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let (out, strides, offset) = self.layout(cx, &dims)?;
        Ok(StridedView::new(out, strides.into_iter().map(i64::from)).starting_at(offset, 1, Some(self.offset)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let (_, strides, offset) = self.layout(cx, dims)?;
        let at = out.iter().zip(strides).fold(offset, |at, (&index, stride)| at + index * stride);
        let own = dims.strides();
        Ok((0..dims.len()).map(|axis| at / own[axis] % dims[axis]).collect())
    }
}

pub(super) fn decode_as_strided(args: &mut Args<'_>, _: TensorId, _: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let (sizes, strides) = (args.scalars("size")?, args.scalars("stride")?);
    if sizes.len() != strides.len() {
        return Err(OpError::new("stride", format!("has {} numbers, but `size` has {}", strides.len(), sizes.len())));
    }
    let offset = args.optional_scalar("storage_offset")?.unwrap_or(Scalar::Fixed(0));
    Ok(Box::new(AsStrided { sizes, strides, offset }))
}
