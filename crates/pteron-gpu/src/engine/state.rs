//! The tensors that calls change and keep, and the bind groups that refer to them.

use std::collections::HashMap;
use std::sync::Arc;

use super::binding::bind_group;
use super::buffers::{MemoryBudget, STORAGE, count};
use super::feedback::FeedbackEdge;
use super::guards::Region;
use super::load::LoadedGraph;
use super::shared_budget::Reservation;
use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, TensorInfo};
use crate::memory::Memory;

/// The mutable tensors of a graph, such as KV caches, and its fed-back inputs. Calls on different states may be in flight at the
/// same time, in any order.
#[derive(Debug)]
pub struct State {
    pub(super) buffers: StateBuffers,
    /// Bind groups of the recipes that touch the state, by operator and recipe.
    pub(super) groups: HashMap<(usize, usize), wgpu::BindGroup>,
    /// Bind groups of the handoffs between calls of a group.
    pub(super) handoffs: Vec<wgpu::BindGroup>,
    /// The number of elements the last call fed back, by feedback edge.
    pub(super) fed: Vec<Option<u64>>,
    /// The input of each feedback edge.
    fed_inputs: Vec<usize>,
    /// The graph that it belongs to.
    graph: Arc<()>,
    /// Its memory in the graph's budget, given back when it is dropped.
    _reservation: Reservation,
}

/// The buffers of a state.
#[derive(Clone, Debug, Default)]
pub(super) struct StateBuffers {
    /// Mutable tensors, by index.
    pub(super) tensors: Vec<Region>,
    /// Inputs that outputs are fed back into, by index of the graph's inputs.
    pub(super) inputs: HashMap<usize, Region>,
}

impl State {
    /// Whether the last call on this state fed a value back into an input of the graph.
    #[must_use]
    pub fn has_feedback(&self, input: usize) -> bool {
        self.fed_elements(input).is_some()
    }

    /// The number of elements the last call fed back into an input.
    pub(super) fn fed_elements(&self, input: usize) -> Option<u64> {
        self.fed_inputs.iter().position(|&fed| fed == input).and_then(|edge| self.fed[edge])
    }
}

/// Bytes of GPU memory that the mutable tensors of a graph take, per state.
pub(super) fn tensor_bytes(graph: &DecodedGraph, memory: &Memory) -> u64 {
    let bytes = |info: TensorInfo| crate::memory::padded(info.elem.bytes(info.bound.count()));
    memory.states.iter().map(|&tensor| bytes(graph.info(tensor))).fold(0, u64::saturating_add)
}

/// Bytes of GPU memory that a state of a graph takes.
pub(super) fn state_bytes(graph: &DecodedGraph, memory: &Memory, feedback: &[FeedbackEdge]) -> u64 {
    let fed = feedback.iter().map(|edge| crate::memory::padded(edge.request.size));
    fed.fold(tensor_bytes(graph, memory), u64::saturating_add)
}

/// Bytes of the largest of a state's tensors.
pub(super) fn largest_state_bytes(graph: &DecodedGraph, memory: &Memory) -> u64 {
    let bytes = memory.states.iter().map(|&tensor| graph.info(tensor).elem.bytes(graph.info(tensor).bound.count()));
    bytes.max().unwrap_or(0)
}

impl LoadedGraph {
    /// Bytes of the largest of a state's tensors.
    #[must_use]
    pub fn largest_state_bytes(&self) -> u64 {
        largest_state_bytes(&self.graph, &self.memory)
    }

    /// Bytes of GPU memory that a state uses.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        state_bytes(&self.graph, &self.memory, &self.feedback)
    }

    /// Bytes of GPU memory of a state's mutable tensors, without its fed-back inputs.
    #[must_use]
    pub fn state_tensor_bytes(&self) -> u64 {
        tensor_bytes(&self.graph, &self.memory)
    }

    /// Creates a state with the initial values of the file.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if it needs more than the budget or the device has left; everything else stays usable, and
    /// dropping other states frees memory.
    pub fn new_state(&self) -> Result<State> {
        let reservation = self.reservation.state(&self.gpu, self.state_bytes())?;
        let mut budget = MemoryBudget::new(None);
        let mut buffers = StateBuffers::default();
        for &tensor in &self.memory.states {
            let info = self.graph.info(tensor);
            let (label, size) = (format!("state {tensor}"), info.elem.bytes(info.bound.count()));
            buffers.tensors.push(self.gpu.storage(&mut budget, &label, size, STORAGE)?);
        }
        for edge in &self.feedback {
            buffers.inputs.insert(edge.input, edge.request.make_storage(&self.gpu, &mut budget)?);
        }
        let mut groups = HashMap::new();
        for (node, recipes) in self.compiled.iter().enumerate() {
            for (recipe, compiled) in recipes.iter().enumerate().filter(|(_, compiled)| compiled.group.is_none()) {
                if let Some(group) = bind_group(&self.gpu, &self.buffers, compiled, Some(&buffers)) {
                    groups.insert((node, recipe), group);
                }
            }
        }
        let (fed, fed_inputs) = (vec![None; self.feedback.len()], self.feedback.iter().map(|edge| edge.input).collect());
        let graph = Arc::clone(&self.identity);
        let handoffs =
            self.handoff.as_ref().and_then(|handoff| handoff.bind(&self.gpu, &self.buffers, &self.memory, &buffers));
        let handoffs = handoffs.unwrap_or_default();
        let mut state = State { buffers, groups, handoffs, fed, fed_inputs, graph, _reservation: reservation };
        self.reset(&mut state)?;
        Ok(state)
    }

    /// Resets a state to its initial values.
    ///
    /// # Errors
    /// A state of another graph, or a device that fails.
    pub fn reset(&self, state: &mut State) -> Result<()> {
        self.check_state(state)?;
        self.gpu.check()?;
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (buffer, initial) in state.buffers.tensors.iter().zip(&self.initial) {
            match initial {
                Some(initial) => buffer.copy_from(&mut encoder, (initial, 0), 0, initial.size().min(buffer.len)),
                None => buffer.clear(&mut encoder),
            }
        }
        self.submit(encoder);
        state.fed.fill(None);
        self.gpu.check()
    }

    /// Copies a state as it is after all calls started so far.
    ///
    /// # Errors
    /// Out of memory, or a state of another graph.
    pub fn clone_state(&self, state: &State) -> Result<State> {
        self.check_state(state)?;
        let mut copy = self.new_state()?;
        let mut encoder = self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let tensors = state.buffers.tensors.iter().zip(&copy.buffers.tensors);
        let inputs = state.buffers.inputs.iter().filter_map(|(input, from)| Some((from, copy.buffers.inputs.get(input)?)));
        for (from, to) in tensors.chain(inputs) {
            to.copy_from(&mut encoder, (&from.buffer, from.start), 0, from.len);
        }
        self.submit(encoder);
        copy.fed.clone_from(&state.fed);
        self.gpu.check()?;
        Ok(copy)
    }

    /// Checks that a state was created by this graph.
    pub(super) fn check_state(&self, state: &State) -> Result<()> {
        match Arc::ptr_eq(&self.identity, &state.graph) {
            true => Ok(()),
            false => {
                Err(Error::Misuse("the state belongs to another graph; make one with `new_state` of this one".to_owned()))
            }
        }
    }

    pub(super) fn submit(&self, encoder: wgpu::CommandEncoder) -> wgpu::SubmissionIndex {
        count(&self.gpu.inner.counters.submits, 1);
        self.gpu.inner.queue.submit([encoder.finish()])
    }
}
