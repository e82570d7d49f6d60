//! Replaces calls of a graph by fused ones.

use std::collections::{HashMap, HashSet};

use super::MAX_CHAIN;
use super::def_use::DefUse;
use super::operators;
use super::same_dims::SameDims;
use crate::args::Args;
use crate::graph::{self, DecodedGraph, Node, Role, TensorInfo};
use crate::ir::{self, Call, DataType, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::memory::joined;
use crate::ops::copy::CopyKind;
use crate::ops::fused_linear::{FusedLinear, FusedLinearOp};
use crate::plan::Op;

/// A graph and the edits of one fusion.
pub(super) struct Editor<'a> {
    pub(super) graph: &'a DecodedGraph,
    pub(super) uses: DefUse,
    pub(super) dims: SameDims,
    largest_binding: u64,
    /// The graph's values, and those of new calls.
    pub(super) source: ir::Graph,
    /// Calls that are replaced or removed.
    removed: Vec<bool>,
    /// New calls, by their position.
    new: HashMap<usize, Vec<Call>>,
    /// Element types, bounds and roles of the values of `source`.
    tensors: Vec<Option<TensorInfo>>,
    roles: Vec<Role>,
    /// All calls, where a fusion replaces them at once.
    rewritten: Option<Vec<Call>>,
}

impl<'a> Editor<'a> {
    pub(super) fn new(graph: &'a DecodedGraph, largest_binding: u64) -> Self {
        Self {
            graph,
            uses: DefUse::new(graph),
            dims: SameDims::new(graph),
            largest_binding,
            source: graph.source.clone(),
            removed: vec![false; graph.nodes.len()],
            new: HashMap::new(),
            tensors: graph.tensors.clone(),
            roles: graph.roles.clone(),
            rewritten: None,
        }
    }

    /// The decoded calls in order.
    pub(super) fn nodes(&self) -> impl DoubleEndedIterator<Item = (usize, &'a Node)> + use<'a> {
        self.graph.nodes.iter().enumerate()
    }

    pub(super) fn node(&self, index: usize) -> &'a Node {
        &self.graph.nodes[index]
    }

    /// The call that writes a tensor, if its operator is a `T`.
    pub(super) fn writer<T: Op>(&self, tensor: TensorId) -> Option<(usize, &'a T)> {
        let index = self.uses.writer(tensor)?;
        Some((index, self.node(index).op.downcast()?))
    }

    /// The call that writes a tensor, with its index.
    pub(super) fn writing_node(&self, tensor: TensorId) -> Option<(usize, &'a Node)> {
        self.uses.writer(tensor).map(|index| (index, self.node(index)))
    }

    /// The tensor before views that keep its dims and have no other reader, and the calls of those views.
    pub(super) fn before_views(&self, tensor: TensorId) -> (TensorId, Vec<usize>) {
        self.before(tensor, SameDims::same)
    }

    /// As [`before_views`](Self::before_views), with views that keep the length of its rows.
    pub(super) fn before_views_of_rows(&self, tensor: TensorId) -> (TensorId, Vec<usize>) {
        self.before(tensor, SameDims::same_rows)
    }

    fn before(&self, tensor: TensorId, keeps: fn(&SameDims, TensorId, TensorId) -> bool) -> (TensorId, Vec<usize>) {
        let (mut tensor, mut views) = (tensor, Vec::new());
        while let Some((index, node)) = self.writing_node(tensor)
            && let Some((view, CopyKind::View(_))) = operators::copy(node)
        {
            let kept = keeps(&self.dims, view.from, tensor) && self.uses.only_reader(view.from) == Some(index);
            if !kept || views.len() == MAX_CHAIN {
                break;
            }
            tensor = view.from;
            views.push(index);
        }
        (tensor, views)
    }

    /// Whether a fused call is valid: nothing it reads is mutated, its constants fit a binding, and its operator accepts it.
    pub(super) fn accepts(&mut self, linear: &FusedLinear) -> bool {
        let fixed = |tensor: &TensorId| matches!(self.graph.role(*tensor), Role::Constant(_));
        let mut reads = linear.reads();
        let unchanged = reads.all(|tensor| !self.uses.is_mutated(tensor)) && linear.constants().iter().flatten().all(fixed);
        if !unchanged {
            return false;
        }
        let values = self.source.values.len();
        let call = linear.call(&mut self.source);
        let largest = self.decoded(&call).and_then(|op| Some(op.downcast::<FusedLinearOp>()?.largest_binding()));
        self.source.values.truncate(values);
        self.tensors.truncate(values);
        self.roles.truncate(values);
        largest.is_some_and(|largest| largest <= self.largest_binding)
    }

    /// Whether constants fit one binding in total.
    pub(super) fn fits_binding(&self, constants: &[TensorId]) -> bool {
        let bytes = |&tensor: &TensorId| {
            let info = self.graph.info(tensor);
            info.elem.bytes(info.bound.count())
        };
        joined(constants.iter().map(bytes)).1 <= self.largest_binding
    }

    /// The operator of a call, if it accepts its arguments.
    fn decoded(&mut self, call: &Call) -> Option<Box<dyn Op>> {
        for (id, value) in (0..).zip(&self.source.values).skip(self.tensors.len()) {
            self.tensors.push(graph::tensor_info((id, value)).ok()?);
            self.roles.push(Role::Computed);
        }
        let mut args = Args::new(&self.source, &self.tensors, &self.roles, call);
        let op = (call.def.decode)(&mut args).ok()?;
        args.finish().ok().map(|_| op)
    }

    /// Replaces calls by a fused linear at the position of one of them, unless one of them is replaced already or the fused call
    /// is not valid. Returns whether it did.
    pub(super) fn replace(&mut self, calls: &[usize], at: usize, linear: &FusedLinear) -> bool {
        if calls.iter().any(|&call| self.removed[call]) || !self.accepts(linear) {
            return false;
        }
        let call = linear.call(&mut self.source);
        self.put(calls, at, vec![call]);
        true
    }

    /// As [`replace`](Self::replace), with any call.
    pub(super) fn replace_with(&mut self, calls: &[usize], at: usize, call: Call) -> bool {
        self.replace_with_all(calls, at, vec![call])
    }

    /// As [`replace`](Self::replace), with several calls in order.
    pub(super) fn replace_with_all(&mut self, calls: &[usize], at: usize, new: Vec<Call>) -> bool {
        if calls.iter().any(|&call| self.removed[call]) || new.iter().any(|call| self.decoded(call).is_none()) {
            return false;
        }
        self.put(calls, at, new);
        true
    }

    /// A tensor for new calls.
    pub(super) fn tensor(&mut self, dtype: DataType, bound: &[u32]) -> TensorId {
        TensorId(self.source.add(Value::Tensor(Tensor::new(dtype, bound))).0)
    }

    /// Replaces all calls.
    pub(super) fn rewrite(&mut self, calls: Vec<Call>) {
        self.rewritten = Some(calls);
    }

    /// The most bytes of constants in one buffer.
    pub(super) fn largest_binding(&self) -> u64 {
        self.largest_binding
    }

    /// Sets a tensor's bound.
    pub(super) fn reshape(&mut self, tensor: TensorId, bound: Vec<u32>) {
        if let Some(Value::Tensor(tensor)) = self.source.values.get_mut(tensor.index()) {
            tensor.dims = bound;
        }
    }

    /// Sets a tensor's bound along a dimension to 1.
    pub(super) fn shorten(&mut self, tensor: TensorId, axis: usize) {
        if let Some(Value::Tensor(tensor)) = self.source.values.get_mut(tensor.index())
            && let Some(dim) = tensor.dims.get_mut(axis)
        {
            *dim = 1;
        }
    }

    fn put(&mut self, calls: &[usize], at: usize, new: Vec<Call>) {
        calls.iter().for_each(|&call| self.removed[call] = true);
        self.new.insert(at, new);
    }

    /// Removes those of these calls whose results only removed calls read, the last first.
    pub(super) fn remove_dead(&mut self, calls: impl IntoIterator<Item = usize>) {
        let mut calls: Vec<usize> = calls.into_iter().collect();
        calls.sort_unstable();
        let read_by_new = self.read_by_new();
        for call in calls.into_iter().rev() {
            let flow = &self.graph.nodes[call].flow;
            let tensors = flow.writes.iter().map(|&tensor| (ValueId(tensor.0), self.uses.inner_readers(tensor)));
            let symbols = flow.scalar_writes.iter().map(|&symbol| (ValueId(symbol.0), self.uses.symbol_readers(symbol)));
            let is_dead = |(result, readers): (ValueId, &[usize])| {
                !readers.is_empty() && readers.iter().all(|&reader| self.removed[reader]) && !read_by_new.contains(&result)
            };
            if flow.mutates.is_empty() && tensors.chain(symbols).all(is_dead) {
                self.removed[call] = true;
            }
        }
    }

    /// The arguments of new calls, and the items of their lists.
    fn read_by_new(&self) -> HashSet<ValueId> {
        let mut read: HashSet<ValueId> = self.new.values().flatten().flat_map(|call| &call.args).copied().collect();
        let listed = read.iter().filter_map(|&arg| match self.source.value(arg) {
            Some(Value::ValueList(ids)) => Some(ids),
            _ => None,
        });
        let listed: Vec<ValueId> = listed.flatten().copied().collect();
        read.extend(listed);
        read
    }

    pub(super) fn is_removed(&self, call: usize) -> bool {
        self.removed[call]
    }

    /// The edited graph; `None` if nothing was edited.
    pub(super) fn finish(mut self) -> Option<ir::Graph> {
        if let Some(calls) = self.rewritten {
            self.source.calls = calls;
            return Some(self.source);
        }
        if self.new.is_empty() {
            return None;
        }
        let mut calls = Vec::with_capacity(self.source.calls.len());
        for (index, call) in std::mem::take(&mut self.source.calls).into_iter().enumerate() {
            match self.new.remove(&index) {
                Some(new) => calls.extend(new.into_iter().map(|call| call.at(self.graph.nodes[index].call))),
                None if self.removed[index] => {}
                None => calls.push(call),
            }
        }
        self.source.calls = calls;
        Some(self.source)
    }
}
