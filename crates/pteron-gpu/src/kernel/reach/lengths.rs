//! The lengths of the buffers that recipes bind, as the engine allocates them.

use std::collections::HashMap;

use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;
use crate::memory::{aliases, joined, padded};
use crate::plan::{Bind, JoinedConstants, Recipes};
use crate::shape::Dims;

/// The lengths of all bound buffers, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    /// By value id.
    tensors: Vec<u64>,
    /// By operator: the lengths of its joined constants.
    joined: Vec<Vec<u64>>,
    step: u64,
}

/// The lengths for one operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundLengths<'a> {
    all: &'a Lengths,
    recipes: &'a Recipes,
    node: usize,
}

impl Lengths {
    /// Computes the lengths for a graph at these bounds with these recipes.
    pub(crate) fn new(graph: &DecodedGraph, bounds: &[Dims], recipes: &[Recipes]) -> Self {
        let own = |id: usize| graph.tensors.get(id).copied().flatten().map_or(0, |info| info.elem.bytes(bounds[id].count()));
        let (roots, _) = aliases(graph);
        let mut lengths: Vec<u64> = (0..graph.tensors.len()).map(own).collect();
        share_constants(graph, &mut lengths);
        // A tensor that is computed into an output's buffer has the output's length.
        let mut of_outputs: HashMap<usize, u64> = HashMap::new();
        for output in &graph.outputs {
            let root = roots[output.index()];
            if graph.roles[root] == Role::Computed {
                of_outputs.entry(root).or_insert(own(output.index()));
            }
        }
        of_outputs.into_iter().for_each(|(root, bytes)| lengths[root] = bytes);
        let constant = |part: &TensorId| lengths[part.index()];
        let of_list =
            |list: &JoinedConstants| padded(joined(list.parts.iter().map(|part| part.bytes(constant(&part.tensor)))).1);
        let joined = recipes.iter().map(|recipes| recipes.joined.iter().map(of_list).collect()).collect();
        let words = recipes.iter().map(|recipes| recipes.step_words as u64).sum::<u64>();
        let tensors = roots.iter().map(|&root| padded(lengths[root])).collect();
        Self { tensors, joined, step: padded(words.saturating_mul(4)) }
    }

    /// The lengths for an operator.
    pub(crate) fn of<'a>(&'a self, node: usize, recipes: &'a Recipes) -> BoundLengths<'a> {
        BoundLengths { all: self, recipes, node }
    }
}

impl BoundLengths<'_> {
    /// The bytes of a binding's buffer; 0 if the operator has no such buffer.
    pub(crate) fn length(&self, bind: Bind) -> u64 {
        let found = match bind {
            Bind::Tensor(tensor) => self.all.tensors.get(tensor.index()).copied(),
            Bind::Scratch(index) => self.recipes.scratch.get(index).map(|&bytes| padded(bytes)),
            Bind::Joined(index) => self.all.joined.get(self.node).and_then(|lists| lists.get(index)).copied(),
            Bind::Step => Some(self.all.step),
        };
        found.unwrap_or(0)
    }
}

/// Constants with the same bytes share a buffer. Any of them may decide its length, so all are limited to the shortest.
fn share_constants(graph: &DecodedGraph, lengths: &mut [u64]) {
    let mut shortest: HashMap<u32, u64> = HashMap::new();
    let constants = || {
        graph.roles.iter().enumerate().filter_map(|(id, role)| match *role {
            Role::Constant(constant) => Some((id, graph.first_equal(constant))),
            _ => None,
        })
    };
    for (id, first) in constants() {
        let length = shortest.entry(first).or_insert(lengths[id]);
        *length = lengths[id].min(*length);
    }
    constants().for_each(|(id, first)| lengths[id] = shortest.get(&first).copied().unwrap_or(0));
}
