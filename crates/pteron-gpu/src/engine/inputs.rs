//! Tensors on the host, as calls take and return them, and the checks of a call's inputs.

use std::borrow::Cow;
use std::sync::PoisonError;

use pteron_format::adapter::LoraAdapter;

use super::load::LoadedGraph;
use super::state::State;
use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, Elem, Role};
use crate::live::{Live, TensorId};
use crate::sequences::{self, AdapterSlots, PagedTiling};
use crate::shape::Dims;

/// A tensor on the host: its shape, element type and contiguous little-endian bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorData<'a> {
    /// The live shape.
    pub dims: Dims,
    /// The element type.
    pub elem: Elem,
    /// The elements, without padding.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> TensorData<'a> {
    /// Borrows elements as bytes.
    #[must_use]
    pub fn new(dims: Dims, elem: Elem, bytes: &'a [u8]) -> Self {
        Self { dims, elem, bytes: Cow::Borrowed(bytes) }
    }

    /// Borrows 32-bit floats.
    #[must_use]
    pub fn f32(dims: Dims, values: &'a [f32]) -> Self {
        Self::new(dims, Elem::F32, bytemuck::cast_slice(values))
    }

    /// Borrows 32-bit integers.
    #[must_use]
    pub fn i32(dims: Dims, values: &'a [i32]) -> Self {
        Self::new(dims, Elem::I32, bytemuck::cast_slice(values))
    }

    /// The elements as 32-bit integers, if they are such; copied only where the bytes are not aligned.
    fn i32_values(&self) -> Option<Cow<'_, [i32]>> {
        let aligned = || bytemuck::try_cast_slice(&self.bytes).map(Cow::Borrowed);
        let values = || aligned().unwrap_or_else(|_| Cow::Owned(bytemuck::pod_collect_to_vec(&self.bytes)));
        (self.elem == Elem::I32).then(values)
    }

    /// The number of bytes that the shape and element type require.
    fn expected_bytes(&self) -> u64 {
        self.dims.count().saturating_mul(element_bytes(self.elem))
    }
}

/// Bytes of one element on the host, without padding.
pub(super) fn element_bytes(elem: Elem) -> u64 {
    match elem {
        Elem::F32 | Elem::I32 => 4,
        Elem::F16 => 2,
        Elem::U8 | Elem::I8 | Elem::Bool => 1,
    }
}

/// An input of a call.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Elements from the host.
    Data(TensorData<'a>),
    /// The output that the state's last call fed back into this input
    /// ([`LoadOptions::feedback`](super::LoadOptions::feedback)), with the shape to read it in.
    Feedback(Dims),
}

impl<'a> From<TensorData<'a>> for Input<'a> {
    fn from(data: TensorData<'a>) -> Self {
        Self::Data(data)
    }
}

impl Input<'_> {
    pub(super) fn dims(&self) -> Dims {
        match self {
            Self::Data(data) => data.dims,
            Self::Feedback(dims) => *dims,
        }
    }

    /// Some rows along the first dimension, which has as many.
    pub(super) fn rows(&self, start: u32, rows: u32) -> Input<'_> {
        let dims = self.dims();
        let row = self.bytes().len() / dims.first().map_or(1, |&all| all.max(1) as usize);
        let bytes = self.bytes().get(start as usize * row..).and_then(|bytes| bytes.get(..rows as usize * row));
        match self {
            Self::Data(data) => Input::Data(TensorData::new(dims.with(0, rows), data.elem, bytes.unwrap_or_default())),
            Self::Feedback(_) => Input::Feedback(dims.with(0, rows)),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Data(data) => &data.bytes,
            Self::Feedback(_) => &[],
        }
    }

    /// Its integers, if they are on the host.
    pub(super) fn i32_values(&self) -> Option<Cow<'_, [i32]>> {
        match self {
            Self::Data(data) => data.i32_values(),
            Self::Feedback(_) => None,
        }
    }
}

/// Checks the number of a call's inputs. `fail` turns the index of the first missing or surplus input, and the rest of a
/// sentence about it, into an error.
///
/// # Errors
/// A number other than `needed`.
pub fn check_input_count<E>(given: usize, needed: usize, fail: impl FnOnce(usize, String) -> E) -> Result<(), E> {
    if given == needed {
        return Ok(());
    }
    Err(fail(given.min(needed), format!("is missing or too many: {given} came, {needed} are needed")))
}

/// Whether a kernel reads an input; a position may be used by the host's plans alone.
pub(super) fn on_device(graph: &DecodedGraph, input: TensorId) -> bool {
    let read = |node: &crate::graph::Node| {
        let flow = &node.flow;
        let count = |list: &[TensorId]| list.iter().filter(|&&tensor| tensor == input).count();
        // An operator that takes an input for its plan and for its kernels reads it twice.
        count(&flow.reads) > count(&flow.host_reads) || flow.mutates.contains(&input)
    };
    graph.outputs.contains(&input) || graph.nodes.iter().any(read)
}

impl LoadedGraph {
    /// The tiling of work lists, for a graph [rewritten](crate::sequences) for rows of many sequences.
    ///
    /// # Errors
    /// A graph without paged attention.
    pub fn paged_tiling(&self) -> Result<PagedTiling> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        sequences::tiling(&self.graph, current.planned.bounds(), current.planned.caps())
    }

    /// The slots for low-rank adapters, for a graph [rewritten](crate::sequences) for them.
    #[must_use]
    pub fn adapter_slots(&self) -> AdapterSlots<'_> {
        AdapterSlots::of(&self.graph)
    }

    /// Writes a low-rank adapter into a slot. Calls that have been started do not see it; calls that are started later do.
    ///
    /// # Errors
    /// An adapter that does not fit, before anything is written, or a device that fails.
    pub fn write_adapter(&self, slot: u32, adapter: &LoraAdapter) -> Result<()> {
        self.gpu.check()?;
        self.adapter_slots().write(slot, adapter, &mut |tensor, at, bytes| {
            let region = match self.graph.role(tensor) {
                Role::Constant(constant) => self.buffers.constants.get(&constant),
                _ => None,
            };
            let end = at.saturating_add(bytes.len() as u64);
            let Some(region) = region.filter(|region| end <= region.len) else {
                return Err(Error::Device(format!("tensor {tensor} has no buffer of {end} bytes for an adapter")));
            };
            // The queue writes after what has been submitted, and before what is submitted next.
            self.gpu.inner.queue.write_buffer(&region.buffer, region.start + at, bytes);
            Ok(())
        })?;
        self.gpu.check()
    }

    /// Checks everything about inputs that does not depend on a plan.
    pub(super) fn check_inputs(&self, state: &State, inputs: &[Input<'_>]) -> Result<()> {
        check_input_count(inputs.len(), self.graph.inputs.len(), |index, reason| Error::Input { index, reason })?;
        for (index, (input, &tensor)) in inputs.iter().zip(&self.graph.inputs).enumerate() {
            let fail = |reason: String| Err(Error::Input { index, reason });
            match input {
                Input::Data(data) => {
                    let elem = self.graph.info(tensor).elem;
                    let bytes = |elem| matches!(elem, Elem::U8 | Elem::I8 | Elem::Bool);
                    if data.elem != elem && !(bytes(data.elem) && bytes(elem)) {
                        return fail(format!("holds {:?}, but the graph takes {elem:?}", data.elem));
                    }
                    if data.bytes.len() as u64 != data.expected_bytes() {
                        let (len, elem) = (data.bytes.len(), data.elem);
                        return fail(format!("has {len} bytes, but {elem:?} {} has {}", data.dims, data.expected_bytes()));
                    }
                }
                Input::Feedback(dims) => match state.fed_elements(index) {
                    Some(fed) if fed == dims.count() => {}
                    Some(fed) => return fail(format!("is to be read as {dims}, but {fed} elements were fed back")),
                    None => return fail("takes a fed-back value, but no call of this state has fed one back".to_owned()),
                },
            }
        }
        Ok(())
    }

    /// Checks that integers which index a tensor are within its live shape.
    pub(super) fn check_indices(&self, inputs: &[Input<'_>], live: &Live) -> Result<()> {
        for lookup in self.graph.nodes.iter().flat_map(|node| &node.flow.index_inputs) {
            let Some(index) = self.graph.inputs.iter().position(|&input| input == lookup.indices) else { continue };
            let Some(values) = inputs[index].i32_values() else { continue };
            let (start, end) = lookup.range(&live.dims(lookup.of));
            if let Some(bad) = values.iter().find(|&&value| !(start..end).contains(&value.into())) {
                return Err(Error::Input { index, reason: format!("holds {bad}, allowed is {start} to {}", end - 1) });
            }
        }
        Ok(())
    }
}
