//! Outputs that become inputs of the next call without a round trip to the host.

use super::buffers::{BufferRequest, STORAGE};
use crate::error::{Error, Result};
use crate::graph::DecodedGraph;
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::resize::Planned;

/// An output whose elements each call copies into an input, for the next call on the same state. Indices are those of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The output.
    pub output: usize,
    /// The input, which the next call takes as [`Input::Feedback`](super::Input::Feedback).
    pub input: usize,
}

/// A checked [`Feedback`], and the buffer that each state has for its input.
#[derive(Debug)]
pub(super) struct FeedbackEdge {
    pub(super) output: TensorId,
    pub(super) input: usize,
    pub(super) request: BufferRequest,
}

impl FeedbackEdge {
    /// Checks all edges of a graph.
    pub(super) fn resolve(
        graph: &DecodedGraph,
        planned: &Planned,
        memory: &Memory,
        edges: &[Feedback],
    ) -> Result<Vec<Self>> {
        let mut resolved: Vec<Self> = Vec::with_capacity(edges.len());
        for &Feedback { output, input } in edges {
            let fail =
                |reason: &str| Err(Error::Misuse(format!("output {output} cannot be fed back to input {input}: {reason}")));
            let (Some(&from), Some(&to)) = (graph.outputs.get(output), graph.inputs.get(input)) else {
                return fail("the graph has no such output or input");
            };
            let bytes = |tensor: TensorId| graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count());
            let shared = graph.inputs.iter().filter(|&&other| other == to).count() > 1 || graph.outputs.contains(&to);
            if resolved.iter().any(|edge| edge.input == input) {
                return fail("another output is fed back to it");
            }
            if graph.info(from).elem != graph.info(to).elem || bytes(from) > bytes(to) {
                return fail("their element types differ, or the output is larger");
            }
            if shared || memory.tensors[from.index()] == Some(Place::Input(input)) {
                return fail("the input is also another input, or an output");
            }
            if graph.nodes.iter().any(|node| node.flow.host_reads.contains(&to)) {
                return fail("plans depend on the input's value, so the host must know it before the graph runs");
            }
            let request = BufferRequest::new(format!("fed-back input {input}"), bytes(to), STORAGE);
            resolved.push(Self { output: from, input, request });
        }
        Ok(resolved)
    }
}
