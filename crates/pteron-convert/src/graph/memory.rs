//! Which tensors share memory: the exporter's greedy plan.
//!
//! Tensors take their place from the largest to the smallest, of equal ones the last first. Each joins the first object whose
//! tensors all live at other times, or gets an object of its own.

use super::sketch::{Origin, Sketch, Step, TensorId};

/// What the size of an object is a multiple of.
const ALIGNMENT: u64 = 16;

/// The first and the last step that needs a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lifetime {
    first: usize,
    last: usize,
}

impl Lifetime {
    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// For each tensor its object; constants have none.
pub(super) fn plan(sketch: &Sketch) -> Vec<Option<u32>> {
    let lifetimes = lifetimes(sketch);
    let mut tensors: Vec<TensorId> = planned(sketch).collect();
    tensors.reverse();
    tensors.sort_by_cached_key(|&tensor| std::cmp::Reverse(allocated_bytes(sketch, tensor)));
    let mut objects: Vec<(u32, Vec<Lifetime>)> = Vec::new();
    let mut places = vec![None; sketch.tensors.len()];
    for tensor in tensors {
        let lifetime = lifetimes[tensor];
        let free = |(_, others): &&mut (u32, Vec<Lifetime>)| !others.iter().any(|other| other.overlaps(lifetime));
        let object = match objects.iter_mut().find(free) {
            Some((object, others)) => {
                others.push(lifetime);
                *object
            }
            None => {
                let object = objects.last().map_or(0, |(last, _)| last + 1);
                objects.push((object, vec![lifetime]));
                object
            }
        };
        places[tensor] = Some(object);
    }
    places
}

/// The tensors that are given memory, in the order of the graph.
fn planned(sketch: &Sketch) -> impl Iterator<Item = TensorId> + '_ {
    let needs = |tensor: &&TensorId| match sketch.tensors[**tensor].origin {
        Origin::Constant(_) | Origin::Prepacked => false,
        Origin::State(_) | Origin::Input | Origin::Call => true,
    };
    sketch.steps.iter().flat_map(Step::made).filter(needs).copied()
}

fn lifetimes(sketch: &Sketch) -> Vec<Lifetime> {
    let mut lifetimes = vec![Lifetime { first: 0, last: 0 }; sketch.tensors.len()];
    for (index, step) in sketch.steps.iter().enumerate() {
        let Step::Call(call) = step else { continue };
        for &tensor in call.outputs() {
            lifetimes[tensor] = Lifetime { first: index, last: index };
        }
        for tensor in call.inputs() {
            lifetimes[tensor].last = index;
        }
    }
    // Logits are read, and caches used again, when all calls are done.
    let kept = sketch.tensors.iter().enumerate().filter(|(_, tensor)| matches!(tensor.origin, Origin::State(_)));
    for tensor in kept.map(|(tensor, _)| tensor).chain(sketch.outputs.iter().copied()) {
        lifetimes[tensor].last = sketch.steps.len();
    }
    lifetimes
}

fn allocated_bytes(sketch: &Sketch, tensor: TensorId) -> u64 {
    let elements: u64 = sketch.dims(tensor).into_iter().map(u64::from).product();
    (elements * sketch.tensors[tensor].element.planned_size()).next_multiple_of(ALIGNMENT)
}
