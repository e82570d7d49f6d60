//! Nodes and edges of an XNNPACK graph.

use std::collections::BTreeMap;

use pteron_format::xnnpack::{Graph, Quantization, ValueId};

use super::model::{Cluster, Edge, Kind, Node};

/// The picture of `graph`, unless it has more than `most` edges.
pub(super) fn cluster(title: String, graph: &Graph, most: usize) -> Option<Cluster> {
    let mut builder = Builder { graph, makers: BTreeMap::new(), nodes: Vec::new(), edges: Vec::new() };
    let mut externals: Vec<_> = graph.externals().collect();
    externals.sort_by_key(|(_, external)| external.index);
    for (id, external) in externals.iter().filter(|(_, external)| !external.output) {
        let node = builder.node(Kind::Input, vec![format!("argument {}", external.index), builder.describe(*id)]);
        builder.makers.insert(*id, node);
    }
    for call in &graph.nodes {
        let mut lines = vec![call.kind.name().to_owned()];
        lines.extend(call.output_range.map(|range| format!("in {} to {}", range.min, range.max)));
        let node = builder.node(Kind::Call, lines);
        for id in call.kind.inputs() {
            builder.connect(id, node);
            if builder.edges.len() > most {
                return None;
            }
        }
        for id in call.kind.outputs() {
            builder.makers.insert(id, node);
        }
    }
    for (id, external) in externals.iter().filter(|(_, external)| external.output) {
        let node = builder.node(Kind::Output, vec![format!("argument {}", external.index), builder.describe(*id)]);
        builder.connect(*id, node);
    }
    Some(Cluster { title, nodes: builder.nodes, edges: builder.edges })
}

struct Builder<'a> {
    graph: &'a Graph,
    /// The node that computes a value.
    makers: BTreeMap<ValueId, usize>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl Builder<'_> {
    fn node(&mut self, kind: Kind, lines: Vec<String>) -> usize {
        self.nodes.push(Node { kind, lines });
        self.nodes.len() - 1
    }

    fn connect(&mut self, id: ValueId, to: usize) {
        let from = match self.makers.get(&id) {
            Some(&node) => node,
            None => {
                let node = self.node(Kind::Constant, vec![format!("constant {id}"), self.describe(id)]);
                self.makers.insert(id, node);
                node
            }
        };
        self.edges.push(Edge { from, to, label: self.describe(id), is_tensor: true });
    }

    /// Type, dims and quantisation.
    fn describe(&self, id: ValueId) -> String {
        let Some(value) = self.graph.value(id) else { return String::new() };
        let dims: Vec<_> = value.dims.iter().map(ToString::to_string).collect();
        let scale = match &value.quantization {
            Some(Quantization::PerTensor { scale, zero_point }) => format!(" scale {scale} zero {zero_point}"),
            Some(Quantization::PerGroup { group_size, .. }) => format!(" groups of {group_size}"),
            _ => String::new(),
        };
        format!("{} {}{scale}", value.dtype.name(), dims.join("×")).trim_end().to_owned()
    }
}
