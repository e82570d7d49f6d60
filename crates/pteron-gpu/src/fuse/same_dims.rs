//! Tensors that have equal dims at every live shape.
//!
//! Equal bounds are not enough: tensors with equal bounds may have different live dims, and a sum of them broadcasts.

use std::collections::HashMap;

use super::operators::{self, Binary};
use crate::graph::{DecodedGraph, Node, Role, TensorInfo};
use crate::live::{Scalar, ScalarId, TensorId};
use crate::ops::copy::CopyKind;
use crate::ops::embedding_q4gsw::EmbeddingQ4;
use crate::ops::fused_linear_q4gsw::FusedLinear;
use crate::ops::rms_norm::RmsNorm;
use crate::ops::symint::{Source, SymInt};
use crate::shape::MAX_RANK;
use crate::strided_copy::gather::{Gather, GatherMode};

/// A size; equal sizes are the same number in every call. A dimension with bound 1 counts as 1: it is 1 or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fixed(u32),
    /// A dimension of a tensor of which nothing else is known.
    Of(TensorId, usize),
    /// A symbol that is not a tensor's size.
    Symbol(ScalarId),
}

pub(super) struct SameDims {
    tensors: Vec<Vec<Size>>,
    symbols: HashMap<ScalarId, Size>,
}

impl SameDims {
    pub(super) fn new(graph: &DecodedGraph) -> Self {
        let own = |(id, info): (u32, &Option<TensorInfo>)| {
            let tensor = TensorId(id);
            let fixed = matches!(graph.role(tensor), Role::Constant(_) | Role::State(_));
            let size = |(axis, &bound): (usize, &u32)| {
                if fixed || bound == 1 { Size::Fixed(bound) } else { Size::Of(tensor, axis) }
            };
            info.map_or_else(Vec::new, |info| info.bound.iter().enumerate().map(size).collect())
        };
        let mut dims = Self { tensors: (0..).zip(&graph.tensors).map(own).collect(), symbols: HashMap::new() };
        for node in &graph.nodes {
            dims.follow(graph, node);
        }
        dims
    }

    /// Whether two tensors have the same dims at every live shape.
    pub(super) fn same(&self, a: TensorId, b: TensorId) -> bool {
        match (self.tensors.get(a.index()), self.tensors.get(b.index())) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// Whether a symbol is the size of a dimension of a tensor.
    pub(super) fn is_size(&self, symbol: ScalarId, tensor: TensorId, axis: usize) -> bool {
        let size = self.tensors.get(tensor.index()).and_then(|sizes| sizes.get(axis));
        size.is_some() && self.symbols.get(&symbol) == size
    }

    fn of(&self, tensor: TensorId) -> Option<Vec<Size>> {
        self.tensors.get(tensor.index()).cloned()
    }

    /// Derives the sizes of a call's output.
    fn follow(&mut self, graph: &DecodedGraph, node: &Node) {
        if let Some(SymInt { source: Source::Size { x, axis }, out }) = node.op.downcast() {
            if let Some(&size) = self.tensors.get(x.index()).and_then(|dims| dims.get(*axis)) {
                self.symbols.insert(*out, size);
            }
        } else if let Some((view, CopyKind::View(sizes))) = operators::copy(node) {
            let sizes = self.viewed(graph, view.from, sizes, view.out);
            self.set(graph, view.out, sizes);
        } else if let Some((x, out)) =
            operators::sigmoid(node).or_else(|| node.op.downcast().map(|norm: &RmsNorm| (norm.x, norm.out)))
        {
            self.set(graph, out, self.of(x));
        } else if let Some(Binary { inputs: [a, b], out }) =
            operators::mul(node).or_else(|| operators::add(node).map(|(sum, _)| sum))
        {
            if self.same(a, b) {
                self.set(graph, out, self.of(a));
            }
        } else if let Some((table, indices, out)) = lookup(node) {
            if matches!(graph.role(table), Role::Constant(_)) {
                let width = graph.info(out).bound.last();
                let sizes = self.of(indices).map(|indices| [indices, vec![Size::Fixed(width)]].concat());
                self.set(graph, out, sizes);
            }
        } else if let Some(linear) = FusedLinear::of(node) {
            self.follow_linear(graph, &linear);
        }
    }

    /// The outputs of linears have the dims of their input except for the last.
    fn follow_linear(&mut self, graph: &DecodedGraph, linear: &FusedLinear) {
        for (&out, &weight) in linear.outputs.iter().zip(&linear.weights) {
            if !matches!(graph.role(weight), Role::Constant(_)) {
                continue;
            }
            let mut sizes = self.of(linear.x);
            if let Some(last) = sizes.as_mut().and_then(|sizes| sizes.last_mut()) {
                *last = Size::Fixed(graph.info(weight).bound.first().copied().unwrap_or(0));
            }
            self.set(graph, out, sizes);
        }
    }

    /// The sizes of a view. Symbols among them are exact; numbers alone describe the tensor at its bound, and a view with the
    /// tensor's own bound follows the tensor.
    fn viewed(&self, graph: &DecodedGraph, x: TensorId, sizes: &[Scalar], out: TensorId) -> Option<Vec<Size>> {
        if sizes.len() > MAX_RANK {
            return None;
        }
        let size = |size: &Scalar| match *size {
            Scalar::Fixed(size) => Some(Size::Fixed(u32::try_from(size).ok()?)),
            Scalar::Live(symbol) => Some(self.symbols.get(&symbol).copied().unwrap_or(Size::Symbol(symbol))),
        };
        if sizes.iter().any(|size| matches!(size, Scalar::Live(_))) {
            return sizes.iter().map(size).collect();
        }
        (graph.info(x).bound == graph.info(out).bound).then(|| self.of(x)).flatten()
    }

    fn set(&mut self, graph: &DecodedGraph, out: TensorId, sizes: Option<Vec<Size>>) {
        let Some(own) = self.tensors.get_mut(out.index()) else { return };
        if let Some(mut sizes) = sizes.filter(|sizes| sizes.len() == own.len()) {
            for (size, &bound) in sizes.iter_mut().zip(graph.info(out).bound.iter()) {
                if bound == 1 {
                    *size = Size::Fixed(1);
                }
            }
            *own = sizes;
        }
    }
}

/// The table, the indices and the output of a gather of rows: the output has the dims of the indices, and a row's length.
fn lookup(node: &Node) -> Option<(TensorId, TensorId, TensorId)> {
    if let Some(EmbeddingQ4 { weight, indices, out, .. }) = node.op.downcast() {
        return Some((*weight, *indices, *out));
    }
    let gather: &Gather = node.op.downcast()?;
    (gather.axis == 0 && gather.mode == GatherMode::Slices).then_some((gather.from, gather.index, gather.out))
}
