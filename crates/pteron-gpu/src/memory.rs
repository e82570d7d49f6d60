//! Memory planning from our own lifetime analysis.
//!
//! Constants, state, inputs and outputs have their own buffers. All other tensors share memory objects: two tensors share one
//! only if their live ranges (from the operator that writes a tensor to the last that reads it) do not overlap. A dispatch must not
//! bind one buffer twice when it writes it, so each object is one buffer, and an operator's inputs and outputs never share one.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, Role};
use crate::live::TensorId;
use crate::packing::Packing;
use crate::plan::{JoinedConstants, JoinedPart, Recipes};
use crate::resize::Planned;

/// The memory of a tensor or of scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A constant of the graph, by index.
    Constant(u32),
    /// Concatenated constants in one buffer, by index into [`Memory::joins`].
    Joined(usize),
    /// A buffer of the state, by index into [`Memory::states`].
    State(usize),
    /// An input of the graph, by index.
    Input(usize),
    /// An output of the graph, by index.
    Output(usize),
    /// A shared object, by index into [`Memory::objects`].
    Object(usize),
}

/// The memory of a graph.
#[derive(Debug)]
pub struct Memory {
    /// The place of each tensor, by value id; `None` for values that are not tensors or are never used.
    pub tensors: Vec<Option<Place>>,
    /// The place of each operator's scratch.
    pub scratch: Vec<Vec<Place>>,
    /// The place of each operator's joined constants.
    pub joined: Vec<Vec<Place>>,
    /// The lists of constants that share a buffer, in order, without duplicates.
    pub joins: Vec<JoinedConstants>,
    /// The sizes of the shared objects.
    pub objects: Vec<u64>,
    /// The tensors that are state, in order.
    pub states: Vec<TensorId>,
    /// For each operator, whether its output aliases its input's memory, so that nothing runs.
    pub aliased: Vec<bool>,
}

/// Bindings hold whole vectors of four words; kernels may write the padding.
#[must_use]
pub fn padded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

/// Returns the offsets of concatenated parts of these lengths, each padded to whole vectors, and the total length.
#[must_use]
pub fn joined(parts: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64) {
    let mut end = 0u64;
    let starts = parts.into_iter().map(|bytes| {
        let start = end;
        end = end.saturating_add(padded(bytes));
        start
    });
    (starts.collect(), end)
}

impl Memory {
    /// Plans the memory of a graph whose bounds and recipes are known.
    ///
    /// # Errors
    /// An operator that joins a tensor that is not a constant. The engine checks whether the memory fits an adapter.
    pub fn plan(graph: &DecodedGraph, planned: &Planned) -> Result<Self> {
        let (roots, aliased) = aliases(graph);
        let mut memory = Self {
            tensors: vec![None; graph.tensors.len()],
            scratch: Vec::new(),
            joined: Vec::with_capacity(graph.nodes.len()),
            joins: Vec::new(),
            objects: Vec::new(),
            states: Vec::new(),
            aliased,
        };
        memory.place_fixed(graph, &roots);
        memory.place_shared(graph, planned, &roots);
        memory.place_joined(graph, planned)?;
        memory.tensors = roots.iter().map(|&root| memory.tensors[root]).collect();
        Ok(memory)
    }

    /// Places constants, state, inputs and the tensors that outputs read.
    fn place_fixed(&mut self, graph: &DecodedGraph, roots: &[usize]) {
        for (id, &role) in (0..).zip(&graph.roles) {
            let tensor = TensorId(id);
            if graph.tensors[tensor.index()].is_none() {
                continue;
            }
            self.tensors[tensor.index()] = match role {
                Role::Constant(constant) => Some(Place::Constant(constant)),
                Role::State(_) => {
                    self.states.push(tensor);
                    Some(Place::State(self.states.len() - 1))
                }
                Role::Input(index) => Some(Place::Input(index)),
                Role::Computed => None,
            };
        }
        for (index, output) in graph.outputs.iter().enumerate() {
            let place = &mut self.tensors[roots[output.index()]];
            // An input that is also an output is read back from the input's buffer.
            if place.is_none() {
                *place = Some(Place::Output(index));
            }
        }
    }

    /// Places the lists of constants that operators join, one buffer per list. Lists with equal bytes in equal order and
    /// layout are one.
    fn place_joined(&mut self, graph: &DecodedGraph, planned: &Planned) -> Result<()> {
        let mut known: HashMap<Vec<(u32, Option<Packing>)>, usize> = HashMap::new();
        for (recipes, &aliased) in planned.recipes().iter().zip(&self.aliased) {
            let lists = if aliased { &[][..] } else { &recipes.joined };
            let mut places = Vec::with_capacity(lists.len());
            for list in lists {
                let bytes = |&JoinedPart { tensor, packing }: &JoinedPart| match graph.role(tensor) {
                    Role::Constant(constant) => Ok((graph.first_equal(constant), packing)),
                    _ => Err(Error::Tensor { tensor: tensor.0, reason: "is to be joined, but is no constant".to_owned() }),
                };
                let key = list.parts.iter().map(bytes).collect::<Result<Vec<_>>>()?;
                let index = *known.entry(key).or_insert_with(|| {
                    self.joins.push(list.clone());
                    self.joins.len() - 1
                });
                places.push(Place::Joined(index));
            }
            self.joined.push(places);
        }
        Ok(())
    }

    /// Places all other tensors and scratch, largest first: each into the smallest object that is free during its live
    /// range, or a new one. So an object is never larger than its first tenant. If there are many objects, the smallest
    /// [`MOST_TRIED`] are tried.
    fn place_shared(&mut self, graph: &DecodedGraph, planned: &Planned, roots: &[usize]) {
        let mut requests = self.requests(graph, planned, roots);
        requests.sort_by_key(|request| (std::cmp::Reverse(request.size), request.start));
        let none_yet = |(recipes, &aliased): (&Recipes, &bool)| {
            let count = if aliased { 0 } else { recipes.scratch.len() };
            vec![Place::Object(0); count]
        };
        self.scratch = planned.recipes().iter().zip(&self.aliased).map(none_yet).collect();
        let mut objects: Vec<LiveRanges> = Vec::new();
        for request in requests {
            let tried = objects.iter().enumerate().rev().take(MOST_TRIED);
            let free = tried.map(|(object, ranges)| (object, ranges.is_free(&request))).find(|&(_, free)| free);
            let object = free.map_or_else(
                || {
                    objects.push(LiveRanges::default());
                    self.objects.push(request.size);
                    objects.len() - 1
                },
                |(object, _)| object,
            );
            objects[object].0.insert(request.start, request.end);
            match request.owner {
                Owner::Tensor(root) => self.tensors[root] = Some(Place::Object(object)),
                Owner::Scratch(node, index) => self.scratch[node][index] = Place::Object(object),
            }
        }
    }

    /// Lists the tensors and scratch buffers that shared objects hold, with their live ranges.
    fn requests(&self, graph: &DecodedGraph, planned: &Planned, roots: &[usize]) -> Vec<ObjectRequest> {
        let last = last_uses(graph, roots);
        let mut requests = Vec::new();
        for (node, operator) in graph.nodes.iter().enumerate().filter(|&(node, _)| !self.aliased[node]) {
            // What is changed in place has the memory of another tensor.
            let needs_memory = |root: usize| roots[root] == root && self.tensors[root].is_none();
            for &tensor in operator.flow.writes.iter().filter(|tensor| needs_memory(tensor.index())) {
                let root = tensor.index();
                let size = padded(graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count()));
                requests.push(ObjectRequest { size, start: node, end: last[root], owner: Owner::Tensor(root) });
            }
            let scratch = planned.recipes()[node].scratch.iter().enumerate();
            requests.extend(scratch.map(|(index, &size)| ObjectRequest {
                size: padded(size),
                start: node,
                end: node,
                owner: Owner::Scratch(node, index),
            }));
        }
        requests
    }
}

/// The most objects that are tried. Models have some tens of them.
const MOST_TRIED: usize = 256;

/// The live ranges of an object's tenants, which do not overlap: from the first operator of each to its last.
#[derive(Default)]
struct LiveRanges(BTreeMap<usize, usize>);

impl LiveRanges {
    fn is_free(&self, request: &ObjectRequest) -> bool {
        // Of the ranges that begin before the request ends, the last begun ends last.
        self.0.range(..=request.end).next_back().is_none_or(|(_, &end)| end < request.start)
    }
}

/// A tensor or scratch buffer that needs a place in a shared object during its live range.
struct ObjectRequest {
    size: u64,
    /// The first and the last operator that touch it.
    start: usize,
    end: usize,
    owner: Owner,
}

#[derive(Clone, Copy)]
enum Owner {
    Tensor(usize),
    Scratch(usize, usize),
}

/// Returns for each tensor the one whose memory it uses, and for each operator whether it became an alias.
pub(crate) fn aliases(graph: &DecodedGraph) -> (Vec<usize>, Vec<bool>) {
    let mut roots: Vec<usize> = (0..graph.tensors.len()).collect();
    let mut aliased = vec![false; graph.nodes.len()];
    let mut fixed = vec![false; graph.tensors.len()];
    for node in &graph.nodes {
        // A view of a tensor that is mutated would change with it.
        node.flow.mutates.iter().for_each(|tensor| fixed[tensor.index()] = true);
    }
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|output| is_output[output.index()] = true);
    let mut output_roots = is_output.clone();
    for (index, node) in graph.nodes.iter().enumerate() {
        // The kernels run, on memory of another tensor. The order of a graph's calls has been checked for it.
        for (source, out) in node.op.in_place().iter().zip(&node.flow.writes) {
            roots[out.index()] = roots[source.index()];
            output_roots[roots[out.index()]] |= is_output[out.index()];
        }
        let (Some(source), Some(out)) = (node.op.alias(), node.flow.writes.first()) else { continue };
        let root = roots[source.index()];
        let out = out.index();
        if fixed[root] || fixed[out] {
            continue;
        }
        // Two outputs, or an output and a tensor that is not computed, keep their own buffers.
        let taken = output_roots[root] || graph.roles[root] != Role::Computed;
        if is_output[out] && taken {
            continue;
        }
        output_roots[root] |= is_output[out];
        roots[out] = root;
        aliased[index] = true;
    }
    (roots, aliased)
}

/// Returns for each root the last operator that reads or writes it; 0 if there is none.
fn last_uses(graph: &DecodedGraph, roots: &[usize]) -> Vec<usize> {
    let mut last = vec![0; graph.tensors.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for tensor in node.flow.reads.iter().chain(&node.flow.writes).chain(&node.flow.mutates) {
            last[roots[tensor.index()]] = index;
        }
    }
    last
}
