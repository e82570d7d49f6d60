//! Outputs of selected rows, and the check that everything else is row-wise.

use super::{SequenceInputs, SequenceOptions, input, is_input, renamed};
use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, Node, Role};
use crate::ir::{Call, Graph, Tensor, Value, ValueId};
use crate::live::{Scalar, TensorId};
use crate::ops::copy::{CopyKind, CopyOp, squeeze_call};
use crate::ops::gather::index_select_call;
use crate::row_axes::RowAxes;
use crate::strided_copy::gather::Gather;

/// Selects rows before operators that compute each row alone, so that no other row is computed: before the linear of the logits, for
/// example.
pub(super) fn hoist(mut graph: DecodedGraph, inputs: &SequenceInputs) -> Result<DecodedGraph> {
    while let Some(source) = hoist_once(&graph, inputs) {
        graph = DecodedGraph::assemble(source, graph.size())?;
    }
    Ok(graph)
}

fn hoist_once(graph: &DecodedGraph, inputs: &SequenceInputs) -> Option<Graph> {
    let selects =
        |node: &Node| node.op.downcast::<Gather>().filter(|own| is_input(graph, own.index, inputs.selected)).is_some();
    let at = graph.nodes.iter().position(selects)?;
    let select: &Gather = graph.nodes[at].op.downcast()?;
    let writer = graph.nodes.iter().position(|node| node.flow.writes.contains(&select.from))?;
    let node = &graph.nodes[writer];
    // A view has sizes of its own, and the rows of several outputs would have to be selected.
    let computes = node.op.downcast::<CopyOp>().is_none() && node.flow.writes.len() == 1 && node.flow.mutates.is_empty();
    let readers = graph.nodes.iter().filter(|node| node.flow.reads.contains(&select.from)).count();
    if !computes || readers != 1 || graph.outputs.contains(&select.from) {
        return None;
    }
    let mut read = node.flow.reads.iter().filter(|&&tensor| !matches!(graph.role(tensor), Role::Constant(_)));
    let rows = *read.next().filter(|first| read.all(|other| other == *first))?;
    let (from, to) = (graph.info(rows), graph.info(select.from));
    let (&[1, own, columns], &[1, same, _]) = (&*from.bound, &*to.bound) else { return None };
    let dtype = graph.source.value(ValueId(rows.0))?.as_tensor()?.dtype;
    let mut axes = vec![None; graph.tensors.len()];
    axes[rows.index()] = Some(select.axis);
    if own != same || node.op.row_axis(&RowAxes::new(&axes, &graph.tensors)) != Some(select.axis) {
        return None;
    }
    let mut source = graph.source.clone();
    let count = graph.info(select.index).bound[0];
    let selected = source.add(Value::Tensor(Tensor::new(dtype, &[1, count, columns])));
    let axis = source.add(Value::Int(1));
    let before = index_select_call([ValueId(rows.0), axis, ValueId(select.index.0), selected]).at(node.call);
    let mut computed = source.calls[writer].clone();
    for arg in &mut computed.args {
        *arg = renamed(&mut source, *arg, &[(ValueId(rows.0), selected), (ValueId(select.from.0), ValueId(select.out.0))]);
    }
    source.calls[at] = computed;
    source.calls[writer] = before;
    Some(source)
}

/// The rows that a tensor has: those of the call, or the selected ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowSet {
    All,
    Selected,
}

/// Checks that every operator is row-wise, replaces a selection of the last row by one of the selected rows, and gives tensors of
/// selected rows their bounds.
pub(super) fn check_and_select(
    graph: DecodedGraph,
    options: &SequenceOptions,
    inputs: &SequenceInputs,
) -> Result<DecodedGraph> {
    let mut walk = Walk {
        axes: vec![None; graph.tensors.len()],
        sets: vec![None; graph.tensors.len()],
        source: graph.source.clone(),
        calls: Vec::with_capacity(graph.nodes.len()),
    };
    for (node, own) in graph.nodes.iter().zip(&graph.source.calls) {
        walk.visit(&graph, node, own, inputs)?;
    }
    let output = graph.outputs.get(options.output).filter(|output| walk.sets[output.index()] == Some(RowSet::Selected));
    if output.is_none() {
        return Err(unsupported(&format!("output {} is not computed from rows", options.output)));
    }
    for (index, value) in walk.source.values.iter_mut().enumerate() {
        let (Value::Tensor(tensor), Some(Some(RowSet::Selected))) = (value, walk.sets.get(index)) else { continue };
        if let Some(dim) = walk.axes[index].and_then(|axis| tensor.dims.get_mut(axis)) {
            *dim = options.max_selected;
        }
    }
    walk.source.calls = walk.calls;
    DecodedGraph::assemble(walk.source, graph.size())
}

struct Walk {
    /// The dim along which each tensor has rows, and which rows.
    axes: Vec<Option<usize>>,
    sets: Vec<Option<RowSet>>,
    source: Graph,
    calls: Vec<Call>,
}

impl Walk {
    fn visit(&mut self, graph: &DecodedGraph, node: &Node, own: &Call, inputs: &SequenceInputs) -> Result<()> {
        let gather = node.op.downcast::<Gather>();
        // The integers of rows that were fed back or given.
        if let Some(gather) = gather.filter(|gather| is_input(graph, gather.index, inputs.sources)) {
            self.set(gather.out, 0, RowSet::All);
            self.calls.push(own.clone());
            return Ok(());
        }
        if let Some(gather) = gather.filter(|gather| is_input(graph, gather.index, inputs.selected)) {
            if (self.axes[gather.from.index()], self.sets[gather.from.index()]) != (Some(gather.axis), Some(RowSet::All)) {
                return Err(not_row_wise(node));
            }
            self.set(gather.out, gather.axis, RowSet::Selected);
            self.calls.push(own.clone());
            return Ok(());
        }
        if let Some(copy) = self.last_row(node) {
            return self.select(graph, node, copy, inputs);
        }
        let sets: Vec<RowSet> = node.flow.reads.iter().filter_map(|tensor| self.sets[tensor.index()]).collect();
        let Some(&set) = sets.first() else {
            // Symbols are numbers of rows or positions; integers of an input are indices or positions of rows.
            let reads_input = |tensor: &TensorId| matches!(graph.role(*tensor), Role::Input(index) if !inputs.indices().any(|own| own == index) && !self.feeds_rows(node));
            let depends = !node.flow.scalar_reads.is_empty() || node.flow.reads.iter().any(reads_input);
            let writes = !node.flow.writes.is_empty() || !node.flow.mutates.is_empty();
            if (depends && writes) || !node.flow.mutates.is_empty() {
                return Err(not_row_wise(node));
            }
            self.calls.push(own.clone());
            return Ok(());
        };
        let axis = node.op.row_axis(&RowAxes::new(&self.axes, &graph.tensors));
        // Sizes are numbers of rows, which only views of rows may use.
        match axis {
            Some(axis) if sets.iter().all(|other| *other == set) => {
                node.flow.writes.iter().for_each(|&out| self.set(out, axis, set));
            }
            None if node.flow.writes.is_empty() && node.flow.mutates.is_empty() => {}
            _ => return Err(not_row_wise(node)),
        }
        self.calls.push(own.clone());
        Ok(())
    }

    fn set(&mut self, tensor: TensorId, axis: usize, set: RowSet) {
        (self.axes[tensor.index()], self.sets[tensor.index()]) = (Some(axis), Some(set));
    }

    /// Whether a call is one of the first ones, which join the given integers with those that were fed back.
    fn feeds_rows(&self, node: &Node) -> bool {
        self.sets.iter().all(Option::is_none) && node.flow.writes.len() == 1 && node.flow.mutates.is_empty()
    }

    /// The copy of a call that selects the last row.
    fn last_row<'n>(&self, node: &'n Node) -> Option<&'n CopyOp> {
        let copy: &CopyOp = node.op.downcast()?;
        let rows = (self.axes[copy.from.index()]?, self.sets[copy.from.index()]?);
        matches!(copy.kind(), CopyKind::Select { axis, index: Scalar::Fixed(-1) } if rows == (axis, RowSet::All))
            .then_some(copy)
    }

    /// Selects rows `[1, n, columns]` in the place of the last one, as `[n, columns]`.
    fn select(&mut self, graph: &DecodedGraph, node: &Node, copy: &CopyOp, inputs: &SequenceInputs) -> Result<()> {
        let (from, dtype) = (graph.info(copy.from).bound, self.dtype(copy.from));
        let (&[1, _, columns], Some(dtype)) = (&*from, dtype) else { return Err(not_row_wise(node)) };
        let selected = input(graph, inputs.selected);
        let count = graph.info(TensorId(selected.0)).bound[0];
        let rows = self.source.add(Value::Tensor(Tensor::new(dtype, &[1, count, columns])));
        let axis = self.source.add(Value::Int(1));
        let gather = index_select_call([ValueId(copy.from.0), axis, selected, rows]);
        let squeeze = squeeze_call(&mut self.source, TensorId(rows.0), &[0], copy.out);
        self.calls.extend([gather.at(node.call), squeeze.at(node.call)]);
        self.set(copy.out, 0, RowSet::Selected);
        Ok(())
    }

    fn dtype(&self, tensor: TensorId) -> Option<crate::ir::DataType> {
        Some(self.source.value(ValueId(tensor.0))?.as_tensor()?.dtype)
    }
}

fn not_row_wise(node: &Node) -> Error {
    unsupported(&format!("{} (call {}) is not row-wise", node.name, node.call))
}

fn unsupported(reason: &str) -> Error {
    Error::Unsupported(format!("cannot run rows of many sequences: {reason}"))
}
