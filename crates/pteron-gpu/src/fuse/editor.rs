//! Putting fused calls in the place of those they stand for.

use std::collections::{HashMap, HashSet};

use super::MOST_IN_CHAIN;
use super::def_use::{DefUse, tensor};
use super::fused_linear::FusedLinear;
use super::same_dims::{SameDims, VIEW};
use crate::args::Args;
use crate::graph::{Graph, Role};
use crate::ir::{self, Call, Value, ValueId};
use crate::memory::joined;
use crate::ops::{OpDef, fused_linear_q4gsw};

/// A graph under the hands of a pass: what it is, and what is to become of it.
pub(super) struct Editor<'a> {
    pub(super) graph: &'a Graph,
    pub(super) uses: DefUse,
    pub(super) sizes: SameDims,
    largest_binding: u64,
    /// The graph's values, and those of new calls.
    source: ir::Graph,
    /// Calls that another stands for.
    taken: Vec<bool>,
    /// New calls, by the position they come at.
    new: HashMap<usize, Call>,
}

impl<'a> Editor<'a> {
    pub(super) fn new(graph: &'a Graph, largest_binding: u64) -> Self {
        Self {
            graph,
            uses: DefUse::new(graph),
            sizes: SameDims::new(graph),
            largest_binding,
            source: graph.source.clone(),
            taken: vec![false; graph.nodes.len()],
            new: HashMap::new(),
        }
    }

    /// The calls in order.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &'a Call)> + use<'a> {
        self.graph.source.calls.iter().enumerate()
    }

    pub(super) fn call(&self, index: usize) -> &'a Call {
        &self.graph.source.calls[index]
    }

    /// The call that computes a value, if it is one of this name with so many arguments.
    pub(super) fn writer<const N: usize>(&self, value: ValueId, name: &str) -> Option<(usize, [ValueId; N])> {
        let index = self.uses.writer(value)?;
        let call = self.call(index);
        Some((index, call.args.as_slice().try_into().ok().filter(|_| call.name == name)?))
    }

    /// The value that a view keeps as it is, dims and all, and the calls of such views on the way, if nobody else reads those.
    pub(super) fn behind_views(&self, value: ValueId) -> (ValueId, Vec<usize>) {
        let (mut value, mut views) = (value, Vec::new());
        while let Some((view, [x, _, _])) = self.writer(value, VIEW) {
            let kept = self.sizes.same(x, value) && self.uses.only_reader(x) == Some(view);
            if !kept || views.len() == MOST_IN_CHAIN {
                break;
            }
            value = x;
            views.push(view);
        }
        (value, views)
    }

    /// Whether a fused call can be made: nothing that it reads changes, and its operator takes it.
    pub(super) fn takes(&mut self, linears: &FusedLinear) -> bool {
        let fixed = |id: &ValueId| matches!(self.graph.role(tensor(*id)), Role::Constant(_));
        let constants = linears.constants(self.graph);
        let still = linears.reads().all(|id| !self.uses.is_changed(id)) && constants.iter().flatten().all(fixed);
        if !still || !constants.iter().all(|list| self.fit_together(list)) {
            return false;
        }
        let values = self.source.values.len();
        let call = linears.call(&mut self.source);
        let taken = self.decodes(&call, &fused_linear_q4gsw::DEF);
        self.source.values.truncate(values);
        taken
    }

    /// Whether constants behind one another fit a binding.
    pub(super) fn fit_together(&self, constants: &[ValueId]) -> bool {
        let bytes = |&id: &ValueId| {
            let info = self.graph.info(tensor(id));
            info.elem.bytes(info.bound.count())
        };
        joined(constants.iter().map(bytes)).1 <= self.largest_binding
    }

    /// Whether an operator takes a call.
    fn decodes(&self, call: &Call, def: &OpDef) -> bool {
        let mut args = Args::new(&self.source, &self.graph.tensors, &self.graph.roles, call);
        (def.decode)(&mut args).is_ok() && args.finish().is_ok()
    }

    /// Puts a call at the place of one of those it stands for, unless another stands for one of them or it cannot be made;
    /// whether it could.
    pub(super) fn replace(&mut self, calls: &[usize], at: usize, linears: &FusedLinear) -> bool {
        if calls.iter().any(|&call| self.taken[call]) || !self.takes(linears) {
            return false;
        }
        let call = linears.call(&mut self.source);
        self.put(calls, at, call);
        true
    }

    /// The same with a call of another operator.
    pub(super) fn replace_with(&mut self, calls: &[usize], at: usize, call: Call, def: &OpDef) -> bool {
        if calls.iter().any(|&call| self.taken[call]) || !self.decodes(&call, def) {
            return false;
        }
        self.put(calls, at, call);
        true
    }

    /// A list more among the values.
    pub(super) fn list(&mut self, values: Vec<ValueId>) -> ValueId {
        self.source.add(Value::ValueList(values))
    }

    /// Leaves one of a value's bound along a dimension.
    pub(super) fn shorten(&mut self, value: ValueId, axis: usize) {
        if let Some(Value::Tensor(tensor)) = self.source.values.get_mut(value.index())
            && let Some(dim) = tensor.dims.get_mut(axis)
        {
            *dim = 1;
        }
    }

    fn put(&mut self, calls: &[usize], at: usize, call: Call) {
        calls.iter().for_each(|&call| self.taken[call] = true);
        self.new.insert(at, call);
    }

    /// Takes away those of these calls whose answers only calls read that are gone, the last first.
    pub(super) fn take_unread(&mut self, calls: impl IntoIterator<Item = usize>) {
        let mut calls: Vec<usize> = calls.into_iter().collect();
        calls.sort_unstable();
        let read_by_new = self.read_by_new();
        for call in calls.into_iter().rev() {
            let flow = &self.graph.nodes[call].flow;
            let symbols = flow.scalar_writes.iter().map(|symbol| ValueId(symbol.0));
            let mut answers = flow.writes.iter().map(|tensor| ValueId(tensor.0)).chain(symbols);
            if flow.mutates.is_empty() && answers.all(|answer| self.is_unread(answer, &read_by_new)) {
                self.taken[call] = true;
            }
        }
    }

    /// Whether a value that calls of the graph read is read by none that is left.
    fn is_unread(&self, value: ValueId, read_by_new: &HashSet<ValueId>) -> bool {
        let readers = self.uses.readers_within(value);
        !readers.is_empty() && readers.iter().all(|&reader| self.taken[reader]) && !read_by_new.contains(&value)
    }

    /// The arguments of new calls, and what those list.
    fn read_by_new(&self) -> HashSet<ValueId> {
        let mut read: HashSet<ValueId> = self.new.values().flat_map(|call| &call.args).copied().collect();
        let listed = read.iter().filter_map(|&arg| match self.source.value(arg) {
            Some(Value::ValueList(ids)) => Some(ids),
            _ => None,
        });
        let listed: Vec<ValueId> = listed.flatten().copied().collect();
        read.extend(listed);
        read
    }

    pub(super) fn is_taken(&self, call: usize) -> bool {
        self.taken[call]
    }

    /// The edited graph; `None` if nothing was edited.
    pub(super) fn finish(mut self) -> Option<ir::Graph> {
        if self.new.is_empty() {
            return None;
        }
        let mut calls = Vec::with_capacity(self.source.calls.len());
        for (index, call) in std::mem::take(&mut self.source.calls).into_iter().enumerate() {
            let call = match self.new.remove(&index) {
                Some(new) => new.at(self.graph.nodes[index].call),
                None if self.taken[index] => continue,
                None => call,
            };
            calls.push(call);
        }
        self.source.calls = calls;
        Some(self.source)
    }
}
