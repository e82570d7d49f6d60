//! A delegate's graph as a file has it, checked before anything of this crate changes it.

use pteron_format::vulkan;

use crate::budget::GraphSize;
use crate::error::{Error, Result};
use crate::fuse::{self, Fusions};
use crate::graph::Graph;
use crate::ops;
use crate::rewrite::{self, Rewritten};

/// A graph of a file: it calls no operator that is unknown or [internal](ops::OpDef::internal).
#[derive(Clone, Debug)]
pub struct FileGraph {
    graph: vulkan::Graph,
}

impl FileGraph {
    /// Checks which operators a graph calls.
    ///
    /// # Errors
    /// The first call of an operator that files cannot call.
    pub fn new(graph: vulkan::Graph) -> Result<Self> {
        for (index, call) in graph.chain.iter().enumerate() {
            if ops::find_in_files(&call.name).is_none() {
                return Err(Error::UnknownOperator { name: call.name.clone(), index });
            }
        }
        Ok(Self { graph })
    }

    /// A graph that calls internal operators, for tests of those.
    #[cfg(test)]
    pub(crate) fn with_internal_calls(graph: vulkan::Graph) -> Self {
        Self { graph }
    }

    /// The graph as it is now.
    #[must_use]
    pub fn graph(&self) -> &vulkan::Graph {
        &self.graph
    }

    /// Puts the choice of the next token behind an output that is logits: the graph gets an input, how to choose (four integers,
    /// see `ops/sample_row`), and an output, the token. Returns their indices; `None` if there is no such output.
    pub fn choose_token(&mut self, logits: usize) -> Option<(usize, usize)> {
        rewrite::choose_token(&mut self.graph, logits)
    }

    /// How large the graph is, which bounds what decoding and planning it may take.
    #[must_use]
    pub fn size(&self) -> GraphSize {
        GraphSize::of(&self.graph)
    }

    /// Decodes every operator, and fuses those that one kernel computes together.
    ///
    /// # Errors
    /// The first operator that refuses its arguments, or a tensor no kernel can hold: the refusal names what the file has. A graph
    /// that would take more memory or work than its [size](Self::size) justifies.
    pub fn decode(self, fusions: &Fusions) -> Result<Graph> {
        let size = self.size();
        let Rewritten { graph, calls } = rewrite::rewrite(self.graph, &mut size.budget())?;
        fuse::fuse(Graph::assemble(graph, calls, size)?, fusions)
    }
}

#[cfg(test)]
mod tests;
