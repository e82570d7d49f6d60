//! A second output of a pipelined call: its first elements, as many as the call asks for.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::buffers::{BufferRequest, MemoryBudget};
use super::call::CurrentPlan;
use super::device::Gpu;
use super::guards::Region;
use super::inputs::TensorData;
use super::load::LoadedGraph;
use crate::error::{Error, Result};
use crate::graph::Elem;
use crate::live::TensorId;
use crate::shape::Dims;

/// The first elements of a second output that a call reads back: the output, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstElements {
    /// The output, by index.
    pub output: usize,
    /// The number of elements, at least 1.
    pub count: u64,
}

/// Buffers that no call in flight uses. They are created when a call first asks for as many elements.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeBuffers(Arc<Mutex<Vec<wgpu::Buffer>>>);

/// The copy of a second output's first elements. Its buffer is free again when this is dropped.
#[derive(Debug)]
pub(super) struct SecondReadback {
    free: FreeBuffers,
    buffer: wgpu::Buffer,
    count: u64,
    elem: Elem,
}

impl FreeBuffers {
    /// Takes a buffer that is large enough, or creates one.
    fn take(&self, gpu: &Gpu, bytes: u64) -> Result<wgpu::Buffer> {
        let mut free = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = free.iter().position(|buffer| buffer.size() >= bytes) {
            return Ok(free.swap_remove(index));
        }
        // The larger one takes the place of a smaller one.
        free.pop();
        drop(free);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let request = BufferRequest::new("readback of first elements", bytes.next_power_of_two(), usage);
        request.make(gpu, &mut MemoryBudget::new(None))
    }
}

impl SecondReadback {
    /// The bytes that are copied and mapped, in whole words.
    fn padded_bytes(&self) -> u64 {
        padded_bytes(self.elem, self.count)
    }

    pub(super) fn copy_from(&self, encoder: &mut wgpu::CommandEncoder, source: &Region) {
        source.copy_to(encoder, (&self.buffer, 0), self.padded_bytes());
    }

    pub(super) async fn read(&self, gpu: &Gpu, submission: Option<wgpu::SubmissionIndex>) -> Result<Option<Arc<[u8]>>> {
        let bytes = self.elem.bytes(self.count);
        let read = |view: &[u8]| usize::try_from(bytes).ok().and_then(|end| Some(view.get(..end)?.into()));
        gpu.read_mapped(&self.buffer, self.padded_bytes(), submission, read).await
    }

    pub(super) fn tensor(&self, bytes: &[u8]) -> Option<TensorData<'static>> {
        let dims = Dims::new(&[u32::try_from(self.count).ok()?])?;
        Some(TensorData { dims, elem: self.elem, bytes: Cow::Owned(bytes.to_vec()) })
    }
}

impl Drop for SecondReadback {
    fn drop(&mut self) {
        self.free.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.buffer.clone());
    }
}

fn padded_bytes(elem: Elem, count: u64) -> u64 {
    elem.bytes(count).next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)
}

impl LoadedGraph {
    /// A buffer for the first elements of an output of the call that was planned, and the output.
    pub(super) fn second_readback(&self, current: &CurrentPlan, first: FirstElements) -> Result<(TensorId, SecondReadback)> {
        let Some(&output) = self.graph.outputs.get(first.output) else {
            return Err(Error::Misuse(format!("there is no output {} to read back", first.output)));
        };
        let elements = current.planned.live().dims(output).count();
        if first.count == 0 || first.count > elements {
            let FirstElements { output, count } = first;
            return Err(Error::Misuse(format!("output {output} has {elements} elements, but {count} are to be read back")));
        }
        let elem = self.graph.info(output).elem;
        let free = self.readbacks.second.clone();
        let buffer = free.take(&self.gpu, padded_bytes(elem, first.count))?;
        Ok((output, SecondReadback { free, buffer, count: first.count, elem }))
    }
}
