//! Properties of memory plans and operator plans, derived again from the graph alone.

use pteron_gpu::graph::{DecodedGraph, Node, Role};
use pteron_gpu::live::TensorId;
use pteron_gpu::memory::{Memory, Place, padded};
use pteron_gpu::plan::{Bind, Grid, PARAM_SLOT, Plan};
use pteron_gpu::resize::Planned;

fn at(tensor: TensorId) -> usize {
    tensor.0 as usize
}

/// Checks that every plan stays within the resources of its recipes and writes its outputs.
///
/// # Panics
/// If one does not.
pub fn check_plans(graph: &DecodedGraph, planned: &Planned, memory: &Memory) {
    assert_eq!(planned.plans().len(), graph.nodes.len(), "a plan for each operator");
    let mut words = 0;
    for (index, (node, plan)) in graph.nodes.iter().zip(planned.plans()).enumerate() {
        let recipes = &planned.recipes()[index];
        assert_eq!(planned.step_bases()[index], words, "{}: step words of two operators overlap", node.name);
        words += recipes.step_words as u32;
        assert!(plan.step_words.len() <= recipes.step_words, "{}: step words", node.name);
        for (scratch, &used) in plan.scratch.iter().enumerate() {
            let reserved = recipes.scratch.get(scratch).copied().unwrap_or(0);
            assert!(used <= reserved, "{}: {used} bytes of scratch {scratch}", node.name);
        }
        check_outputs(planned, node, plan);
        check_steps(planned, index, node, plan);
        check_written(graph, planned, memory, index);
        check_bindings(graph, planned, memory, index);
    }
}

/// Checks that a plan's outputs are tensors the operator writes, at their live dims, within their bounds.
fn check_outputs(planned: &Planned, node: &Node, plan: &Plan) {
    let writes = &node.flow.writes;
    for &(tensor, dims) in &plan.outputs {
        assert!(writes.contains(&tensor) || node.flow.mutates.contains(&tensor), "{} returns {tensor}", node.name);
        assert!(dims.fits(&planned.bounds()[at(tensor)]), "{}: {dims} past its bound", node.name);
        assert_eq!(planned.live().dims(tensor), dims, "{}: live dims of {tensor}", node.name);
    }
    for tensor in writes {
        assert!(plan.outputs.iter().any(|(output, _)| output == tensor), "{} says nothing of {tensor}", node.name);
    }
    for &(scalar, value) in &plan.scalars {
        assert!(node.flow.scalar_writes.contains(&scalar), "{} sets scalar {scalar:?}", node.name);
        assert_eq!(planned.live().scalar(pteron_gpu::live::Scalar::Live(scalar)), value, "{}: a scalar", node.name);
    }
}

fn check_steps(planned: &Planned, index: usize, node: &Node, plan: &Plan) {
    let recipes = &planned.recipes()[index];
    let mut used = vec![0; recipes.list.len()];
    for step in &plan.steps {
        let recipe = &recipes.list[step.recipe];
        used[step.recipe] += 1;
        assert!(used[step.recipe] <= recipe.max_dispatches, "{}: too many dispatches", node.name);
        assert!(step.params.len() <= PARAM_SLOT && step.params.len() % 4 == 0, "{}: parameters", node.name);
        let Grid { x, y } = step.grid;
        assert!((1..=Grid::LIMIT).contains(&x) && (1..=Grid::LIMIT).contains(&y), "{}: a grid of {x} x {y}", node.name);
        for bind in &recipe.binds {
            match *bind {
                Bind::Scratch(scratch) => assert!(scratch < recipes.scratch.len(), "{}: scratch {scratch}", node.name),
                Bind::Joined(list) => assert!(list < recipes.joined.len(), "{}: joined {list}", node.name),
                Bind::Tensor(_) | Bind::Step => {}
            }
        }
    }
}

/// Checks that some dispatch writes every output that is no alias: no operator reads stale memory.
fn check_written(graph: &DecodedGraph, planned: &Planned, memory: &Memory, index: usize) {
    let (node, plan) = (&graph.nodes[index], &planned.plans()[index]);
    if memory.aliased[index] {
        return;
    }
    for &tensor in &node.flow.writes {
        let bound = |recipe: usize| planned.recipes()[index].list[recipe].binds.contains(&Bind::Tensor(tensor));
        let written = plan.steps.iter().any(|step| bound(step.recipe));
        let empty = planned.live().dims(tensor).count() == 0;
        assert!(written || empty, "{}: no dispatch writes {tensor}, which is {}", node.name, planned.live().dims(tensor));
    }
}

/// Checks that no dispatch binds a buffer it writes a second time.
fn check_bindings(graph: &DecodedGraph, planned: &Planned, memory: &Memory, index: usize) {
    let node = &graph.nodes[index];
    if memory.aliased[index] {
        return;
    }
    let written: Vec<TensorId> = node.flow.writes.iter().chain(&node.flow.mutates).copied().collect();
    for recipe in &planned.recipes()[index].list {
        let tensors = recipe.binds.iter().filter_map(|bind| match bind {
            Bind::Tensor(tensor) => Some(*tensor),
            _ => None,
        });
        let tensors: Vec<TensorId> = tensors.collect();
        for &tensor in &tensors {
            let touches = node.flow.reads.contains(&tensor) || written.contains(&tensor);
            assert!(touches, "{} binds {tensor}, which is no argument", node.name);
            assert!(memory.tensors[at(tensor)].is_some(), "{}: {tensor} has no memory", node.name);
        }
        for &output in tensors.iter().filter(|tensor| written.contains(tensor)) {
            let place = memory.tensors[at(output)];
            let shared = tensors.iter().find(|&&other| other != output && memory.tensors[at(other)] == place);
            assert!(shared.is_none(), "{}: {output} and {shared:?} share {place:?} in one dispatch", node.name);
            let scratch = memory.scratch[index].iter().find(|&&scratch| Some(scratch) == place);
            assert!(scratch.is_none(), "{}: {output} lies in scratch", node.name);
        }
    }
    let scratch = &memory.scratch[index];
    for (first, place) in scratch.iter().enumerate() {
        assert!(!scratch[first + 1..].contains(place), "{}: two scratch buffers share memory", node.name);
    }
}

/// Lifetime of a tensor or of scratch memory, in operators.
struct Life {
    /// Tensors that share on purpose have one root.
    root: usize,
    first: usize,
    last: usize,
    object: usize,
}

/// Nothing that lives at the same time shares memory, unless it is the same.
///
/// # Panics
/// If something does.
pub fn check_memory(graph: &DecodedGraph, planned: &Planned, memory: &Memory) {
    let roots = roots(graph, memory);
    let mut lives: Vec<Life> = Vec::new();
    for (id, place) in memory.tensors.iter().enumerate() {
        let tensor = TensorId(id as u32);
        let touches = |node: &Node| {
            let flow = &node.flow;
            flow.reads.iter().chain(&flow.writes).chain(&flow.mutates).any(|&touched| roots[at(touched)] == roots[id])
        };
        check_role(graph, tensor, *place, &roots);
        let Some(Place::Object(object)) = *place else { continue };
        let need = padded(graph.info(tensor).elem.bytes(planned.bounds()[id].count()));
        if graph.nodes.iter().enumerate().any(|(index, node)| !memory.aliased[index] && node.flow.writes.contains(&tensor)) {
            assert!(memory.objects[object] >= need, "tensor {tensor} needs {need} of object {object}");
        }
        let mut used = graph.nodes.iter().enumerate().filter(|(_, node)| touches(node)).map(|(index, _)| index);
        if let Some(first) = used.next() {
            lives.push(Life { root: roots[id], first, last: used.next_back().unwrap_or(first), object });
        }
    }
    for (node, places) in memory.scratch.iter().enumerate() {
        for (scratch, place) in places.iter().enumerate() {
            let Place::Object(object) = *place else { panic!("scratch in {place:?}") };
            assert!(memory.objects[object] >= planned.recipes()[node].scratch[scratch], "scratch in object {object}");
            lives.push(Life { root: usize::MAX - node * 64 - scratch, first: node, last: node, object });
        }
    }
    lives.sort_by_key(|life| (life.object, life.first));
    for (index, life) in lives.iter().enumerate() {
        for other in lives[index + 1..].iter().take_while(|other| other.object == life.object) {
            let apart = life.last < other.first || life.root == other.root;
            assert!(
                apart,
                "object {} is shared by {} and {} at operator {}",
                life.object, life.root, other.root, other.first
            );
        }
    }
}

/// For each tensor the one whose memory it uses, by the calls that became aliases.
fn roots(graph: &DecodedGraph, memory: &Memory) -> Vec<usize> {
    let mut roots: Vec<usize> = (0..graph.tensors.len()).collect();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(index, _)| memory.aliased[*index]) {
        let source = node.op.alias().unwrap_or_else(|| panic!("{} became an alias of nothing", node.name));
        let out = node.flow.writes[0];
        assert_eq!(memory.tensors[at(out)], memory.tensors[at(source)], "operator {index}: an alias elsewhere");
        assert_eq!(graph.info(out).elem, graph.info(source).elem, "operator {index}: an alias of other elements");
        let mutated = |tensor| graph.nodes.iter().any(|node| node.flow.mutates.contains(&tensor));
        assert!(!mutated(source) && !mutated(out), "operator {index}: an alias of what changes");
        roots[at(out)] = roots[at(source)];
    }
    roots
}

/// Constants, states and inputs keep buffers of their own, which nothing computed is put into.
fn check_role(graph: &DecodedGraph, tensor: TensorId, place: Option<Place>, roots: &[usize]) {
    let root = TensorId(roots[at(tensor)] as u32);
    if graph.tensors[at(tensor)].is_none() {
        return;
    }
    match (graph.role(root), place) {
        (Role::Constant(id), Some(Place::Constant(found))) => assert_eq!(id, found, "tensor {tensor}"),
        (Role::Input(index), Some(Place::Input(found))) => assert_eq!(index, found, "tensor {tensor}"),
        (Role::State(_), Some(Place::State(_))) => assert_eq!(root, tensor, "a state that is an alias"),
        (Role::Computed, Some(Place::Object(_) | Place::Output(_)) | None) => {}
        (role, place) => panic!("tensor {tensor} is {role:?} and lies in {place:?}"),
    }
}
