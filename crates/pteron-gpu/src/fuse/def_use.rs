//! Definitions and uses: which calls write, read and mutate each value of a graph.

use crate::graph::DecodedGraph;
use crate::live::{ScalarId, TensorId};

/// The calls around each value of a graph.
pub(super) struct DefUse {
    writer: Vec<Option<usize>>,
    /// A call that reads a tensor or a symbol twice is listed twice.
    readers: Vec<Vec<usize>>,
    mutators: Vec<Vec<usize>>,
    output: Vec<bool>,
    /// All writers of each symbol.
    symbol_writers: Vec<Vec<usize>>,
}

impl DefUse {
    pub(super) fn new(graph: &DecodedGraph) -> Self {
        let count = graph.tensors.len();
        let mut uses = Self {
            writer: vec![None; count],
            readers: vec![Vec::new(); count],
            mutators: vec![Vec::new(); count],
            output: vec![false; count],
            symbol_writers: vec![Vec::new(); count],
        };
        for (call, node) in graph.nodes.iter().enumerate() {
            node.flow.reads.iter().for_each(|tensor| uses.readers[tensor.index()].push(call));
            node.flow.writes.iter().for_each(|tensor| uses.writer[tensor.index()] = Some(call));
            node.flow.mutates.iter().for_each(|tensor| uses.mutators[tensor.index()].push(call));
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

    /// The call that writes a tensor.
    pub(super) fn writer(&self, tensor: TensorId) -> Option<usize> {
        self.writer.get(tensor.index()).copied().flatten()
    }

    /// The only call that writes a symbol, if it comes before this one.
    pub(super) fn symbol_writer(&self, symbol: ScalarId, before: usize) -> Option<usize> {
        match *self.symbol_writers.get(symbol.index())?.as_slice() {
            [only] if only < before => Some(only),
            _ => None,
        }
    }

    /// Whether a call mutates a tensor in place, so that the time of a read matters.
    pub(super) fn is_mutated(&self, tensor: TensorId) -> bool {
        self.mutators.get(tensor.index()).is_none_or(|mutators| !mutators.is_empty())
    }

    /// The calls that mutate a tensor in place.
    pub(super) fn mutators(&self, tensor: TensorId) -> &[usize] {
        self.mutators.get(tensor.index()).map_or(&[], Vec::as_slice)
    }

    /// All calls that read a tensor, whatever else happens to it.
    pub(super) fn all_readers(&self, tensor: TensorId) -> &[usize] {
        self.readers.get(tensor.index()).map_or(&[], Vec::as_slice)
    }

    /// The readers of a tensor that is neither an output nor mutated; none for others.
    pub(super) fn inner_readers(&self, tensor: TensorId) -> &[usize] {
        self.readers_at(tensor.index())
    }

    /// The readers of a symbol.
    pub(super) fn symbol_readers(&self, symbol: ScalarId) -> &[usize] {
        self.readers_at(symbol.index())
    }

    fn readers_at(&self, index: usize) -> &[usize] {
        if self.is_inner(index) { &self.readers[index] } else { &[] }
    }

    /// Whether a tensor is an output of the graph.
    pub(super) fn is_output(&self, tensor: TensorId) -> bool {
        self.output.get(tensor.index()).copied().unwrap_or(true)
    }

    /// Whether nothing reads or changes a tensor, and it is no output.
    pub(super) fn is_unread(&self, tensor: TensorId) -> bool {
        self.is_inner(tensor.index()) && self.readers[tensor.index()].is_empty()
    }

    /// Whether a value is neither mutated nor an output.
    fn is_inner(&self, index: usize) -> bool {
        self.mutators.get(index).is_some_and(Vec::is_empty) && self.output.get(index) == Some(&false)
    }

    /// The one call that reads a tensor, once.
    pub(super) fn only_reader(&self, tensor: TensorId) -> Option<usize> {
        match *self.inner_readers(tensor) {
            [only] => Some(only),
            _ => None,
        }
    }
}
