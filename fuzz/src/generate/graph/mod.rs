//! Graphs of delegates made from bytes: calls of every operator over values that mostly go together.

pub mod builder;
pub mod calls;
pub mod hostile;

use pteron_format::vulkan::{Graph, Value, ValueId};

use super::cursor::Cursor;
pub use builder::GraphBuilder;

/// The most calls that one graph is given.
pub const MOST_CALLS: usize = 12;

/// A graph made from bytes. A hostile one has sizes and numbers near the limits, and then some of it is changed at random.
pub fn builder(cursor: &mut Cursor<'_>, hostile: bool, most_calls: usize) -> GraphBuilder {
    let mut builder = GraphBuilder::new(hostile);
    for _ in 0..1 + cursor.below(most_calls) {
        if builder.graph.chain.len() >= most_calls {
            break;
        }
        calls::any(&mut builder, cursor);
    }
    finish(&mut builder, cursor);
    if hostile {
        for _ in 0..cursor.below(4) {
            hostile::change(&mut builder.graph, cursor);
        }
    }
    builder
}

/// Gives a graph its outputs: the newest tensor and some others, now and then one twice.
pub(crate) fn finish(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) {
    let computed: Vec<_> = builder.nodes.iter().map(|node| node.id).collect();
    let Some(&newest) = computed.last() else { return };
    builder.graph.outputs.push(newest);
    for _ in 0..cursor.below(4) {
        let output = cursor.of(&computed);
        builder.graph.outputs.push(output);
    }
}

/// A graph as text, for people who look at a finding.
#[must_use]
pub fn describe(graph: &Graph) -> String {
    let value = |id: &ValueId| match graph.value(*id) {
        Some(Value::Tensor(tensor)) => {
            let constant = tensor.constant.map_or(String::new(), |id| format!(" constant {id}"));
            format!("%{id}: {} {:?}{constant}", tensor.dtype.name(), tensor.dims)
        }
        Some(other) => format!("%{id}: {other:?}"),
        None => format!("%{id}"),
    };
    let list = |ids: &[ValueId]| ids.iter().map(value).collect::<Vec<_>>().join(", ");
    let calls = graph.chain.iter().map(|call| format!("{}({})\n", call.name, list(&call.args)));
    format!("inputs {}\n{}outputs {}", list(&graph.inputs), calls.collect::<String>(), list(&graph.outputs))
}
