//! Where each tensor's memory comes from, by our own analysis of lifetimes.
//!
//! Constants, state, inputs and outputs have buffers of their own. Everything else shares memory objects: two tensors share
//! one only if no operator between the first write and the last read of either touches the other. A dispatch may not bind one
//! buffer twice when it writes it, so each object is one buffer, and an operator's inputs and outputs never share one.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::graph::{Graph, Role};
use crate::live::TensorId;
use crate::plan::Recipes;
use crate::resize::Planned;

/// The place of a tensor or of scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A constant of the file, by index.
    Constant(u32),
    /// Constants in one buffer, by index into [`Memory::joins`].
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
    /// The place of each tensor, by value id; `None` for values that are not tensors or never touched.
    pub tensors: Vec<Option<Place>>,
    /// The place of each operator's scratch.
    pub scratch: Vec<Vec<Place>>,
    /// The place of each operator's joined constants.
    pub joined: Vec<Vec<Place>>,
    /// The constants that share a buffer, in order; each list once.
    pub joins: Vec<Vec<TensorId>>,
    /// The sizes of the shared objects.
    pub objects: Vec<u64>,
    /// The tensors that are state, in order.
    pub states: Vec<TensorId>,
    /// For each operator whether its output shares its input's memory, so that nothing runs.
    pub aliased: Vec<bool>,
}

/// Bindings hold whole vectors of four words; kernels may write the padding.
#[must_use]
pub fn padded(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

/// Where parts of so many bytes begin that lie behind one another in one buffer, each in whole vectors, and where the last ends.
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
    /// An operator that joins what is no constant. What does not fit an adapter is the engine's to refuse.
    pub fn plan(graph: &Graph, planned: &Planned) -> Result<Self> {
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

    /// Constants, state, inputs, and what outputs stand for.
    fn place_fixed(&mut self, graph: &Graph, roots: &[usize]) {
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

    /// A buffer for each list of constants that operators join. Equal bytes in equal order are one list.
    fn place_joined(&mut self, graph: &Graph, planned: &Planned) -> Result<()> {
        let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
        for (recipes, &aliased) in planned.recipes().iter().zip(&self.aliased) {
            let lists = if aliased { &[][..] } else { &recipes.joined };
            let mut places = Vec::with_capacity(lists.len());
            for parts in lists {
                let bytes = |&part: &TensorId| match graph.role(part) {
                    Role::Constant(constant) => Ok(graph.first_equal(constant)),
                    _ => Err(Error::Tensor { tensor: part.0, reason: "is to be joined, but is no constant".to_owned() }),
                };
                let key = parts.iter().map(bytes).collect::<Result<Vec<u32>>>()?;
                let index = *known.entry(key).or_insert_with(|| {
                    self.joins.push(parts.clone());
                    self.joins.len() - 1
                });
                places.push(Place::Joined(index));
            }
            self.joined.push(places);
        }
        Ok(())
    }

    /// Everything else, the largest first: each into the smallest object that is free as long as it lives, or a new one. So an
    /// object is never larger than the first that came into it, and what is large is there once. Of many objects the smallest
    /// [`MOST_TRIED`] are tried.
    fn place_shared(&mut self, graph: &Graph, planned: &Planned, roots: &[usize]) {
        let mut needs = self.needs(graph, planned, roots);
        needs.sort_by_key(|need| (std::cmp::Reverse(need.size), need.start));
        let none_yet = |(recipes, &aliased): (&Recipes, &bool)| {
            let count = if aliased { 0 } else { recipes.scratch.len() };
            vec![Place::Object(0); count]
        };
        self.scratch = planned.recipes().iter().zip(&self.aliased).map(none_yet).collect();
        let mut lives: Vec<Lives> = Vec::new();
        for need in needs {
            let tried = lives.iter().enumerate().rev().take(MOST_TRIED);
            let free = tried.map(|(object, lives)| (object, lives.is_free(&need))).find(|&(_, free)| free);
            let object = free.map_or_else(
                || {
                    lives.push(Lives::default());
                    self.objects.push(need.size);
                    lives.len() - 1
                },
                |(object, _)| object,
            );
            lives[object].0.insert(need.start, need.end);
            match need.of {
                Of::Tensor(root) => self.tensors[root] = Some(Place::Object(object)),
                Of::Scratch(node, index) => self.scratch[node][index] = Place::Object(object),
            }
        }
    }

    /// What needs room in a shared object, and from which operator to which.
    fn needs(&self, graph: &Graph, planned: &Planned, roots: &[usize]) -> Vec<Need> {
        let last = last_uses(graph, roots);
        let mut needs = Vec::new();
        for (node, operator) in graph.nodes.iter().enumerate().filter(|&(node, _)| !self.aliased[node]) {
            for &tensor in operator.flow.writes.iter().filter(|tensor| self.tensors[roots[tensor.index()]].is_none()) {
                let root = roots[tensor.index()];
                let size = padded(graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count()));
                needs.push(Need { size, start: node, end: last[root].unwrap_or(node), of: Of::Tensor(root) });
            }
            let scratch = planned.recipes()[node].scratch.iter().enumerate();
            needs.extend(scratch.map(|(index, &size)| Need {
                size: padded(size),
                start: node,
                end: node,
                of: Of::Scratch(node, index),
            }));
        }
        needs
    }
}

/// How many objects are looked at for one that is free. Models have some tens of them.
const MOST_TRIED: usize = 256;

/// When an object is taken: spans of operators that do not overlap, from the first of each to its last.
#[derive(Default)]
struct Lives(BTreeMap<usize, usize>);

impl Lives {
    fn is_free(&self, need: &Need) -> bool {
        // Of the spans that begin before the need ends, the last ends last.
        self.0.range(..=need.end).next_back().is_none_or(|(_, &end)| end < need.start)
    }
}

/// Room that a tensor or scratch needs while it lives.
struct Need {
    size: u64,
    /// The first and the last operator that touch it.
    start: usize,
    end: usize,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    Tensor(usize),
    Scratch(usize, usize),
}

/// For each tensor the one whose memory it uses, and for each operator whether it became an alias.
pub(crate) fn aliases(graph: &Graph) -> (Vec<usize>, Vec<bool>) {
    let mut roots: Vec<usize> = (0..graph.tensors.len()).collect();
    let mut aliased = vec![false; graph.nodes.len()];
    let mut fixed = vec![false; graph.tensors.len()];
    for node in &graph.nodes {
        // A view of something that changes in place would change with it.
        node.flow.mutates.iter().for_each(|tensor| fixed[tensor.index()] = true);
    }
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|output| is_output[output.index()] = true);
    let mut output_roots = is_output.clone();
    for (index, node) in graph.nodes.iter().enumerate() {
        let (Some(source), Some(out)) = (node.op.alias(), node.flow.writes.first()) else { continue };
        let root = roots[source.index()];
        let out = out.index();
        if fixed[root] || fixed[out] {
            continue;
        }
        // Two outputs, or an output and something that is not computed, keep buffers of their own.
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

/// For each root the last operator that touches it.
fn last_uses(graph: &Graph, roots: &[usize]) -> Vec<Option<usize>> {
    let mut last = vec![None; graph.tensors.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        for tensor in node.flow.reads.iter().chain(&node.flow.writes).chain(&node.flow.mutates) {
            last[roots[tensor.index()]] = Some(index);
        }
    }
    last
}
