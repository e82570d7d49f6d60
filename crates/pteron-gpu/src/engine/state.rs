//! What calls change and keep: the buffers of one conversation, and the bind groups that name them.

use std::collections::HashMap;

use wgpu::BufferUsages as Usage;

use super::buffers::{MemoryBudget, count};
use super::guards::Region;
use super::load::{LoadedGraph, bind_group};
use super::shared_budget::Reservation;
use crate::error::Result;
use crate::graph::{Graph, TensorInfo};
use crate::memory::Memory;

/// The mutable tensors of a graph (KV caches): one for each conversation.
#[derive(Debug)]
pub struct State {
    pub(super) buffers: Vec<Region>,
    /// Bind groups of the recipes that touch state, by operator and recipe.
    pub(super) groups: HashMap<(usize, usize), wgpu::BindGroup>,
    /// Its memory in what the graph counts in, given back when it is dropped.
    _reservation: Reservation,
}

/// Bytes of GPU memory that a state of a graph takes.
pub(super) fn state_bytes(graph: &Graph, memory: &Memory) -> u64 {
    let bytes = |info: TensorInfo| crate::memory::padded(info.elem.bytes(info.bound.count()));
    memory.states.iter().map(|&tensor| bytes(graph.info(tensor))).fold(0, u64::saturating_add)
}

impl LoadedGraph {
    /// Bytes of GPU memory that a state uses.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(&self.graph, &self.memory)
    }

    /// A fresh state, as the file has it.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge) where it is more than the budget or the device has left; everything else stays
    /// usable, and states that are dropped make room.
    pub fn new_state(&self) -> Result<State> {
        let reservation = self.reservation.state(&self.gpu, self.state_bytes())?;
        let mut budget = MemoryBudget::new(None);
        let mut buffers = Vec::new();
        for &tensor in &self.memory.states {
            let info = self.graph.info(tensor);
            let usage = Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC;
            buffers.push(self.gpu.storage(
                &mut budget,
                &format!("state {tensor}"),
                info.elem.bytes(info.bound.count()),
                usage,
            )?);
        }
        let mut groups = HashMap::new();
        for (node, recipes) in self.compiled.iter().enumerate() {
            for (recipe, compiled) in recipes.iter().enumerate().filter(|(_, compiled)| compiled.group.is_none()) {
                if let Some(group) = bind_group(&self.gpu, &self.buffers, compiled, &buffers) {
                    groups.insert((node, recipe), group);
                }
            }
        }
        let state = State { buffers, groups, _reservation: reservation };
        self.reset(&state)?;
        Ok(state)
    }

    /// Puts a state back to where the file starts it.
    ///
    /// # Errors
    /// A device that fails.
    pub fn reset(&self, state: &State) -> Result<()> {
        self.gpu.check()?;
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (buffer, initial) in state.buffers.iter().zip(&self.initial) {
            match initial {
                Some(initial) => buffer.copy_from(&mut encoder, (initial, 0), 0, initial.size().min(buffer.len)),
                None => buffer.clear(&mut encoder),
            }
        }
        self.submit(encoder);
        self.gpu.check()
    }

    /// A copy of a state, from where it is now.
    ///
    /// # Errors
    /// No memory for it.
    pub fn clone_state(&self, state: &State) -> Result<State> {
        let copy = self.new_state()?;
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (from, to) in state.buffers.iter().zip(&copy.buffers) {
            to.copy_from(&mut encoder, (&from.buffer, from.start), 0, from.len);
        }
        self.submit(encoder);
        self.gpu.check()?;
        Ok(copy)
    }

    pub(super) fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        count(&self.gpu.inner.counters.submits, 1);
        self.gpu.inner.queue.submit([encoder.finish()])
    }
}
