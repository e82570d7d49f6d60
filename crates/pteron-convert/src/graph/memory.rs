//! Memory planning: the exporter's greedy algorithm.
//!
//! Tensors are placed from the largest to the smallest, the last one first among equals. Each joins the first memory object whose
//! tensors have disjoint lifetimes, or gets an object of its own.

use super::builder::{GraphBuilder, Origin, Statement, TensorId};

/// The alignment of an object's size.
const ALIGNMENT: u64 = 16;

/// The first and the last statement that uses a tensor.
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

/// Returns the memory object of each tensor; constants have none.
pub(super) fn plan(builder: &GraphBuilder) -> Vec<Option<u32>> {
    let lifetimes = lifetimes(builder);
    let mut tensors: Vec<TensorId> = planned(builder).collect();
    tensors.reverse();
    tensors.sort_by_cached_key(|&tensor| std::cmp::Reverse(allocated_bytes(builder, tensor)));
    let mut objects: Vec<(u32, Vec<Lifetime>)> = Vec::new();
    let mut places = vec![None; builder.tensors.len()];
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

/// The tensors that need memory, in graph order.
fn planned(builder: &GraphBuilder) -> impl Iterator<Item = TensorId> + '_ {
    let needs = |tensor: &&TensorId| match builder.tensors[**tensor].origin {
        Origin::Constant(_) | Origin::Prepacked => false,
        Origin::State(_) | Origin::Input | Origin::Call => true,
    };
    builder.statements.iter().flat_map(Statement::outputs).filter(needs).copied()
}

fn lifetimes(builder: &GraphBuilder) -> Vec<Lifetime> {
    let mut lifetimes = vec![Lifetime { first: 0, last: 0 }; builder.tensors.len()];
    for (index, statement) in builder.statements.iter().enumerate() {
        let Statement::Call(call) = statement else { continue };
        for &tensor in call.outputs() {
            lifetimes[tensor] = Lifetime { first: index, last: index };
        }
        for tensor in call.inputs() {
            lifetimes[tensor].last = index;
        }
    }
    // Outputs and states live until after the last call.
    let kept = builder.tensors.iter().enumerate().filter(|(_, tensor)| matches!(tensor.origin, Origin::State(_)));
    for tensor in kept.map(|(tensor, _)| tensor).chain(builder.outputs.iter().copied()) {
        lifetimes[tensor].last = builder.statements.len();
    }
    lifetimes
}

fn allocated_bytes(builder: &GraphBuilder, tensor: TensorId) -> u64 {
    let elements: u64 = builder.dims(tensor).into_iter().map(u64::from).product();
    (elements * builder.tensors[tensor].element.planned_size()).next_multiple_of(ALIGNMENT)
}
