//! A method as it runs: its GPU graphs, into which delegates and kernel calls are joined, and the host's steps between them.

use std::collections::BTreeMap;

use pteron_format::program::{ExecutionPlan, Value, ValueId};
use pteron_format::{Bytes, EscapedText, Pte};
use pteron_gpu::frontend::method::{LoweredMethod, Part, Step};
use pteron_gpu::graph::DecodedGraph;

use super::gpu::{self, shape};
use super::model::{Crowded, Edge, Kind, MOST_EDGES, Picture};
use crate::failure::Reason;
use crate::units::plural;

impl From<Crowded> for Reason {
    fn from(_: Crowded) -> Self {
        Self::Crowded { most: MOST_EDGES }
    }
}

/// Adds a method to a picture.
pub(super) fn add<B: Bytes>(picture: &mut Picture, pte: &Pte<B>, plan: &ExecutionPlan) -> Result<(), Reason> {
    let LoweredMethod { parts, steps } = pteron::lower(pte, plan).map_err(|error| Reason::Runtime(Box::new(error)))?;
    let name = EscapedText::name(&plan.name).to_string();
    let host_steps = steps.iter().filter(|step| matches!(step, Step::Host { .. } | Step::JumpFalse { .. })).count();
    let host = picture.cluster(match host_steps {
        0 => format!("{name}: inputs and outputs"),
        count => format!("{name}: {} on the host", plural(count, "step")),
    });
    let graphs = parts.len();
    let mut drawing =
        Drawing { picture, plan, host, makers: BTreeMap::new(), skipped_until: 0, jumps: Vec::new(), starts: Vec::new() };
    for (index, &id) in plan.inputs.iter().enumerate() {
        let input = drawing.picture.node(host, Kind::Input, vec![format!("input {index}"), drawing.describe(id)]);
        drawing.makers.insert(id, vec![input]);
    }
    let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
    for (index, step) in steps.iter().enumerate() {
        let start = match step {
            Step::Part(part) => match parts.get_mut(*part).and_then(Option::take) {
                Some(own) => drawing.part(index, &format!("{name}, graph {part} of {graphs}"), own)?,
                None => None,
            },
            Step::Host { operator, inputs, outputs } => Some(drawing.kernel(index, *operator, inputs, outputs)?),
            Step::Copy { from, to } => {
                let from = drawing.sources(*from);
                drawing.written(index, *to, from);
                None
            }
            Step::JumpFalse { condition, target } => Some(drawing.jump(*condition, *target)?),
        };
        drawing.starts.push(start);
    }
    drawing.finish()
}

struct Drawing<'a> {
    picture: &'a mut Picture,
    plan: &'a ExecutionPlan,
    /// The cluster of the host.
    host: usize,
    /// The nodes that may have written a value last. There are several after a jump.
    makers: BTreeMap<ValueId, Vec<usize>>,
    /// Steps before this one may be skipped.
    skipped_until: usize,
    /// Jumps and the steps that they lead to.
    jumps: Vec<(usize, usize)>,
    /// The first node of each step.
    starts: Vec<Option<usize>>,
}

impl Drawing<'_> {
    fn part(&mut self, step: usize, title: &str, part: Part) -> Result<Option<usize>, Reason> {
        let graph = DecodedGraph::decode(part.graph.graph);
        let graph = graph.map_err(|error| Reason::Runtime(Box::new(error.into())))?;
        let title = format!("{title} on the GPU: {}", plural(graph.nodes.len(), "call"));
        let cluster = self.picture.cluster(title);
        let inputs: Vec<Vec<usize>> = part.inputs.iter().map(|&id| self.sources(id)).collect();
        let (outputs, first) = gpu::add(self.picture, cluster, &graph, &inputs)?;
        for (&id, nodes) in part.outputs.iter().zip(outputs) {
            self.written(step, id, nodes);
        }
        Ok(first)
    }

    fn kernel(&mut self, step: usize, operator: u32, inputs: &[ValueId], outputs: &[ValueId]) -> Result<usize, Reason> {
        let kernel = self.plan.operators.get(operator as usize).map(ToString::to_string).unwrap_or_default();
        let lines = vec![EscapedText::name(&kernel).to_string(), "on the host".to_owned()];
        let node = self.picture.node(self.host, Kind::Host, lines);
        for &id in inputs {
            self.connect(id, node)?;
        }
        for &id in outputs {
            self.written(step, id, vec![node]);
        }
        Ok(node)
    }

    fn jump(&mut self, condition: ValueId, target: usize) -> Result<usize, Reason> {
        let node = self.picture.node(self.host, Kind::Jump, vec!["jump if false".to_owned()]);
        self.connect(condition, node)?;
        self.skipped_until = self.skipped_until.max(target);
        self.jumps.push((node, target));
        Ok(node)
    }

    fn finish(mut self) -> Result<(), Reason> {
        for (from, target) in std::mem::take(&mut self.jumps) {
            if let Some(to) = self.starts.iter().skip(target).find_map(|start| *start) {
                self.picture.edge(Edge { from, to, label: "if false".to_owned(), is_tensor: false })?;
            }
        }
        for (index, &id) in self.plan.outputs.iter().enumerate() {
            let node = self.picture.node(self.host, Kind::Output, vec![format!("output {index}"), self.describe(id)]);
            self.connect(id, node)?;
        }
        Ok(())
    }

    /// Records who writes a value in a step.
    fn written(&mut self, step: usize, id: ValueId, nodes: Vec<usize>) {
        let makers = self.makers.entry(id).or_default();
        if step >= self.skipped_until {
            makers.clear();
        }
        makers.extend(nodes);
    }

    fn connect(&mut self, id: ValueId, to: usize) -> Result<(), Crowded> {
        let is_tensor = matches!(self.plan.value(id), Some(Value::Tensor(_)));
        let label = self.describe(id);
        for from in self.sources(id) {
            self.picture.edge(Edge { from, to, label: label.clone(), is_tensor })?;
        }
        Ok(())
    }

    /// The nodes that a value comes from. A tensor that no step writes first is a constant, or state that the host keeps; other
    /// values are arguments, not nodes.
    fn sources(&mut self, id: ValueId) -> Vec<usize> {
        if let Some(nodes) = self.makers.get(&id) {
            return nodes.clone();
        }
        let Some(Value::Tensor(tensor)) = self.plan.value(id) else { return Vec::new() };
        let (kind, name) = if tensor.allocation.is_none() && tensor.buffer != 0 {
            (Kind::Constant, "constant")
        } else {
            (Kind::State, "state")
        };
        let node = self.picture.node(self.host, kind, vec![format!("{name} {id}"), self.describe(id)]);
        self.makers.insert(id, vec![node]);
        vec![node]
    }

    fn describe(&self, id: ValueId) -> String {
        match self.plan.value(id) {
            Some(Value::Tensor(tensor)) => shape(tensor.scalar_type.name(), &tensor.sizes),
            Some(_) => "number".to_owned(),
            None => String::new(),
        }
    }
}
