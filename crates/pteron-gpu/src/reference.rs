//! Runs a graph on the host: the oracle that operators are tested against. Compiled for tests, benchmarks and fuzzers only.

use std::collections::HashMap;

use crate::error::Result;
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::resize::Planned;
use crate::shape::Dims;

/// Elements of a tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum HostData {
    /// Floats.
    F32(Vec<f32>),
    /// Integers.
    I32(Vec<i32>),
    /// Bytes, including signed bytes and Booleans, as in memory.
    U8(Vec<u8>),
}

impl HostData {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::U8(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements at these indices.
    #[must_use]
    pub fn gather(&self, indices: &[usize]) -> Self {
        match self {
            Self::F32(values) => Self::F32(indices.iter().map(|&at| values[at]).collect()),
            Self::I32(values) => Self::I32(indices.iter().map(|&at| values[at]).collect()),
            Self::U8(values) => Self::U8(indices.iter().map(|&at| values[at]).collect()),
        }
    }

    /// Concatenates elements of one type.
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut parts = parts.into_iter();
        let mut all = parts.next().cloned().unwrap_or(Self::U8(Vec::new()));
        for part in parts {
            match (&mut all, part) {
                (Self::F32(all), Self::F32(part)) => all.extend(part),
                (Self::I32(all), Self::I32(part)) => all.extend(part),
                (Self::U8(all), Self::U8(part)) => all.extend(part),
                _ => {}
            }
        }
        all
    }
}

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Its dims.
    pub dims: Dims,
    /// Its elements, contiguous.
    pub data: HostData,
}

/// The tensors of a graph on the host, by id.
#[derive(Clone, Debug, Default)]
pub struct HostTensors(HashMap<TensorId, HostTensor>);

impl HostTensors {
    /// A tensor; `None` if it has not been set.
    #[must_use]
    pub fn get(&self, tensor: TensorId) -> Option<&HostTensor> {
        self.0.get(&tensor)
    }

    /// Its floats; empty if it has none.
    #[must_use]
    pub fn f32(&self, tensor: TensorId) -> &[f32] {
        match self.get(tensor) {
            Some(HostTensor { data: HostData::F32(values), .. }) => values,
            _ => &[],
        }
    }

    /// Its integers; empty if it has none.
    #[must_use]
    pub fn i32(&self, tensor: TensorId) -> &[i32] {
        match self.get(tensor) {
            Some(HostTensor { data: HostData::I32(values), .. }) => values,
            _ => &[],
        }
    }

    /// Its bytes; empty if it has none.
    #[must_use]
    pub fn u8(&self, tensor: TensorId) -> &[u8] {
        match self.get(tensor) {
            Some(HostTensor { data: HostData::U8(values), .. }) => values,
            _ => &[],
        }
    }

    /// Sets a tensor.
    pub fn set(&mut self, tensor: TensorId, dims: Dims, data: HostData) {
        self.0.insert(tensor, HostTensor { dims, data });
    }
}

/// Runs a planned graph with each operator's reference. `tensors` holds inputs, constants and state.
///
/// # Errors
/// An argument that an operator rejects.
pub fn run(graph: &DecodedGraph, planned: &Planned, tensors: &mut HostTensors) -> Result<()> {
    for (index, node) in graph.nodes.iter().enumerate() {
        let cx = planned.cx(index);
        node.op.reference(&cx, tensors).map_err(|error| error.of(node.name, node.call))?;
    }
    Ok(())
}

/// Returns every index of a tensor, in order.
pub fn indices(dims: &Dims) -> impl Iterator<Item = Vec<u32>> + '_ {
    (0..dims.count()).map(|flat| {
        let mut rest = flat;
        let mut index = vec![0; dims.len()];
        for axis in (0..dims.len()).rev() {
            let dim = u64::from(dims[axis]);
            index[axis] = u32::try_from(rest % dim).unwrap_or(0);
            rest /= dim;
        }
        index
    })
}

/// The offset in a broadcast tensor of the element for an index of the result.
#[must_use]
pub fn broadcast_offset(dims: &Dims, index: &[u32]) -> usize {
    let lead = index.len() - dims.len();
    let position = |at: usize, axis: usize| {
        let here = if dims[axis] == 1 { 0 } else { index[lead + axis] };
        at * dims[axis] as usize + here as usize
    };
    (0..dims.len()).fold(0, position)
}
