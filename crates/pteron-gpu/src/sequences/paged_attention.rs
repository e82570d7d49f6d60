//! Attention over pools in the place of attention over one sequence's KV cache.

use std::collections::HashSet;

use super::adapters::zeros;
use super::{BLOCK_POSITIONS, PagedTiling, SequenceInputs, SequenceOptions, input};
use crate::error::{Error, Result};
use crate::graph::DecodedGraph;
use crate::ir::{DataType, Graph, Value, ValueId};
use crate::live::TensorId;
use crate::ops::sdpa::Sdpa;
use crate::ops::sdpa::paged::PagedInputs;

/// Replaces attention calls, and removes the calls that computed their positions.
pub(super) fn replace(graph: DecodedGraph, options: &SequenceOptions, inputs: &SequenceInputs) -> Result<DecodedGraph> {
    let fail = |name: &str, reason: &str| Error::Unsupported(format!("cannot run rows of many sequences: {name} {reason}"));
    let paged = PagedInputs { work: input(&graph, inputs.work), copies: input(&graph, inputs.copies) };
    let mut source = graph.source.clone();
    let mut sizes = None;
    for (index, node) in graph.nodes.iter().enumerate() {
        let Some(sdpa) = node.op.downcast::<Sdpa>() else { continue };
        let bound = |tensor: TensorId| graph.info(tensor).bound;
        let (q, cache) = (bound(sdpa.q), bound(sdpa.k_cache));
        let (&[_, _, heads, _], &[1, positions, kv_heads, dim]) = (&*q, &*cache) else {
            return Err(fail(node.name, "has queries or caches of another shape"));
        };
        if *sizes.get_or_insert((heads, kv_heads, dim, positions)) != (heads, kv_heads, dim, positions) {
            return Err(fail(node.name, "differs in heads or positions from the one before it"));
        }
        let pools = [sdpa.k_cache, sdpa.v_cache]
            .map(|_| zeros(&mut source, DataType::Float32, &[options.blocks, BLOCK_POSITIONS, kv_heads, dim]));
        let call = sdpa.paged_call(&mut source, paged, pools, positions).map_err(|reason| fail(node.name, reason))?;
        source.calls[index] = call.at(node.call);
        // Nothing reads the caches any more: their bytes are not uploaded.
        for cache in [sdpa.k_cache, sdpa.v_cache] {
            if let Some(Value::Tensor(tensor)) = source.values.get_mut(cache.index()) {
                tensor.constant = None;
            }
        }
    }
    let Some((heads, kv_heads, ..)) = sizes else {
        return Err(Error::Unsupported("cannot run rows of many sequences: no attention over a KV cache".to_owned()));
    };
    let group = heads / kv_heads.max(1);
    let words = PagedTiling::max_words(options.max_rows, options.max_sequences, group, options.max_table_blocks);
    if let Some(Value::Tensor(work)) = source.values.get_mut(paged.work.index()) {
        work.dims = vec![u32::try_from(words).map_err(|_| Error::Unsupported(format!("needs {words} words of work")))?];
    }
    remove_dead(&graph, &mut source);
    DecodedGraph::assemble(source, graph.size())
}

/// Removes calls whose results nothing reads any more. Attention calls keep their places, so the data flow of all others is known.
fn remove_dead(graph: &DecodedGraph, source: &mut Graph) {
    let mut needed: HashSet<ValueId> = source.outputs.iter().copied().collect();
    let mut kept = Vec::with_capacity(source.calls.len());
    for (node, call) in graph.nodes.iter().zip(std::mem::take(&mut source.calls)).rev() {
        let is_attention = node.op.downcast::<Sdpa>().is_some();
        let flow = &node.flow;
        let tensors = flow.writes.iter().map(|tensor| ValueId(tensor.0));
        let mut written = tensors.chain(flow.scalar_writes.iter().map(|scalar| ValueId(scalar.0)));
        if !is_attention && flow.mutates.is_empty() && !written.any(|value| needed.contains(&value)) {
            continue;
        }
        needed.extend(call.args.iter().copied());
        for arg in &call.args {
            if let Some(Value::ValueList(ids)) = source.value(*arg) {
                needed.extend(ids);
            }
        }
        kept.push(call);
    }
    kept.reverse();
    source.calls = kept;
}
