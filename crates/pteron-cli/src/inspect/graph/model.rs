//! Nodes and edges of a picture, before they are spelled in any language.

/// More than any picture can show.
pub(super) const MOST_EDGES: usize = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operator on the GPU.
    Call,
    /// A kernel on the host.
    Host,
    /// A jump that the host takes or not.
    Jump,
    Input,
    Output,
    Constant,
    /// A tensor that lasts from call to call.
    State,
}

pub(super) struct Node {
    /// The cluster it is in, by index.
    pub(super) cluster: usize,
    pub(super) kind: Kind,
    pub(super) lines: Vec<String>,
}

pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
    /// Tensors are drawn as lines, numbers and jumps as dashes.
    pub(super) is_tensor: bool,
}

/// Methods to be drawn. Edges name nodes by their index.
#[derive(Default)]
pub(super) struct Picture {
    /// The titles of clusters: a GPU graph each, or the host's part of a method.
    pub(super) clusters: Vec<String>,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
}

/// A picture with too many edges: calls can share a long list of values, and a file of that kind would be drawn for ever.
#[derive(Debug)]
pub(super) struct Crowded;

impl Picture {
    pub(super) fn cluster(&mut self, title: String) -> usize {
        self.clusters.push(title);
        self.clusters.len() - 1
    }

    pub(super) fn node(&mut self, cluster: usize, kind: Kind, lines: Vec<String>) -> usize {
        self.nodes.push(Node { cluster, kind, lines });
        self.nodes.len() - 1
    }

    pub(super) fn edge(&mut self, edge: Edge) -> Result<(), Crowded> {
        self.edges.push(edge);
        if self.edges.len() > MOST_EDGES { Err(Crowded) } else { Ok(()) }
    }

    /// The name of a node in a graph language.
    pub(super) fn name(&self, node: usize) -> String {
        format!("g{}n{node}", self.nodes.get(node).map_or(0, |node| node.cluster))
    }

    /// The nodes of a cluster, with their indices.
    pub(super) fn nodes_of(&self, cluster: usize) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(move |(_, node)| node.cluster == cluster)
    }
}
