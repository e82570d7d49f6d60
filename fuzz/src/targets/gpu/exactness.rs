//! Selection of the outputs that can be compared with the reference.
//!
//! Kernels round where references do not. A number that is nearly a whole one, or nearly another, can then fall on the other
//! side of a step: outputs after such a step are not compared, unless its inputs were exact.

use pteron_gpu::graph::{DecodedGraph, Elem, Node};
use pteron_gpu::live::TensorId;
use pteron_gpu::reference::{HostData, HostTensors};

/// Operators that only move elements, or compute whole numbers.
const EXACT: &[&str] = &[
    "copy",
    "view",
    "slice",
    "select",
    "permute",
    "t_copy",
    "flip",
    "expand",
    "repeat",
    "cat",
    "split",
    "squeeze",
    "prepack",
    "clone",
    "gather",
    "index",
    "aten.embedding",
    "full",
    "zeros",
    "ones",
    "scalar_tensor",
    "pad",
    "where",
    "neg",
    "abs",
    "relu",
    "clamp",
    "hardtanh",
    "minimum",
    "amax",
    "amin",
    "eq.",
    "ne.",
    "lt.",
    "le.",
    "gt.",
    "ge.",
    "logical",
    "bitwise",
    "round",
    "arg",
    "update_cache",
    "store",
    "hardshrink",
];

/// Operators with discontinuities: nearly equal inputs may give very different outputs.
const STEPS: &[&str] = &[
    "eq.",
    "ne.",
    "lt.",
    "le.",
    "gt.",
    "ge.",
    "logical",
    "bitwise",
    "round",
    "arg",
    "Tensor_mode",
    "quantize",
    "qparams",
    "dq8ca",
    "sqrt",
    "log10",
    "pow",
    "div",
    "exp",
    "hardshrink",
    "where",
    "_to_copy",
    "_to_dim_order",
    "norm",
    "softmax",
];

/// Per tensor, whether its values are exact, and comparable.
#[derive(Debug)]
pub(super) struct Exactness {
    inexact: Vec<bool>,
    unsure: Vec<bool>,
    elems: Vec<Elem>,
}

impl Exactness {
    pub(super) fn new(graph: &DecodedGraph) -> Self {
        let none = vec![false; graph.tensors.len()];
        let elems = graph.tensors.iter().map(|info| info.map_or(Elem::F32, |info| info.elem)).collect();
        Self { inexact: none.clone(), unsure: none, elems }
    }

    /// Whether a tensor's elements are the references', but for rounding.
    pub(super) fn comparable(&self, tensor: TensorId) -> bool {
        !self.unsure[tensor.0 as usize]
    }

    /// Takes in an operator that is about to run.
    pub(super) fn look_at(&mut self, node: &Node, tensors: &HostTensors) {
        let is = |names: &[&str]| names.iter().any(|name| node.name.contains(name));
        let flow = &node.flow;
        let read = |flags: &[bool]| flow.reads.iter().chain(&flow.mutates).any(|tensor| flags[tensor.0 as usize]);
        let writes = flow.writes.iter().chain(&flow.mutates);
        let floats = writes.clone().any(|tensor| self.elems[tensor.0 as usize] == Elem::F32);
        // Files bring sums of weights, which kernels check and do not use: those made here are of no weights.
        let sums = is(&["dq8ca"]);
        // A linear that quantises rows after a norm of its own, which devices round differently, or inexact rows.
        let quantises = is(&["fused_linear"]) && format!("{:?}", node.op).contains("int8_eps: Some");
        let steps = quantises && (read(&self.inexact) || !format!("{:?}", node.op).contains("norm: None"));
        let narrows = is(&["_to_copy", "_to_dim_order", "quantize"]) && self.overflows(node, tensors);
        let unsure = read(&self.unsure) || (is(STEPS) && read(&self.inexact)) || narrows || sums || steps;
        let inexact = read(&self.inexact) || (floats && !is(EXACT));
        for tensor in writes {
            self.unsure[tensor.0 as usize] |= unsure;
            self.inexact[tensor.0 as usize] |= inexact;
        }
    }

    /// Whether a float goes to a type that cannot hold it, where devices differ.
    fn overflows(&self, node: &Node, tensors: &HostTensors) -> bool {
        let (from, to) = match node.flow.writes.first().map(|out| self.elems[out.0 as usize]) {
            Some(Elem::I32) => (-2.0e9, 2.0e9),
            Some(Elem::U8) => (0.0, 255.0),
            Some(Elem::I8) => (-128.0, 127.0),
            _ => return false,
        };
        let wild = |tensor: &TensorId| match tensors.get(*tensor).map(|tensor| &tensor.data) {
            Some(HostData::F32(values)) => values.iter().any(|value| !(from..=to).contains(value)),
            _ => false,
        };
        node.flow.reads.iter().any(wild)
    }
}
