//! Elements by index: one for each index, or all that one names. A row of `TABLE` is an operator.
//!
//! The copy kernels do it (`copy::strided`): an output in order walks the source and the indices at once, and the index that
//! it comes by moves it along one dimension of the source.

#[cfg(test)]
mod tests;

use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::graph::Elem;
use crate::kernel::KernelDef;
use crate::live::TensorId;
use crate::ops::copy::axes::Axis;
use crate::ops::copy::strided::{ITEMS, LANES, PICKED, Params};
use crate::ops::{OpDef, names};
use crate::plan::{BoundsCx, Op, Plan, PlanCx, Recipes};
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::shape::Dims;

/// The family: names, and how arguments become an operator.
const TABLE: &[(&str, Decode)] = &[
    ("aten.gather.default", decode_gather),
    ("aten.index_select.default", decode_index_select),
    ("aten.index.Tensor", decode_index),
];

type Decode = fn(&mut Args<'_>) -> Result<Pick, OpError>;

static NAMES: [&str; TABLE.len()] = names(TABLE);

/// What an operator that picks runs.
pub(crate) const KERNELS: &[&KernelDef] = &[&ITEMS, &LANES];

/// The registry entry of the whole family.
pub static DEF: OpDef = OpDef { names: &NAMES, internal: &[], kernels: KERNELS, decode };

fn decode(args: &mut Args<'_>) -> Result<Box<dyn Op>, OpError> {
    let name = args.operator();
    let Some((_, decode)) = TABLE.iter().find(|(row, _)| *row == name) else {
        return Err(OpError::new("self", "is of no known family"));
    };
    decode(args).map(Pick::into_op)
}

/// What an operator picks from, and what names it.
#[derive(Debug)]
pub(crate) struct Pick {
    pub(crate) from: TensorId,
    pub(crate) index: TensorId,
    pub(crate) axis: usize,
    pub(crate) how: How,
    /// Whether negative indices count from the end.
    pub(crate) from_end: bool,
    pub(crate) elem: Elem,
    pub(crate) out: TensorId,
    /// What the operator calls `from` and `index`.
    pub(crate) names: [&'static str; 2],
}

/// What an index stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// One element, at the place of the index in the output.
    Each,
    /// Every element along the other dimensions; the indices' dims stand where the dimension was.
    Slices,
    /// The same, with one dimension for the indices, whatever their dims.
    Row,
}

fn decode_gather(args: &mut Args<'_>) -> Result<Pick, OpError> {
    let from = args.tensor("self")?;
    let axis = args.axis("dim", args.info(from).bound.len())?;
    let index = args.index_tensor("index", from, axis)?;
    // Changes gradients alone.
    args.ignore("sparse_grad")?;
    Pick::new(args, from, axis, index, How::Each)
}

fn decode_index_select(args: &mut Args<'_>) -> Result<Pick, OpError> {
    let from = args.tensor("self")?;
    let axis = args.axis("dim", args.info(from).bound.len())?;
    let index = args.index_tensor("index", from, axis)?;
    let bound = args.info(index).bound;
    if bound.len() > 1 {
        return Err(OpError::new("index", format!("is {bound}, expected one dimension")));
    }
    Pick::new(args, from, axis, index, How::Row)
}

fn decode_index(args: &mut Args<'_>) -> Result<Pick, OpError> {
    let from = args.tensor("self")?;
    let rank = args.info(from).bound.len();
    let list = args.optional_tensors("indices")?;
    let mut given = list.iter().enumerate().filter_map(|(axis, index)| Some((axis, (*index)?)));
    let (Some((axis, index)), None) = (given.next(), given.next()) else {
        let count = list.iter().flatten().count();
        return Err(OpError::new("indices", format!("has {count} tensors, only one and otherwise None is supported")));
    };
    if list.len() > rank {
        return Err(OpError::new("indices", format!("has {} places, but the tensor has {rank} dimensions", list.len())));
    }
    args.use_indices("indices", IndexInput { indices: index, of: from, axis, from_end: true })?;
    let pick = Pick::new(args, from, axis, index, How::Slices)?;
    Ok(Pick { from_end: true, names: ["self", "indices"], ..pick })
}

/// The dims of a tensor with those of indices in place of one. `names` are what the operator calls them.
///
/// # Errors
/// Too many dimensions, or indices of nothing.
pub(crate) fn sliced_dims(names: [&'static str; 2], from: &Dims, axis: usize, index: &Dims) -> Result<Dims, OpError> {
    if from[axis] == 0 && index.count() > 0 {
        return Err(OpError::new(names[0], format!("is {from}, with zero elements to choose from in dimension {axis}")));
    }
    let sizes = from[..axis].iter().chain(index.iter()).chain(&from[axis + 1..]).copied().map(i64::from);
    Dims::from_sizes(sizes).ok_or_else(|| OpError::new(names[1], format!("is {index}, too many dimensions for {from}")))
}

impl Pick {
    /// The rest of the arguments is the output.
    pub(crate) fn new(args: &mut Args<'_>, from: TensorId, axis: usize, index: TensorId, how: How) -> Result<Self, OpError> {
        let elem = args.info(from).elem;
        let out = args.output_of("out", elem)?;
        Ok(Self { from, index, axis, how, from_end: false, elem, out, names: ["self", "index"] })
    }

    pub(crate) fn into_op(self) -> Box<dyn Op> {
        Box::new(self)
    }

    /// `self`, with a dimension even where it is a single number, the indices as they are walked, and the output's dims.
    fn dims(&self, cx: &PlanCx<'_>) -> Result<(Dims, Dims, Dims), OpError> {
        let one = |dims: Dims| Dims::new(&[dims.count_u32()]).unwrap_or(dims);
        let (own, index) = (cx.dims(self.from), cx.dims(self.index));
        let from = if own.is_empty() { one(own) } else { own };
        match self.how {
            How::Each => self.check_each(&from, &index).map(|()| (from, index, index)),
            How::Slices => Ok((from, index, sliced_dims(self.names, &from, self.axis, &index)?)),
            How::Row if own.is_empty() && index.count() != 1 => {
                Err(OpError::new("index", format!("is {index}, but a single number takes one index")))
            }
            How::Row => {
                let out = sliced_dims(self.names, &from, self.axis, &one(index))?;
                Ok((from, one(index), if own.is_empty() { own } else { out }))
            }
        }
    }

    /// Whether there is an element for each index.
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

    /// The output's axes, outermost first, with their steps in `self` and among the indices.
    fn axes(&self, from: &Dims, index: &Dims) -> Vec<Axis> {
        let own = |axis: usize| i64::from(from.strides()[axis]);
        let along = |axis: usize| Axis { dim: from[axis], steps: [own(axis), 0] };
        let strides = index.strides();
        let by_index = (0..index.len()).map(|axis| Axis { dim: index[axis], steps: [0, strides[axis].into()] });
        if self.how == How::Each {
            let moved = |(axis, each): (usize, Axis)| match axis {
                _ if axis == self.axis => each,
                _ => Axis { steps: [own(axis), each.steps[1]], ..each },
            };
            return by_index.enumerate().map(moved).collect();
        }
        (0..self.axis).map(along).chain(by_index).chain((self.axis + 1..from.len()).map(along)).collect()
    }
}

impl Op for Pick {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of(PICKED.recipes(self.elem, self.from, self.index.into(), self.out)))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let (from, index, dims) = self.dims(cx)?;
        if dims.count() == 0 {
            return Ok(Plan::new(self.out, dims, None));
        }
        let pitch = from.strides()[self.axis];
        let limit = from[self.axis];
        let given = Params { limit, wrap: if self.from_end { limit } else { 0 }, pitch, ..Params::default() };
        let (step, _) = PICKED.dispatch(self.elem, (&self.axes(&from, &index), pitch.into()), given)?;
        Ok(Plan::new(self.out, dims, step))
    }

    fn reference(&self, cx: &PlanCx<'_>, tensors: &mut HostTensors) -> Result<(), OpError> {
        let (from, index, dims) = self.dims(cx)?;
        let limit = i64::from(from[self.axis]);
        let picked = |at: usize| {
            let value = i64::from(tensors.i32(self.index)[at]);
            let value = if self.from_end && value < 0 { value + limit } else { value };
            u32::try_from(value.clamp(0, limit - 1)).unwrap_or(0)
        };
        let place = |mut at: Vec<u32>| {
            if self.how == How::Each {
                let element = picked(broadcast_offset(&index, &at));
                at.resize(from.len(), 0);
                at[self.axis] = element;
            } else {
                at.resize(from.len() + index.len() - 1, 0);
                let named = at.splice(self.axis..self.axis + index.len(), [0]).collect::<Vec<u32>>();
                at[self.axis] = picked(broadcast_offset(&index, &named));
            }
            broadcast_offset(&from, &at)
        };
        let places: Vec<usize> = indices(&dims).map(place).collect();
        let Some(source) = tensors.get(self.from) else { return Ok(()) };
        let data = source.data.at(&places);
        tensors.set(self.out, dims, data);
        Ok(())
    }
}
