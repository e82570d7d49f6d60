use crate::fuse::Fusions;
use crate::fuse::tests::{agree, fused_names};
use crate::ir::{DataType, Value, ValueId};
use crate::ops::sdpa::{NAME as SDPA, ROTARY};
use crate::testing::{GraphBuilder, f32s, i32s, noise};

const ONLY: Fusions = Fusions { recognise: true, ..Fusions::NONE };
const INTERLEAVED: &str = "et_vk.apply_rotary_emb.default";
const SPLIT_HALF: &str = "et_vk.apply_rotary_emb_hf.default";
const ELEMENT: &str = "et_vk.select_as_symint.default";
const FLOAT: DataType = DataType::Float32;
/// The most tokens of a call, and positions of the cache.
const TOKENS: u32 = 7;
const POSITIONS: u32 = 24;

/// Builds attention whose queries and keys are rotated by arithmetic.
struct Builder {
    graph: GraphBuilder,
    /// New tokens, as a symbol.
    count: ValueId,
    dim: u32,
}

impl Builder {
    fn new(dim: u32) -> Self {
        let mut graph = GraphBuilder::new();
        let count = graph.value(Value::SymInt);
        Self { graph, count, dim }
    }

    fn call(&mut self, name: &str, args: &[ValueId], dims: &[u32]) -> ValueId {
        let out = self.graph.tensor(FLOAT, dims);
        self.graph.call(name, &[args, &[out]].concat());
        out
    }

    fn view(&mut self, x: ValueId, sizes: &[i64], dims: &[u32]) -> ValueId {
        let ids = sizes.iter().map(|&size| if size == 0 { self.count } else { self.graph.int(size) }).collect();
        let sizes = self.graph.value(Value::ValueList(ids));
        self.call("aten.view_copy.default", &[x, sizes], dims)
    }

    fn slice(&mut self, x: ValueId, [axis, start, end]: [i64; 3], dims: &[u32]) -> ValueId {
        let args = [axis, start, end, 1].map(|number| self.graph.int(number));
        self.call("aten.slice_copy.Tensor", &[&[x], &args[..]].concat(), dims)
    }

    fn product(&mut self, a: ValueId, b: ValueId, dims: &[u32]) -> ValueId {
        self.call("aten.mul.Tensor", &[a, b], dims)
    }

    fn sum(&mut self, minus: bool, a: ValueId, b: ValueId, dims: &[u32]) -> ValueId {
        let one = self.graph.int(1);
        self.call(if minus { "aten.sub.Tensor" } else { "aten.add.Tensor" }, &[a, b, one], dims)
    }

    fn cat(&mut self, parts: &[ValueId], axis: i64, dims: &[u32]) -> ValueId {
        let (list, axis) = (self.graph.value(Value::ValueList(parts.to_vec())), self.graph.int(axis));
        self.call("aten.cat.default", &[list, axis], dims)
    }

    fn permute(&mut self, x: ValueId, dims: &[u32]) -> ValueId {
        let order = self.graph.value(Value::IntList(vec![0, 2, 1, 3]));
        self.call("aten.permute_copy.default", &[x, order], dims)
    }

    /// Inputs of flat rows of queries, keys and values, as linears write them.
    fn rows(&mut self) -> [ValueId; 3] {
        let inputs = [4, 2, 2].map(|heads| (heads * self.dim, self.graph.input(FLOAT, &[1, TOKENS, heads * self.dim])));
        let one = self.graph.int(1);
        self.graph.call("sym_size.int", &[inputs[0].1, one, self.count]);
        inputs.map(|(width, input)| self.view(input, &[1, 0, width.into()], &[1, TOKENS, width]))
    }

    /// As Meta's exporter writes it: even and odd elements, their products, and both interleaved again.
    fn interleaved(&mut self, x: ValueId, heads: u32, [cosines, sines]: [ValueId; 2]) -> ValueId {
        let pairs = self.dim / 2;
        let whole = [1, TOKENS, heads, pairs, 2];
        let (column, flat) = ([1, TOKENS, heads, pairs, 1], [1, TOKENS, heads, pairs]);
        let x = self.view(x, &[1, 0, heads.into(), -1, 2], &whole);
        let [even, odd] = [0, 1].map(|at| {
            let column = self.slice(x, [4, at, at + 1], &column);
            let axes = self.graph.value(Value::IntList(vec![4]));
            self.call("aten.squeeze_copy.dims", &[column, axes], &flat)
        });
        let [a, b] = [self.product(even, cosines, &flat), self.product(odd, sines, &flat)];
        let [c, d] = [self.product(even, sines, &flat), self.product(odd, cosines, &flat)];
        let rotated = [self.sum(true, a, b, &flat), self.sum(false, c, d, &flat)];
        let columns = rotated.map(|part| {
            let four = self.graph.int(4);
            self.call("aten.unsqueeze_copy.default", &[part, four], &column)
        });
        let joined = self.cat(&columns, -1, &whole);
        self.view(joined, &[1, 0, heads.into(), self.dim.into()], &[1, TOKENS, heads, self.dim])
    }

    /// As Hugging Face writes it, heads before tokens: `x · cos + cat(−x2, x1) · sin` of the first elements, and the rest as it is.
    fn split_half(&mut self, x: ValueId, heads: u32, rotated: u32, [cosines, sines]: [ValueId; 2]) -> ValueId {
        let dim = self.dim;
        let x = self.view(x, &[1, 0, -1, dim.into()], &[1, TOKENS, heads, dim]);
        let x = self.permute(x, &[1, heads, TOKENS, dim]);
        let (part, half) = ([1, heads, TOKENS, rotated], [1, heads, TOKENS, rotated / 2]);
        let turning = if rotated == dim { x } else { self.slice(x, [3, 0, rotated.into()], &part) };
        let middle = i64::from(rotated / 2);
        let first = self.slice(turning, [3, 0, middle], &half);
        let second = self.slice(turning, [-1, middle, i64::MAX], &half);
        let negated = self.call("aten.neg.default", &[second], &half);
        let turned = self.cat(&[negated, first], -1, &part);
        let [a, b] = [self.product(turning, cosines, &part), self.product(turned, sines, &part)];
        let mut out = self.sum(false, a, b, &part);
        if rotated < dim {
            let rest = self.slice(x, [3, rotated.into(), i64::MAX], &[1, heads, TOKENS, dim - rotated]);
            out = self.cat(&[out, rest], -1, &[1, heads, TOKENS, dim]);
        }
        self.permute(out, &[1, TOKENS, heads, dim])
    }

    /// Rows of a table of all positions, from the position on.
    fn table_rows(&mut self, width: u32, seed: u64, start: ValueId, end: ValueId) -> ValueId {
        let table = self.graph.floats(&[POSITIONS, width], &noise(seed, (POSITIONS * width) as usize));
        let [zero, one] = [0, 1].map(|number| self.graph.int(number));
        let rows = self.call("aten.slice_copy.Tensor", &[table, zero, start, end, one], &[TOKENS, width]);
        self.view(rows, &[1, 0, 1, width.into()], &[1, TOKENS, 1, width])
    }

    /// The position as a symbol, and the end of the new tokens.
    fn position(&mut self) -> [ValueId; 2] {
        let position = self.graph.input(DataType::Int32, &[1]);
        let [at, end] = [(); 2].map(|()| self.graph.value(Value::SymInt));
        let zero = self.graph.int(0);
        self.graph.call(ELEMENT, &[position, zero, zero, at]);
        self.graph.call("add", &[at, self.count, end]);
        [at, end]
    }

    /// Appends keys and values, and attends.
    fn attend(mut self, [q, k, v]: [ValueId; 3], at: ValueId) -> GraphBuilder {
        let caches = [(); 2].map(|()| {
            let zeros = vec![0.0; (POSITIONS * 2 * self.dim) as usize];
            self.graph.floats(&[1, POSITIONS, 2, self.dim], &zeros)
        });
        for (value, cache) in [k, v].into_iter().zip(caches) {
            self.call("update_cache.default", &[value, cache, at], &[1]);
        }
        let [none, zero, yes] = [Value::Null, Value::Double(0.0), Value::Bool(true)].map(|value| self.graph.value(value));
        let args = [q, caches[0], caches[1], at, none, zero, yes, none];
        let out = self.call("llama.custom_sdpa.default", &args, &[1, TOKENS, 4, self.dim]);
        self.graph.output(out);
        self.graph
    }
}

/// Rows of queries, keys and values for 4 and 2 heads; one input more by position or per token.
fn calls(dim: u32, last: impl Fn(i32, u32) -> Vec<crate::reference::HostTensor>) -> Vec<Vec<crate::reference::HostTensor>> {
    let call = |(at, tokens): (i32, u32)| {
        let rows = |seed: u64, heads: u32| {
            f32s(&[1, tokens, heads * dim], noise(seed + u64::from(tokens), (tokens * heads * dim) as usize))
        };
        [vec![rows(1, 4), rows(2, 2), rows(3, 2)], last(at, tokens)].concat()
    };
    [(0, TOKENS), (7, 1), (8, 1), (9, 4), (2, 5)].map(call).to_vec()
}

/// Queries, keys and values as the exporter of Llama writes them.
fn llama(dim: u32) -> GraphBuilder {
    let mut builder = Builder::new(dim);
    let [q, k, v] = builder.rows();
    let [at, end] = builder.position();
    let tables = [5, 6].map(|seed| builder.table_rows(dim / 2, seed, at, end));
    let q = builder.interleaved(q, 4, tables);
    let k = builder.interleaved(k, 2, tables);
    let v = builder.view(v, &[1, 0, 2, dim.into()], &[1, TOKENS, 2, dim]);
    builder.attend([q, k, v], at)
}

/// The same as Hugging Face's exporter writes it: tables are computed, here inputs.
fn hugging_face(dim: u32, rotated: u32) -> GraphBuilder {
    let mut builder = Builder::new(dim);
    let [q, k, v] = builder.rows();
    let one = builder.graph.int(1);
    let [at, _] = builder.position();
    let tables = [(); 2].map(|()| {
        let table = builder.graph.input(FLOAT, &[1, TOKENS, rotated]);
        let rows = builder.view(table, &[1, 0, rotated.into()], &[1, TOKENS, rotated]);
        builder.call("aten.unsqueeze_copy.default", &[rows, one], &[1, 1, TOKENS, rotated])
    });
    let q = builder.split_half(q, 4, rotated, tables);
    let k = builder.split_half(k, 2, rotated, tables);
    let v = builder.view(v, &[1, 0, 2, dim.into()], &[1, TOKENS, 2, dim]);
    builder.attend([q, k, v], at)
}

/// How often each operator other than copies and symbols is called.
fn names(graph: &GraphBuilder, fusions: &Fusions) -> Vec<&'static str> {
    let free =
        ["aten.view_copy.default", "aten.squeeze_copy.dims", "aten.unsqueeze_copy.default", ELEMENT, "add", "sym_size.int"];
    fused_names(graph, fusions).into_iter().filter(|name| !free.contains(name)).collect()
}

#[test]
fn interleaved_arithmetic_is_the_rotary_operator() {
    for dim in [8, 16] {
        let graph = llama(dim);
        let slice = "aten.slice_copy.Tensor";
        assert_eq!(names(&graph, &ONLY), [slice, slice, INTERLEAVED, SDPA]);
        let calls = calls(dim, |at, _| vec![i32s(&[1], vec![at])]);
        agree(&graph, &ONLY, &calls);
        // And then part of attention, with the whole tables.
        let fused = Fusions { rotary: true, ..ONLY };
        assert_eq!(names(&graph, &fused), [ROTARY]);
        agree(&graph, &fused, &calls);
    }
}

#[test]
fn split_half_arithmetic_is_the_rotary_operator() {
    for (dim, rotated) in [(8, 8), (16, 16), (16, 4), (12, 8)] {
        let graph = hugging_face(dim, rotated);
        assert_eq!(names(&graph, &ONLY), [SPLIT_HALF, SDPA], "{rotated} of {dim}");
        let tables = |at: i32, tokens: u32| {
            let table =
                |seed: u64| f32s(&[1, tokens, rotated], noise(seed + u64::from(tokens), (tokens * rotated) as usize));
            vec![i32s(&[1], vec![at]), table(31), table(32)]
        };
        agree(&graph, &ONLY, &calls(dim, tables));
    }
}

#[test]
fn near_misses_stay_as_they_are() {
    // Each with one number changed: the sign of a product, the order of halves, one table for both.
    let mut sign = llama(8);
    let difference = sign.graph.calls.iter_mut().find(|call| call.name == "aten.sub.Tensor").unwrap();
    difference.args.swap(0, 1);
    assert!(!names(&sign, &ONLY).contains(&INTERLEAVED));

    let mut order = hugging_face(8, 8);
    let cat = order.graph.calls.iter().find(|call| call.name == "aten.cat.default").unwrap().args[0];
    let Some(Value::ValueList(parts)) = order.graph.values.get_mut(cat.index()) else { panic!("a list") };
    parts.swap(0, 1);
    assert!(!names(&order, &ONLY).contains(&SPLIT_HALF));

    let mut tables = hugging_face(8, 8);
    let products: Vec<usize> =
        (0..tables.graph.calls.len()).filter(|&call| tables.graph.calls[call].name == "aten.mul.Tensor").collect();
    let cosines = tables.graph.calls[products[0]].args[1];
    tables.graph.calls[products[1]].args[1] = cosines;
    assert!(!names(&tables, &ONLY).contains(&SPLIT_HALF));

    // Rotated queries that something else reads, too.
    let mut read = llama(8);
    let q = read.graph.calls.last().unwrap().args[0];
    read.output(q);
    assert!(!names(&read, &ONLY).contains(&INTERLEAVED));
}
