//! Slices of a dimension: one index of it, or every `step`th of a range.

use super::{CopyKind, Selection, axis};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::{Scalar, TensorId};
use crate::plan::PlanCx;
use crate::shape::Dims;
use crate::strided_copy::StridedView;
use crate::strided_copy::strides::{select, slice};

/// Selects one index of a dimension, which is removed.
#[derive(Debug)]
struct Select {
    axis: usize,
    index: Scalar,
}

impl Selection for Select {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let at = select(cx.scalar(self.index), dims[self.axis])?;
        let strides = dims.strides();
        let kept = (0..dims.len()).filter(|&axis| axis != self.axis).map(|axis| strides[axis].into());
        Ok(StridedView::new(dims.without(self.axis), kept).starting_at(at, strides[self.axis], Some(self.index)))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out.to_vec();
        index.insert(self.axis, select(cx.scalar(self.index), dims[self.axis])?);
        Ok(index)
    }

    fn kind(&self) -> CopyKind<'_> {
        CopyKind::Select { axis: self.axis, index: self.index }
    }
}

/// The elements at every `step`th index of a range of a dimension.
#[derive(Debug)]
struct Slice {
    axis: usize,
    start: Option<Scalar>,
    end: Option<Scalar>,
    step: u64,
}

impl Slice {
    /// The live start and length.
    fn range(&self, cx: &PlanCx<'_>, dim: u32) -> (u32, u32) {
        let start = self.start.map_or(0, |start| cx.scalar(start));
        let end = self.end.map_or(i64::MAX, |end| cx.scalar(end));
        slice(start, end, self.step, dim)
    }
}

impl Selection for Slice {
    fn view(&self, cx: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let (at, length) = self.range(cx, dims[self.axis]);
        let strides = dims.strides();
        let mut scaled = strides.map(i64::from);
        // A step that overflows leaves at most one element, and its stride is not used.
        scaled[self.axis] = i64::try_from(u64::from(strides[self.axis]).saturating_mul(self.step)).unwrap_or(0);
        let view = StridedView::new(dims.with(self.axis, length), scaled);
        Ok(view.starting_at(at, strides[self.axis], self.start))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, cx: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out.to_vec();
        let (start, _) = self.range(cx, dims[self.axis]);
        let past = u64::from(index[self.axis]).saturating_mul(self.step);
        index[self.axis] = start + u32::try_from(past).unwrap_or(u32::MAX);
        Ok(index)
    }

    fn is_identity(&self) -> bool {
        let zero = matches!(self.start, None | Some(Scalar::Fixed(0)));
        let open = matches!(self.end, None | Some(Scalar::Fixed(i64::MAX)));
        zero && open && self.step == 1
    }

    fn kind(&self) -> CopyKind<'_> {
        CopyKind::Slice { axis: self.axis, start: self.start, end: self.end, step: self.step }
    }
}

pub(super) fn decode_select(args: &mut Args<'_>, x: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axis = axis(args, info)?;
    args.reads_slices(x, axis);
    Ok(Box::new(Select { axis, index: args.scalar("index")? }))
}

pub(super) fn decode_slice(args: &mut Args<'_>, x: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let axis = axis(args, info)?;
    args.reads_slices(x, axis);
    let (start, end) = (args.optional_scalar("start")?, args.optional_scalar("end")?);
    let step = args.int("step")?;
    match u64::try_from(step) {
        Ok(step) if step > 0 => Ok(Box::new(Slice { axis, start, end, step })),
        _ => Err(OpError::new("step", format!("is {step}, it must be at least 1"))),
    }
}
