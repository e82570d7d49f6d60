//! Nodes and edges of a GPU graph: calls are nodes, tensors the edges between them.

use std::collections::BTreeMap;

use pteron_gpu::graph::{DecodedGraph, Role};
use pteron_gpu::ir::{Quantization, Tensor};
use pteron_gpu::live::TensorId;

use super::model::{Crowded, Edge, Kind, Picture};

/// Dimensions that a label shows.
const MOST_DIMS: usize = 8;

/// Adds a graph to a picture. `inputs` are the nodes that its inputs come from; returns those that its outputs come from, and the
/// first call.
pub(super) fn add(
    picture: &mut Picture,
    cluster: usize,
    graph: &DecodedGraph,
    inputs: &[Vec<usize>],
) -> Result<(Vec<Vec<usize>>, Option<usize>), Crowded> {
    let makers = graph.inputs.iter().zip(inputs).map(|(input, nodes)| (input.0, nodes.clone())).collect();
    let mut drawing = Drawing { picture, cluster, graph, makers };
    let mut first = None;
    for node in &graph.nodes {
        let call = drawing.picture.node(cluster, Kind::Call, vec![node.name.to_owned()]);
        first.get_or_insert(call);
        for &tensor in node.flow.reads.iter().chain(&node.flow.mutates) {
            drawing.connect(tensor, call)?;
        }
        for scalar in &node.flow.scalar_reads {
            drawing.connect_number(scalar.0, call)?;
        }
        for &tensor in node.flow.writes.iter().chain(&node.flow.mutates) {
            drawing.makers.insert(tensor.0, vec![call]);
        }
        drawing.makers.extend(node.flow.scalar_writes.iter().map(|scalar| (scalar.0, vec![call])));
    }
    let outputs = graph.outputs.iter().map(|&output| drawing.sources(output)).collect();
    Ok((outputs, first))
}

struct Drawing<'a> {
    picture: &'a mut Picture,
    cluster: usize,
    graph: &'a DecodedGraph,
    /// The nodes that computed or last changed a value.
    makers: BTreeMap<u32, Vec<usize>>,
}

impl Drawing<'_> {
    fn connect(&mut self, tensor: TensorId, to: usize) -> Result<(), Crowded> {
        let label = self.describe(tensor);
        for from in self.sources(tensor) {
            self.picture.edge(Edge { from, to, label: label.clone(), is_tensor: true })?;
        }
        Ok(())
    }

    /// Numbers that no call computes are arguments, not nodes.
    fn connect_number(&mut self, id: u32, to: usize) -> Result<(), Crowded> {
        for from in self.makers.get(&id).cloned().unwrap_or_default() {
            self.picture.edge(Edge { from, to, label: "number".to_owned(), is_tensor: false })?;
        }
        Ok(())
    }

    /// The nodes that a tensor comes from; a constant gets a node when it is first read.
    fn sources(&mut self, tensor: TensorId) -> Vec<usize> {
        if let Some(nodes) = self.makers.get(&tensor.0) {
            return nodes.clone();
        }
        let (kind, name) = match self.graph.role(tensor) {
            Role::State(id) => (Kind::State, format!("state {id}")),
            Role::Constant(id) => (Kind::Constant, format!("constant {id}")),
            Role::Input(_) | Role::Computed => return Vec::new(),
        };
        let node = self.picture.node(self.cluster, kind, vec![name, self.describe(tensor)]);
        self.makers.insert(tensor.0, vec![node]);
        vec![node]
    }

    fn describe(&self, tensor: TensorId) -> String {
        let value = self.graph.source.values.get(tensor.0 as usize);
        value.and_then(|value| value.as_tensor()).map(describe).unwrap_or_default()
    }
}

/// Type, dims and quantisation.
fn describe(tensor: &Tensor) -> String {
    let quantization = match &tensor.quantization {
        Some(Quantization::PerTensor { scale, zero_point }) => format!(" scale {scale} zero {zero_point}"),
        Some(Quantization::PerChannel { axis, .. }) => format!(" scales along dim {axis}"),
        Some(Quantization::PerGroup { group_size, .. }) => format!(" groups of {group_size}"),
        Some(Quantization::PerToken { .. }) => " scale per row".to_owned(),
        None => String::new(),
    };
    format!("{}{quantization}", shape(tensor.dtype.name(), &tensor.dims))
}

/// An element type and sizes.
pub(super) fn shape(dtype: &str, dims: &[u32]) -> String {
    let more = (dims.len() > MOST_DIMS).then(|| "…".to_owned());
    let dims: Vec<_> = dims.iter().take(MOST_DIMS).map(ToString::to_string).chain(more).collect();
    format!("{dtype} {}", dims.join("×")).trim_end().to_owned()
}
