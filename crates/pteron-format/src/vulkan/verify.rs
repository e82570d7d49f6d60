//! Invariants of a graph, checked when one is read and again before one is written.

use super::*;
use crate::dtype::MAX_RANK;
use crate::error::{Error, Item, Location, Problem, Result, Section, clip};

/// Checks a graph whose own bytes of constants are `stored` long.
pub(crate) fn verify(graph: &Graph, stored: u64) -> Result<()> {
    for (index, constant) in graph.constants.iter().enumerate() {
        constant.verify(Item::Entry { kind: "constant", index }, stored)?;
    }
    for (index, shader) in graph.shaders.iter().enumerate() {
        shader.verify(Item::Entry { kind: "shader", index }, stored)?;
    }
    for (id, value) in graph.values.iter().enumerate() {
        match value {
            Value::Tensor(tensor) => verify_tensor(graph, id, tensor)?,
            Value::ValueList(items) => verify_list(graph, id, items)?,
            _ => {}
        }
    }
    for (index, call) in graph.chain.iter().enumerate() {
        verify_ids(graph, || Item::Call { index, name: clip(&call.name) }, "an argument", &call.args)?;
    }
    verify_ids(graph, || Item::Whole, "an input", &graph.inputs)?;
    verify_ids(graph, || Item::Whole, "an output", &graph.outputs)
}

fn fail<T>(item: Item, problem: Problem) -> Result<T> {
    Err(Error::new(Location { section: Section::Graph, item }, problem))
}

fn verify_ids(graph: &Graph, item: impl Fn() -> Item, what: &'static str, ids: &[ValueId]) -> Result<()> {
    match ids.iter().find(|id| id.index() >= graph.values.len()) {
        None => Ok(()),
        Some(id) => fail(item(), Problem::Index { what, index: id.0.into(), len: graph.values.len() as u64 }),
    }
}

fn verify_tensor(graph: &Graph, id: usize, tensor: &Tensor) -> Result<()> {
    let item = Item::Value(id);
    let rank = tensor.dims.len();
    if rank > MAX_RANK {
        return fail(item, Problem::TooMany { what: "the tensor's rank", found: rank as u64, limit: MAX_RANK as u64 });
    }
    // The file stores these signed. Values from a file fit; values from a builder may not.
    let signed = tensor.memory_object.into_iter().chain(tensor.constant.map(|id| id.0));
    if let Some(found) = signed.into_iter().find(|&id| i32::try_from(id).is_err()) {
        return fail(item, Problem::TooMany { what: "an id", found: found.into(), limit: i32::MAX.unsigned_abs().into() });
    }
    let Some(expected) = tensor.byte_len() else {
        return fail(item, Problem::Overflow { what: "the tensor's size" });
    };
    let Some(constant) = tensor.constant else { return Ok(()) };
    match graph.constants.get(constant.index()) {
        None => {
            let len = graph.constants.len() as u64;
            fail(item, Problem::Index { what: "its constant's id", index: constant.0.into(), len })
        }
        Some(constant) if constant.len != expected => {
            fail(item, Problem::Size { what: "its constant's length in bytes", found: constant.len, expected })
        }
        Some(_) => Ok(()),
    }
}

/// A list of values holds values that are not lists themselves: nothing that follows one can recurse.
fn verify_list(graph: &Graph, id: usize, items: &[ValueId]) -> Result<()> {
    verify_ids(graph, || Item::Value(id), "an item of the list", items)?;
    match items.iter().map(|item| &graph.values[item.index()]).find(|value| matches!(value, Value::ValueList(_))) {
        None => Ok(()),
        Some(list) => {
            let problem =
                Problem::Kind { what: "an item of the list", found: list.kind(), expected: "anything but a list of values" };
            fail(Item::Value(id), problem)
        }
    }
}
