//! Every element once, in another order: dimensions permuted or turned around.

use super::strided::Window;
use super::{Selection, distinct_axes};
use crate::args::{Args, normalise};
use crate::error::OpError;
use crate::graph::TensorInfo;
use crate::plan::PlanCx;
use crate::shape::Dims;

/// The dimensions in another order.
#[derive(Debug)]
struct Permute {
    order: Vec<usize>,
    /// Whether only dimensions that are never longer than 1 move past others.
    in_place: bool,
}

impl Permute {
    fn new(order: Vec<usize>, bound: &Dims) -> Self {
        let in_place = order.iter().filter(|&&axis| bound[axis] > 1).is_sorted();
        Self { order, in_place }
    }
}

impl Selection for Permute {
    fn window(&self, _: &PlanCx<'_>, dims: Dims) -> Result<Window, OpError> {
        let strides = dims.strides();
        let out = self.order.iter().zip(0..).fold(dims, |out, (&from, to)| out.with(to, dims[from]));
        Ok(Window::new(out, self.order.iter().map(|&axis| strides[axis].into())))
    }

    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = vec![0; dims.len()];
        self.order.iter().zip(out).for_each(|(&axis, &at)| index[axis] = at);
        Ok(index)
    }

    fn in_place(&self) -> bool {
        self.in_place
    }
}

pub(super) fn decode_permute(args: &mut Args<'_>, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
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

pub(super) fn decode_t(_: &mut Args<'_>, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    match info.bound.len() {
        rank @ 0..=2 => Ok(Box::new(Permute::new((0..rank).rev().collect(), &info.bound))),
        _ => Err(OpError::new("self", format!("is {}, expected at most two dimensions", info.bound))),
    }
}

/// Some dimensions from their end.
#[derive(Debug)]
struct Flip {
    axes: Vec<usize>,
    in_place: bool,
}

impl Selection for Flip {
    fn window(&self, _: &PlanCx<'_>, dims: Dims) -> Result<Window, OpError> {
        let strides = dims.strides();
        let mut steps = strides.map(i64::from);
        self.axes.iter().for_each(|&axis| steps[axis] = -steps[axis]);
        // The last of each dimension comes first. Without elements nothing does.
        let first = self.axes.iter().map(|&axis| dims[axis].saturating_sub(1).saturating_mul(strides[axis]));
        let first = first.fold(0, u32::saturating_add);
        Ok(Window::new(dims, steps).starting_at(first, 1, None))
    }

    fn source(&self, _: &PlanCx<'_>, dims: &Dims, out: &[u32]) -> Result<Vec<u32>, OpError> {
        let mut index = out.to_vec();
        self.axes.iter().for_each(|&axis| index[axis] = dims[axis] - 1 - index[axis]);
        Ok(index)
    }

    fn in_place(&self) -> bool {
        self.in_place
    }
}

pub(super) fn decode_flip(args: &mut Args<'_>, info: TensorInfo) -> Result<Box<dyn Selection>, OpError> {
    let mut axes = distinct_axes(args, "dims", info.bound.len())?;
    // A single number may be turned around, and has no dimension.
    axes.retain(|&axis| axis < info.bound.len());
    let in_place = axes.iter().all(|&axis| info.bound[axis] <= 1);
    Ok(Box::new(Flip { axes, in_place }))
}
