use pteron_format::adapter::{LoraAdapter, LowRankUpdate, Projection, Projections};

use super::*;
use crate::fuse::Fusions;
use crate::testing::{GraphBuilder, noise};

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

/// A layer with its linears: merged queries, keys and values, the output projection with a sum, SwiGLU, and the linear after it with a sum.
fn layer() -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let (tokens, position) = (builder.input(DataType::Int32, &[1, 8]), builder.input(DataType::Int32, &[1]));
    let table = builder.floats(&[10, 16], &noise(1, 160));
    let [minus, no, zero, none, yes, one] =
        [Value::Int(-1), Value::Bool(false), Value::Int(0), Value::Null, Value::Bool(true), Value::Int(1)]
            .map(|value| builder.value(value));
    let rows = builder.tensor(float, &[1, 8, 16]);
    builder.call("aten.embedding.default", &[table, tokens, minus, no, no, rows]);
    let linear = |builder: &mut GraphBuilder, x: ValueId, [k, n]: [u32; 2]| {
        let weight = builder.floats(&[n, k], &noise(u64::from(n), (n * k) as usize));
        let out = builder.tensor(float, &[1, 8, n]);
        builder.call("aten.linear.default", &[x, weight, none, out]);
        out
    };
    let binary = |builder: &mut GraphBuilder, name: &str, args: &[ValueId], n: u32| {
        let out = builder.tensor(float, &[1, 8, n]);
        builder.call(name, &[args, &[out]].concat());
        out
    };
    let sizes = builder.value(Value::IntList(vec![1, -1, 2, 8]));
    let heads = [(); 3].map(|()| {
        let flat = linear(&mut builder, rows, [16, 16]);
        let heads = builder.tensor(float, &[1, 8, 2, 8]);
        builder.call("aten.view_copy.default", &[flat, sizes, heads]);
        heads
    });
    let at = builder.value(Value::SymInt);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    let caches = [(); 2].map(|()| builder.floats(&[1, 40, 2, 8], &[0.0; 640]));
    let attended = builder.tensor(float, &[1, 8, 2, 8]);
    let args = [heads[0], heads[1], heads[2], caches[0], caches[1], at, zero, none, zero, yes, none, attended];
    builder.call("sdpa_with_kv_cache.default", &args);
    let (flat, sizes) = (builder.tensor(float, &[1, 8, 16]), builder.value(Value::IntList(vec![1, -1, 16])));
    builder.call("aten.view_copy.default", &[attended, sizes, flat]);
    let projected = linear(&mut builder, flat, [16, 16]);
    let stream = binary(&mut builder, "aten.add.Tensor", &[rows, projected, one], 16);
    let [gate, up] = [(); 2].map(|()| linear(&mut builder, stream, [16, 24]));
    let sigmoid = binary(&mut builder, "aten.sigmoid.default", &[gate], 24);
    let silu = binary(&mut builder, "aten.mul.Tensor", &[gate, sigmoid], 24);
    let product = binary(&mut builder, "aten.mul.Tensor", &[silu, up], 24);
    let down = linear(&mut builder, product, [24, 16]);
    let out = binary(&mut builder, "aten.add.Tensor", &[stream, down, one], 16);
    builder.output(out);
    builder
}

fn with_adapters(projections: &[Projection]) -> DecodedGraph {
    let adapters = AdapterOptions { slots: 2, max_rank: 6, projections: Projections::of(projections) };
    let options = SequenceOptions { adapters: Some(adapters), ..OPTIONS };
    let mut graph = layer().graph;
    let inputs = prepare(&mut graph, &options).unwrap();
    let fusions = Fusions { last_row: false, ..Fusions::ALL };
    rewrite(DecodedGraph::decode_with(graph, &fusions).unwrap(), &options, &inputs).unwrap()
}

/// The calls from the first linear on.
fn layer_names(graph: &DecodedGraph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.name).skip_while(|name| *name != "pteron.fused_linear").collect()
}

#[test]
fn updates_follow_the_linears_that_adapters_may_update() {
    let (linear, lora, view) = ("pteron.fused_linear", "pteron.lora", "aten.view_copy.default");
    let attention = [view, view, view, "pteron.paged_sdpa", view];
    let all = with_adapters(&Projection::ALL);
    // The sizes of the last linear are none that kernels of fused linears take.
    let last = "aten.linear.default";
    let expected = [&[linear, lora][..], &attention, &[linear, lora, linear, lora, last, lora]].concat();
    assert_eq!(layer_names(&all)[..expected.len()], expected);
    let update = |layer, projection, [rows, columns]: [u32; 2]| LowRankUpdate {
        layer,
        projection,
        rank: 4,
        columns,
        rows,
        scale: 1.0,
        a: vec![1.0; 4 * columns as usize],
        b: vec![1.0; 4 * rows as usize],
    };
    let fits = |graph: &DecodedGraph, update: LowRankUpdate| {
        AdapterSlots::of(graph).check(1, &LoraAdapter::new(vec![update]).unwrap())
    };
    let shape = |projection| match projection {
        Projection::Gate | Projection::Up => [24, 16],
        Projection::Down => [16, 24],
        _ => [16, 16],
    };
    for projection in Projection::ALL {
        assert_eq!(fits(&all, update(0, projection, shape(projection))), Ok(()), "{projection}");
        let misfit = fits(&all, update(0, projection, [20, 16])).unwrap_err();
        assert!(matches!(misfit, AdapterMisfit::Shape { found: [20, 16], .. }), "{misfit}");
        let misfit = fits(&all, update(1, projection, shape(projection))).unwrap_err();
        assert_eq!(misfit, AdapterMisfit::Linear { layer: 1, projection });
    }
    let two = with_adapters(&[Projection::Query, Projection::Value]);
    let expected = [&[linear, lora][..], &attention, &[linear, linear, last]].concat();
    assert_eq!(layer_names(&two)[..expected.len()], expected);
    assert_eq!(fits(&two, update(0, Projection::Value, [16, 16])), Ok(()));
    assert_eq!(
        fits(&two, update(0, Projection::Key, [16, 16])),
        Err(AdapterMisfit::Linear { layer: 0, projection: Projection::Key })
    );
    // Two slots of rank 8: queries and values.
    assert_eq!(AdapterSlots::of(&two).bytes(), 2 * (8 * 2 * (2 * 16 + 32) + 8));
}
