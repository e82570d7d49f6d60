//! A graph with its operators decoded: which tensors each reads and writes, and the source of each tensor's content.

mod decode;
mod elem;
mod order;
mod random;

use crate::args::Flow;
use crate::budget::{Budget, GraphSize};
use crate::error::Result;
use crate::fuse::{self, Fusions};
use crate::ir;
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::plan::Op;
use crate::rewrite;
use crate::shape::Dims;

#[cfg(test)]
pub(crate) use decode::charge_call;
pub(crate) use decode::{check_bounds, declared_flows, info, tensor_info};
pub use elem::Elem;
pub use random::RandomConstants;

/// A tensor's element type and bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its element type on the GPU.
    pub elem: Elem,
    /// Its largest dims.
    pub bound: Dims,
}

/// An operator call with its arguments decoded.
#[derive(Debug)]
pub struct Node {
    /// The name it is called by.
    pub name: &'static str,
    /// The position of the instruction it comes from; see [`ir::Call::origin`].
    pub call: usize,
    /// The registry entry it was decoded with.
    pub def: &'static OpDef,
    /// The decoded operator.
    pub op: Box<dyn Op>,
    /// The tensors it reads and writes.
    pub flow: Flow,
}

/// The source of a tensor's content, which decides where its memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A constant that no operator mutates, by index into the graph's constants.
    Constant(u32),
    /// State: a constant that an operator mutates. Its bytes are the initial content.
    State(u32),
    /// An input of the graph, by index.
    Input(usize),
    /// Computed by an operator.
    Computed,
}

/// A decoded graph.
#[derive(Debug)]
pub struct DecodedGraph {
    /// The operators in order.
    pub nodes: Vec<Node>,
    /// Each tensor's element type and bound, by value id; `None` for values that are not tensors.
    pub tensors: Vec<Option<TensorInfo>>,
    /// The source of each tensor's content, by value id.
    pub roles: Vec<Role>,
    /// The graph's inputs.
    pub inputs: Vec<TensorId>,
    /// The graph's outputs.
    pub outputs: Vec<TensorId>,
    /// The graph it was decoded from.
    pub source: ir::Graph,
    /// For each constant, the first one with the same bytes.
    first_equal: Vec<u32>,
    /// How large the graph was before any rewrite.
    size: GraphSize,
}

impl DecodedGraph {
    /// The largest dims of each value that is a tensor, by value id.
    pub(crate) fn tensor_bounds(&self) -> Vec<Dims> {
        self.tensors.iter().map(|info| info.map_or(Dims::SCALAR, |info| info.bound)).collect()
    }

    /// Decodes every call of a graph as it is.
    ///
    /// # Errors
    /// The first operator that rejects its arguments, or a tensor that no kernel can hold. A graph that would take more memory or
    /// work than its [size](GraphSize) justifies.
    pub fn decode(source: ir::Graph) -> Result<Self> {
        Self::decode_with(source, &Fusions::NONE)
    }

    /// Decodes every call of a graph and fuses operators that one kernel can compute.
    ///
    /// # Errors
    /// As [`decode`](Self::decode): errors name calls of the graph as it is before any fusion.
    pub fn decode_with(source: ir::Graph, fusions: &Fusions) -> Result<Self> {
        let size = GraphSize::of(&source);
        let source = rewrite::rewrite(source, &mut size.budget())?;
        fuse::fuse(Self::assemble(source, size)?, fusions)
    }

    /// Decodes a graph in which every value is written once. The work is charged to the size of the graph before any
    /// rewrite.
    pub(crate) fn assemble(source: ir::Graph, size: GraphSize) -> Result<Self> {
        let mut budget = size.budget();
        budget.memory::<(Option<TensorInfo>, Role)>(source.values.len())?;
        let tensors = decode::tensors(&source)?;
        ir::verify::verify(&source)?;
        let [inputs, outputs] = decode::ports(&source)?;
        let mut roles = decode::roles(&source, &inputs)?;
        let nodes = decode::nodes(&source, &tensors, &mut roles, &mut budget)?;
        let first_equal = decode::first_equal(&source);
        let graph = Self { nodes, tensors, roles, inputs, outputs, source, first_equal, size };
        graph.check_order()?;
        Ok(graph)
    }

    /// Returns the graph with some state tensors in 16-bit floats, and operators decoded for them.
    pub(crate) fn with_f16_state(mut self, states: &[TensorId]) -> Result<Self> {
        for tensor in states {
            self.tensors[tensor.index()] = Some(TensorInfo { elem: Elem::F16, ..self.info(*tensor) });
        }
        let mut budget = self.budget();
        self.nodes = decode::nodes(&self.source, &self.tensors, &mut self.roles, &mut budget)?;
        Ok(self)
    }

    /// How large the graph was before any rewrite.
    #[must_use]
    pub fn size(&self) -> GraphSize {
        self.size
    }

    /// Returns a fresh budget for one phase of work on it.
    pub(crate) fn budget(&self) -> Budget {
        self.size.budget()
    }

    /// The element type and the bound of a tensor.
    ///
    /// # Panics
    /// With an id of another graph.
    #[must_use]
    pub fn info(&self, tensor: TensorId) -> TensorInfo {
        info(&self.tensors, tensor)
    }

    /// The source of a tensor's content.
    ///
    /// # Panics
    /// With an id of another graph.
    #[must_use]
    pub fn role(&self, tensor: TensorId) -> Role {
        self.roles[tensor.index()]
    }

    /// The first constant with the same bytes and the same type as this one.
    pub(crate) fn first_equal(&self, constant: u32) -> u32 {
        self.first_equal[constant as usize]
    }
}

#[cfg(test)]
mod tests;
