//! Putting fused calls in the place of those they stand for.

use std::collections::HashMap;

use pteron_format::vulkan::{self, Call, ValueId};

use super::linears::Linears;
use super::sizes::{Sizes, VIEW};
use super::uses::{Uses, tensor};
use crate::args::Args;
use crate::graph::{Graph, Role};
use crate::ops::linears_q4gsw;

/// A graph under the hands of a pass: what it is, and what is to become of it.
pub(super) struct Editor<'a> {
    pub(super) graph: &'a Graph,
    pub(super) uses: Uses,
    pub(super) sizes: Sizes,
    largest_binding: u64,
    /// The graph's values, and those of new calls.
    source: vulkan::Graph,
    /// Calls that another stands for.
    taken: Vec<bool>,
    /// New calls, by the position they come at.
    new: HashMap<usize, Call>,
}

impl<'a> Editor<'a> {
    pub(super) fn new(graph: &'a Graph, largest_binding: u64) -> Self {
        Self {
            graph,
            uses: Uses::new(graph),
            sizes: Sizes::new(graph),
            largest_binding,
            source: graph.source.clone(),
            taken: vec![false; graph.nodes.len()],
            new: HashMap::new(),
        }
    }

    /// The calls in order.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &'a Call)> + use<'a> {
        self.graph.source.chain.iter().enumerate()
    }

    pub(super) fn call(&self, index: usize) -> &'a Call {
        &self.graph.source.chain[index]
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
            if !self.sizes.same(x, value) || self.uses.only_reader(x) != Some(view) {
                break;
            }
            value = x;
            views.push(view);
        }
        (value, views)
    }

    /// Whether a fused call can be made: nothing that it reads changes, and its operator takes it.
    pub(super) fn takes(&mut self, linears: &Linears) -> bool {
        let fixed = |id: &ValueId| matches!(self.graph.role(tensor(*id)), Role::Constant(_));
        let constants = linears.constants(self.graph);
        let still = linears.reads().all(|id| !self.uses.is_changed(id)) && constants.iter().flatten().all(fixed);
        if !still || linears.largest_buffer(self.graph) > self.largest_binding {
            return false;
        }
        let values = self.source.values.len();
        let call = linears.call(&mut self.source);
        let mut args = Args::new(&self.source, &self.graph.tensors, &call);
        let taken = (linears_q4gsw::DEF.decode)(&mut args).is_ok() && args.finish().is_ok();
        self.source.values.truncate(values);
        taken
    }

    /// Puts a call at the place of one of those it stands for, unless another stands for one of them or it cannot be made;
    /// whether it could.
    pub(super) fn replace(&mut self, calls: &[usize], at: usize, linears: &Linears) -> bool {
        if calls.iter().any(|&call| self.taken[call]) || !self.takes(linears) {
            return false;
        }
        calls.iter().for_each(|&call| self.taken[call] = true);
        let call = linears.call(&mut self.source);
        self.new.insert(at, call);
        true
    }

    pub(super) fn is_taken(&self, call: usize) -> bool {
        self.taken[call]
    }

    /// The edited graph and where its calls are in the file; `None` if nothing was edited.
    pub(super) fn finish(mut self) -> Option<(vulkan::Graph, Vec<usize>)> {
        if self.new.is_empty() {
            return None;
        }
        let mut chain = Vec::with_capacity(self.source.chain.len());
        let mut calls = Vec::with_capacity(self.source.chain.len());
        for (index, call) in std::mem::take(&mut self.source.chain).into_iter().enumerate() {
            let call = match self.new.remove(&index) {
                Some(new) => new,
                None if self.taken[index] => continue,
                None => call,
            };
            chain.push(call);
            calls.push(self.graph.nodes[index].call);
        }
        self.source.chain = chain;
        Some((self.source, calls))
    }
}
