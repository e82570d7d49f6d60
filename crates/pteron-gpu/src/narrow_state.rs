//! State in 16-bit floats: half the memory, and half the bytes that operators read of it at every call.
//!
//! Files declare state in 32-bit floats. A state tensor is narrowed if every operator that touches it accepts it in 16-bit floats
//! ([`Op::accepts_f16_state`](crate::plan::Op::accepts_f16_state)). Its initial content is narrowed when it is uploaded.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::graph::{DecodedGraph, Elem, Node, Role};
use crate::live::TensorId;
use crate::plan::Caps;

/// The element type of state tensors that files declare in 32-bit floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateDtype {
    /// 16-bit floats with [`Precision::Fast`](crate::engine::Precision::Fast) on GPUs that have them, 32-bit floats elsewhere: with
    /// full precision, and on software adapters.
    #[default]
    Auto,
    /// 32-bit floats, as in the file.
    F32,
    /// 16-bit floats, where the GPU has them and every operator that touches the state accepts them: half the memory, and
    /// fewer bytes to read per call. Numbers beyond ±65,504 are clamped. Elsewhere as [`F32`](Self::F32).
    F16,
}

impl StateDtype {
    /// The type for a method whose precision is fast or not, on a device with these capabilities. Software adapters compute in 32 bits:
    /// for them narrow state is more work, not less.
    pub(crate) fn resolve(self, fast: bool, caps: Caps) -> Self {
        match self {
            Self::Auto if fast && caps.f16 && !caps.software => Self::F16,
            Self::Auto => Self::F32,
            chosen => chosen,
        }
    }

    /// Applies a [resolved](Self::resolve) choice to a graph, on a device with these capabilities.
    pub(crate) fn of(self, graph: DecodedGraph, caps: Caps) -> Result<DecodedGraph> {
        match self {
            Self::F16 if caps.f16 => {
                let states = narrowable(&graph);
                graph.with_f16_state(&states)
            }
            _ => Ok(graph),
        }
    }
}

/// The state tensors of 32-bit floats that can be narrowed: changed in place only, by operators that accept them narrowed,
/// and not outputs. Either all states that one call changes are narrowed, or none.
fn narrowable(graph: &DecodedGraph) -> Vec<TensorId> {
    let (accepting, others): (Vec<&Node>, Vec<&Node>) = graph.nodes.iter().partition(|node| accepts(node));
    let mut seen: HashSet<TensorId> = graph.outputs.iter().copied().collect();
    seen.extend(others.iter().flat_map(|node| &node.flow.mutates));
    seen.extend(graph.nodes.iter().flat_map(|node| node.flow.reads.iter().chain(&node.flow.writes)));
    let qualifies = |tensor: &TensorId| {
        matches!(graph.role(*tensor), Role::State(_)) && graph.info(*tensor).elem == Elem::F32 && !seen.contains(tensor)
    };
    let mutated = || accepting.iter().flat_map(|node| &node.flow.mutates);
    let mut found: HashSet<TensorId> = mutated().copied().filter(qualifies).collect();
    // A state that stays in 32 bits keeps the other states of its calls in 32 bits, transitively.
    let mut calls: HashMap<TensorId, Vec<&Node>> = HashMap::new();
    for node in &accepting {
        node.flow.mutates.iter().for_each(|state| calls.entry(*state).or_default().push(node));
    }
    let mut kept: Vec<TensorId> = mutated().copied().filter(|state| !found.contains(state)).collect();
    while let Some(state) = kept.pop() {
        // Each call is visited once: all its states are kept then.
        let calls = calls.remove(&state).unwrap_or_default();
        kept.extend(calls.iter().flat_map(|node| &node.flow.mutates).filter(|state| found.remove(*state)));
    }
    found.into_iter().collect()
}

/// Whether a call accepts all state that it changes in 16-bit floats.
fn accepts(node: &Node) -> bool {
    node.flow.mutates.iter().all(|&state| node.op.accepts_f16_state(state))
}

/// Converts bytes of 32-bit floats to 16-bit floats, clamped to their range.
pub(crate) fn narrow(floats: &[u8]) -> Vec<u8> {
    let (words, _) = floats.as_chunks::<4>();
    let narrow = |word: &[u8; 4]| {
        let float = f32::from_le_bytes(*word).clamp(half::f16::MIN.to_f32(), half::f16::MAX.to_f32());
        half::f16::from_f32(float).to_le_bytes()
    };
    words.iter().flat_map(narrow).collect()
}

#[cfg(test)]
mod tests {
    use crate::ir::{DataType, Value, ValueId};

    use super::*;
    use crate::ops::sdpa;
    use crate::testing::GraphBuilder;

    /// Attention calls each of which shares a cache with the next, and one with separate caches.
    fn chain(count: usize) -> (GraphBuilder, Vec<ValueId>) {
        let mut builder = GraphBuilder::new();
        let [q, k, v] = [(); 3].map(|()| builder.input(DataType::Float32, &[1, 2, 1, 8]));
        let caches: Vec<ValueId> = (0..count + 3).map(|_| builder.floats(&[1, 4, 1, 8], &[0.0; 32])).collect();
        let [none, zero, yes] = [Value::Null, Value::Int(0), Value::Bool(true)].map(|value| builder.value(value));
        for pair in (0..count).chain([count + 1]).map(|first| [caches[first], caches[first + 1]]) {
            let out = builder.tensor(DataType::Float32, &[1, 2, 1, 8]);
            builder.call(sdpa::NAME, &[q, k, v, pair[0], pair[1], zero, zero, none, zero, yes, none, out]);
        }
        (builder, caches)
    }

    #[test]
    fn state_kept_in_f32_keeps_connected_state_in_f32() {
        for count in [1, 4, 3000] {
            let (mut builder, caches) = chain(count);
            let found = |builder: &GraphBuilder| narrowable(&builder.decode().unwrap()).len();
            assert_eq!(found(&builder), count + 3);
            builder.output(caches[0]);
            assert_eq!(found(&builder), 2, "of {count} calls");
        }
    }

    #[test]
    fn state_is_narrow_by_default_where_precision_is_fast_and_the_gpu_has_f16() {
        let gpu = Caps { f16: true, ..Caps::PORTABLE };
        let software = Caps { software: true, ..gpu };
        let resolved = |caps| [true, false].map(|fast| StateDtype::Auto.resolve(fast, caps));
        assert_eq!(resolved(gpu), [StateDtype::F16, StateDtype::F32]);
        assert_eq!([resolved(software), resolved(Caps::PORTABLE)], [[StateDtype::F32; 2]; 2]);
        for chosen in [StateDtype::F16, StateDtype::F32] {
            assert_eq!([gpu, software].map(|caps| chosen.resolve(false, caps)), [chosen; 2]);
        }
    }

    #[test]
    fn narrowed_floats_stay_finite() {
        let floats: Vec<u8> = [1.0f32, -1e9, 70000.0, 65504.0, 1e-9].iter().flat_map(|float| float.to_le_bytes()).collect();
        let narrowed: Vec<f32> =
            narrow(&floats).chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect();
        assert_eq!(narrowed, [1.0, -65504.0, 65504.0, 65504.0, 0.0]);
    }
}
