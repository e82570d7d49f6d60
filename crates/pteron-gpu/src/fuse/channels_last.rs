//! Tensors between convolutions have channels last, so that kernels load neighbouring channels of a pixel at once. Calls that can compute
//! with channels last ([`Op::channels_last`](crate::plan::Op::channels_last)) are replaced; copies that permute dims are added where
//! others read or write a tensor.

use std::collections::HashMap;

use super::def_use::DefUse;
use super::editor::Editor;
use crate::graph::{DecodedGraph, Role, TensorInfo};
use crate::ir::{self, Call, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::ops::copy::permute_call;

/// A tensor with channels last in place of one with channels first.
#[derive(Clone, Copy, Debug)]
struct Moved {
    to: TensorId,
    /// Whether the one with channels first has been computed.
    is_computed: bool,
}

/// A call that is to compute with channels last: the tensors it may have so, and the graph that its new arguments belong to.
#[allow(missing_debug_implementations, reason = "a view of a graph that is edited")]
pub struct Relayout<'a> {
    graph: &'a DecodedGraph,
    uses: &'a DefUse,
    largest_binding: u64,
    /// The values of the edited graph.
    pub(crate) source: &'a mut ir::Graph,
    moved: &'a mut HashMap<TensorId, Moved>,
    calls: &'a mut Vec<Call>,
    /// The call as it is.
    pub(crate) call: &'a Call,
}

impl Relayout<'_> {
    /// The element type and the bound of a tensor of the graph.
    pub(crate) fn info(&self, tensor: TensorId) -> TensorInfo {
        self.graph.info(tensor)
    }

    pub(crate) fn is_constant(&self, tensor: TensorId) -> bool {
        matches!(self.graph.role(tensor), Role::Constant(_))
    }

    /// Whether constants of so many bytes fit a binding.
    pub(crate) fn fits_binding(&self, bytes: u64) -> bool {
        bytes <= self.largest_binding
    }

    /// Whether nothing reads a tensor.
    pub(crate) fn is_unused(&self, tensor: TensorId) -> bool {
        self.uses.is_unread(tensor)
    }

    /// The tensor with channels last, if there is one.
    pub(crate) fn moved(&self, tensor: TensorId) -> Option<TensorId> {
        self.moved.get(&tensor).map(|moved| moved.to)
    }

    /// Whether a tensor can have channels last: it has pixels, and nothing changes it in place.
    pub(crate) fn can_move(&self, tensor: TensorId) -> bool {
        (3..=4).contains(&self.info(tensor).bound.len()) && !self.uses.is_mutated(tensor)
    }

    /// The tensor with channels last, which is copied if there is none.
    pub(crate) fn moved_or_copied(&mut self, tensor: TensorId) -> TensorId {
        if let Some(moved) = self.moved(tensor) {
            return moved;
        }
        let to = self.add(tensor);
        self.moved.insert(tensor, Moved { to, is_computed: true });
        let copy = permute_call(self.source, tensor, &last_order(self.info(tensor).bound.len()), to);
        self.calls.push(copy.at(self.call.origin));
        to
    }

    /// A tensor with channels last that the new call writes in place of this one.
    pub(crate) fn output(&mut self, tensor: TensorId) -> TensorId {
        let to = self.add(tensor);
        self.moved.insert(tensor, Moved { to, is_computed: false });
        to
    }

    /// Adds a tensor like this one, with channels last.
    fn add(&mut self, tensor: TensorId) -> TensorId {
        let value = self.source.values.get(tensor.index()).and_then(Value::as_tensor);
        let dtype = value.map_or(ir::DataType::Float32, |value| value.dtype);
        let bound = self.info(tensor).bound;
        let dims: Vec<u32> = last_order(bound.len()).into_iter().map(|axis| bound[axis]).collect();
        let id = self.source.add(Value::Tensor(Tensor::new(dtype, &dims)));
        TensorId(id.0)
    }

    /// The axis with channels last of an axis of a tensor of this rank.
    pub(crate) fn axis(rank: usize, axis: usize) -> usize {
        match axis {
            0 => 0,
            1 => rank - 1,
            other => other - 1,
        }
    }
}

/// The axes of a tensor in the order that channels last have.
fn last_order(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

/// The axes of a tensor with channels last in the order that channels first have.
fn first_order(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

pub(super) fn find(editor: &mut Editor<'_>) {
    let mut moved = HashMap::new();
    let mut calls = Vec::with_capacity(editor.graph.nodes.len());
    let old = editor.source.calls.clone();
    for ((_, node), call) in editor.nodes().zip(&old) {
        let mut relayout = Relayout {
            graph: editor.graph,
            uses: &editor.uses,
            largest_binding: editor.largest_binding(),
            source: &mut editor.source,
            moved: &mut moved,
            calls: &mut calls,
            call,
        };
        if let Some(new) = node.op.channels_last(&mut relayout) {
            calls.push(new.at(call.origin));
            continue;
        }
        let touched = node.flow.reads.iter().chain(&node.flow.mutates);
        touched.for_each(|&tensor| restore(&mut editor.source, &mut moved, &mut calls, tensor, call.origin));
        calls.push(call.clone());
    }
    let last = old.last().map_or(0, |call| call.origin);
    for &output in &editor.graph.outputs {
        restore(&mut editor.source, &mut moved, &mut calls, output, last);
    }
    if !moved.is_empty() {
        editor.rewrite(calls);
    }
}

/// Adds the copy that computes a tensor with channels first, if only the one with channels last is computed.
fn restore(
    source: &mut ir::Graph,
    moved: &mut HashMap<TensorId, Moved>,
    calls: &mut Vec<Call>,
    tensor: TensorId,
    origin: usize,
) {
    let Some(twin) = moved.get_mut(&tensor).filter(|twin| !twin.is_computed) else { return };
    twin.is_computed = true;
    let rank = source.value(ValueId(tensor.0)).and_then(Value::as_tensor).map_or(0, |tensor| tensor.dims.len());
    if rank > 1 {
        calls.push(permute_call(source, twin.to, &first_order(rank), tensor).at(origin));
    }
}
