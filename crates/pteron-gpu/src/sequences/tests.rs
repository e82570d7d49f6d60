use super::*;
use crate::testing::GraphBuilder;

const OPTIONS: SequenceOptions = SequenceOptions {
    rows_input: 0,
    output: 0,
    max_rows: 8,
    max_sequences: 4,
    max_selected: 3,
    blocks: 6,
    max_table_blocks: 12,
    max_copies: 2,
    adapters: None,
};

/// Integers looked up in a table, then attention with the rows as queries, keys and values, after which an operator runs.
fn decoder(after: &str, extra: &[Value]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let tokens = builder.input(DataType::Int32, &[1, 8]);
    let position = builder.input(DataType::Int32, &[1]);
    let table = builder.floats(&[10, 4], &[0.5; 40]);
    let [minus, no, zero, none, yes] = [Value::Int(-1), Value::Bool(false), Value::Int(0), Value::Null, Value::Bool(true)]
        .map(|value| builder.value(value));
    let rows = builder.tensor(float, &[1, 8, 4]);
    builder.call("aten.embedding.default", &[table, tokens, minus, no, no, rows]);
    let (at, sizes) = (builder.value(Value::SymInt), builder.value(Value::IntList(vec![1, -1, 1, 4])));
    let heads = builder.tensor(float, &[1, 8, 1, 4]);
    builder.call("aten.view_copy.default", &[rows, sizes, heads]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    let caches = [(); 2].map(|()| builder.floats(&[1, 40, 1, 4], &[0.0; 160]));
    let attended = builder.tensor(float, &[1, 8, 1, 4]);
    let args = [heads, heads, heads, caches[0], caches[1], at, zero, none, zero, yes, none, attended];
    builder.call("sdpa_with_kv_cache.default", &args);
    let (flat, out) = (builder.tensor(float, &[1, 8, 4]), builder.tensor(float, &[1, 8, 4]));
    let sizes = builder.value(Value::IntList(vec![1, -1, 4]));
    builder.call("aten.view_copy.default", &[attended, sizes, flat]);
    let extra: Vec<ValueId> = extra.iter().map(|value| builder.value(value.clone())).collect();
    builder.call(after, &[&[flat], extra.as_slice(), &[out]].concat());
    builder.output(out);
    builder
}

fn rewritten(builder: &GraphBuilder) -> Result<DecodedGraph> {
    let mut graph = builder.graph.clone();
    let inputs = prepare(&mut graph, &OPTIONS)?;
    rewrite(DecodedGraph::decode(graph)?, &OPTIONS, &inputs)
}

#[test]
fn attention_becomes_paged_and_rows_are_selected_before_row_wise_operators() {
    let graph = rewritten(&decoder("aten.neg.default", &[])).unwrap();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name).collect();
    let expected = [
        "aten.squeeze_copy.dims",
        "aten.cat.default",
        "aten.index_select.default",
        "aten.unsqueeze_copy.default",
        "aten.embedding.default",
        "aten.view_copy.default",
        "pteron.paged_sdpa",
        "aten.view_copy.default",
        "aten.index_select.default",
        "aten.neg.default",
    ];
    assert_eq!(names, expected);
    assert_eq!(*graph.info(graph.outputs[0]).bound, [1, 3, 4]);
}

#[test]
fn operators_that_are_not_row_wise_are_rejected_by_name() {
    let error = rewritten(&decoder("aten.cumsum.default", &[Value::Int(1), Value::Null])).unwrap_err().to_string();
    assert!(error.contains("aten.cumsum.default") && error.contains("not row-wise"), "{error}");
    let error = rewritten(&decoder("aten._softmax.default", &[Value::Int(1), Value::Bool(false)])).unwrap_err().to_string();
    assert!(error.contains("aten._softmax.default"), "{error}");
    assert!(rewritten(&decoder("aten._softmax.default", &[Value::Int(2), Value::Bool(false)])).is_ok());
}

#[test]
fn graphs_without_attention_and_too_many_rows_are_rejected() {
    let mut builder = GraphBuilder::new();
    let tokens = builder.input(DataType::Int32, &[1, 8]);
    let out = builder.tensor(DataType::Int32, &[1, 8]);
    builder.call("aten.neg.default", &[tokens, out]);
    builder.output(out);
    let error = rewritten(&builder).unwrap_err().to_string();
    assert!(error.contains("no attention over a KV cache"), "{error}");
    let mut graph = decoder("aten.neg.default", &[]).graph;
    let error = prepare(&mut graph, &SequenceOptions { max_rows: 9, ..OPTIONS }).unwrap_err().to_string();
    assert!(error.contains("9 rows are asked for, but it takes 8"), "{error}");
}
