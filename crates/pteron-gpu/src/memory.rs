//! Where each tensor's memory comes from, by our own analysis of lifetimes.
//!
//! Constants, state, inputs and outputs have buffers of their own. Everything else shares memory objects: two tensors share
//! one only if no operator between the first write and the last read of either touches the other. A dispatch may not bind one
//! buffer twice when it writes it, so each object is one buffer, and an operator's inputs and outputs never share one.

use crate::error::Result;
use crate::graph::{Graph, Role};
use crate::live::TensorId;
use crate::resize::Planned;

/// The place of a tensor or of scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A constant of the file, by index.
    Constant(u32),
    /// A buffer of the state, by index into [`Memory::states`].
    State(usize),
    /// An input of the graph, by index.
    Input(usize),
    /// An output of the graph, by index.
    Output(usize),
    /// A shared object, by index into [`Memory::objects`].
    Object(usize),
}

/// The memory of a graph.
#[derive(Debug)]
pub struct Memory {
    /// The place of each tensor, by value id; `None` for values that are not tensors or never touched.
    pub tensors: Vec<Option<Place>>,
    /// The place of each operator's scratch.
    pub scratch: Vec<Vec<Place>>,
    /// The sizes of the shared objects.
    pub objects: Vec<u64>,
    /// The tensors that are state, in order.
    pub states: Vec<TensorId>,
    /// For each operator whether its output shares its input's memory, so that nothing runs.
    pub aliased: Vec<bool>,
}

/// Bindings hold whole vectors of four words; kernels may write the padding.
#[must_use]
pub fn padded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

impl Memory {
    /// Plans the memory of a graph whose bounds and recipes are known.
    ///
    /// # Errors
    /// None today; placement of what does not fit an adapter is the engine's to refuse.
    pub fn plan(graph: &Graph, planned: &Planned) -> Result<Self> {
        let (roots, aliased) = alias(graph);
        let mut memory = Self {
            tensors: vec![None; graph.tensors.len()],
            scratch: Vec::with_capacity(graph.nodes.len()),
            objects: Vec::new(),
            states: Vec::new(),
            aliased,
        };
        memory.place_fixed(graph, &roots);
        memory.place_shared(graph, planned, &roots);
        memory.tensors = roots.iter().map(|&root| memory.tensors[root]).collect();
        Ok(memory)
    }

    /// Constants, state, inputs, and what outputs stand for.
    fn place_fixed(&mut self, graph: &Graph, roots: &[usize]) {
        for (id, &role) in graph.roles.iter().enumerate() {
            if graph.tensors[id].is_none() {
                continue;
            }
            self.tensors[id] = match role {
                Role::Constant(constant) => Some(Place::Constant(constant)),
                Role::State(_) => {
                    self.states.push(TensorId(u32::try_from(id).unwrap_or(u32::MAX)));
                    Some(Place::State(self.states.len() - 1))
                }
                Role::Input(index) => Some(Place::Input(index)),
                Role::Computed => None,
            };
        }
        for (index, output) in graph.outputs.iter().enumerate() {
            let place = &mut self.tensors[roots[output.index()]];
            // An input that is also an output is read back from the input's buffer.
            if place.is_none() {
                *place = Some(Place::Output(index));
            }
        }
    }

    fn place_shared(&mut self, graph: &Graph, planned: &Planned, roots: &[usize]) {
        let last = last_uses(graph, roots);
        let mut free: Vec<usize> = Vec::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let mut done = Vec::new();
            if self.aliased[index] {
                self.scratch.push(Vec::new());
            } else {
                for &tensor in &node.flow.writes {
                    let root = roots[tensor.index()];
                    if self.tensors[root].is_some() {
                        continue;
                    }
                    let info = graph.info(tensor);
                    let size = info.elem.bytes(planned.bounds()[tensor.index()].count());
                    let object = self.take(&mut free, padded(size));
                    self.tensors[root] = Some(Place::Object(object));
                }
                let sizes = planned.recipes()[index].scratch.clone();
                let objects: Vec<usize> = sizes.iter().map(|&size| self.take(&mut free, padded(size))).collect();
                done.extend(&objects);
                self.scratch.push(objects.into_iter().map(Place::Object).collect());
            }
            for (root, &end) in last.iter().enumerate() {
                if let (Some(Place::Object(object)), true) = (self.tensors[root], end == Some(index)) {
                    done.push(object);
                }
            }
            free.append(&mut done);
        }
    }

    /// A free object that fits best, else the largest free one grown, else a new one.
    fn take(&mut self, free: &mut Vec<usize>, size: u64) -> usize {
        let fits = free.iter().enumerate().filter(|&(_, &object)| self.objects[object] >= size);
        let best = fits.min_by_key(|&(_, &object)| self.objects[object]).map(|(position, _)| position);
        let largest = free.iter().enumerate().max_by_key(|&(_, &object)| self.objects[object]).map(|(position, _)| position);
        match best.or(largest) {
            Some(position) => {
                let object = free.swap_remove(position);
                self.objects[object] = self.objects[object].max(size);
                object
            }
            None => {
                self.objects.push(size);
                self.objects.len() - 1
            }
        }
    }
}

/// For each tensor the one whose memory it uses, and for each operator whether it became an alias.
fn alias(graph: &Graph) -> (Vec<usize>, Vec<bool>) {
    let mut roots: Vec<usize> = (0..graph.tensors.len()).collect();
    let mut aliased = vec![false; graph.nodes.len()];
    let mut fixed = vec![false; graph.tensors.len()];
    for node in &graph.nodes {
        // A view of something that changes in place would change with it.
        node.flow.mutates.iter().for_each(|tensor| fixed[tensor.index()] = true);
    }
    let is_output = |id: usize| graph.outputs.iter().any(|output| output.index() == id);
    let mut output_roots: Vec<bool> = (0..graph.tensors.len()).map(is_output).collect();
    for (index, node) in graph.nodes.iter().enumerate() {
        let (Some(source), Some(out)) = (node.op.alias(), node.flow.writes.first()) else { continue };
        let root = roots[source.index()];
        let out = out.index();
        if fixed[root] || fixed[out] {
            continue;
        }
        // Two outputs, or an output and something that is not computed, keep buffers of their own.
        let taken = output_roots[root] || graph.roles[root] != Role::Computed;
        if is_output(out) && taken {
            continue;
        }
        output_roots[root] |= is_output(out);
        roots[out] = root;
        aliased[index] = true;
    }
    (roots, aliased)
}

/// For each root the last operator that touches it.
fn last_uses(graph: &Graph, roots: &[usize]) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.tensors.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for tensor in node.flow.reads.iter().chain(&node.flow.writes).chain(&node.flow.mutates) {
            last[roots[tensor.index()]] = Some(index);
        }
    }
    last
}
