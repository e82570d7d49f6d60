//! Gathers: elements or slices of a tensor by index.
//!
//! An output element has a strided offset into the source and one into the indices, and the index found there adds an offset along one
//! dimension of the source.

use super::strides::Axis;
use super::{BY_INDEX, ELEMENTS, Params, VEC4};
use crate::args::Args;
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::KernelDef;
use crate::live::TensorId;
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::row_axes::RowAxes;
use crate::shape::Dims;

/// The kernels of every gather.
pub(crate) const KERNELS: &[&KernelDef] = &[&VEC4, &ELEMENTS];

/// The names of the table and of its indices in embedding operators.
pub(crate) const EMBEDDING_NAMES: [&str; 2] = ["weight", "indices"];

/// A gather from a tensor along one dimension.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) from: TensorId,
    pub(crate) index: TensorId,
    pub(crate) axis: usize,
    pub(crate) mode: GatherMode,
    /// Whether negative indices count from the end.
    pub(crate) from_end: bool,
    pub(crate) elem: Elem,
    pub(crate) out: TensorId,
    /// The operator's names of `from` and `index`.
    pub(crate) names: [&'static str; 2],
}

/// The elements that one index selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatherMode {
    /// One element of the output, at the index's own position.
    Elements,
    /// A slice along the other dimensions; the indices' dims replace the dimension.
    Slices,
    /// A slice, with the indices flattened to one dimension.
    FlatSlices,
}

/// The dims of a tensor with one dimension replaced by those of the indices. `names` are the operator's names of both.
///
/// # Errors
/// Too many dimensions, or indices into an empty dimension.
pub(crate) fn sliced_dims(names: [&'static str; 2], from: &Dims, axis: usize, index: &Dims) -> Result<Dims, OpError> {
    if from[axis] == 0 && index.count() > 0 {
        return Err(OpError::new(names[0], format!("is {from}, with zero elements to choose from in dimension {axis}")));
    }
    let sizes = from[..axis].iter().chain(index.iter()).chain(&from[axis + 1..]).copied().map(i64::from);
    Dims::from_sizes(sizes).ok_or_else(|| OpError::new(names[1], format!("is {index}, too many dimensions for {from}")))
}

impl Gather {
    /// Decodes the output, which is the last argument.
    pub(crate) fn new(
        args: &mut Args<'_>,
        from: TensorId,
        axis: usize,
        index: TensorId,
        mode: GatherMode,
    ) -> Result<Self, OpError> {
        let elem = args.info(from).elem;
        let out = args.output_of("out", elem)?;
        Ok(Self { from, index, axis, mode, from_end: false, elem, out, names: ["self", "index"] })
    }

    pub(crate) fn into_op(self) -> Box<dyn Op> {
        Box::new(self)
    }

    /// The dims of `self` (a scalar as one element), of the indices as the kernel sees them, and of the output.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, Dims, Dims), OpError> {
        let one = |dims: Dims| Dims::new(&[dims.count_u32()]).unwrap_or(dims);
        let (own, index) = (cx.dims(self.from), cx.dims(self.index));
        let from = if own.is_empty() { one(own) } else { own };
        match self.mode {
            GatherMode::Elements => self.check_each(&from, &index).map(|()| (from, index, index)),
            GatherMode::Slices => Ok((from, index, sliced_dims(self.names, &from, self.axis, &index)?)),
            GatherMode::FlatSlices if own.is_empty() && index.count() != 1 => {
                Err(OpError::new("index", format!("is {index}, but a single number takes one index")))
            }
            GatherMode::FlatSlices => {
                let out = sliced_dims(self.names, &from, self.axis, &one(index))?;
                Ok((from, one(index), if own.is_empty() { own } else { out }))
            }
        }
    }

    /// Checks that there is an element for each index.
    fn check_each(&self, from: &Dims, index: &Dims) -> Result<(), OpError> {
        if index.count() == 0 {
            return Ok(());
        }
        if from[self.axis] == 0 {
            let reason = format!("is {from}, with zero elements to choose from in dimension {}", self.axis);
            return Err(OpError::new(self.names[0], reason));
        }
        let within = |(axis, &dim): (usize, &u32)| axis == self.axis || dim <= from[axis];
        if index.len().max(1) != from.len() || !index.iter().enumerate().all(within) {
            let reason = format!("is {index}, expected at most {from} apart from dimension {}", self.axis);
            return Err(OpError::new(self.names[1], reason));
        }
        Ok(())
    }

    /// The output's axes, outermost first, with their strides in `self` and in the indices.
    fn axes(&self, from: &Dims, index: &Dims) -> Vec<Axis> {
        let own = |axis: usize| i64::from(from.strides()[axis]);
        let along = |axis: usize| Axis { dim: from[axis], strides: [own(axis), 0] };
        let strides = index.strides();
        let by_index = (0..index.len()).map(|axis| Axis { dim: index[axis], strides: [0, strides[axis].into()] });
        if self.mode == GatherMode::Elements {
            let moved = |(axis, each): (usize, Axis)| match axis {
                _ if axis == self.axis => each,
                _ => Axis { strides: [own(axis), each.strides[1]], ..each },
            };
            return by_index.enumerate().map(moved).collect();
        }
        (0..self.axis).map(along).chain(by_index).chain((self.axis + 1..from.len()).map(along)).collect()
    }
}

impl Op for Gather {
    fn row_axis(&self, rows: &RowAxes<'_>) -> Option<usize> {
        let axis = rows.axis(self.index).filter(|_| rows.axis(self.from).is_none())?;
        match self.mode {
            GatherMode::Elements => None,
            GatherMode::Slices => Some(self.axis + axis),
            GatherMode::FlatSlices => (rows.bound(self.index).len() == 1).then_some(self.axis),
        }
    }

    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of(BY_INDEX.recipes(self.elem, self.from, self.index.into(), self.out)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (from, index, dims) = self.dims(cx)?;
        if dims.count() == 0 {
            return Ok(Plan::new(self.out, dims, None));
        }
        let index_stride = from.strides()[self.axis];
        let limit = from[self.axis];
        let given = Params { limit, wrap: if self.from_end { limit } else { 0 }, index_stride, ..Params::default() };
        let (step, _) = BY_INDEX.dispatch(self.elem, (&self.axes(&from, &index), index_stride.into()), given)?;
        Ok(Plan::new(self.out, dims, step))
    }

    #[cfg(any(test, feature = "reference"))]
    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (from, index, dims) = self.dims(cx)?;
        let limit = i64::from(from[self.axis]);
        let resolved = |at: usize| {
            let value = i64::from(tensors.i32(self.index)[at]);
            let value = if self.from_end && value < 0 { value + limit } else { value };
            u32::try_from(value.clamp(0, limit - 1)).unwrap_or(0)
        };
        let offset = |mut at: Vec<u32>| {
            if self.mode == GatherMode::Elements {
                let element = resolved(broadcast_offset(&index, &at));
                at.resize(from.len(), 0);
                at[self.axis] = element;
            } else {
                at.resize(from.len() + index.len() - 1, 0);
                let named = at.splice(self.axis..self.axis + index.len(), [0]).collect::<Vec<u32>>();
                at[self.axis] = resolved(broadcast_offset(&index, &named));
            }
            broadcast_offset(&from, &at)
        };
        let offsets: Vec<usize> = indices(&dims).map(offset).collect();
        let Some(source) = tensors.get(self.from) else { return Ok(()) };
        let data = source.data.gather(&offsets);
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
