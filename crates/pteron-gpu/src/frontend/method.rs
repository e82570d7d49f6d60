//! Joins a method into graphs: the kernel calls of its execution plan, and its delegates of any backend.
//!
//! Nearly every method becomes one graph. It is split where the program decides at run time which instruction is next, and where
//! a kernel's output has a shape that depends on data: the instructions between are graphs, and the host follows jumps and runs
//! such kernels (`split`). Values that cross a border are inputs and outputs of the graphs, named by their ids in the plan.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pteron_format::program::{self as file, DataRef, Delegate, ExecutionPlan, Instruction, Operator, Value};
use pteron_format::{vulkan as vk, xnnpack as xnn};

use super::delegates::{vulkan_delegate, written_ports, xnnpack_delegate};
use super::portable::PlanValues;
use super::portable::flow::{self, Uses, Writes, has_data};
use super::split::{Segment, Split};
use super::vulkan::Inlined;
use super::{Builder, BuiltGraph};
use crate::budget::{Budget, GraphSize};
use crate::error::{Error, Result};

/// The graph of a delegate.
#[derive(Clone, Copy, Debug)]
pub enum DelegateGraph<'a> {
    /// Of the Vulkan backend.
    Vulkan(&'a vk::Graph),
    /// Of the XNNPACK backend.
    Xnnpack(&'a xnn::Graph),
}

/// A method as graphs, and steps in the order of its instructions.
#[derive(Debug, Default)]
pub struct LoweredMethod {
    /// The graphs.
    pub parts: Vec<Part>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// A graph, and the plan's values that are its inputs and outputs, in order.
#[derive(Debug)]
pub struct Part {
    /// The graph with the origins of its constants.
    pub graph: BuiltGraph,
    /// Its inputs. A number comes in as a tensor of one integer.
    pub inputs: Vec<file::ValueId>,
    /// Its outputs.
    pub outputs: Vec<file::ValueId>,
}

/// A step of a method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a graph, by index.
    Part(usize),
    /// Runs a kernel on the host.
    Host {
        /// The kernel's index among the plan's operators.
        operator: u32,
        /// Its arguments.
        inputs: Vec<file::ValueId>,
        /// The tensors it writes, or the number it computes.
        outputs: Vec<file::ValueId>,
    },
    /// Copies a value.
    Copy {
        /// The source.
        from: file::ValueId,
        /// The destination.
        to: file::ValueId,
    },
    /// Jumps to another step if a condition is false; to an earlier one in loops.
    JumpFalse {
        /// The condition.
        condition: file::ValueId,
        /// The index of the step.
        target: usize,
    },
}

/// The sources that a method is joined from.
#[derive(Clone, Copy)]
pub struct Sources<'a, 'f> {
    /// Returns the graph of a delegate, if its backend is supported.
    pub graph_of: &'f dyn Fn(DataRef) -> Option<DelegateGraph<'a>>,
    /// Whether the host can run a kernel that no graph computes.
    pub on_host: &'f dyn Fn(&Operator) -> bool,
}

impl std::fmt::Debug for Sources<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources")
    }
}

/// Joins a method.
///
/// # Errors
/// Everything that is not supported at once, by name; a plan that cannot be translated; more work than its size justifies.
pub fn lower<'a>(plan: &'a ExecutionPlan, sources: Sources<'a, '_>) -> Result<LoweredMethod> {
    let [chain] = plan.chains.as_slice() else {
        return Err(Error::Unsupported(format!("has {} chains of instructions, one is supported", plan.chains.len())));
    };
    let instructions = chain.instructions.as_slice();
    let source_items = source_items(plan, instructions, sources.graph_of);
    let mut budget = GraphSize { items: source_items }.budget();
    let written_ports =
        |delegate: &Delegate, args: &[file::ValueId]| written_ports((sources.graph_of)(delegate.data), args.len());
    let uses = flow::uses(plan, instructions, &written_ports, &mut budget)?;
    let writes = Writes::find(plan, &uses);
    // Whether a number comes from an input is known only when everything before it is translated.
    let mut computed = BTreeSet::new();
    loop {
        let found = Split { plan, instructions, uses: &uses, writes: &writes, on_host: sources.on_host };
        let segments = found.segments(&computed, &mut budget)?;
        let lowering = Lowering { plan, instructions, sources, uses: &uses, writes: &writes, source_items };
        match lowering.run(&segments, &mut budget)? {
            Lowered::Method(method) => return Ok(method),
            Lowered::Numbers(more) => {
                let before = computed.len();
                computed.extend(more);
                if computed.len() == before {
                    return Err(Error::Unsupported("reads numbers from tensors in a way that is not supported".to_owned()));
                }
                budget.steps(instructions.len())?;
            }
        }
    }
}

/// A method, or the instructions that read numbers of computed tensors, which only the host can do.
enum Lowered {
    Method(LoweredMethod),
    Numbers(Vec<usize>),
}

/// The number of instructions, arguments, values and list items of a plan and its delegates.
fn source_items<'a>(
    plan: &ExecutionPlan,
    instructions: &[Instruction],
    graph_of: &dyn Fn(DataRef) -> Option<DelegateGraph<'a>>,
) -> u64 {
    let instruction = |instruction: &Instruction| match instruction {
        Instruction::KernelCall { args, .. } | Instruction::DelegateCall { args, .. } => 1 + args.len(),
        _ => 2,
    };
    let value = |value: &Value| match value {
        Value::Tensor(tensor) => 1 + tensor.sizes.len(),
        Value::IntList(items) | Value::TensorList(items) => 1 + items.len(),
        Value::OptionalTensorList(items) => 1 + items.len(),
        Value::DoubleList(items) => 1 + items.len(),
        Value::BoolList(items) => 1 + items.len(),
        _ => 1,
    };
    let places: BTreeSet<DataRef> = plan.delegates.iter().map(|delegate| delegate.data).collect();
    let graphs = places.into_iter().filter_map(graph_of).map(|graph| match graph {
        DelegateGraph::Vulkan(graph) => {
            graph.chain.iter().map(|call| 1 + call.args.len()).sum::<usize>() + graph.values.len() + graph.constants.len()
        }
        DelegateGraph::Xnnpack(graph) => {
            // Scales in the tables become constants, which are charged by their bytes.
            let scales = |value: &xnn::Value| match value.quantization.as_ref().and_then(xnn::Quantization::scales) {
                Some(xnn::Scales::Inline(scales)) => 4 + scales.len() / 64,
                _ => 4,
            };
            8 * graph.nodes.len() + graph.values.iter().map(scales).sum::<usize>() + graph.constants.len()
        }
    });
    let own = instructions.iter().map(instruction).chain(plan.values.iter().map(value));
    own.chain(graphs).chain([plan.inputs.len(), plan.outputs.len()]).map(|items| items as u64).sum()
}

/// A plan and everything that is known of its instructions.
struct Lowering<'a, 'f> {
    plan: &'a ExecutionPlan,
    instructions: &'a [Instruction],
    sources: Sources<'a, 'f>,
    uses: &'f [Uses],
    writes: &'f Writes,
    source_items: u64,
}

impl<'a> Lowering<'a, '_> {
    fn run(&self, segments: &[(usize, Segment)], budget: &mut Budget) -> Result<Lowered> {
        let uses: usize = self.uses.iter().map(|uses| 1 + uses.reads.len() + uses.writes.len()).sum();
        let mut method = LoweredMethod::default();
        // The first instruction of each segment, and the step that it begins with.
        let mut starts = Vec::with_capacity(segments.len());
        let (mut missing, mut numbers) = (BTreeMap::<String, usize>::new(), Vec::new());
        for (index, (first, segment)) in segments.iter().enumerate() {
            // Each graph is translated with a table of all values, and knows what all others use.
            budget.steps(self.plan.values.len().saturating_add(uses))?;
            starts.push((*first, method.steps.len()));
            match segment {
                Segment::Jump { condition, target } => {
                    method.steps.push(Step::JumpFalse { condition: *condition, target: *target });
                }
                Segment::Host => {
                    let views = self.uses[*first].reads.iter().filter_map(|&id| self.host_view(segments, id));
                    method.steps.extend(views);
                    method.steps.extend(self.host_step(*first));
                }
                Segment::Graph(instructions) => match self.part(segments, index, instructions, &mut method) {
                    Ok(computed) => numbers.extend(computed),
                    Err(Error::UnsupportedOperators(names)) => {
                        names.into_iter().for_each(|(name, count)| *missing.entry(name).or_default() += count);
                    }
                    Err(error) => return Err(error),
                },
            }
        }
        if !missing.is_empty() {
            return Err(Error::UnsupportedOperators(missing.into_iter().collect()));
        }
        if !numbers.is_empty() {
            return Ok(Lowered::Numbers(numbers));
        }
        if !matches!(segments, [(_, Segment::Graph(_))]) {
            method.steps.extend(self.plan.outputs.iter().filter_map(|&id| self.host_view(segments, id)));
        }
        let end = method.steps.len();
        for step in &mut method.steps {
            if let Step::JumpFalse { target, .. } = step {
                let start = starts.partition_point(|(first, _)| *first < *target);
                *target = starts.get(start).map_or(end, |(_, step)| *step);
            }
        }
        Ok(Lowered::Method(method))
    }

    fn host_step(&self, index: usize) -> Option<Step> {
        match self.instructions.get(index)? {
            Instruction::KernelCall { operator, args } => {
                let kernel = self.plan.operators.get(*operator as usize).map(flow::full_name)?;
                let sorted = flow::kernel_args(self.plan, &kernel, args)?;
                let (inputs, outputs) = (sorted.inputs.to_vec(), sorted.outputs.to_vec());
                Some(Step::Host { operator: *operator, inputs, outputs })
            }
            Instruction::Move { from, to } => Some(Step::Copy { from: *from, to: *to }),
            _ => None,
        }
    }

    /// The copy that makes a view without an instruction, if what it is a view of is no graph's.
    fn host_view(&self, segments: &[(usize, Segment)], id: file::ValueId) -> Option<Step> {
        let base = *self.writes.viewed.get(&id)?;
        let of_graph = segments.iter().any(|(_, segment)| match segment {
            Segment::Graph(instructions) => instructions.iter().any(|&index| self.uses[index].writes.contains(&base)),
            _ => false,
        });
        (!of_graph).then_some(Step::Copy { from: base, to: id })
    }

    /// Translates a segment into a graph, unless it computes nothing. Returns the instructions that read a number of a computed
    /// tensor, if there are any.
    fn part(
        &self,
        segments: &[(usize, Segment)],
        own: usize,
        instructions: &[usize],
        method: &mut LoweredMethod,
    ) -> Result<Vec<usize>> {
        let only = segments.len() == 1;
        let mut values = {
            let places = flow::places_after(self.plan, self.uses.get(..segments[own].0).unwrap_or_default());
            PlanValues::new(self.plan, Builder::new(self.source_items), self.given(segments, own), places)
        };
        let mut inlined = HashMap::new();
        let mut origin = 0;
        let mut numbers = Vec::new();
        for &index in instructions {
            values.builder.at(origin);
            origin = self.instruction(&mut values, &self.instructions[index], &mut inlined)?;
            if values.take_computed_number() {
                numbers.push(index);
            }
        }
        let outputs = self.outputs(segments, own, only);
        let finished = values.finish(&outputs)?;
        let Some(builder) = finished.builder else { return Ok(numbers) };
        let graph = builder.finish()?;
        if !graph.graph.calls.is_empty() || !finished.outputs.is_empty() {
            method.steps.push(Step::Part(method.parts.len()));
            method.parts.push(Part { graph, inputs: finished.inputs, outputs: finished.outputs });
        }
        method.steps.extend(finished.copies.iter().map(|&(from, to)| Step::Copy { from, to }));
        Ok(numbers)
    }

    /// The values that exist when a segment begins: inputs, and what other segments write or keep.
    fn given(&self, segments: &[(usize, Segment)], own: usize) -> Vec<bool> {
        let mut given = vec![false; self.plan.values.len()];
        self.plan.inputs.iter().for_each(|id| given[id.index()] = true);
        for (first, segment) in others(segments, own) {
            for uses in segment.instructions(*first).iter().filter_map(|&index| self.uses.get(index)) {
                uses.writes.iter().for_each(|id| given[id.index()] = true);
            }
        }
        given
    }

    /// The values that a segment must hand over: outputs of the method, and what other segments read.
    fn outputs(&self, segments: &[(usize, Segment)], own: usize, only: bool) -> Vec<file::ValueId> {
        let mut written = vec![false; self.plan.values.len()];
        let (first, segment) = &segments[own];
        for uses in segment.instructions(*first).iter().filter_map(|&index| self.uses.get(index)) {
            uses.writes.iter().for_each(|id| written[id.index()] = true);
        }
        let is_tensor = |id: &file::ValueId| self.plan.value(*id).is_some_and(|value| value.as_tensor().is_some());
        let base = |id: file::ValueId| self.writes.viewed.get(&id).copied();
        let mut outputs = BTreeSet::new();
        let mut wanted = |id: file::ValueId| {
            // A view that has no instruction is made where its memory is written.
            let made = written[id.index()] || base(id).is_some_and(|base| written[base.index()]);
            if made && is_tensor(&id) {
                outputs.insert(id);
            }
        };
        self.plan.outputs.iter().for_each(|&id| wanted(id));
        if !only {
            for (first, segment) in others(segments, own) {
                if let Segment::Jump { condition, .. } = segment {
                    wanted(*condition);
                }
                for uses in segment.instructions(*first).iter().filter_map(|&index| self.uses.get(index)) {
                    uses.reads.iter().for_each(|&id| wanted(id));
                    uses.reads.iter().filter_map(|&id| base(id)).for_each(&mut wanted);
                }
            }
            // A tensor that several segments change is kept by the host.
            let given = self.given(segments, own);
            for (id, _) in written.iter().enumerate().filter(|&(id, &written)| written && given[id]) {
                if let Ok(id) = u32::try_from(id) {
                    wanted(file::ValueId(id));
                }
            }
        }
        // A method whose outputs are its buffers returns them as they are.
        let unwritten = self.plan.outputs.iter().filter(|id| only && self.is_state(**id));
        outputs.extend(unwritten.copied());
        outputs.into_iter().collect()
    }

    /// Whether a value is a buffer that nothing writes and the program has no data for.
    fn is_state(&self, id: file::ValueId) -> bool {
        let tensor = self.plan.value(id).and_then(Value::as_tensor);
        let constant = tensor.is_none_or(has_data);
        !constant && !self.plan.inputs.contains(&id) && !self.writes.written[id.index()]
    }

    /// Translates an instruction. Returns the position of the next call.
    fn instruction(
        &self,
        values: &mut PlanValues<'a>,
        instruction: &'a Instruction,
        inlined: &mut HashMap<u32, Inlined>,
    ) -> Result<usize> {
        let origin = values.builder.origin();
        match instruction {
            Instruction::KernelCall { operator, args } => {
                if let Some(kernel) = self.plan.operators.get(*operator as usize) {
                    values.kernel(kernel, args)?;
                }
                return Ok(origin + 1);
            }
            Instruction::DelegateCall { delegate, args } => return self.delegate(values, *delegate, args, inlined),
            Instruction::Move { from, to } => {
                let value = values.argument(*from)?;
                values.set(*to, value);
            }
            Instruction::JumpFalse { .. } | Instruction::Free(_) => {}
        }
        Ok(origin)
    }

    fn delegate(
        &self,
        values: &mut PlanValues<'a>,
        index: u32,
        args: &[file::ValueId],
        inlined: &mut HashMap<u32, Inlined>,
    ) -> Result<usize> {
        let origin = values.builder.origin();
        let Some(delegate) = self.plan.delegates.get(index as usize) else { return Ok(origin) };
        values.builder.begin_delegate(delegate.data);
        match (self.sources.graph_of)(delegate.data) {
            Some(DelegateGraph::Vulkan(graph)) if delegate.id == vk::BACKEND_ID => {
                vulkan_delegate(values, graph, args, inlined.entry(index).or_default(), &self.writes.reads)?;
                Ok(origin + graph.chain.len())
            }
            Some(DelegateGraph::Xnnpack(graph)) if delegate.id == xnn::BACKEND_ID => {
                xnnpack_delegate(values, graph, args)?;
                Ok(origin + graph.nodes.len())
            }
            _ => {
                values.builder.unsupported(&format!("delegate for {}", delegate.id));
                // Nothing is known of its outputs: every tensor that something reads later may be one.
                for &id in args {
                    if self.plan.value(id).is_some_and(|value| value.as_tensor().is_some()) {
                        values.output(id)?;
                    }
                }
                Ok(origin + 1)
            }
        }
    }
}

/// All segments but one.
fn others(segments: &[(usize, Segment)], own: usize) -> impl Iterator<Item = &(usize, Segment)> {
    segments.iter().enumerate().filter(move |(index, _)| *index != own).map(|(_, segment)| segment)
}

#[cfg(test)]
mod tests;
