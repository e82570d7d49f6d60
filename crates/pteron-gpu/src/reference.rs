//! Runs a graph on the host: the oracle that operators are tested against. Compiled for tests, benchmarks and fuzzers only.

use std::collections::HashMap;

use crate::error::Result;
use crate::graph::{DecodedGraph, Elem};
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

    /// Converts numbers to elements of a type; integers truncate and wrap as PyTorch's do.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as documented")]
    pub fn from_numbers(elem: Elem, values: impl IntoIterator<Item = f64>) -> Self {
        let values = values.into_iter();
        match elem {
            Elem::F32 | Elem::F16 => Self::F32(values.map(|value| value as f32).collect()),
            Elem::I32 => Self::I32(values.map(|value| value as i64 as i32).collect()),
            Elem::Bool => Self::U8(values.map(|value| u8::from(value != 0.0)).collect()),
            Elem::U8 | Elem::I8 => Self::U8(values.map(|value| value as i64 as u8).collect()),
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

    /// Its elements, which have this type, as numbers.
    #[must_use]
    pub fn numbers(&self, elem: Elem, tensor: TensorId) -> Vec<f64> {
        match elem {
            Elem::F32 | Elem::F16 => self.f32(tensor).iter().map(|&value| value.into()).collect(),
            Elem::I32 => self.i32(tensor).iter().map(|&value| value.into()).collect(),
            Elem::I8 => self.u8(tensor).iter().map(|&value| value.cast_signed().into()).collect(),
            Elem::U8 | Elem::Bool => self.u8(tensor).iter().map(|&value| value.into()).collect(),
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

/// The scale and the zero point that map a block of values onto a range of integers.
pub(crate) fn block_qparams(block: &[f32], least: f32, most: f32, eps: f32) -> (f32, f32) {
    let low = block.iter().copied().fold(0.0, f32::min);
    let high = block.iter().copied().fold(0.0, f32::max);
    let scale = ((high - low) / (most - least)).max(eps);
    (scale, (least - (low / scale).round_ties_even()).clamp(least, most))
}

/// The multiplier and the zero point of XNNPACK's rule, which map a block of values onto signed bytes.
pub(crate) fn block_multiplier(block: &[f32]) -> (f32, f32) {
    let low = block.iter().copied().fold(0.0, f32::min);
    let high = block.iter().copied().fold(0.0, f32::max);
    let multiplier = if low == high { 1.0 } else { 255.0 / (high - low) };
    let (a, b) = (low * multiplier, high * multiplier);
    let zero = if (-128.0 + a) + (127.0 + b) > 0.0 { -128.0 - a } else { 127.0 - b };
    (multiplier, zero.clamp(-128.0, 127.0).round_ties_even())
}

/// A row quantised to signed bytes by its own range, as the numbers that they stand for. A smallest scale of 0 stands for XNNPACK's rule.
pub(crate) fn quantised_row(row: &[f64], eps: f32) -> Vec<f64> {
    let row: Vec<f32> = row.iter().map(|&x| crate::matmul::to_f32(x)).collect();
    if eps == crate::int8::MULTIPLIER_RULE {
        let (multiplier, zero) = block_multiplier(&row);
        let whole = |x: &f32| ((x * multiplier).round_ties_even() + zero).clamp(-128.0, 127.0) - zero;
        return row.iter().map(|x| f64::from(whole(x)) * f64::from(1.0 / multiplier)).collect();
    }
    let (scale, zero) = block_qparams(&row, -128.0, 127.0, eps);
    let whole = |x: &f32| ((x * (1.0 / scale)).round_ties_even() + zero).clamp(-128.0, 127.0) - zero;
    row.iter().map(|x| f64::from(whole(x)) * f64::from(scale)).collect()
}
