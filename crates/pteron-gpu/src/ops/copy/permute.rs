//! Permutations and flips of dimensions.

use super::{CopyKind, Selection, distinct_axes};
use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::live::TensorId;
use crate::plan::PlanCx;
use crate::shape::Dims;
use crate::strided_copy::StridedView;

/// Permutes the dimensions.
#[derive(Debug)]
struct Permute {
    order: Vec<usize>,
    /// Whether only dimensions that are never longer than 1 are moved.
    is_identity: bool,
}

impl Permute {
    fn new(order: Vec<usize>, bound: &Dims) -> Self {
        let is_identity = order.iter().filter(|&&axis| bound[axis] > 1).is_sorted();
        Self { order, is_identity }
    }
}

impl Selection for Permute {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let strides = dims.strides();
        let out = self.order.iter().zip(0..).fold(dims, |out, (&from, to)| out.with(to, dims[from]));
        Ok(StridedView::new(out, self.order.iter().map(|&axis| strides[axis].into())))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = vec![0; dims.len()];
        self.order.iter().zip(out).for_each(|(&axis, &at)| index[axis] = at);
        Ok(index)
    }

    fn kind(&self) -> CopyKind<'_> {
        CopyKind::Permute(&self.order)
    }

    fn is_identity(&self) -> bool {
        self.is_identity
    }
}

pub(super) fn decode_permute(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let rank = info.bound.len();
    let dims = args.ints("dims")?;
    let order: Option<Vec<usize>> = dims.iter().map(|&dim| normalise(dim, rank)).collect();
    match order {
        Some(order) if order.len() == rank && (0..rank).all(|axis| order.contains(&axis)) => {
            Ok(Box::new(Permute::new(order, &info.bound)))
        }
        _ => Err(OpError::new("dims", format!("is {dims:?}, expected each of the tensor's {rank} dimensions once"))),
    }
}

pub(super) fn decode_t(_: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    match info.bound.len() {
        rank @ 0..=2 => Ok(Box::new(Permute::new((0..rank).rev().collect(), &info.bound))),
        _ => Err(OpError::new("self", format!("is {}, expected at most two dimensions", info.bound))),
    }
}

pub(super) fn decode_transpose(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let rank = info.bound.len();
    let (first, second) = (args.axis("dim0", rank)?, args.axis("dim1", rank)?);
    let mut order: Vec<usize> = (0..rank).collect();
    // A single number has no dimension to exchange.
    if rank > 0 {
        order.swap(first, second);
    }
    Ok(Box::new(Permute::new(order, &info.bound)))
}

/// Reverses some dimensions.
#[derive(Debug)]
struct Flip {
    axes: Vec<usize>,
    is_identity: bool,
}

impl Selection for Flip {
    fn view(&self, _: &PlanCx<'_>, dims: Dims) -> Result<StridedView, OpError> {
        let strides = dims.strides();
        let mut signed = strides.map(i64::from);
        self.axes.iter().for_each(|&axis| signed[axis] = -signed[axis]);
        // The view starts at the last index of each flipped dimension.
        let first = self.axes.iter().map(|&axis| dims[axis].saturating_sub(1).saturating_mul(strides[axis]));
        let first = first.fold(0, u32::saturating_add);
        Ok(StridedView::new(dims, signed).starting_at(first, 1, None))
    }

    #[cfg(any(test, feature = "reference"))]
    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out.to_vec();
        self.axes.iter().for_each(|&axis| index[axis] = dims[axis] - 1 - index[axis]);
        Ok(index)
    }

    fn is_identity(&self) -> bool {
        self.is_identity
    }
}

pub(super) fn decode_flip(args: &mut Args<'_>, _: TensorId, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let mut axes = distinct_axes(args, "dims", info.bound.len())?;
    // A scalar may be flipped, and has no dimension.
    axes.retain(|&axis| axis < info.bound.len());
    let is_identity = axes.iter().all(|&axis| info.bound[axis] <= 1);
    Ok(Box::new(Flip { axes, is_identity }))
}
