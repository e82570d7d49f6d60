//! Graphs of operators whose kernels have no bounds checks, at sizes that select different kernels.

use crate::ir::{DataType, Value, ValueId};
use crate::testing::{GraphBuilder, dims, noise, noise_bytes};
use crate::tests::random::Random;

/// A graph of operators with unchecked kernels, and valid calls: dims and integers of each input.
pub(super) struct Valid {
    pub(super) builder: GraphBuilder,
    pub(super) calls: Vec<Vec<(Vec<u32>, Vec<i32>)>>,
}

fn float(dims: &[u32]) -> (Vec<u32>, Vec<i32>) {
    (dims.to_vec(), Vec::new())
}

fn linear(builder: &mut GraphBuilder, random: &mut Random, x: ValueId, rows: u32, k: u32, n: u32) -> ValueId {
    let group = random.of(&[32, 16, 8]);
    let (bytes, columns) = (random.of(&[0, 16, 3]), random.of(&[0, 4, 1]));
    let (stride, width) = (k / 2 + bytes, n + columns);
    let weight = builder.constant(DataType::UInt8, &[n, stride], noise_bytes(1, (n * stride) as usize));
    let scales = builder.floats(&[k / group, width], &noise(2, (k / group * width) as usize));
    let bias =
        if random.below(2) == 0 { builder.value(Value::Null) } else { builder.floats(&[width], &noise(3, width as usize)) };
    let group = builder.int(group.into());
    let out = builder.tensor(DataType::Float32, &[rows, n]);
    builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
    out
}

/// A norm, two linears of it with or without SwiGLU, and a sum.
fn linears(random: &mut Random) -> Valid {
    let (rows, k) = (random.of(&[1, 8, 9, 40, 130]), random.of(&[64, 128, 96, 192]));
    let (n, also) = (random.of(&[8, 4, 32, 36, 7]), random.of(&[8, 16, 5]));
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[rows, k]);
    let (weight, eps) = (builder.floats(&[k], &noise(4, k as usize)), builder.float(1e-5));
    let normed = builder.tensor(DataType::Float32, &[rows, k]);
    builder.call("et_vk.rms_norm.default", &[x, weight, eps, normed]);
    let a = linear(&mut builder, random, normed, rows, k, n);
    let other = if random.below(2) == 0 { n } else { also };
    let b = linear(&mut builder, random, normed, rows, k, other);
    builder.output(a);
    builder.output(b);
    let live = [rows, 1, 0, 2.min(rows), 9.min(rows), rows - rows / 3];
    Valid { builder, calls: live.iter().map(|&rows| vec![float(&[rows, k])]).collect() }
}

fn attention(random: &mut Random) -> Valid {
    let name = random.of(&["sdpa_with_kv_cache.default", "pteron.sdpa_sliced", "pteron.sdpa_naive"]);
    let (heads, group) = (random.of(&[1, 2, 3]), random.of(&[1, 2, 4]));
    let (dim, tokens, cache) = (random.of(&[64, 128, 8, 6, 4]), random.of(&[1, 7, 40]), random.of(&[40, 300, 1100]));
    let mut builder = GraphBuilder::new();
    let q = builder.input(DataType::Float32, &[1, tokens, heads * group, dim]);
    let [k, v] = [0, 1].map(|_| builder.input(DataType::Float32, &[1, tokens, heads, dim]));
    let rows = [1, cache, heads, dim];
    let zeros = vec![0.0; (cache * heads * dim) as usize];
    let caches = [0, 1].map(|_| builder.floats(&rows, &zeros));
    let position = builder.input(DataType::Int32, &[1]);
    let (zero, at) = (builder.int(0), builder.value(Value::SymInt));
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    let seq_len = builder.int(1);
    let causal = builder.value(Value::Bool(random.below(3) > 0));
    let rest = [Value::Null, Value::Int(0)].map(|value| builder.value(value));
    let scale = builder.value(Value::Null);
    let out = builder.tensor(DataType::Float32, &[1, tokens, heads * group, dim]);
    builder.call(name, &[q, k, v, caches[0], caches[1], at, seq_len, rest[0], rest[1], causal, scale, out]);
    builder.output(out);
    let call = |(live, at): (u32, u32)| {
        let new = float(&[1, live, heads, dim]);
        let at = i32::try_from(at).unwrap();
        vec![float(&[1, live, heads * group, dim]), new.clone(), new, (vec![1], vec![at])]
    };
    let lives = [(tokens, 0), (tokens, cache - tokens), (1, cache - 1), (0, 0), (0, cache), (1.max(tokens / 2), cache / 3)];
    Valid { builder, calls: lives.map(call).into() }
}

fn elementwise(random: &mut Random) -> Valid {
    let shapes: [[&[u32]; 2]; 6] = [
        [&[5, 3, 8], &[3, 8]],
        [&[5, 3, 8], &[3, 1]],
        [&[7, 9], &[9]],
        [&[4, 1, 5], &[6, 5]],
        [&[1], &[11]],
        [&[2, 12], &[2, 12]],
    ];
    let [x, y] = random.of(&shapes);
    let dtype = DataType::Float32;
    let out = crate::shape::broadcast(&dims(x), &dims(y)).unwrap();
    let mut builder = GraphBuilder::new();
    let args = [x, y].map(|dims| builder.input(dtype, dims));
    let [sum, more] = [0, 1].map(|_| builder.tensor(dtype, &out));
    let same = builder.tensor(DataType::Bool, &out);
    let one = builder.int(1);
    builder.call("aten.add.Tensor", &[args[0], args[1], one, sum]);
    builder.call("aten.eq.Tensor", &[sum, args[1], same]);
    builder.call("aten.where.self", &[same, args[0], args[1], more]);
    builder.output(more);
    let mut calls = vec![vec![float(x), float(y)]];
    let less = |dims: &[u32], first: u32| float(&[&[first], &dims[1..]].concat());
    if x.len() > y.len() {
        calls.extend([1, 0, x[0] - 1].map(|first| vec![less(x, first), float(y)]));
    }
    Valid { builder, calls }
}

fn rotary(random: &mut Random) -> Valid {
    let (batch, tokens, heads) = (random.of(&[1, 2]), random.of(&[1, 5, 9]), random.of(&[(4, 2), (3, 3), (1, 1)]));
    let (dim, positions) = (random.of(&[8, 64, 6, 2]), 20);
    let halves = random.below(2) == 0;
    let mut builder = GraphBuilder::new();
    let of = |tokens, heads| [batch, tokens, heads, dim];
    let args = [heads.0, heads.1].map(|heads| builder.input(DataType::Float32, &of(tokens, heads)));
    let out = [heads.0, heads.1].map(|heads| builder.tensor(DataType::Float32, &of(tokens, heads)));
    let live = |tokens: u32| vec![float(&of(tokens, heads.0)), float(&of(tokens, heads.1))];
    let list = builder.value(Value::ValueList(out.to_vec()));
    let calls = if halves {
        let turning = if dim > 6 && random.below(2) == 0 { dim / 2 } else { dim };
        let table = noise(1, (positions * turning) as usize);
        let tables = [0, 1].map(|_| builder.floats(&[positions, turning], &table));
        let position = builder.input(DataType::Int32, &[1]);
        let (zero, at) = (builder.int(0), builder.value(Value::SymInt));
        builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
        builder.call("et_vk.apply_rotary_emb_hf.default", &[args[0], args[1], tables[0], tables[1], at, list]);
        let call = |(tokens, at)| live(tokens).into_iter().chain([(vec![1], vec![at])]).collect();
        let last = i32::try_from(positions - tokens).unwrap();
        [(tokens, 0), (tokens, last), (1, 19), (0, 20)].map(call).into()
    } else {
        let tables = [0, 1].map(|_| builder.input(DataType::Float32, &[tokens, dim / 2]));
        builder.call("et_vk.apply_rotary_emb.default", &[args[0], args[1], tables[0], tables[1], list]);
        let tables = |tokens: u32| [0, 1].map(|_| float(&[tokens, dim / 2]));
        [tokens, 1, 0].map(|tokens| live(tokens).into_iter().chain(tables(tokens)).collect()).into()
    };
    out.iter().for_each(|&out| builder.output(out));
    Valid { builder, calls }
}

/// A random one of these graphs.
pub(super) fn any(random: &mut Random) -> Valid {
    random.of(&[linears as fn(&mut Random) -> Valid, attention, elementwise, rotary, linears, attention])(random)
}
