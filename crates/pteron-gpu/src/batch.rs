//! Batches that are too large for a device. A graph whose operators all compute a row of the batch from that row alone is planned for
//! fewer rows, and a call runs it once for each slice of the batch.

use crate::error::Result;
use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;
use crate::plan::Caps;
use crate::resize::Planned;
use crate::row_axes::RowAxes;
use crate::shape::Dims;

/// Plans a graph at its bounds, or for a slice of its batch if some tensor has more than `most_bytes` and the batch can be divided. Then
/// the rows of a slice are returned, too.
///
/// # Errors
/// As [`Planned::at_bounds`] where the batch is whole.
pub(crate) fn plan(
    graph: &DecodedGraph,
    input_bounds: &[Dims],
    caps: Caps,
    most_bytes: u64,
) -> Result<(Planned, Option<u32>)> {
    if let Some(slices) = BatchSlices::new(graph, input_bounds, most_bytes)
        && let Ok(planned) = Planned::at_tensor_bounds(graph, slices.bounds.clone(), caps)
        && slices.serves(graph, &planned)
    {
        return Ok((planned, Some(slices.rows)));
    }
    Ok((Planned::at_bounds(graph, input_bounds, caps)?, None))
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
        let divided = bounds.iter_mut().zip(batched).filter(|(_, axis)| axis.is_some());
        divided.for_each(|(bound, _)| *bound = bound.with(0, rows));
        Some(Self { rows, bounds })
    }

    /// Whether a plan for one slice computes as many rows of each output.
    pub(crate) fn serves(&self, graph: &DecodedGraph, planned: &Planned) -> bool {
        graph.outputs.iter().all(|&output| planned.live().dims(output).first() == Some(&self.rows))
    }
}

/// Finds the tensors whose first dimension is the batch: their rows are along dim 0.
fn batched(graph: &DecodedGraph, input_bounds: &[Dims], batch: u32) -> Option<Vec<Option<usize>>> {
    let mut axes = vec![None; graph.tensors.len()];
    if graph.roles.iter().any(|role| matches!(role, Role::State(_))) {
        return None;
    }
    for (&input, bound) in graph.inputs.iter().zip(input_bounds) {
        axes[input.index()] = (bound.first() == Some(&batch)).then_some(0);
    }
    let file_batch = graph.info(*graph.inputs.first()?).bound.first().copied();
    for node in &graph.nodes {
        let flow = &node.flow;
        let steered = !flow.host_reads.is_empty() || !flow.scalar_reads.is_empty() || !flow.mutates.is_empty();
        if steered || node.op.row_axis(&RowAxes::new(&axes, &graph.tensors)) != Some(0) {
            return None;
        }
        // Empty tensors have no rows.
        let written = flow.writes.iter().filter(|&&output| graph.info(output).bound.count() > 0);
        for &output in written {
            if graph.info(output).bound.first().copied() != file_batch {
                return None;
            }
            axes[output.index()] = Some(0);
        }
    }
    let ports = graph.inputs.iter().chain(&graph.outputs);
    ports.into_iter().all(|port| axes[port.index()].is_some()).then_some(axes)
}
