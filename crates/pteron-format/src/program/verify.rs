//! Invariants between the parts of a program, checked when one is read and again before one is written.

use super::*;
use crate::dtype::MAX_RANK;
use crate::error::{Error, Item, Location, Problem, Result, Section, clip};

/// The schema version this library reads and writes.
const VERSION: u32 = 0;

/// Checks a program without reading its data.
pub(crate) fn verify<D: Data>(program: &Program<D>) -> Result<()> {
    let at = At(Section::Program);
    if program.version != VERSION {
        let problem =
            Problem::Version { what: "the program's version", found: program.version.into(), supported: "version 0" };
        return at.fail(Item::Whole, problem);
    }
    verify_data(program, &at)?;
    unique(&at, "the method name", &program.plans, |plan| &plan.name)?;
    for plan in &program.plans {
        MethodVerifier { at: At(Section::Method(clip(&plan.name))), program, plan }.verify()?;
    }
    Ok(())
}

/// The part of the file that errors are about.
struct At(Section);

impl At {
    fn fail<T>(&self, item: Item, problem: Problem) -> Result<T> {
        Err(Error::new(Location { section: self.0.clone(), item }, problem))
    }

    fn index(&self, item: impl FnOnce() -> Item, what: &'static str, index: u64, len: usize) -> Result<()> {
        if index < len as u64 {
            return Ok(());
        }
        self.fail(item(), Problem::Index { what, index: i64::try_from(index).unwrap_or(i64::MAX), len: len as u64 })
    }
}

/// Returns a name that two items share. Sorting borrowed names takes no more memory than the items themselves.
pub(crate) fn duplicate_name<T>(items: &[T], name: impl Fn(&T) -> &str) -> Option<&str> {
    let mut names: Vec<&str> = items.iter().map(name).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

fn unique<T>(at: &At, what: &'static str, items: &[T], name: impl Fn(&T) -> &str) -> Result<()> {
    match duplicate_name(items, name) {
        None => Ok(()),
        Some(name) => at.fail(Item::Whole, Problem::Duplicate { what, name: clip(name) }),
    }
}

fn verify_data<D: Data>(program: &Program<D>, at: &At) -> Result<()> {
    let lists = program.constants.iter().chain(program.mutable_data.iter().flatten());
    for list in lists {
        let entry = || Item::Entry { kind: "the list of tensors in segment", index: list.segment.index() };
        at.index(entry, "its segment", list.segment.0.into(), program.segments.len())?;
        let limit = program.segments[list.segment.index()].byte_len();
        let mut previous = 0;
        for &offset in &list.offsets {
            if offset < previous {
                return at.fail(entry(), Problem::Order { what: "a tensor's data", start: offset, previous_end: previous });
            }
            if offset > limit {
                return at.fail(entry(), Problem::Range { what: "a tensor's data", start: offset, end: offset, limit });
            }
            previous = offset;
        }
    }
    let named = program.named_data.as_deref().unwrap_or_default();
    for (index, entry) in named.iter().enumerate() {
        at.index(
            || Item::Entry { kind: "named data", index },
            "its segment",
            entry.segment.0.into(),
            program.segments.len(),
        )?;
    }
    unique(at, "the data key", named, |entry| &entry.key)
}

struct MethodVerifier<'a, D> {
    at: At,
    program: &'a Program<D>,
    plan: &'a ExecutionPlan,
}

impl<D: Data> MethodVerifier<'_, D> {
    fn verify(&self) -> Result<()> {
        for (id, value) in self.plan.values.iter().enumerate() {
            self.value(id, value)?;
        }
        self.ids(|| Item::Whole, "an input", &self.plan.inputs)?;
        self.ids(|| Item::Whole, "an output", &self.plan.outputs)?;
        for (index, delegate) in self.plan.delegates.iter().enumerate() {
            let entry = || Item::Entry { kind: "delegate", index };
            match delegate.data {
                DataRef::Inline(i) => self.at.index(entry, "its data", i.into(), self.program.inline_delegates.len())?,
                DataRef::Segment(s) => self.at.index(entry, "its segment", s.0.into(), self.program.segments.len())?,
            }
        }
        if let Some(&found) = self.plan.buffer_sizes.iter().find(|&&size| i64::try_from(size).is_err()) {
            let limit = i64::MAX.unsigned_abs();
            return self.at.fail(Item::Whole, Problem::TooMany { what: "a planned buffer's size", found, limit });
        }
        for device in self.plan.buffer_devices.iter().flatten() {
            self.at.index(
                || Item::Whole,
                "a device's planned buffer",
                device.buffer.into(),
                self.plan.buffer_sizes.len(),
            )?;
        }
        for (index, chain) in self.plan.chains.iter().enumerate() {
            self.chain(index, chain)?;
        }
        Ok(())
    }

    fn id(&self, item: impl FnOnce() -> Item, what: &'static str, id: ValueId) -> Result<&Value> {
        self.at.index(item, what, id.0.into(), self.plan.values.len())?;
        Ok(&self.plan.values[id.index()])
    }

    fn ids(&self, item: impl Fn() -> Item, what: &'static str, ids: &[ValueId]) -> Result<()> {
        ids.iter().try_for_each(|&id| self.id(&item, what, id).map(|_| ()))
    }

    /// A list's item, which must be of one kind; lists never hold lists, so nothing here recurses.
    fn list_item(&self, list: usize, id: ValueId, expected: &'static str, is: impl Fn(&Value) -> bool) -> Result<()> {
        let item = || Item::Value(list);
        let value = self.id(item, "an item of the list", id)?;
        if is(value) {
            return Ok(());
        }
        self.at.fail(item(), Problem::Kind { what: "an item of the list", found: value.kind(), expected })
    }

    fn value(&self, id: usize, value: &Value) -> Result<()> {
        let is_tensor = |value: &Value| matches!(value, Value::Tensor(_));
        match value {
            Value::Tensor(tensor) => self.tensor(id, tensor),
            Value::IntList(items) => items
                .iter()
                .try_for_each(|&item| self.list_item(id, item, "an integer", |value| matches!(value, Value::Int(_)))),
            Value::TensorList(items) => items.iter().try_for_each(|&item| self.list_item(id, item, "a tensor", is_tensor)),
            Value::OptionalTensorList(items) => items
                .iter()
                .flatten()
                .try_for_each(|&item| self.list_item(id, item, "a tensor or None", |v| is_tensor(v) || *v == Value::Null)),
            Value::Null | Value::Int(_) | Value::Bool(_) | Value::Double(_) | Value::String(_) => Ok(()),
            Value::DoubleList(_) | Value::BoolList(_) => Ok(()),
        }
    }

    fn tensor(&self, id: usize, tensor: &Tensor) -> Result<()> {
        let fail = |problem| self.at.fail(Item::Value(id), problem);
        let rank = tensor.sizes.len();
        if rank > MAX_RANK {
            return fail(Problem::TooMany { what: "the tensor's rank", found: rank as u64, limit: MAX_RANK as u64 });
        }
        if !is_permutation(&tensor.dim_order, rank) {
            let found = tensor.dim_order.iter().copied().take(MAX_RANK).collect();
            return fail(Problem::Permutation { what: "the order of dimensions", found, rank });
        }
        // The file stores these signed. Values from a file fit; values from a builder may not.
        for &number in tensor.sizes.iter().chain([&tensor.storage_offset]) {
            if i32::try_from(number).is_err() {
                let limit = i32::MAX.unsigned_abs().into();
                return fail(Problem::TooMany { what: "a dimension or storage offset", found: number.into(), limit });
            }
        }
        let elements = tensor.element_count().and_then(|count| count.checked_add(tensor.storage_offset.into()));
        let Some(len) = elements.and_then(|count| count.checked_mul(tensor.scalar_type.size())) else {
            return fail(Problem::Overflow { what: "the tensor's size" });
        };
        if let Some(allocation) = tensor.allocation {
            self.allocation(id, allocation, len)?;
        }
        match &tensor.extra {
            Some(extra) if extra.location == TensorDataLocation::External => match extra.name {
                Some(_) => Ok(()),
                None => fail(Problem::Missing { what: "the name of an external tensor" }),
            },
            _ if tensor.buffer == 0 => Ok(()),
            // A tensor with both memory and a buffer is mutable: the buffer is its first value.
            extra if tensor.allocation.is_some() => {
                let list = extra.as_ref().map_or(0, |extra| extra.mutable_segment);
                self.initial_value(id, tensor.buffer, list, len)
            }
            _ => self.constant(id, tensor.buffer, len),
        }
    }

    /// Planned memory lies within its buffer.
    fn allocation(&self, id: usize, allocation: AllocationDetails, len: u64) -> Result<()> {
        let item = || Item::Value(id);
        let sizes = &self.plan.buffer_sizes;
        self.at.index(item, "the planned buffer", allocation.memory.into(), sizes.len())?;
        let limit = sizes[allocation.memory as usize];
        within(allocation.offset, len, limit).or_else(|end| {
            let problem = Problem::Range { what: "the tensor's planned memory", start: allocation.offset, end, limit };
            self.at.fail(item(), problem)
        })
    }

    fn initial_value(&self, id: usize, buffer: u32, list: u64, len: u64) -> Result<()> {
        let lists = self.program.mutable_data.as_deref().unwrap_or_default();
        self.at.index(|| Item::Value(id), "the list of initial values", list, lists.len())?;
        let list = usize::try_from(list).ok().and_then(|list| lists.get(list));
        list.map_or(Ok(()), |list| self.subsegment(id, list, buffer, len))
    }

    fn constant(&self, id: usize, buffer: u32, len: u64) -> Result<()> {
        match &self.program.constants {
            Some(list) if !list.offsets.is_empty() => self.subsegment(id, list, buffer, len),
            _ => {
                let inline = &self.program.inline_constants;
                self.at.index(|| Item::Value(id), "the constant's index", buffer.into(), inline.len())?;
                let found = inline[buffer as usize].byte_len();
                if found == len {
                    return Ok(());
                }
                self.at.fail(Item::Value(id), Problem::Size { what: "the constant's length in bytes", found, expected: len })
            }
        }
    }

    /// A tensor in a segment ends where the next begins, or before: padding may follow it.
    fn subsegment(&self, id: usize, list: &SubsegmentOffsets, buffer: u32, len: u64) -> Result<()> {
        let item = || Item::Value(id);
        self.at.index(item, "the constant's index", buffer.into(), list.offsets.len())?;
        let start = list.offsets[buffer as usize];
        let segment_end = self.program.segments[list.segment.index()].byte_len();
        let limit = list.offsets.get(buffer as usize + 1).copied().unwrap_or(segment_end);
        within(start, len, limit)
            .or_else(|end| self.at.fail(item(), Problem::Range { what: "the tensor's data", start, end, limit }))
    }

    fn chain(&self, chain_index: usize, chain: &Chain) -> Result<()> {
        let whole = || Item::Entry { kind: "chain", index: chain_index };
        self.ids(whole, "an input", &chain.inputs)?;
        self.ids(whole, "an output", &chain.outputs)?;
        if let Some(stacks) = &chain.stacktrace {
            let (found, expected) = (stacks.len() as u64, chain.instructions.len() as u64);
            if found != expected {
                return self.at.fail(whole(), Problem::Size { what: "the number of stack traces", found, expected });
            }
        }
        for (index, instruction) in chain.instructions.iter().enumerate() {
            let item = || Item::Instruction { chain: chain_index, index };
            match instruction {
                Instruction::KernelCall { operator, args } => {
                    self.at.index(item, "the operator's index", (*operator).into(), self.plan.operators.len())?;
                    self.ids(item, "an argument", args)?;
                }
                Instruction::DelegateCall { delegate, args } => {
                    self.at.index(item, "the delegate's index", (*delegate).into(), self.plan.delegates.len())?;
                    self.ids(item, "an argument", args)?;
                }
                Instruction::Move { from, to } => self.ids(item, "an argument", &[*from, *to])?,
                Instruction::JumpFalse { condition, target } => {
                    self.ids(item, "the condition", &[*condition])?;
                    // One past the last instruction is the end of the chain.
                    self.at.index(item, "the jump's target", (*target).into(), chain.instructions.len() + 1)?;
                }
                Instruction::Free(value) => self.ids(item, "an argument", &[*value])?,
            }
        }
        Ok(())
    }
}

/// Whether `start .. start + len` ends by `limit`; otherwise the end, as far as it can be counted.
pub(crate) fn within(start: u64, len: u64, limit: u64) -> Result<(), u64> {
    let end = start.saturating_add(len);
    if start.checked_add(len).is_some() && end <= limit { Ok(()) } else { Err(end) }
}

pub(crate) fn is_permutation(order: &[u8], rank: usize) -> bool {
    let mut seen = 0u64;
    for &dim in order {
        if usize::from(dim) >= rank.min(64) {
            return false;
        }
        seen |= 1 << dim;
    }
    order.len() == rank && seen.count_ones() as usize == rank
}
