//! What is known of the sizes of tensors before any call: which of them are equal at every live shape.
//!
//! Bounds do not tell: tensors with one bound may differ when they are live, and then a sum of them repeats the smaller one.

use std::collections::HashMap;

use super::def_use::tensor;
use super::fused_linear::FusedLinear;
use crate::args::normalise;
use crate::graph::{Graph, Role, TensorInfo};
use crate::ir::{Call, Value, ValueId};
use crate::live::TensorId;
use crate::shape::MAX_RANK;

pub(super) const ADD: &str = "aten.add.Tensor";
pub(super) const MUL: &str = "aten.mul.Tensor";
pub(super) const NORM: &str = "et_vk.rms_norm.default";
pub(super) const SIGMOID: &str = "aten.sigmoid.default";
pub(super) const VIEW: &str = "aten.view_copy.default";
const EMBEDDING: &str = "aten.embedding.default";
const EMBEDDING_Q4: &str = "et_vk.embedding_q4gsw.default";
const SYM_SIZE: &str = "sym_size.int";

/// A size, the same in every call if it is equal. A dimension whose bound is 1 counts as 1: it has that or no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fixed(u32),
    /// What a dimension of a tensor is that nothing else is known of.
    Of(TensorId, usize),
    /// A symbol that is no tensor's size.
    Symbol(ValueId),
}

pub(super) struct SameDims {
    tensors: Vec<Vec<Size>>,
    symbols: HashMap<ValueId, Size>,
}

impl SameDims {
    pub(super) fn new(graph: &Graph) -> Self {
        let own = |(id, info): (u32, &Option<TensorInfo>)| {
            let tensor = TensorId(id);
            let fixed = matches!(graph.role(tensor), Role::Constant(_) | Role::State(_));
            let size = |(axis, &bound): (usize, &u32)| {
                if fixed || bound == 1 { Size::Fixed(bound) } else { Size::Of(tensor, axis) }
            };
            info.map_or_else(Vec::new, |info| info.bound.iter().enumerate().map(size).collect())
        };
        let mut sizes = Self { tensors: (0..).zip(&graph.tensors).map(own).collect(), symbols: HashMap::new() };
        for call in &graph.source.calls {
            sizes.follow(graph, call);
        }
        sizes
    }

    /// Whether two tensors have the same dims at every live shape.
    pub(super) fn same(&self, a: ValueId, b: ValueId) -> bool {
        match (self.tensors.get(a.index()), self.tensors.get(b.index())) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// Whether a symbol that is written once is the size of a dimension of a tensor.
    pub(super) fn is_size(&self, symbol: ValueId, value: ValueId, axis: usize) -> bool {
        let size = self.tensors.get(value.index()).and_then(|sizes| sizes.get(axis));
        size.is_some() && self.symbols.get(&symbol) == size
    }

    fn of(&self, value: ValueId) -> Option<Vec<Size>> {
        self.tensors.get(value.index()).cloned()
    }

    /// Takes over what a call says of the sizes of its output.
    fn follow(&mut self, graph: &Graph, call: &Call) {
        let args = call.args.as_slice();
        let Some(&out) = args.last() else { return };
        match (call.name, args) {
            (SYM_SIZE, &[x, dim, _]) => {
                let (Some(dims), Some(Value::Int(dim))) = (self.tensors.get(x.index()), graph.source.value(dim)) else {
                    return;
                };
                if let Some(&size) = normalise(*dim, dims.len()).and_then(|axis| dims.get(axis)) {
                    self.symbols.insert(out, size);
                }
            }
            (VIEW, &[x, sizes, _]) => {
                let sizes = self.viewed(graph, x, sizes, out);
                self.set(graph, out, sizes);
            }
            (NORM | SIGMOID, &[x, ..]) => self.set(graph, out, self.of(x)),
            (ADD | MUL, &[a, b, ..]) if self.same(a, b) => self.set(graph, out, self.of(a)),
            (EMBEDDING, &[table, tokens, ..]) | (EMBEDDING_Q4, &[table, _, _, tokens, ..]) => {
                if matches!(graph.role(tensor(table)), Role::Constant(_)) {
                    let width = graph.info(tensor(out)).bound.last();
                    let sizes = self.of(tokens).map(|tokens| [tokens, vec![Size::Fixed(width)]].concat());
                    self.set(graph, out, sizes);
                }
            }
            _ => self.follow_linears(graph, call),
        }
    }

    /// The answers of linears have the sizes of their input but for the last.
    fn follow_linears(&mut self, graph: &Graph, call: &Call) {
        let Some(linears) = FusedLinear::of(graph, call) else { return };
        for (&out, &weight) in linears.outputs.iter().zip(&linears.weights) {
            if !matches!(graph.role(tensor(weight)), Role::Constant(_)) {
                continue;
            }
            let mut sizes = self.of(linears.x);
            if let Some(last) = sizes.as_mut().and_then(|sizes| sizes.last_mut()) {
                *last = Size::Fixed(graph.info(tensor(weight)).bound.first().copied().unwrap_or(0));
            }
            self.set(graph, out, sizes);
        }
    }

    /// The sizes of a view. Symbols among them say them exactly; numbers alone describe the tensor at its bound, and where
    /// they are that bound the view follows the tensor.
    fn viewed(&self, graph: &Graph, x: ValueId, sizes: ValueId, out: ValueId) -> Option<Vec<Size>> {
        let number = |item: &ValueId| match graph.source.value(*item)? {
            Value::Int(size) => Some(Size::Fixed(u32::try_from(*size).ok()?)),
            Value::SymInt => Some(self.symbols.get(item).copied().unwrap_or(Size::Symbol(*item))),
            _ => None,
        };
        let symbolic = |item: &ValueId| matches!(graph.source.value(*item), Some(Value::SymInt));
        match graph.source.value(sizes)? {
            Value::ValueList(items) if items.len() > MAX_RANK => None,
            Value::ValueList(items) if items.iter().any(symbolic) => items.iter().map(number).collect(),
            Value::ValueList(_) | Value::IntList(_) => {
                (graph.info(tensor(x)).bound == graph.info(tensor(out)).bound).then(|| self.of(x)).flatten()
            }
            _ => None,
        }
    }

    fn set(&mut self, graph: &Graph, out: ValueId, sizes: Option<Vec<Size>>) {
        let Some(own) = self.tensors.get_mut(out.index()) else { return };
        if let Some(mut sizes) = sizes.filter(|sizes| sizes.len() == own.len()) {
            for (size, &bound) in sizes.iter_mut().zip(graph.info(tensor(out)).bound.iter()) {
                if bound == 1 {
                    *size = Size::Fixed(1);
                }
            }
            *own = sizes;
        }
    }
}
