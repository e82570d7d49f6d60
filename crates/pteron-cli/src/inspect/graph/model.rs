//! Nodes and edges of a delegate's graph, before they are spelled in any language.

use std::collections::BTreeMap;

use pteron_format::EscapedText;
use pteron_format::vulkan::{Graph, Value, ValueId};

use crate::inspect::collect::mutated;

/// Dimensions that a label shows.
const MOST_DIMS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    Input,
    Output,
    Constant,
    /// A tensor that starts as a constant and is written in place.
    State,
    /// A value that nothing computes.
    Loose,
}

pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) lines: Vec<String>,
}

pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
    /// Tensors are drawn as lines, numbers as dashes.
    pub(super) is_tensor: bool,
}

/// The picture of one graph. Edges name nodes by their position.
pub(super) struct Cluster {
    pub(super) title: String,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

impl Cluster {
    /// The picture of `graph`, unless it has more than `most` edges: calls can share a long list of values, and a file of
    /// that kind would draw for ever.
    pub(super) fn new(title: String, graph: &Graph, most: usize) -> Option<Self> {
        let mut builder = Builder { graph, makers: BTreeMap::new(), nodes: Vec::new(), edges: Vec::new() };
        for (index, &id) in graph.inputs.iter().enumerate() {
            let node = builder.node(Kind::Input, vec![format!("input {index}"), builder.describe(id)]);
            builder.makers.insert(id, node);
        }
        for (call, mutated) in graph.chain.iter().zip(mutated(graph)) {
            let node = builder.node(Kind::Call, vec![EscapedText::name(&call.name).to_string()]);
            let Some((output, inputs)) = call.args.split_last() else { continue };
            for &id in inputs.iter().flat_map(|id| items(graph, id)) {
                builder.connect(id, node);
                if builder.edges.len() > most {
                    return None;
                }
            }
            for &id in mutated.iter().chain(items(graph, output)) {
                builder.makers.insert(id, node);
            }
        }
        for (index, &id) in graph.outputs.iter().enumerate() {
            let node = builder.node(Kind::Output, vec![format!("output {index}"), builder.describe(id)]);
            builder.connect(id, node);
        }
        Some(Self { title, nodes: builder.nodes, edges: builder.edges })
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    /// The node that computed or last changed a value.
    makers: BTreeMap<ValueId, usize>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

impl Builder<'_> {
    fn node(&mut self, kind: Kind, lines: Vec<String>) -> usize {
        self.nodes.push(Node { kind, lines });
        self.nodes.len() - 1
    }

    /// Adds an edge from the node that computed a value. Plain numbers and strings have none.
    fn connect(&mut self, id: ValueId, to: usize) {
        let Some(value @ (Value::Tensor(_) | Value::SymInt(_))) = self.graph.value(id) else { return };
        let from = match self.makers.get(&id) {
            Some(&node) => node,
            None => self.source(id),
        };
        let is_tensor = matches!(value, Value::Tensor(_));
        self.edges.push(Edge { from, to, label: self.describe(id), is_tensor });
    }

    /// A node for a value that no call computes.
    fn source(&mut self, id: ValueId) -> usize {
        let tensor = self.graph.value(id).and_then(Value::as_tensor);
        let (kind, name) = match tensor {
            Some(tensor) if tensor.constant.is_some() && tensor.memory_object.is_some() => (Kind::State, "state"),
            Some(tensor) if tensor.constant.is_some() => (Kind::Constant, "constant"),
            _ => (Kind::Loose, "value"),
        };
        let node = self.node(kind, vec![format!("{name} {id}"), self.describe(id)]);
        self.makers.insert(id, node);
        node
    }

    fn describe(&self, id: ValueId) -> String {
        match self.graph.value(id) {
            Some(Value::Tensor(tensor)) => {
                let more = tensor.dims.get(MOST_DIMS..).is_some_and(|more| !more.is_empty());
                let dims = tensor.dims.iter().take(MOST_DIMS).map(ToString::to_string);
                let dims: Vec<_> = dims.chain(more.then(|| "…".to_owned())).collect();
                format!("{} {}", tensor.dtype.name(), dims.join("×")).trim_end().to_owned()
            }
            Some(Value::SymInt(_)) => "symint".to_owned(),
            Some(value) => value.kind().to_owned(),
            None => String::new(),
        }
    }
}

/// The values a list holds, or the value itself. Lists do not hold lists.
fn items<'a>(graph: &'a Graph, id: &'a ValueId) -> &'a [ValueId] {
    match graph.value(*id) {
        Some(Value::ValueList(items)) => items,
        _ => std::slice::from_ref(id),
    }
}
