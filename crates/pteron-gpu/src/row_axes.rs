//! Rows of tensors: the dim along which a tensor has one entry per row of a call, such as the tokens of many sequences or the images of a
//! batch.

use crate::graph::{TensorInfo, info};
use crate::live::TensorId;
use crate::shape::Dims;

/// The dim along which each tensor of a graph has rows, if it has any.
#[derive(Clone, Copy, Debug)]
pub struct RowAxes<'a> {
    axes: &'a [Option<usize>],
    tensors: &'a [Option<TensorInfo>],
}

impl<'a> RowAxes<'a> {
    pub(crate) fn new(axes: &'a [Option<usize>], tensors: &'a [Option<TensorInfo>]) -> Self {
        Self { axes, tensors }
    }

    /// The dim along which a tensor has rows.
    #[must_use]
    pub fn axis(&self, tensor: TensorId) -> Option<usize> {
        self.axes[tensor.index()]
    }

    /// The largest dims of a tensor.
    #[must_use]
    pub fn bound(&self, tensor: TensorId) -> Dims {
        info(self.tensors, tensor).bound
    }

    /// The dim of the output, for an operator on images: rows are a batch, along the first dim.
    #[must_use]
    pub fn batch(&self, tensor: TensorId) -> Option<usize> {
        self.axis(tensor).filter(|&axis| axis == 0)
    }

    /// The same dim of the output, for an operator that computes `inner` trailing dims of each row together and broadcasts nothing.
    #[must_use]
    pub fn outer(&self, tensor: TensorId, inner: usize) -> Option<usize> {
        self.axis(tensor).filter(|axis| axis + inner < self.bound(tensor).len())
    }

    /// The dim of the output, for an operator that broadcasts its inputs elementwise: rows of all inputs must meet.
    #[must_use]
    pub fn broadcast(&self, inputs: &[TensorId]) -> Option<usize> {
        let rank = inputs.iter().map(|&input| self.bound(input).len()).max()?;
        let own = |&input: &TensorId| self.axis(input).map(|axis| axis + rank - self.bound(input).len());
        let axis = inputs.iter().find_map(own)?;
        let meets = |input: &TensorId| match own(input) {
            Some(found) => found == axis,
            // A tensor without rows is the same for each.
            None => (axis + self.bound(*input).len()).checked_sub(rank).is_none_or(|at| self.bound(*input)[at] == 1),
        };
        inputs.iter().all(meets).then_some(axis)
    }

    /// The dim of the output of a view `[1, .., rows, ..]` that keeps the elements of each row together.
    #[must_use]
    pub fn viewed(&self, from: TensorId, out: TensorId) -> Option<usize> {
        let (axis, from, out) = (self.axis(from)?, self.bound(from), self.bound(out));
        let single = |dims: &[u32]| dims.iter().all(|&dim| dim == 1);
        let inner = |dims: &[u32]| dims.iter().map(|&dim| u64::from(dim)).product::<u64>();
        let keeps =
            |&at: &usize| single(&out[..at]) && out[at] == from[axis] && inner(&out[at + 1..]) == inner(&from[axis + 1..]);
        // With one row its dim is one of several with size 1.
        (single(&from[..axis]) && from[axis] > 1).then(|| (0..out.len()).find(keeps)).flatten()
    }
}
