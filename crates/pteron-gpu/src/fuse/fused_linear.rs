//! Calls of linears with 4-bit weights, plain or fused, as one kind of value.

use crate::graph::Graph;
use crate::ir::{self, Call, Value, ValueId};
use crate::ops::fused_linear_q4gsw::{DEF, NAME};

/// The plain operator.
pub(super) const LINEAR: &str = "et_vk.linear_q4gsw.default";

/// The arguments of a call, in the order of the fused operator's. What may be absent is None's value then.
#[derive(Clone, Debug)]
pub(super) struct FusedLinear {
    pub(super) x: ValueId,
    /// The weight of a norm and what is added under its root.
    pub(super) norm: Option<(ValueId, ValueId)>,
    pub(super) weights: Vec<ValueId>,
    pub(super) scales: Vec<ValueId>,
    pub(super) group: ValueId,
    /// A tensor or None for each of the weights.
    pub(super) biases: Vec<ValueId>,
    pub(super) addend: Option<ValueId>,
    pub(super) gated: bool,
    /// Whether it takes the last rows of its inputs alone.
    pub(super) last: bool,
    pub(super) outputs: Vec<ValueId>,
}

impl FusedLinear {
    /// A call of either operator.
    pub(super) fn of(graph: &Graph, call: &Call) -> Option<Self> {
        Self::plain(call).or_else(|| Self::fused(&graph.source, call))
    }

    /// A call of the plain operator.
    pub(super) fn plain(call: &Call) -> Option<Self> {
        match *call.args.as_slice() {
            [x, weight, scales, group, bias, out] if call.name == LINEAR => Some(Self {
                x,
                norm: None,
                weights: vec![weight],
                scales: vec![scales],
                group,
                biases: vec![bias],
                addend: None,
                gated: false,
                last: false,
                outputs: vec![out],
            }),
            _ => None,
        }
    }

    /// A call of the fused operator, as passes write it.
    fn fused(source: &ir::Graph, call: &Call) -> Option<Self> {
        let &[x, norm, eps, weights, scales, group, biases, addend, gated, last, outputs] = call.args.as_slice() else {
            return None;
        };
        if call.name != NAME {
            return None;
        }
        let list = |id| match source.value(id) {
            Some(Value::ValueList(ids)) => Some(ids.clone()),
            _ => None,
        };
        let some = |id| (source.value(id) != Some(&Value::Null)).then_some(id);
        let flag = |id| match source.value(id) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        };
        Some(Self {
            x,
            norm: some(norm).map(|norm| (norm, eps)),
            weights: list(weights)?,
            scales: list(scales)?,
            group,
            biases: list(biases)?,
            addend: some(addend),
            gated: flag(gated)?,
            last: flag(last)?,
            outputs: list(outputs)?,
        })
    }

    /// The fused operator's call, its lists added to the graph's values.
    pub(super) fn call(&self, source: &mut ir::Graph) -> Call {
        let none = source.add(Value::Null);
        let [weights, scales, biases, outputs] = [&self.weights, &self.scales, &self.biases, &self.outputs]
            .map(|list| source.add(Value::ValueList(list.clone())));
        let (norm, eps) = self.norm.unwrap_or((none, none));
        let [gated, last] = [self.gated, self.last].map(|flag| source.add(Value::Bool(flag)));
        let addend = self.addend.unwrap_or(none);
        let args = vec![self.x, norm, eps, weights, scales, self.group, biases, addend, gated, last, outputs];
        Call::new(&DEF, NAME, args)
    }

    /// The same call with the weights and outputs of another, if they have the input and the group in common.
    pub(super) fn with(mut self, graph: &Graph, other: &Self) -> Option<Self> {
        let alone = |linears: &Self| linears.norm.is_none() && linears.addend.is_none() && !linears.gated && !linears.last;
        let alike = self.x == other.x && graph.source.value(self.group) == graph.source.value(other.group);
        if !alike || !alone(&self) || !alone(other) {
            return None;
        }
        self.weights.extend(&other.weights);
        self.scales.extend(&other.scales);
        self.biases.extend(&other.biases);
        self.outputs.extend(&other.outputs);
        Some(self)
    }

    /// What is read that may not be a constant.
    pub(super) fn reads(&self) -> impl Iterator<Item = ValueId> {
        [Some(self.x), self.norm.map(|(weight, _)| weight), self.addend].into_iter().flatten()
    }

    /// What is read that must be a constant: what lies in the buffer of the weights, and in that of scales and biases.
    pub(super) fn constants(&self, graph: &Graph) -> [Vec<ValueId>; 2] {
        let some = |id: &&ValueId| graph.source.value(**id) != Some(&Value::Null);
        let biases = self.biases.iter().filter(some);
        [self.weights.clone(), self.scales.iter().chain(biases).copied().collect()]
    }
}
