//! Who reads and changes what in a graph.

use crate::graph::Graph;
use crate::ir::ValueId;
use crate::live::TensorId;

/// For each value of a graph the calls around it.
pub(super) struct DefUse {
    writer: Vec<Option<usize>>,
    /// A call that reads a tensor or a symbol twice stands here twice.
    readers: Vec<Vec<usize>>,
    changed: Vec<bool>,
    output: Vec<bool>,
    /// Of symbols all calls that write them: nothing keeps a file from several.
    symbol_writers: Vec<Vec<usize>>,
}

impl DefUse {
    pub(super) fn new(graph: &Graph) -> Self {
        let count = graph.tensors.len();
        let mut uses = Self {
            writer: vec![None; count],
            readers: vec![Vec::new(); count],
            changed: vec![false; count],
            output: vec![false; count],
            symbol_writers: vec![Vec::new(); count],
        };
        for (call, node) in graph.nodes.iter().enumerate() {
            node.flow.reads.iter().for_each(|tensor| uses.readers[tensor.index()].push(call));
            node.flow.writes.iter().for_each(|tensor| uses.writer[tensor.index()] = Some(call));
            node.flow.mutates.iter().for_each(|tensor| uses.changed[tensor.index()] = true);
            for symbol in &node.flow.scalar_writes {
                uses.symbol_writers[symbol.index()].push(call);
            }
            for symbol in &node.flow.scalar_reads {
                uses.readers[symbol.index()].push(call);
            }
        }
        graph.outputs.iter().for_each(|output| uses.output[output.index()] = true);
        uses
    }

    /// The call that computes a value.
    pub(super) fn writer(&self, value: ValueId) -> Option<usize> {
        self.writer.get(value.index()).copied().flatten()
    }

    /// The call that computes a symbol, which no other does and which comes before this one.
    pub(super) fn symbol_writer(&self, symbol: ValueId, before: usize) -> Option<usize> {
        match *self.symbol_writers.get(symbol.index())?.as_slice() {
            [only] if only < before => Some(only),
            _ => None,
        }
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
