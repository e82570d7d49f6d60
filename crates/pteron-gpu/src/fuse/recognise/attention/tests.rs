use crate::fuse::Fusions;
use crate::fuse::tests::{agree, fused_names};
use crate::ir::{DataType, Value, ValueId};
use crate::testing::{GraphBuilder, f32s, noise};

const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };
const ATTENTION: &str = "et_vk.sdpa.default";
const SOFTMAX: &str = "aten._softmax.default";
const FLOAT: DataType = DataType::Float32;
const HEADS: u32 = 2;
const QUERIES: u32 = 5;
const KEYS: u32 = 9;
const DIM: u32 = 8;

struct Built {
    graph: GraphBuilder,
    scores: ValueId,
}

fn call(graph: &mut GraphBuilder, name: &str, args: &[ValueId], dims: &[u32]) -> ValueId {
    let out = graph.tensor(FLOAT, dims);
    graph.call(name, &[args, &[out]].concat());
    out
}

fn view(graph: &mut GraphBuilder, x: ValueId, dims: &[u32]) -> ValueId {
    let sizes = graph.value(Value::IntList(dims.iter().copied().map(i64::from).collect()));
    call(graph, "aten.view_copy.default", &[x, sizes], dims)
}

/// Attention as it is decomposed, with this order of the keys' dims and dimension of softmax.
fn attention(order: [i64; 4], axis: i64) -> Built {
    attention_by("aten.bmm.default", HEADS, order, axis)
}

/// The same with another operator for products, and with this many heads of queries.
fn attention_by(product: &str, heads: u32, order: [i64; 4], axis: i64) -> Built {
    let mut graph = GraphBuilder::new();
    let q = graph.input(FLOAT, &[1, heads, QUERIES, DIM]);
    let [k, v] = [(); 2].map(|()| graph.input(FLOAT, &[1, HEADS, KEYS, DIM]));
    let half = graph.floats(&[], &[0.5]);
    let q = call(&mut graph, "aten.mul.Tensor", &[q, half], &[1, heads, QUERIES, DIM]);
    let order = graph.value(Value::IntList(order.to_vec()));
    let turned = [1, HEADS, DIM, KEYS];
    let k = call(&mut graph, "aten.permute_copy.default", &[k, order], &turned);
    let k = call(&mut graph, "aten.mul.Tensor", &[half, k], &turned);
    let sizes = graph.value(Value::IntList(turned.iter().copied().map(i64::from).collect()));
    let no = graph.value(Value::Bool(false));
    let k = call(&mut graph, "aten.expand_copy.default", &[k, sizes, no], &turned);
    let (q, k) = (view(&mut graph, q, &[heads, QUERIES, DIM]), view(&mut graph, k, &[HEADS, DIM, KEYS]));
    let scores = call(&mut graph, product, &[q, k], &[HEADS, QUERIES, KEYS]);
    let grouped = view(&mut graph, scores, &[1, HEADS, QUERIES, KEYS]);
    let (axis, no) = (graph.int(axis), graph.value(Value::Bool(false)));
    let weights = call(&mut graph, SOFTMAX, &[grouped, axis, no], &[1, HEADS, QUERIES, KEYS]);
    let weights = view(&mut graph, weights, &[HEADS, QUERIES, KEYS]);
    let v = view(&mut graph, v, &[HEADS, KEYS, DIM]);
    let out = call(&mut graph, product, &[weights, v], &[HEADS, QUERIES, DIM]);
    let out = view(&mut graph, out, &[1, HEADS, QUERIES, DIM]);
    graph.output(out);
    Built { graph, scores }
}

fn names(graph: &GraphBuilder) -> Vec<&'static str> {
    fused_names(graph, &ONLY).into_iter().filter(|name| *name != "aten.view_copy.default").collect()
}

#[test]
fn two_products_with_softmax_between_are_attention() {
    let built = attention([0, 1, 3, 2], -1);
    assert_eq!(names(&built.graph), [ATTENTION]);
    let input = |seed, rows: u32| f32s(&[1, HEADS, rows, DIM], noise(seed, (HEADS * rows * DIM) as usize));
    agree(&built.graph, &ONLY, &[vec![input(1, QUERIES), input(2, KEYS), input(3, KEYS)]]);
}

#[test]
fn products_that_broadcast_are_attention_where_they_do_not() {
    let built = attention_by("pteron.matmul", HEADS, [0, 1, 3, 2], -1);
    assert_eq!(names(&built.graph), [ATTENTION]);
    let input = |seed, rows: u32| f32s(&[1, HEADS, rows, DIM], noise(seed, (HEADS * rows * DIM) as usize));
    agree(&built.graph, &ONLY, &[vec![input(1, QUERIES), input(2, KEYS), input(3, KEYS)]]);
    assert!(names(&attention_by("pteron.matmul", 1, [0, 1, 3, 2], -1).graph).contains(&SOFTMAX));
}

#[test]
fn other_softmaxes_and_readers_of_scores_stay() {
    assert!(names(&attention([0, 1, 3, 2], 2).graph).contains(&SOFTMAX));
    let mut read = attention([0, 1, 3, 2], -1);
    let scores = read.scores;
    read.graph.output(scores);
    assert!(names(&read.graph).contains(&SOFTMAX));
}
