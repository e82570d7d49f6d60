//! Batches that are too large for a device. A graph whose operators all compute a row of the batch from that row alone is planned for
//! fewer rows, and a call runs it once for each slice of the batch.

use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;
use crate::resize::Planned;
use crate::shape::Dims;

/// The tensors of a graph whose first dimension is the batch, as far as the operators before the current one have determined them.
pub struct BatchCx<'a> {
    graph: &'a DecodedGraph,
    batched: &'a [bool],
}

impl BatchCx<'_> {
    /// Whether the first dimension of a tensor is the batch.
    #[must_use]
    pub fn is_batched(&self, tensor: TensorId) -> bool {
        self.batched[tensor.index()]
    }

    /// The largest dims of a tensor.
    #[must_use]
    pub fn bound(&self, tensor: TensorId) -> Dims {
        self.graph.info(tensor).bound
    }

    /// Whether some inputs are batched, and all others are broadcast along the batch.
    #[must_use]
    pub fn broadcasts(&self, inputs: &[TensorId], out: TensorId) -> bool {
        let rank = self.bound(out).len();
        let serves = |&input: &TensorId| match self.bound(input) {
            bound if bound.len() < rank => !self.is_batched(input),
            bound => self.is_batched(input) || bound.first() == Some(&1),
        };
        inputs.iter().any(|&input| self.is_batched(input)) && inputs.iter().all(serves)
    }
}

/// The rows of the batch that run at a time, and the bounds of all tensors with so many.
#[derive(Debug)]
pub(crate) struct BatchSlices {
    pub(crate) rows: u32,
    pub(crate) bounds: Vec<Dims>,
}

impl BatchSlices {
    /// Divides the batch if some tensor has more bytes than one buffer may have. `None` if none has, or if the graph cannot be
    /// divided: inputs without a common first dimension, state, or an operator that mixes rows.
    pub(crate) fn new(graph: &DecodedGraph, input_bounds: &[Dims], most_bytes: u64) -> Option<Self> {
        let written = graph.nodes.iter().flat_map(|node| &node.flow.writes);
        let bytes = |tensor: TensorId| graph.info(tensor).elem.bytes(graph.info(tensor).bound.count());
        let largest = graph.inputs.iter().chain(written).map(|&tensor| bytes(tensor)).max()?;
        let batch = *input_bounds.first()?.first()?;
        if largest <= most_bytes || batch < 2 {
            return None;
        }
        let batched = batched(graph, input_bounds, batch)?;
        // Rows have equal sizes. Slices have as equal numbers of them as possible.
        let file_batch = graph.info(*graph.inputs.first()?).bound.first().copied()?;
        let row = largest.div_ceil(u64::from(file_batch)).max(1);
        let fit = u32::try_from(most_bytes / row).unwrap_or(u32::MAX).min(batch);
        let rows = batch.div_ceil(batch.div_ceil(Some(fit).filter(|&fit| fit > 0)?));
        let mut bounds = graph.tensor_bounds();
        for (&input, &bound) in graph.inputs.iter().zip(input_bounds) {
            bounds[input.index()] = bound;
        }
        let divided = |(bound, batched): (&mut Dims, bool)| *bound = if batched { bound.with(0, rows) } else { *bound };
        bounds.iter_mut().zip(batched).for_each(divided);
        Some(Self { rows, bounds })
    }

    /// Whether a plan for one slice computes as many rows of each output.
    pub(crate) fn serves(&self, graph: &DecodedGraph, planned: &Planned) -> bool {
        graph.outputs.iter().all(|&output| planned.live().dims(output).first() == Some(&self.rows))
    }
}

/// Finds the tensors whose first dimension is the batch.
fn batched(graph: &DecodedGraph, input_bounds: &[Dims], batch: u32) -> Option<Vec<bool>> {
    let mut batched = vec![false; graph.tensors.len()];
    if graph.roles.iter().any(|role| matches!(role, Role::State(_))) {
        return None;
    }
    for (&input, bound) in graph.inputs.iter().zip(input_bounds) {
        batched[input.index()] = bound.first() == Some(&batch);
    }
    let file_batch = graph.info(*graph.inputs.first()?).bound.first().copied();
    for node in &graph.nodes {
        let flow = &node.flow;
        let steered = !flow.host_reads.is_empty() || !flow.scalar_reads.is_empty() || !flow.mutates.is_empty();
        if steered || !node.op.is_batchwise(&BatchCx { graph, batched: &batched }) {
            return None;
        }
        // Empty tensors have no rows.
        let written = flow.writes.iter().filter(|&&output| graph.info(output).bound.count() > 0);
        for &output in written {
            if graph.info(output).bound.first().copied() != file_batch {
                return None;
            }
            batched[output.index()] = true;
        }
    }
    let ports = graph.inputs.iter().chain(&graph.outputs);
    ports.into_iter().all(|port| batched[port.index()]).then_some(batched)
}
