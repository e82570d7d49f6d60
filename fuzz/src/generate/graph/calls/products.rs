//! Calls of operators that multiply, reduce, normalise and attend.

use pteron_format::vulkan::DataType::{Float32, Int8, Int32, UInt8};
use pteron_format::vulkan::{Value, ValueId};

use super::movement::{axis, table_rows};
use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{CACHE_ROWS, Dim, GraphBuilder, Node};

/// Rows of so many columns.
fn rows(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, columns: u32) -> Node {
    let known: Vec<usize> = (0..builder.nodes.len())
        .filter(|&at| builder.nodes[at].dtype == Float32 && builder.nodes[at].dims.last() == Some(&Dim::Fixed(columns)))
        .collect();
    if !known.is_empty() && !cursor.one_in(3) {
        return builder.nodes[cursor.of(&known)].clone();
    }
    let lead = cursor.below(3);
    let mut dims = builder.dims(cursor, lead);
    dims.push(Dim::Fixed(columns));
    builder.fresh(cursor, Float32, &dims)
}

fn optional(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, dims: &[u32]) -> ValueId {
    if cursor.flip() { builder.constant(cursor, Float32, dims).id } else { builder.null() }
}

fn with_last(dims: &[Dim], last: u32) -> Vec<Dim> {
    let mut dims = dims.to_vec();
    dims.pop();
    dims.push(Dim::Fixed(last));
    dims
}

/// A constant, or now and then an input of the same sizes.
fn weight(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, dims: &[u32]) -> Node {
    if cursor.one_in(5) {
        let dims: Vec<Dim> = dims.iter().map(|&dim| Dim::Fixed(dim)).collect();
        return builder.like(cursor, Float32, &dims);
    }
    builder.constant(cursor, Float32, dims)
}

pub(super) fn linear(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (k, n) = (cursor.of(&[4u32, 8, 16, 3, 32]), cursor.of(&[4u32, 5, 16, 1, 40]));
    let x = rows(builder, cursor, k);
    let weight = weight(builder, cursor, &[n, k]);
    let bias = optional(builder, cursor, &[n]);
    builder.out(name, &[x.id, weight.id, bias], Float32, &with_last(&x.dims, n));
}

/// A product with 4-bit weights in groups.
pub(super) fn q4_linear(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, x: &Node, n: u32) -> Node {
    let Some(&Dim::Fixed(k)) = x.dims.last() else { return x.clone() };
    let group = if k % 32 == 0 { cursor.of(&[32, 32, k]) } else { k };
    let weights = builder.constant_below(cursor, UInt8, &[n, k / 2], 256);
    let scales = builder.constant(cursor, Float32, &[k / group.max(1), n]);
    let group = builder.int(group);
    let bias = if cursor.one_in(4) { optional(builder, cursor, &[n]) } else { builder.null() };
    let dims = with_last(&x.dims, n);
    builder.out("et_vk.linear_q4gsw.default", &[x.id, weights.id, scales.id, group, bias], Float32, &dims)
}

pub(super) fn linear_q4(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (k, n) = (cursor.of(&[8u32, 32, 64, 6]), cursor.of(&[4u32, 8, 5, 1, 64]));
    let x = rows(builder, cursor, k);
    match name {
        "et_vk.linear_q4gsw.default" => {
            q4_linear(builder, cursor, &x, n);
        }
        "et_vk.linear_qcs4w.default" => {
            let weights = builder.constant_below(cursor, UInt8, &[n, k.div_ceil(2)], 256);
            let scales = builder.constant(cursor, Float32, &[n]);
            builder.out(name, &[x.id, weights.id, scales.id], Float32, &with_last(&x.dims, n));
        }
        _ => {
            let lead = &x.dims[..x.dims.len() - 1];
            let (scales, zeros) = (builder.like(cursor, Float32, lead), builder.like(cursor, Int8, lead));
            let weights = builder.constant_below(cursor, UInt8, &[n, k / 2], 256);
            let sums = builder.constant(cursor, Int32, &[1, n]);
            let weight_scales = builder.constant(cursor, Float32, &[1, n]);
            let group = builder.int(k);
            let bias = optional(builder, cursor, &[n]);
            let args = [x.id, scales.id, zeros.id, weights.id, sums.id, weight_scales.id, group, bias];
            builder.out(name, &args, Float32, &with_last(&x.dims, n));
        }
    }
}

pub(super) fn mm(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let batch = if name == "aten.bmm.default" { builder.dims(cursor, 1) } else { Vec::new() };
    let [m, k, n] = [(); 3].map(|()| builder.dims(cursor, 1)[0]);
    let a = builder.like(cursor, Float32, &[&batch[..], &[m, k]].concat());
    let b = builder.like(cursor, Float32, &[&batch[..], &[k, n]].concat());
    let dims = [&batch[..], &[m, n]].concat();
    let args = if name == "aten.addmm.default" {
        let addend = match cursor.below(3) {
            0 => vec![n],
            1 => vec![m, Dim::Fixed(1)],
            _ => dims.clone(),
        };
        let addend = builder.like(cursor, Float32, &addend);
        let (beta, alpha) = (cursor.of(&[1.0, 0.0, 0.5]), cursor.of(&[1.0, 2.0, 0.0]));
        vec![addend.id, a.id, b.id, builder.float(beta), builder.float(alpha)]
    } else {
        vec![a.id, b.id]
    };
    builder.out(name, &args, Float32, &dims);
}

pub(super) fn reduce(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let floats = name == "aten.mean.dim";
    let x = builder.any(cursor, if floats { &[Float32] } else { &[Float32, Float32, Int32] }, 0..=5);
    let keep = cursor.flip();
    let rank = x.dims.len();
    let one = name.contains("arg");
    let (dims, reduced): (ValueId, Vec<bool>) = if one {
        if rank == 0 || cursor.one_in(3) {
            (builder.null(), vec![true; rank])
        } else {
            let (at, axis) = axis(builder, cursor, rank);
            (axis, (0..rank).map(|axis| axis == at).collect())
        }
    } else {
        let some: Vec<bool> = (0..rank).map(|_| cursor.flip()).collect();
        let list = (0..rank).filter(|&axis| some[axis]).map(|axis| axis as i64).collect::<Vec<_>>();
        let all = list.is_empty();
        (builder.ints(list), if all { vec![true; rank] } else { some })
    };
    let keepdim = builder.bool(keep);
    let mut args = vec![x.id, dims, keepdim];
    if matches!(name, "aten.sum.dim_IntList" | "aten.mean.dim") {
        args.push(builder.null());
    }
    let size = |(&dim, &reduced): (&Dim, &bool)| match (reduced, keep) {
        (false, _) => Some(dim),
        (true, true) => Some(Dim::Fixed(1)),
        (true, false) => None,
    };
    let out: Vec<Dim> = x.dims.iter().zip(&reduced).filter_map(size).collect();
    builder.out(name, &args, if one { Int32 } else { x.dtype }, &out);
}

pub(super) fn softmax(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, &[Float32], 0..=5);
    let (_, axis) = axis(builder, cursor, x.dims.len());
    let no = builder.bool(false);
    builder.out(name, &[x.id, axis, no], Float32, &x.dims);
}

pub(super) fn layer_norm(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, &[Float32], 1..=4);
    let from = x.dims.len() - 1 - cursor.below(x.dims.len());
    let shape = builder.size_list(&x.dims[from..]);
    let parameter = |builder: &mut GraphBuilder, cursor: &mut Cursor<'_>| match cursor.flip() {
        true => builder.like(cursor, Float32, &x.dims[from..]).id,
        false => builder.null(),
    };
    let args = [x.id, shape, parameter(builder, cursor), parameter(builder, cursor), builder.float(1e-5)];
    let mut moments = x.dims.clone();
    moments[from..].fill(Dim::Fixed(1));
    let outs = [(Float32, x.dims.clone()), (Float32, moments.clone()), (Float32, moments)];
    builder.outs(name, &args, &outs);
}

/// A norm of rows.
pub(super) fn norm(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, x: &Node) -> Node {
    let Some(&Dim::Fixed(width)) = x.dims.last() else { return x.clone() };
    let weight = builder.constant(cursor, Float32, &[width]);
    let eps = builder.float(1e-5);
    builder.out("et_vk.rms_norm.default", &[x.id, weight.id, eps], Float32, &x.dims)
}

pub(super) fn rms_norm(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, _: &str) {
    let width = cursor.of(&[4u32, 8, 12, 6, 64]);
    let x = rows(builder, cursor, width);
    norm(builder, cursor, &x);
}

pub(super) fn choose_qparams(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, &[Float32], 1..=3);
    let mut block = vec![1i64; x.dims.len()];
    let mut dims = x.dims.clone();
    if let Some(&Dim::Fixed(width)) = x.dims.last() {
        let last = block.len() - 1;
        block[last] = width.into();
        dims[last] = Dim::Fixed(1);
    }
    let to = cursor.of(&[Int8, UInt8, Int32]);
    let (least, most) = if to == UInt8 { (0, 255) } else { (-128, 127) };
    let none = builder.null();
    let args = [
        x.id,
        builder.text("ASYMMETRIC"),
        builder.ints(block),
        none,
        builder.int(least),
        builder.int(most),
        builder.float(1e-5),
        none,
        none,
        builder.bool(true),
    ];
    builder.outs(name, &args, &[(Float32, dims.clone()), (to, dims)]);
}

pub(super) fn rotary(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (heads, dim) = (cursor.of(&[1u32, 2, 4]), cursor.of(&[4u32, 8, 6, 16]));
    if name == "et_vk.apply_rotary_emb_interleaved.default" {
        let dims = [Dim::Fixed(cursor.size(false)), Dim::Live(0), Dim::Fixed(dim)];
        let x = builder.like(cursor, Float32, &dims);
        let angles = builder.like(cursor, Float32, &dims[1..]);
        builder.out(name, &[x.id, angles.id], Float32, &dims);
        return;
    }
    let dims = |heads| vec![Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let (q, k) = (dims(heads * 2), dims(heads));
    let [xq, xk] = [&q, &k].map(|dims| builder.like(cursor, Float32, dims).id);
    let args = if name == "et_vk.apply_rotary_emb_hf.default" {
        let turning = cursor.of(&[dim, dim / 2 / 2 * 2]);
        let [cos, sin] = [(); 2].map(|()| builder.constant(cursor, Float32, &[CACHE_ROWS, turning]).id);
        let position = builder.position();
        vec![xq, xk, cos, sin, position]
    } else {
        let [cos, sin] = [(); 2].map(|()| table_rows(builder, cursor, dim / 2, 0));
        vec![xq, xk, cos, sin]
    };
    builder.outs(name, &args, &[(Float32, q), (Float32, k)]);
}

/// Attention over a cache.
pub(super) fn attend(
    builder: &mut GraphBuilder,
    cursor: &mut Cursor<'_>,
    name: &str,
    [q, k, v]: [ValueId; 3],
    [heads, kv_heads, dim]: [u32; 3],
) -> Node {
    let cache = [1, CACHE_ROWS, kv_heads, dim];
    let mut args = vec![q, k, v];
    if name == "pteron.rotary_sdpa" {
        args.extend([(); 2].map(|()| builder.constant(cursor, Float32, &[CACHE_ROWS, dim / 2]).id));
    }
    args.extend([(); 2].map(|()| builder.state(cursor, Float32, &cache)));
    let position = builder.position();
    let scale = if cursor.one_in(3) { builder.float(0.5) } else { builder.null() };
    args.extend([position, builder.int(1), builder.null(), builder.float(0.0), builder.bool(true), scale]);
    let dims = [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    builder.out(name, &args, Float32, &dims)
}

pub(super) fn sdpa(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (kv_heads, group, dim) = (cursor.of(&[1u32, 2]), cursor.of(&[1u32, 2, 3]), cursor.of(&[4u32, 8, 6, 32]));
    let dims = |heads| vec![Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let q = builder.like(cursor, Float32, &dims(kv_heads * group)).id;
    let [k, v] = [(); 2].map(|()| builder.like(cursor, Float32, &dims(kv_heads)).id);
    attend(builder, cursor, name, [q, k, v], [kv_heads * group, kv_heads, dim]);
}

pub(super) fn update_cache(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (heads, dim, dtype) = (cursor.of(&[1u32, 2]), cursor.of(&[4u32, 3, 8]), cursor.of(&[Float32, Int32]));
    let dims = [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let value = builder.like(cursor, dtype, &dims);
    let cache = builder.state(cursor, dtype, &[1, CACHE_ROWS, heads, dim]);
    let position = builder.position();
    builder.out(name, &[value.id, cache, position], dtype, &[Dim::Fixed(1)]);
}

pub(super) fn attention(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let lead = cursor.below(3);
    let batch = builder.dims(cursor, lead);
    let [m, n] = [(); 2].map(|()| builder.dims(cursor, 1)[0]);
    let (dim, values) = (Dim::Fixed(cursor.of(&[4u32, 8, 6])), Dim::Fixed(cursor.of(&[4u32, 8, 5])));
    let q = builder.like(cursor, Float32, &[&batch[..], &[m, dim]].concat());
    let k = builder.like(cursor, Float32, &[&batch[..], &[n, dim]].concat());
    let v = builder.like(cursor, Float32, &[&batch[..], &[n, values]].concat());
    let mask = if cursor.flip() { builder.like(cursor, Float32, &[m, n]).id } else { builder.null() };
    let scale = if cursor.flip() { builder.float(0.5) } else { builder.null() };
    builder.out(name, &[q.id, k.id, v.id, mask, scale], Float32, &[&batch[..], &[m, values]].concat());
}

pub(super) fn sample_row(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, &[Float32], 1..=3);
    let sampling = builder.like(cursor, Int32, &[Dim::Fixed(4)]);
    builder.out(name, &[x.id, sampling.id], Int32, &[Dim::Fixed(1), Dim::Fixed(1)]);
}

pub(super) fn fused_linear(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (k, count, gated) = (cursor.of(&[32u32, 64]), 1 + cursor.below(3), cursor.flip());
    let count = if gated { 2 } else { count };
    let x = rows(builder, cursor, k);
    let n = cursor.of(&[8u32, 4, 16]);
    let weights = (0..count).map(|_| builder.constant_below(cursor, UInt8, &[n, k / 2], 256).id).collect();
    let scales = (0..count).map(|_| builder.constant(cursor, Float32, &[k / 32, n]).id).collect();
    let none = builder.null();
    let (eps, group) = (builder.float(1e-5), builder.int(32));
    let norm = if cursor.flip() { [builder.constant(cursor, Float32, &[k]).id, eps] } else { [none, none] };
    let int8_eps = if cursor.flip() { eps } else { none };
    let [weights, scales, biases] = [weights, scales, vec![none; count]].map(|ids| builder.list(ids));
    let flags = [builder.bool(gated), builder.bool(false)];
    let args = [&[x.id], &norm[..], &[int8_eps, weights, scales, group, biases, none], &flags[..]].concat();
    let outs = vec![(Float32, with_last(&x.dims, n)); if gated { 1 } else { count }];
    builder.outs(name, &args, &outs);
}

pub(super) fn symbolic(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let operand = |builder: &mut GraphBuilder, cursor: &mut Cursor<'_>| match cursor.below(3) {
        0 => builder.int(if builder.hostile { cursor.integer() } else { 1 + cursor.below(4) as i64 }),
        1 => builder.live_size(cursor.below(2)),
        _ => builder.position(),
    };
    match name {
        "sym_size.int" => drop(builder.live_size(cursor.below(2))),
        "et_vk.select_as_symint.default" => drop(builder.position()),
        _ => {
            let (a, b) = (operand(builder, cursor), operand(builder, cursor));
            let out = builder.value(Value::SymInt(0));
            builder.call(name, &[a, b, out]);
        }
    }
}
