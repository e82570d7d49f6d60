//! Collects tensors that live across calls: KV caches and other mutable state.

use std::collections::{BTreeMap, BTreeSet};

use pteron_format::vulkan::{Graph, Value, ValueId};
use pteron_format::{Bytes, Pte};
use pteron_gpu::args::Flow;
use pteron_gpu::frontend::vulkan::declared_flows;

use super::clip;
use crate::inspect::report::Caches;

/// The tensors that each call of a graph changes in place, as its operator declares them.
fn mutated(graph: &Graph) -> Vec<Vec<ValueId>> {
    let ids = |flow: Flow| flow.mutates.iter().map(|tensor| ValueId(tensor.0)).collect();
    declared_flows(graph).into_iter().map(ids).collect()
}

/// A tensor that is written in place or lives across calls.
#[derive(Default)]
struct Held<'a> {
    written_by: BTreeSet<&'a str>,
    /// A call changes it in place.
    is_cache: bool,
    /// It lives with the method; otherwise the caller passes it in, or it is computed.
    lives: bool,
}

/// Tensors by id. Two kinds live across calls: those with a constant and planned memory, and those that a call copies from a
/// constant and a later one writes again.
fn held(graph: &Graph) -> BTreeMap<ValueId, Held<'_>> {
    let mut held = BTreeMap::<ValueId, Held<'_>>::new();
    let mut copies = BTreeSet::new();
    let is_constant =
        |id: &ValueId| graph.value(*id).and_then(Value::as_tensor).is_some_and(|tensor| tensor.constant.is_some());
    for (call, mutated) in graph.chain.iter().zip(mutated(graph)) {
        for id in mutated {
            let cache = held.entry(id).or_default();
            cache.is_cache = true;
            cache.written_by.insert(&call.name);
        }
        let Some((&output, inputs)) = call.args.split_last() else { continue };
        if copies.contains(&output) {
            held.entry(output).or_default().written_by.insert(&call.name);
        } else if inputs.iter().any(is_constant) {
            copies.insert(output);
        }
    }
    for (id, tensor) in (0u32..).map(ValueId).zip(&graph.values).filter_map(|(id, value)| Some((id, value.as_tensor()?))) {
        let planned = tensor.constant.is_some() && tensor.memory_object.is_some();
        if planned || held.contains_key(&id) {
            held.entry(id).or_default().lives = tensor.constant.is_some() || copies.contains(&id);
        }
    }
    held
}

/// Tensors that live with the method, and so are no activations.
pub(super) fn living(graph: &Graph) -> BTreeSet<usize> {
    held(graph).into_iter().filter(|(_, held)| held.lives).map(|(id, _)| id.index()).collect()
}

/// Tensors with the same kind are one row of the report.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind<'a> {
    is_cache: bool,
    is_input: bool,
    written_by: BTreeSet<&'a str>,
    dtype: &'static str,
    shape: &'a [u32],
}

/// All of them, equal ones together, and the bytes of those that live with the method.
pub(super) fn collect<B: Bytes>(pte: &Pte<B>) -> (Vec<Caches>, u64) {
    let mut counts = BTreeMap::<Kind<'_>, (usize, u64)>::new();
    let mut state_bytes = 0u64;
    for (_, blob) in pte.graphs() {
        let inputs: BTreeSet<_> = blob.graph.inputs.iter().copied().collect();
        for (id, Held { written_by, is_cache, lives }) in held(&blob.graph) {
            let Some(tensor) = blob.graph.value(id).and_then(Value::as_tensor) else { continue };
            let bytes = tensor.byte_len().unwrap_or(u64::MAX);
            if lives {
                state_bytes = state_bytes.saturating_add(bytes);
            }
            let (is_input, dtype) = (inputs.contains(&id), tensor.dtype.name());
            counts.entry(Kind { is_cache, is_input, written_by, dtype, shape: &tensor.dims }).or_insert((0, bytes)).0 += 1;
        }
    }
    let caches = counts.into_iter().map(|(kind, (count, bytes))| describe(&kind, count, bytes)).collect();
    (caches, state_bytes)
}

fn describe(kind: &Kind<'_>, count: usize, bytes_each: u64) -> Caches {
    Caches {
        kind: if kind.is_cache { "kv_cache" } else { "state" },
        is_input: kind.is_input,
        count,
        dtype: kind.dtype,
        shape: kind.shape.to_vec(),
        bytes_each,
        bytes: bytes_each.saturating_mul(count as u64),
        written_by: kind.written_by.iter().map(|&name| clip(name)).collect(),
    }
}
