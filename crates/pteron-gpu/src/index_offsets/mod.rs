//! Several index tensors as one: each broadcast index of a list names elements of a tensor by an offset, which kernels that gather or
//! scatter by one index then use.

use crate::args::{Args, IndexInput};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::params;
use crate::plan::{Bind, BoundsCx, Dispatch, PlanCx, Recipe};
#[cfg(any(test, feature = "reference"))]
use crate::reference::{HostTensors, broadcast_offset, indices};
use crate::shape::{Dims, MAX_RANK, broadcast, innermost_first};
use crate::strided_copy::strides::Axis;

/// Adds the offsets of one index tensor.
pub(crate) static KERNEL: KernelDef = KernelDef::new("index_offsets", include_str!("index_offsets.wgsl"), Params::FIELDS);

params! {
    /// Of `index_offsets.wgsl`.
    struct Params {
        dims: [u32; MAX_RANK], strides: [u32; MAX_RANK], rank: u32, count: u32, limit: u32, factor: u32, is_first: u32, pad: [u32; 3],
    }
}

/// Index tensors of some dimensions of a tensor; negative indices count from the end.
#[derive(Debug)]
pub(crate) struct IndexList {
    of: TensorId,
    /// Dimensions, in order, and their indices.
    list: Vec<(usize, TensorId)>,
}

/// The elements that a list of indices names.
pub(crate) struct Indexed {
    /// The dims of all indices, broadcast.
    pub(crate) indices: Dims,
    /// The dims of the elements: those of the indices replace the indexed dimensions.
    pub(crate) dims: Dims,
    /// The axes of the elements, outermost first, with their strides in the tensor and in the offsets.
    pub(crate) axes: Vec<Axis>,
    /// The elements that an offset stands for, and one more than the largest offset.
    pub(crate) unit: u32,
    pub(crate) limit: u32,
}

impl IndexList {
    /// Decodes a list of index tensors, some of which may be None.
    ///
    /// # Errors
    /// Anything but such a list of at least one tensor of integers.
    pub(crate) fn decode(args: &mut Args<'_>, of: TensorId, list: &[Option<TensorId>]) -> Result<Self, OpError> {
        let rank = args.info(of).bound.len();
        if list.len() > rank {
            return Err(OpError::new("indices", format!("has {} places, but the tensor has {rank} dimensions", list.len())));
        }
        let list: Vec<(usize, TensorId)> =
            list.iter().enumerate().filter_map(|(axis, index)| Some((axis, (*index)?))).collect();
        if list.is_empty() {
            return Err(OpError::new("indices", "has no tensor, expected at least one"));
        }
        for &(axis, indices) in &list {
            args.check_indices("indices", IndexInput { indices, of, axis, from_end: true })?;
        }
        Ok(Self { of, list })
    }

    /// The indexed dimensions and their tensors.
    pub(crate) fn list(&self) -> &[(usize, TensorId)] {
        &self.list
    }

    /// The dims of all indices, broadcast.
    fn broadcast(&self, dims: impl Fn(TensorId) -> Dims) -> Result<Dims, OpError> {
        self.list.iter().try_fold(Dims::SCALAR, |all, &(_, index)| {
            let own = dims(index);
            broadcast(&all, &own)
                .ok_or_else(|| OpError::new("indices", format!("has {own}, which cannot be broadcast with {all}")))
        })
    }

    /// # Errors
    /// Indices that cannot be broadcast, that name elements of an empty dimension, or too many dimensions.
    pub(crate) fn layout(&self, cx: &PlanCx<'_>) -> Result<Indexed, OpError> {
        let (of, indices) = (cx.dims(self.of), self.broadcast(|index| cx.dims(index))?);
        let (strides, index_strides) = (of.strides(), indices.strides());
        let is_indexed = |axis: usize| self.list.iter().any(|(indexed, _)| *indexed == axis);
        let by_index = (0..indices.len()).map(|axis| Axis { dim: indices[axis], strides: [0, index_strides[axis].into()] });
        let mut axes: Vec<Axis> = Vec::new();
        // Dims of the indices are where the indexed dimensions are, or first if others are between them.
        let (first, last) = (self.list[0].0, self.list[self.list.len() - 1].0);
        let adjacent = last - first + 1 == self.list.len();
        if !adjacent {
            axes.extend(by_index.clone());
        }
        for axis in 0..of.len() {
            if adjacent && axis == first {
                axes.extend(by_index.clone());
            }
            if !is_indexed(axis) {
                axes.push(Axis { dim: of[axis], strides: [strides[axis].into(), 0] });
            }
        }
        let dims = Dims::from_sizes(axes.iter().map(|axis| axis.dim.into()));
        let Some(dims) = dims else {
            return Err(OpError::new("indices", format!("is {indices}, too many dimensions for {of}")));
        };
        if let Some(&(axis, _)) = self.list.iter().find(|(axis, _)| of[*axis] == 0).filter(|_| indices.count() > 0) {
            return Err(OpError::new("self", format!("is {of}, with zero elements to choose from in dimension {axis}")));
        }
        let unit = strides[last].max(1);
        let reach = |&(axis, _): &(usize, TensorId)| u64::from(of[axis].saturating_sub(1)) * u64::from(strides[axis] / unit);
        let limit = self.list.iter().map(reach).sum::<u64>() + 1;
        Ok(Indexed { indices, dims, axes, unit, limit: u32::try_from(limit).unwrap_or(u32::MAX) })
    }

    /// The recipes that compute offsets in a scratch buffer, one per tensor.
    pub(crate) fn recipes(&self, scratch: usize) -> Vec<Recipe> {
        let each =
            |&(_, index): &(usize, TensorId)| Recipe::new(Variant::new(&KERNEL), [index.into(), Bind::Scratch(scratch)]);
        self.list.iter().map(each).collect()
    }

    /// Bytes of the offsets at the largest shapes.
    ///
    /// # Errors
    /// Bounds that cannot be broadcast.
    pub(crate) fn scratch(&self, cx: &BoundsCx<'_>) -> Result<u64, OpError> {
        Ok(self.broadcast(|index| cx.bound(index))?.count().saturating_mul(4).max(4))
    }

    /// The dispatches of the recipes, which start at `recipe`.
    ///
    /// # Errors
    /// More workgroups than a grid can have.
    pub(crate) fn dispatches(&self, cx: &PlanCx<'_>, indexed: &Indexed, recipe: usize) -> Result<Vec<Dispatch>, OpError> {
        let (of, all) = (cx.dims(self.of), &indexed.indices);
        let mut steps = Vec::new();
        for (number, &(axis, index)) in self.list.iter().enumerate() {
            let strides = cx.dims(index).broadcast_strides(all).unwrap_or([0; MAX_RANK]);
            let params = Params {
                dims: innermost_first(all, 1),
                strides: innermost_first(&strides[..all.len()], 0),
                rank: u32::try_from(all.len()).unwrap_or(0),
                count: all.count_u32(),
                limit: of[axis],
                factor: of.strides()[axis] / indexed.unit,
                is_first: u32::from(number == 0),
                pad: [0; 3],
            };
            steps.extend(Dispatch::items(recipe + number, &params, all.count(), 256)?);
        }
        Ok(steps)
    }

    /// The offset of each element in the tensor, on the host.
    #[cfg(any(test, feature = "reference"))]
    pub(crate) fn reference(&self, cx: &PlanCx<'_>, indexed: &Indexed, tensors: &HostTensors) -> Vec<usize> {
        let of = cx.dims(self.of);
        let strides = of.strides();
        let (before, after) = {
            let by_index = indexed.axes.iter().position(|axis| axis.strides[1] != 0 || axis.strides[0] == 0);
            let start = by_index.unwrap_or(0).min(indexed.axes.len() - indexed.indices.len());
            (start, start + indexed.indices.len())
        };
        let kept: Vec<usize> = (0..of.len()).filter(|axis| self.list.iter().all(|(indexed, _)| indexed != axis)).collect();
        let offset = |index: Vec<u32>| {
            let named = &index[before..after];
            let chosen = self.list.iter().map(|&(axis, tensor)| {
                let value = i64::from(tensors.i32(tensor)[broadcast_offset(&cx.dims(tensor), named)]);
                let dim = i64::from(of[axis]);
                let value = if value < 0 { value + dim } else { value }.clamp(0, dim - 1);
                usize::try_from(value).unwrap_or(0) * strides[axis] as usize
            });
            let rest = index[..before].iter().chain(&index[after..]).zip(&kept);
            chosen.sum::<usize>() + rest.map(|(&at, &axis)| at as usize * strides[axis] as usize).sum::<usize>()
        };
        indices(&indexed.dims).map(offset).collect()
    }
}
