//! Elements of integer inputs: numbers that the host knows before the graph runs.

use super::PlanValues;
use crate::error::Result;
use crate::graph::Elem;
use crate::ir::{Tensor, ValueId};

pub(super) const SELECT_NUMBER: &str = "et_vk.select_as_symint.default";

/// Elements of an integer input of the graph, which the host knows before the graph runs. At most one of the input's dims is not 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    input: ValueId,
    /// Its long dim.
    axis: usize,
    /// The index of a single element; all of them otherwise, in order.
    index: Option<ValueId>,
}

/// The only dim that is not 1, or the first; `None` if there are several.
fn long_axis(dims: &[u32]) -> Option<usize> {
    let mut long = dims.iter().enumerate().filter(|(_, dim)| **dim != 1).map(|(axis, _)| axis);
    let axis = long.next().unwrap_or(0);
    long.next().is_none().then_some(axis)
}

impl PlanValues<'_> {
    /// The elements of an integer input that a tensor holds.
    fn elements(&self, tensor: ValueId) -> Option<Elements> {
        if let Some(&known) = self.elements.get(&tensor) {
            return Some(known);
        }
        let own = self.builder.tensor_at(tensor)?;
        let axis = long_axis(&own.dims).filter(|_| Elem::of(own.dtype) == Some(Elem::I32))?;
        self.input_of(tensor).map(|_| Elements { input: tensor, axis, index: None })
    }

    /// Records that a tensor is one index of another along a dim.
    pub(in crate::frontend::portable) fn selected(&mut self, from: ValueId, dim: ValueId, index: ValueId, out: ValueId) {
        let Some(known) = self.elements(from) else { return };
        let dims = self.builder.tensor_at(from).map_or(&[][..], |tensor| &tensor.dims);
        let Some(axis) = self.literal(dim).and_then(|dim| crate::args::normalise(dim, dims.len())) else { return };
        let only_one = dims.get(axis) == Some(&1) && matches!(self.literal(index), Some(0 | -1));
        let known = match known.index {
            _ if only_one => known,
            None if long_axis(dims) == Some(axis) => Elements { index: Some(index), ..known },
            _ => return,
        };
        self.elements.insert(out, known);
    }

    /// Records that a tensor has the elements of another, in order.
    pub(in crate::frontend::portable) fn same_elements(&mut self, from: ValueId, out: ValueId) {
        let integers = self.builder.tensor_at(out).is_some_and(|tensor| Elem::of(tensor.dtype) == Some(Elem::I32));
        if let Some(known) = self.elements(from).filter(|_| integers) {
            self.elements.insert(out, known);
        }
    }

    /// The number that a tensor holds, if it is an element of an integer input.
    pub(in crate::frontend::portable) fn known_number(&mut self, tensor: ValueId) -> Result<Option<ValueId>> {
        let single = self.builder.tensor_at(tensor).and_then(Tensor::element_count) == Some(1);
        let Some(known) = self.elements(tensor).filter(|_| single) else { return Ok(None) };
        let axis = self.builder.int(i64::try_from(known.axis).unwrap_or(i64::MAX))?;
        let index = match known.index {
            Some(index) => index,
            None => self.builder.int(0)?,
        };
        let out = self.builder.symint()?;
        self.builder.call(SELECT_NUMBER, &[known.input, axis, index, out])?;
        Ok(Some(out))
    }
}
