//! KV caches of 16-bit floats: half the memory, and half of what attention reads at every step.
//!
//! Files have caches of 32-bit floats. Which of them may be narrower is found in the graph: state that nothing but attention
//! touches, by kernels that take either. What such a state starts as is narrowed when it is uploaded.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::graph::{Elem, Graph, Node, Role};
use crate::live::TensorId;
use crate::ops::sdpa;
use crate::plan::Caps;

/// How exactly attention remembers keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateDtype {
    /// In the 32-bit floats of the file.
    #[default]
    F32,
    /// In 16-bit floats where the GPU has them and nothing but attention sees them: half the memory, less to read at every step.
    /// Numbers beyond ±65,504 become that. Elsewhere as [`Full`](Self::F32).
    F16,
}

impl StateDtype {
    /// A graph with its caches so, on a device that can do this.
    pub(crate) fn of(self, graph: Graph, caps: Caps) -> Result<Graph> {
        match self {
            Self::F16 if caps.f16 => {
                let caches = caches(&graph);
                graph.with_halves(&caches)
            }
            _ => Ok(graph),
        }
    }
}

/// State of 32-bit floats that only attention touches, whose two caches are alike in every call.
fn caches(graph: &Graph) -> Vec<TensorId> {
    let (attention, others): (Vec<&Node>, Vec<&Node>) = graph.nodes.iter().partition(|node| takes_halves(graph, node));
    let mut seen: HashSet<TensorId> = graph.outputs.iter().copied().collect();
    seen.extend(others.iter().flat_map(|node| &node.flow.mutates));
    seen.extend(graph.nodes.iter().flat_map(|node| node.flow.reads.iter().chain(&node.flow.writes)));
    let is_cache = |tensor: &TensorId| {
        matches!(graph.role(*tensor), Role::State(_)) && graph.info(*tensor).elem == Elem::F32 && !seen.contains(tensor)
    };
    let mutated = || attention.iter().flat_map(|node| &node.flow.mutates);
    let mut found: HashSet<TensorId> = mutated().copied().filter(is_cache).collect();
    // A cache that stays as it is keeps the other one of its calls so, and that perhaps others.
    let mut calls: HashMap<TensorId, Vec<&Node>> = HashMap::new();
    for node in &attention {
        node.flow.mutates.iter().for_each(|cache| calls.entry(*cache).or_default().push(node));
    }
    let mut kept: Vec<TensorId> = mutated().copied().filter(|cache| !found.contains(cache)).collect();
    while let Some(cache) = kept.pop() {
        // Each call once: it is of no more interest when its caches are kept.
        let calls = calls.remove(&cache).unwrap_or_default();
        kept.extend(calls.iter().flat_map(|node| &node.flow.mutates).filter(|cache| found.remove(*cache)));
    }
    found.into_iter().collect()
}

/// Whether all that a call changes may be caches of 16-bit floats.
fn takes_halves(graph: &Graph, node: &Node) -> bool {
    let dim = |cache: &TensorId| graph.info(*cache).bound.last();
    node.flow.mutates.iter().all(|cache| sdpa::takes_halves(&node.name, dim(cache)))
}

/// Bytes of 32-bit floats as 16-bit ones, within what those hold.
pub(crate) fn halves(floats: &[u8]) -> Vec<u8> {
    let narrow = |word: &[u8]| {
        let float = f32::from_le_bytes(word.try_into().unwrap_or_default());
        half::f16::from_f32(float.clamp(half::f16::MIN.to_f32(), half::f16::MAX.to_f32())).to_le_bytes()
    };
    floats.chunks_exact(4).flat_map(narrow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DataType, Value, ValueId};
    use crate::testing::Sketch;

    /// Calls of attention of which each has a cache in common with the next, and one that has its own.
    fn chain(count: usize) -> (Sketch, Vec<ValueId>) {
        let mut sketch = Sketch::new();
        let [q, k, v] = [(); 3].map(|()| sketch.input(DataType::Float32, &[1, 2, 1, 8]));
        let caches: Vec<ValueId> = (0..count + 3).map(|_| sketch.floats(&[1, 4, 1, 8], &[0.0; 32])).collect();
        let [none, zero, yes] = [Value::Null, Value::Int(0), Value::Bool(true)].map(|value| sketch.value(value));
        for pair in (0..count).chain([count + 1]).map(|first| [caches[first], caches[first + 1]]) {
            let out = sketch.tensor(DataType::Float32, &[1, 2, 1, 8]);
            sketch.call(sdpa::NAME, &[q, k, v, pair[0], pair[1], zero, zero, none, zero, yes, none, out]);
        }
        (sketch, caches)
    }

    #[test]
    fn a_cache_that_stays_as_it_is_keeps_all_that_are_connected_with_it_so() {
        for count in [1, 4, 3000] {
            let (mut sketch, caches) = chain(count);
            let found = |sketch: &Sketch| super::caches(&sketch.decode().unwrap()).len();
            assert_eq!(found(&sketch), count + 3);
            sketch.output(caches[0]);
            assert_eq!(found(&sketch), 2, "of {count} calls");
        }
    }

    #[test]
    fn narrowed_floats_stay_finite() {
        let floats: Vec<u8> = [1.0f32, -1e9, 70000.0, 65504.0, 1e-9].iter().flat_map(|float| float.to_le_bytes()).collect();
        let narrow: Vec<f32> =
            halves(&floats).chunks_exact(2).map(|pair| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect();
        assert_eq!(narrow, [1.0, -65504.0, 65504.0, 65504.0, 0.0]);
    }
}
