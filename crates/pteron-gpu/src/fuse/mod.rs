//! Operators of a file that one kernel computes together: found by their pattern, and put in the place of what they stand for.
//!
//! A pass looks for one pattern and never changes what a graph computes, at any live shape: what lies between the calls of a
//! pattern has no other reader and is no output, nothing they read is changed in place, and whether the fused operator can do
//! it is decided by that operator's own decoder. Whatever is unusual stays as the file has it.
//!
//! A pass looks at each call and at what is near it, however many others there are: chains are followed `MOST_IN_CHAIN` calls
//! far, and of many candidates the nearest are tried. So the work of all passes grows with the graph and no faster.

mod def_use;
mod editor;
mod fused_linear;
mod last_row;
mod merge_linears;
mod norm;
mod residual;
mod rotary;
mod same_dims;
mod swiglu;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::graph::Graph;
use editor::Editor;

/// Which operators are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fusions {
    /// Two or three linears with 4-bit weights and the same input into one call.
    pub merge_linears: bool,
    /// Two such linears of the same input, the one gating the other through silu, into one call.
    pub swiglu: bool,
    /// What is added to the answer of such a linear into its call.
    pub residual: bool,
    /// A norm that only such a call reads into that call.
    pub norm: bool,
    /// Rows of such calls that nobody reads, where only the last is selected, left out.
    pub last_row: bool,
    /// The turning of queries and keys by their position into the attention over a cache behind it.
    pub rotary: bool,
    /// The most bytes of constants that may share a buffer, such as a device's largest binding.
    pub largest_binding: u64,
}

impl Fusions {
    /// Every fusion there is.
    pub const ALL: Self = Self {
        merge_linears: true,
        swiglu: true,
        residual: true,
        norm: true,
        last_row: true,
        rotary: true,
        largest_binding: u64::MAX,
    };
    /// The operators of the file, one by one.
    pub const NONE: Self = Self {
        merge_linears: false,
        swiglu: false,
        residual: false,
        norm: false,
        last_row: false,
        rotary: false,
        ..Self::ALL
    };

    /// The same for a device whose bindings hold so many bytes.
    #[must_use]
    pub fn within(self, largest_binding: u64) -> Self {
        Self { largest_binding: self.largest_binding.min(largest_binding), ..self }
    }
}

impl Default for Fusions {
    fn default() -> Self {
        Self::ALL
    }
}

/// How many calls a pass follows that only hand a value on, such as views. Exporters write one or two.
const MOST_IN_CHAIN: usize = 16;

/// Looks for one pattern, and puts fused calls where it finds it.
type Pass = fn(&mut Editor<'_>);

/// A graph with its operators fused. Calls that are not fused keep their place in the file.
///
/// # Errors
/// A graph that takes more memory or work than its size justifies, or a fusion that leaves an invalid graph.
pub(crate) fn fuse(graph: Graph, fusions: &Fusions) -> Result<Graph> {
    // A gate is two linears with one input, so it comes before they are taken for any two. What stands around a call is looked
    // for when it is whole.
    let passes: [(bool, &'static str, Pass); 6] = [
        (fusions.swiglu, "swiglu", swiglu::find),
        (fusions.merge_linears, "merge_linears", merge_linears::find),
        (fusions.residual, "residual", residual::find),
        (fusions.norm, "norm", norm::find),
        (fusions.last_row, "last_row", last_row::find),
        (fusions.rotary, "rotary", rotary::find),
    ];
    let mut on = passes.into_iter().filter(|(on, ..)| *on);
    on.try_fold(graph, |graph, (_, fusion, find)| apply(graph, fusion, find, fusions.largest_binding))
}

/// Applies one fusion to a graph.
fn apply(graph: Graph, fusion: &'static str, find: Pass, largest_binding: u64) -> Result<Graph> {
    let mut editor = Editor::new(&graph, largest_binding);
    find(&mut editor);
    let Some(source) = editor.finish() else { return Ok(graph) };
    Graph::assemble(source, graph.size()).map_err(|error| match error {
        Error::Budget { .. } => error,
        error => Error::InvalidFusion { fusion, error: Box::new(error) },
    })
}
