//! Bounds on the memory and work that decoding, fusing and planning a graph may take.
//!
//! Calls may share values: a thousand calls can refer to one list of a thousand tensors, and each has its own list once it
//! is decoded. Anything that can grow like this is charged here before it is allocated, against limits proportional to the
//! size of the graph. Graphs of real models stay far below them.

use std::fmt;

use crate::error::{Error, Result};
use crate::ir::{self, Value};

/// Bytes allowed per item of a graph while it is rewritten and decoded.
const BYTES_PER_ITEM: u64 = 512;
/// Bytes allowed per item while it is planned: an operator may have some tens of recipes.
const PLAN_BYTES_PER_ITEM: u64 = 8 * 1024;
/// Bytes allowed for any graph.
const FREE_BYTES: u64 = 4 << 20;
/// Steps of work allowed per item, in one phase.
const STEPS_PER_ITEM: u64 = 256;
/// Steps allowed for any graph.
const FREE_STEPS: u64 = 1 << 20;

/// The size of a graph: its calls, their arguments, its values and their list items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphSize {
    /// Their number.
    pub items: u64,
}

impl GraphSize {
    /// Counts a graph's items.
    #[must_use]
    pub fn of(graph: &ir::Graph) -> Self {
        let calls = graph.calls.iter().map(|call| 1 + call.args.len());
        let values = graph.values.iter().map(|value| 1 + listed(value));
        let others = [graph.inputs.len(), graph.outputs.len(), graph.constants.len()];
        Self { items: calls.chain(values).chain(others).map(|items| items as u64).sum() }
    }

    /// Returns the budget of one phase: a rewrite, decoding, or a fusion.
    #[must_use]
    pub fn budget(self) -> Budget {
        self.phase(BYTES_PER_ITEM)
    }

    /// Returns the budget of planning.
    #[must_use]
    pub fn plan_budget(self) -> Budget {
        self.phase(PLAN_BYTES_PER_ITEM)
    }

    fn phase(self, bytes_per_item: u64) -> Budget {
        let account = |per_item: u64, free| {
            let limit = self.items.saturating_mul(per_item).saturating_add(free);
            Account { used: 0, limit }
        };
        Budget { size: self, bytes: account(bytes_per_item, FREE_BYTES), steps: account(STEPS_PER_ITEM, FREE_STEPS) }
    }
}

/// The number of items in a value.
pub(crate) fn listed(value: &Value) -> usize {
    match value {
        Value::ValueList(items) => items.len(),
        Value::IntList(items) => items.len(),
        Value::DoubleList(items) => items.len(),
        Value::BoolList(items) => items.len(),
        Value::Tensor(tensor) => tensor.dims.len(),
        _ => 0,
    }
}

/// The memory and work that one phase may still take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    size: GraphSize,
    bytes: Account,
    steps: Account,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    used: u64,
    limit: u64,
}

/// A resource that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes of memory.
    Bytes,
    /// Steps of work.
    Steps,
    /// Values, calls and arguments of a translated graph.
    Items,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes of memory",
            Self::Steps => "steps of work",
            Self::Items => "values, calls and arguments",
        })
    }
}

impl Budget {
    /// Charges memory for `count` items of type `T`, before it is allocated.
    pub(crate) fn memory<T>(&mut self, count: usize) -> Result<()> {
        self.bytes((count as u64).saturating_mul(size_of::<T>() as u64))
    }

    /// Charges bytes of memory, before they are allocated.
    pub(crate) fn bytes(&mut self, count: u64) -> Result<()> {
        take(&mut self.bytes, count, Resource::Bytes, self.size)
    }

    /// Charges work, before it is done.
    pub(crate) fn steps(&mut self, count: usize) -> Result<()> {
        take(&mut self.steps, count as u64, Resource::Steps, self.size)
    }

    /// Bytes and steps charged so far.
    #[must_use]
    pub fn used(&self) -> (u64, u64) {
        (self.bytes.used, self.steps.used)
    }

    /// The limits on bytes and steps.
    #[must_use]
    pub fn limits(&self) -> (u64, u64) {
        (self.bytes.limit, self.steps.limit)
    }
}

fn take(account: &mut Account, count: u64, resource: Resource, size: GraphSize) -> Result<()> {
    account.used = account.used.saturating_add(count);
    if account.used > account.limit {
        return Err(Error::Budget { resource, limit: account.limit, items: size.items });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Call, Graph, ValueId};

    #[test]
    fn a_budget_follows_from_calls_arguments_values_and_lists() {
        let call = Call::named("aten.cat.default", vec![ValueId(0); 3]).unwrap();
        let list = Value::ValueList(vec![ValueId(0); 5]);
        let graph =
            Graph { calls: vec![call; 2], values: vec![Value::Null, list], outputs: vec![ValueId(0)], ..Graph::default() };
        let size = GraphSize::of(&graph);
        assert_eq!(size.items, 2 * 4 + 1 + 6 + 1);
        let mut budget = size.budget();
        let limit = FREE_STEPS + 16 * STEPS_PER_ITEM;
        assert!(budget.steps(usize::try_from(limit).unwrap()).is_ok());
        let error = budget.steps(1).unwrap_err();
        assert!(matches!(error, Error::Budget { resource: Resource::Steps, limit: found, items: 16 } if found == limit));
        assert!(budget.memory::<u64>(usize::MAX).is_err() && budget.bytes(1).is_err(), "what is spent stays spent");
    }
}
