//! Rows of many sequences in one call, as a rewrite of a graph that processes one sequence at a time.
//!
//! A decoder takes rows `[1, rows]` and the position of the first, and keeps keys and values in state. Everything in it but attention and
//! the position works row by row, so rows may belong to different sequences once attention knows which. The rewrite
//!
//! - gives attention a work list ([`PagedTiling`]) in place of the position, and turns its state into pools of blocks
//!   (`pteron.paged_sdpa`);
//! - puts low-rank updates after linears, where the caller asks for [adapters](AdapterOptions);
//! - computes the output for selected rows in place of the last one;
//! - takes integers of rows from what an earlier call fed back, where the caller says so;
//! - checks that every other operator is row-wise ([`Op::row_axis`](crate::plan::Op::row_axis)), and rejects the graph otherwise.

mod adapter_slots;
mod adapters;
mod paged_attention;
mod selected_rows;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::graph::DecodedGraph;
use crate::ir::{DataType, Graph, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::ops::copy;
use crate::ops::gather::index_select_call;
pub use crate::ops::lora::tiles::{TILE_WORDS, tiles as adapter_tiles};
use crate::ops::sdpa::paged::PagedSdpa;
pub use crate::ops::sdpa::paged::work_list::{BLOCK_POSITIONS, PagedTiling, SequenceRows};
use crate::plan::{BoundsCx, Caps};
use crate::shape::Dims;
pub use adapter_slots::{AdapterMisfit, AdapterSlots, WriteSlot};
pub use adapters::AdapterOptions;

/// The sizes of calls with rows of many sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceOptions {
    /// The input of integers `[1, rows]`, by index.
    pub rows_input: usize,
    /// The output of which selected rows are returned, by index.
    pub output: usize,
    /// The most rows, sequences and selected rows of a call.
    pub max_rows: u32,
    /// The most sequences of a call.
    pub max_sequences: u32,
    /// The most selected rows of a call.
    pub max_selected: u32,
    /// Blocks of [`BLOCK_POSITIONS`] positions that the state has room for.
    pub blocks: u32,
    /// The most entries of all block tables of a call.
    pub max_table_blocks: u32,
    /// The most copies of blocks before a call.
    pub max_copies: u32,
    /// Room for low-rank adapters, which each row may choose.
    pub adapters: Option<AdapterOptions>,
}

/// The inputs that the rewrite adds, by index of the graph's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceInputs {
    /// The integers that an earlier call fed back, `[n]`.
    pub fed_back: usize,
    /// For each row the index of its integer among those fed back, followed by those given, `[rows]`.
    pub sources: usize,
    /// The work list `[words]`.
    pub work: usize,
    /// Pairs of blocks to copy, source and destination, `[copies, 2]`.
    pub copies: usize,
    /// The selected rows, `[n]`.
    pub selected: usize,
    /// Which rows have which adapter, as [`adapter_tiles`] lists them, `[tiles, 10]`; for graphs with adapters.
    pub adapters: Option<usize>,
}

impl SequenceInputs {
    /// The inputs in order.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        let always = [self.fed_back, self.sources, self.work, self.copies, self.selected];
        always.into_iter().chain(self.adapters)
    }

    /// The number of inputs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.indices().count()
    }
}

/// Adds the inputs to a graph before it is decoded, and selects rows of the output where it has all of them.
///
/// # Errors
/// Inputs or outputs that the graph does not have.
pub fn prepare(graph: &mut Graph, options: &SequenceOptions) -> Result<SequenceInputs> {
    let fail = |reason: String| Error::Unsupported(format!("cannot run rows of many sequences: {reason}"));
    let tensor = |graph: &Graph, id: Option<&ValueId>| {
        id.and_then(|&id| Some((id, graph.value(id)?.as_tensor()?.clone()))).ok_or_else(|| fail("no such tensor".to_owned()))
    };
    let (rows, given) = tensor(graph, graph.inputs.get(options.rows_input))?;
    let &[1, bound] = given.dims.as_slice() else {
        return Err(fail(format!("input {} is {:?}, expected [1, rows]", options.rows_input, given.dims)));
    };
    if bound < options.max_rows {
        return Err(fail(format!("{} rows are asked for, but it takes {bound}", options.max_rows)));
    }
    let first = graph.inputs.len();
    let [fed_back, sources, _, _, selected] = [
        Tensor::new(given.dtype, &[options.max_selected]),
        Tensor::new(DataType::Int32, &[bound]),
        // The rewrite knows how long it can be.
        Tensor::new(DataType::Int32, &[1]),
        Tensor::new(DataType::Int32, &[options.max_copies, 2]),
        Tensor::new(DataType::Int32, &[options.max_selected]),
    ]
    .map(|tensor| {
        let id = graph.add(Value::Tensor(tensor));
        graph.inputs.push(id);
        id
    });
    take_fed_back(graph, rows, &given, [fed_back, sources], options.max_selected);
    let (output, all) = tensor(graph, graph.outputs.get(options.output))?;
    if let &[1, own, columns] = all.dims.as_slice()
        && own == bound
        && own > 1
    {
        let chosen = graph.add(Value::Tensor(Tensor::new(all.dtype, &[1, options.max_selected, columns])));
        let axis = graph.add(Value::Int(1));
        let call = index_select_call([output, axis, selected, chosen]);
        graph.calls.push(call.at(graph.calls.len()));
        graph.outputs[options.output] = chosen;
    }
    let adapters = options.adapters.map(|adapters| {
        let tiles = graph.add(Value::Tensor(adapters.tiles(options.max_rows)));
        graph.inputs.push(tiles);
        graph.inputs.len() - 1
    });
    let [fed_back, sources, work, copies, selected] = [0, 1, 2, 3, 4].map(|index| first + index);
    Ok(SequenceInputs { fed_back, sources, work, copies, selected, adapters })
}

/// Makes all calls read integers that were fed back or given, as `sources` says.
fn take_fed_back(graph: &mut Graph, rows: ValueId, given: &Tensor, [fed_back, sources]: [ValueId; 2], max_fed_back: u32) {
    let bound = given.dims[1];
    let mut tensor = |dims: &[u32]| graph.add(Value::Tensor(Tensor::new(given.dtype, dims)));
    let [flat, all, taken, out] =
        [tensor(&[bound]), tensor(&[bound.saturating_add(max_fed_back)]), tensor(&[bound]), tensor(&[1, bound])];
    replace_reads(graph, rows, out);
    let zero = graph.add(Value::Int(0));
    let calls = [
        copy::squeeze_call(graph, TensorId(rows.0), &[0], TensorId(flat.0)),
        copy::cat_call(graph, &[fed_back, flat], 0, all),
        index_select_call([all, zero, sources, taken]),
        copy::unsqueeze_call(graph, taken, 0, out),
    ];
    graph.calls.splice(0..0, calls);
}

/// Makes calls read another value in the place of one.
fn replace_reads(graph: &mut Graph, old: ValueId, new: ValueId) {
    let renamed = |id: &ValueId| if *id == old { new } else { *id };
    for index in 0..graph.calls.len() {
        for position in 0..graph.calls[index].args.len() {
            let arg = graph.calls[index].args[position];
            graph.calls[index].args[position] = match graph.value(arg) {
                Some(Value::ValueList(ids)) if ids.contains(&old) => {
                    let ids = ids.iter().map(renamed).collect();
                    graph.add(Value::ValueList(ids))
                }
                _ => renamed(&arg),
            };
        }
    }
}

/// Rewrites a decoded graph. The fusions that compute the last row alone must be off.
///
/// # Errors
/// An operator that is not row-wise, by name; a graph without attention over a KV cache, or with several kinds of it.
pub fn rewrite(graph: DecodedGraph, options: &SequenceOptions, inputs: &SequenceInputs) -> Result<DecodedGraph> {
    let graph = paged_attention::replace(graph, options, inputs)?;
    let graph = match &options.adapters {
        Some(adapters) => adapters::insert(graph, adapters, inputs)?,
        None => graph,
    };
    let graph = selected_rows::hoist(graph, inputs)?;
    selected_rows::check_and_select(graph, options, inputs)
}

/// The tiling of a rewritten graph on a device.
///
/// # Errors
/// A graph without paged attention.
pub fn tiling(graph: &DecodedGraph, bounds: &[Dims], caps: Caps) -> Result<PagedTiling> {
    let op: Option<&PagedSdpa> = graph.nodes.iter().find_map(|node| node.op.downcast());
    let op = op.ok_or_else(|| Error::Unsupported("has no paged attention".to_owned()))?;
    Ok(op.tiling(&BoundsCx::new(bounds, caps))?)
}

/// An argument with values renamed, also in a list.
fn renamed(graph: &mut Graph, arg: ValueId, names: &[(ValueId, ValueId)]) -> ValueId {
    let name = |id: ValueId| names.iter().find(|(old, _)| *old == id).map_or(id, |(_, new)| *new);
    match graph.value(arg) {
        Some(Value::ValueList(ids)) if ids.iter().any(|&id| name(id) != id) => {
            let list = ids.iter().map(|&id| name(id)).collect();
            graph.add(Value::ValueList(list))
        }
        _ => name(arg),
    }
}

/// The value of an input.
fn input(graph: &DecodedGraph, index: usize) -> ValueId {
    ValueId(graph.inputs[index].0)
}

/// Whether a tensor is an input.
fn is_input(graph: &DecodedGraph, tensor: TensorId, index: usize) -> bool {
    graph.inputs.get(index) == Some(&tensor)
}
