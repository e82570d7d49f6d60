//! No tensor's memory is overwritten while it is still needed: graphs are simulated on the host, place by place.

use std::collections::HashMap;

use super::operators::fixture_graphs;
use super::random::{MOST, RandomGraph};
use crate::fuse::Fusions;
use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;
use crate::memory::{Memory, Place};
use crate::plan::Caps;
use crate::resize::Planned;
use crate::shape::Dims;

/// The content of a place: a tensor's elements, or scratch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Tensor(TensorId),
    Scratch,
}

/// Simulates the operators and the content of each place. Returns how often memory was reused.
fn walk(graph: &DecodedGraph, planned: &Planned, memory: &Memory, what: &str) -> usize {
    // An alias has the elements of the tensor it refers to.
    let mut origins: Vec<TensorId> = (0..graph.tensors.len()).map(|id| TensorId(u32::try_from(id).unwrap())).collect();
    let place = |tensor: TensorId| memory.tensors[tensor.index()].unwrap_or_else(|| panic!("{what}: {tensor} has no place"));
    let mut held: HashMap<Place, Content> = HashMap::new();
    for (id, role) in
        graph.roles.iter().enumerate().filter(|&(id, role)| graph.tensors[id].is_some() && *role != Role::Computed)
    {
        let tensor = origins[id];
        let shares = matches!(role, Role::Constant(_));
        let old = held.insert(place(tensor), Content::Tensor(tensor));
        assert!(old.is_none() || shares, "{what}: {tensor} shares its own buffer with {old:?}");
    }
    let constant = |tensor: TensorId| matches!(graph.role(tensor), Role::Constant(_));
    let mut again = 0;
    for (index, node) in graph.nodes.iter().enumerate() {
        let what = format!("{what}, operator {index} {}", node.name);
        for &tensor in node.flow.reads.iter().chain(&node.flow.mutates) {
            let origin = origins[tensor.index()];
            if !constant(origin) {
                assert_eq!(held.get(&place(tensor)), Some(&Content::Tensor(origin)), "{what} reads {tensor}");
            }
        }
        if memory.aliased[index] {
            let source = node.op.alias().unwrap_or_else(|| panic!("{what} aliases nothing"));
            let out = node.flow.writes[0];
            assert_eq!(place(out), place(source), "{what}");
            origins[out.index()] = origins[source.index()];
            continue;
        }
        // A dispatch must not bind a buffer twice when it writes it.
        let mut written: Vec<Place> = Vec::new();
        let reads: Vec<Place> = node.flow.reads.iter().map(|&tensor| place(tensor)).collect();
        for &tensor in node.flow.writes.iter().chain(&node.flow.mutates) {
            assert!(!constant(tensor), "{what} writes a constant");
            written.push(place(tensor));
        }
        written.extend(&memory.scratch[index]);
        for (at, place) in written.iter().enumerate() {
            assert!(!written[..at].contains(place), "{what} writes {place:?} as two things");
            assert!(
                !reads.contains(place) || node.flow.mutates.iter().any(|&t| node.flow.reads.contains(&t)),
                "{what}: {place:?}"
            );
        }
        for &tensor in &node.flow.writes {
            again += usize::from(held.insert(place(tensor), Content::Tensor(tensor)).is_some());
            sizes(graph, planned, memory, tensor, &what);
        }
        for (&scratch, &bytes) in memory.scratch[index].iter().zip(&planned.recipes()[index].scratch) {
            held.insert(scratch, Content::Scratch);
            let Place::Object(object) = scratch else { panic!("{what}: scratch is {scratch:?}") };
            assert!(memory.objects[object] >= bytes, "{what}: scratch of {bytes} bytes in {}", memory.objects[object]);
        }
    }
    for &output in &graph.outputs {
        let origin = origins[output.index()];
        assert!(
            constant(origin) || held.get(&place(output)) == Some(&Content::Tensor(origin)),
            "{what}: output {output} is gone"
        );
    }
    again
}

/// Checks that a shared object holds the largest size of a tensor in it.
fn sizes(graph: &DecodedGraph, planned: &Planned, memory: &Memory, tensor: TensorId, what: &str) {
    if let Some(Place::Object(object)) = memory.tensors[tensor.index()] {
        let bytes = graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count());
        assert!(memory.objects[object] >= bytes, "{what}: {tensor} takes {bytes} bytes of {}", memory.objects[object]);
    }
}

fn plan(graph: &DecodedGraph, what: &str) -> usize {
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let planned = Planned::at_bounds(graph, &bounds, Caps::PORTABLE).unwrap_or_else(|error| panic!("{what}: {error}"));
    let memory = Memory::plan(graph, &planned).unwrap();
    walk(graph, &planned, &memory, what)
}

#[test]
fn no_two_live_tensors_share_memory_in_random_graphs() {
    let again: usize = (0..300)
        .map(|seed| {
            let graph = RandomGraph::new(seed, 5 + u32::try_from(seed % 40).unwrap(), MOST);
            plan(&graph.builder.decode().unwrap(), &format!("seed {seed}"))
        })
        .sum();
    assert!(again > 500, "memory was used again {again} times: these graphs prove little");
}

#[test]
fn large_short_lived_tensors_share_memory() {
    let fixtures = fixture_graphs();
    let llama = fixtures.iter().find(|fixture| fixture.name.starts_with("tiny_4w")).unwrap();
    let graph = DecodedGraph::decode_with(llama.builder.graph.clone(), &Fusions::ALL).unwrap();
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let planned = Planned::at_bounds(&graph, &bounds, Caps::PORTABLE).unwrap();
    let memory = Memory::plan(&graph, &planned).unwrap();
    // Both factors of SwiGLU and their product are the largest tensors. All layers place them in the same three objects.
    let scratch = || planned.recipes().iter().flat_map(|recipes| &recipes.scratch);
    let largest = scratch().max().unwrap();
    assert!(*largest > 0 && scratch().filter(|bytes| *bytes == largest).count() >= 2);
    assert_eq!(memory.objects.iter().filter(|object| *object >= largest).count(), 3, "{:?}", memory.objects);
    assert!(memory.objects.is_sorted_by(|a, b| a >= b), "{:?}", memory.objects);
}

#[test]
fn no_two_live_tensors_share_memory_in_exported_graphs() {
    let mut graphs = 0;
    let mut again = 0;
    for fixture in fixture_graphs() {
        for fusions in [Fusions::NONE, Fusions::ALL] {
            // Unsupported operators do not concern memory.
            let Ok(graph) = DecodedGraph::decode_with(fixture.builder.graph.clone(), &fusions) else { continue };
            graphs += 1;
            again += plan(&graph, &fixture.name);
        }
    }
    assert!(graphs > 50 && again > 20, "{graphs} graphs, memory used again {again} times");
}
