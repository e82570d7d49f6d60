//! Splits a plan's instructions into those that become graphs and those that the host runs.

use std::collections::{BTreeSet, HashMap, HashSet};

use pteron_format::ScalarType;
use pteron_format::element_count;
use pteron_format::program::{ExecutionPlan, Instruction, Operator, Tensor, Value, ValueId};

use super::portable;
use super::portable::flow::{Uses, Writes};
use crate::budget::Budget;
use crate::error::{Error, Result};

/// Consecutive instructions that become one graph, or one that the host runs.
#[derive(Debug)]
pub(super) enum Segment {
    /// The instructions of a graph.
    Graph(Vec<usize>),
    /// A kernel or a move that the host runs.
    Host,
    /// A jump to an instruction, if a condition is false.
    Jump { condition: ValueId, target: usize },
}

impl Segment {
    /// The instructions that use values, given the first.
    pub(super) fn instructions(&self, first: usize) -> Vec<usize> {
        match self {
            Self::Graph(instructions) => instructions.clone(),
            Self::Host => vec![first],
            Self::Jump { .. } => Vec::new(),
        }
    }
}

/// A plan whose instructions are split.
pub(super) struct Split<'a, 'f> {
    pub(super) plan: &'a ExecutionPlan,
    pub(super) instructions: &'a [Instruction],
    pub(super) uses: &'f [Uses],
    pub(super) writes: &'f Writes,
    pub(super) on_host: &'f dyn Fn(&Operator) -> bool,
}

impl Split<'_, '_> {
    /// The segments in order, each with its first instruction. `computed` are instructions that read a number of a computed tensor.
    ///
    /// # Errors
    /// A jump back that is always taken, or numbers that neither a graph nor the host can compute where they are needed.
    pub(super) fn segments(&self, computed: &BTreeSet<usize>, budget: &mut Budget) -> Result<Vec<(usize, Segment)>> {
        let mut host: Vec<bool> = (0..self.instructions.len()).map(|index| self.needs_host(index, computed)).collect();
        let mut needed: HashSet<ValueId> = HashSet::new();
        loop {
            budget.steps(self.instructions.len())?;
            while self.mark_numbers(&mut host, &mut needed)? {
                budget.steps(self.instructions.len())?;
            }
            let segments = self.cut(&host)?;
            // A graph returns tensors only, so a number that another segment reads is computed by the host.
            let crossing = self.crossing_numbers(&segments);
            if crossing.iter().all(|id| needed.contains(id)) {
                return Ok(segments);
            }
            needed.extend(crossing);
        }
    }

    fn needs_host(&self, index: usize, computed: &BTreeSet<usize>) -> bool {
        match self.kernel(index) {
            Some(kernel) => {
                let by_graph = portable::is_known(kernel) && !self.indexes_by_mask(index, kernel);
                computed.contains(&index) || !by_graph && (self.on_host)(kernel)
            }
            None => false,
        }
    }

    /// Whether a kernel selects, or replaces, as many elements as a mask has true ones.
    fn indexes_by_mask(&self, index: usize, kernel: &Operator) -> bool {
        let Some(Instruction::KernelCall { args, .. }) = self.instructions.get(index) else { return false };
        let items = match args.get(1).and_then(|&id| self.plan.value(id)) {
            Some(Value::OptionalTensorList(items)) if portable::takes_indices(kernel) => items,
            _ => return false,
        };
        let tensor = |id: Option<&ValueId>| id.and_then(|id| self.plan.value(*id)).and_then(Value::as_tensor);
        let is_mask = |tensor: &Tensor| matches!(tensor.scalar_type, ScalarType::Bool | ScalarType::Byte);
        let masks: Vec<&Tensor> =
            items.iter().flatten().filter_map(|id| tensor(Some(id))).filter(|own| is_mask(own)).collect();
        match (masks.as_slice(), items.as_slice()) {
            ([], _) => false,
            // One row of new elements for every true one, which a graph can write.
            ([mask], [_]) if portable::puts_values(kernel) => {
                let (whole, values) = (tensor(args.first()), tensor(args.get(2)));
                let adds = args.get(3).and_then(|&id| self.plan.value(id)) == Some(&Value::Bool(true));
                let rest = whole.and_then(|whole| whole.sizes.get(mask.sizes.len()..));
                let row = rest.and_then(|rest| element_count(rest.iter().copied()));
                let count = values.and_then(|values| element_count(values.sizes.iter().copied()));
                adds || count != Some(1) && count != row
            }
            _ => true,
        }
    }

    fn kernel(&self, index: usize) -> Option<&Operator> {
        match self.instructions.get(index)? {
            Instruction::KernelCall { operator, .. } => self.plan.operators.get(*operator as usize),
            _ => None,
        }
    }

    fn is_number(&self, id: ValueId) -> bool {
        matches!(self.plan.value(id), Some(Value::Int(_) | Value::Bool(_) | Value::Double(_)))
    }

    /// Marks the instructions whose numbers the host needs: for jumps, for kernels that it runs, and for those numbers in turn.
    /// Returns whether it marked any: in a loop, a number may be needed before the instruction that computes it.
    fn mark_numbers(&self, host: &mut [bool], needed: &mut HashSet<ValueId>) -> Result<bool> {
        let mut changed = false;
        for (index, instruction) in self.instructions.iter().enumerate().rev() {
            if let Instruction::JumpFalse { condition, .. } = instruction
                && self.literal_condition(*condition).is_none()
            {
                needed.extend(Some(*condition).filter(|id| self.is_number(*id)));
            }
            let uses = &self.uses[index];
            if uses.writes.iter().any(|id| needed.contains(id) && self.is_number(*id)) && !host[index] {
                let able = match instruction {
                    Instruction::Move { .. } => true,
                    _ => self.kernel(index).is_some_and(self.on_host),
                };
                if !able {
                    let name = self.kernel(index).map_or_else(String::new, ToString::to_string);
                    let reason =
                        format!("needs a number of {name} (instruction {index}) on the host, which cannot compute it");
                    return Err(Error::Unsupported(reason));
                }
                (host[index], changed) = (true, true);
            }
            if host[index] {
                needed.extend(uses.reads.iter().copied().filter(|id| self.is_number(*id)));
            }
        }
        Ok(changed)
    }

    /// The numbers that one segment writes and another reads, or the same one the next time it runs.
    fn crossing_numbers(&self, segments: &[(usize, Segment)]) -> HashSet<ValueId> {
        // The first and the last segment that writes a number, and the last instruction.
        let mut writers: HashMap<ValueId, (usize, usize, usize)> = HashMap::new();
        for (own, (first, segment)) in segments.iter().enumerate() {
            for index in segment.instructions(*first) {
                for &id in self.uses[index].writes.iter().filter(|id| self.is_number(**id)) {
                    let (_, last, instruction) = writers.entry(id).or_insert((own, own, index));
                    (*last, *instruction) = (own, index);
                }
            }
        }
        let mut crossing = HashSet::new();
        for (own, (first, segment)) in segments.iter().enumerate() {
            let mut written = HashSet::new();
            for index in segment.instructions(*first) {
                let crosses = |id: &ValueId| {
                    let Some(&(first, last, instruction)) = writers.get(id) else { return false };
                    (first, last) != (own, own) || instruction >= index && !written.contains(id)
                };
                crossing.extend(self.uses[index].reads.iter().copied().filter(crosses));
                written.extend(self.uses[index].writes.iter().copied());
            }
        }
        crossing
    }

    /// Cuts the instructions at those of the host, at jumps, and at their targets. Where all jumps are on literals, they are followed
    /// here.
    fn cut(&self, host: &[bool]) -> Result<Vec<(usize, Segment)>> {
        let targets = self.targets()?;
        let mut segments: Vec<(usize, Segment)> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut next = 0;
        let close = |open: &mut Vec<usize>, segments: &mut Vec<(usize, Segment)>| {
            if let Some(&first) = open.first() {
                segments.push((first, Segment::Graph(std::mem::take(open))));
            }
        };
        while let Some(instruction) = self.instructions.get(next) {
            if targets.contains(&next) {
                close(&mut open, &mut segments);
            }
            match instruction {
                Instruction::JumpFalse { condition, target } => match self.literal_condition(*condition) {
                    Some(true) => {}
                    Some(false) if targets.is_empty() => {
                        next = *target as usize;
                        continue;
                    }
                    _ => {
                        close(&mut open, &mut segments);
                        let jump = Segment::Jump { condition: *condition, target: *target as usize };
                        segments.push((next, jump));
                    }
                },
                _ if host.get(next) == Some(&true) => {
                    close(&mut open, &mut segments);
                    segments.push((next, Segment::Host));
                }
                _ => open.push(next),
            }
            next += 1;
        }
        close(&mut open, &mut segments);
        Ok(segments)
    }

    /// The targets of jumps; none if all conditions are literals.
    fn targets(&self) -> Result<HashSet<usize>> {
        let (mut targets, mut known) = (HashSet::new(), true);
        for (index, instruction) in self.instructions.iter().enumerate() {
            let Instruction::JumpFalse { condition, target } = instruction else { continue };
            let target = *target as usize;
            // What a jump on a literal skips may be the target of another one.
            match self.literal_condition(*condition) {
                Some(true) => continue,
                Some(false) if target <= index => {
                    let reason = format!("has instruction {index} that always jumps back, so its loop never ends");
                    return Err(Error::Unsupported(reason));
                }
                Some(false) => {}
                None => known = false,
            }
            targets.insert(target);
        }
        Ok(if known { HashSet::new() } else { targets })
    }

    /// The value of a condition that no instruction computes.
    fn literal_condition(&self, id: ValueId) -> Option<bool> {
        match self.plan.value(id) {
            Some(Value::Bool(value)) if !self.writes.written[id.index()] => Some(*value),
            _ => None,
        }
    }
}
