//! Who reads and changes what in a graph.

use pteron_format::vulkan::ValueId;

use crate::graph::Graph;
use crate::live::TensorId;

/// For each value of a graph the calls around it.
pub(super) struct Uses {
    writer: Vec<Option<usize>>,
    /// A call that reads a tensor twice stands here twice.
    readers: Vec<Vec<usize>>,
    changed: Vec<bool>,
    output: Vec<bool>,
}

impl Uses {
    pub(super) fn new(graph: &Graph) -> Self {
        let count = graph.tensors.len();
        let mut uses = Self {
            writer: vec![None; count],
            readers: vec![Vec::new(); count],
            changed: vec![false; count],
            output: vec![false; count],
        };
        for (call, node) in graph.nodes.iter().enumerate() {
            node.flow.reads.iter().for_each(|tensor| uses.readers[tensor.index()].push(call));
            node.flow.writes.iter().for_each(|tensor| uses.writer[tensor.index()] = Some(call));
            node.flow.mutates.iter().for_each(|tensor| uses.changed[tensor.index()] = true);
        }
        graph.outputs.iter().for_each(|output| uses.output[output.index()] = true);
        uses
    }

    /// The call that computes a value.
    pub(super) fn writer(&self, value: ValueId) -> Option<usize> {
        self.writer.get(value.index()).copied().flatten()
    }

    /// Whether a call changes a tensor in place, so that it matters when it is read.
    pub(super) fn is_changed(&self, value: ValueId) -> bool {
        self.changed.get(value.index()).copied().unwrap_or(true)
    }

    /// The calls that read a value which nobody sees but they; none if others may.
    pub(super) fn readers_within(&self, value: ValueId) -> &[usize] {
        let inner = !self.is_changed(value) && self.output.get(value.index()) == Some(&false);
        if inner { &self.readers[value.index()] } else { &[] }
    }

    /// The one call that reads a value, once.
    pub(super) fn only_reader(&self, value: ValueId) -> Option<usize> {
        match *self.readers_within(value) {
            [only] => Some(only),
            _ => None,
        }
    }
}

pub(super) fn tensor(value: ValueId) -> TensorId {
    TensorId(value.0)
}
