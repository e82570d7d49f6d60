//! Calls of operators that multiply, reduce, normalise and attend.

use pteron_format::vulkan::DataType::{Float32, Int8, Int32, UInt8};
use pteron_format::vulkan::{Value, ValueId};

use super::movement::{axis, table_rows};
use crate::generate::cursor::Cursor;
use crate::generate::graph::sketch::{CACHE_ROWS, Dim, Node, Sketch};

/// Rows of so many columns.
fn rows(sketch: &mut Sketch, cursor: &mut Cursor<'_>, columns: u32) -> Node {
    let known: Vec<usize> = (0..sketch.nodes.len())
        .filter(|&at| sketch.nodes[at].dtype == Float32 && sketch.nodes[at].dims.last() == Some(&Dim::Fixed(columns)))
        .collect();
    if !known.is_empty() && !cursor.one_in(3) {
        return sketch.nodes[cursor.of(&known)].clone();
    }
    let lead = cursor.below(3);
    let mut dims = sketch.dims(cursor, lead);
    dims.push(Dim::Fixed(columns));
    sketch.fresh(cursor, Float32, &dims)
}

fn optional(sketch: &mut Sketch, cursor: &mut Cursor<'_>, dims: &[u32]) -> ValueId {
    if cursor.flip() { sketch.constant(cursor, Float32, dims).id } else { sketch.null() }
}

fn with_last(dims: &[Dim], last: u32) -> Vec<Dim> {
    let mut dims = dims.to_vec();
    dims.pop();
    dims.push(Dim::Fixed(last));
    dims
}

/// A constant, or now and then an input of the same sizes.
fn weight(sketch: &mut Sketch, cursor: &mut Cursor<'_>, dims: &[u32]) -> Node {
    if cursor.one_in(5) {
        let dims: Vec<Dim> = dims.iter().map(|&dim| Dim::Fixed(dim)).collect();
        return sketch.like(cursor, Float32, &dims);
    }
    sketch.constant(cursor, Float32, dims)
}

pub(super) fn linear(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (k, n) = (cursor.of(&[4u32, 8, 16, 3, 32]), cursor.of(&[4u32, 5, 16, 1, 40]));
    let x = rows(sketch, cursor, k);
    let weight = weight(sketch, cursor, &[n, k]);
    let bias = optional(sketch, cursor, &[n]);
    sketch.out(name, &[x.id, weight.id, bias], Float32, &with_last(&x.dims, n));
}

/// A product with 4-bit weights in groups.
pub(super) fn q4_linear(sketch: &mut Sketch, cursor: &mut Cursor<'_>, x: &Node, n: u32) -> Node {
    let Some(&Dim::Fixed(k)) = x.dims.last() else { return x.clone() };
    let group = if k % 32 == 0 { cursor.of(&[32, 32, k]) } else { k };
    let weights = sketch.constant_below(cursor, UInt8, &[n, k / 2], 256);
    let scales = sketch.constant(cursor, Float32, &[k / group.max(1), n]);
    let group = sketch.int(group);
    let bias = if cursor.one_in(4) { optional(sketch, cursor, &[n]) } else { sketch.null() };
    let dims = with_last(&x.dims, n);
    sketch.out("et_vk.linear_q4gsw.default", &[x.id, weights.id, scales.id, group, bias], Float32, &dims)
}

pub(super) fn linear_q4(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (k, n) = (cursor.of(&[8u32, 32, 64, 6]), cursor.of(&[4u32, 8, 5, 1, 64]));
    let x = rows(sketch, cursor, k);
    match name {
        "et_vk.linear_q4gsw.default" => {
            q4_linear(sketch, cursor, &x, n);
        }
        "et_vk.linear_qcs4w.default" => {
            let weights = sketch.constant_below(cursor, UInt8, &[n, k.div_ceil(2)], 256);
            let scales = sketch.constant(cursor, Float32, &[n]);
            sketch.out(name, &[x.id, weights.id, scales.id], Float32, &with_last(&x.dims, n));
        }
        _ => {
            let lead = &x.dims[..x.dims.len() - 1];
            let (scales, zeros) = (sketch.like(cursor, Float32, lead), sketch.like(cursor, Int8, lead));
            let weights = sketch.constant_below(cursor, UInt8, &[n, k / 2], 256);
            let sums = sketch.constant(cursor, Int32, &[1, n]);
            let weight_scales = sketch.constant(cursor, Float32, &[1, n]);
            let group = sketch.int(k);
            let bias = optional(sketch, cursor, &[n]);
            let args = [x.id, scales.id, zeros.id, weights.id, sums.id, weight_scales.id, group, bias];
            sketch.out(name, &args, Float32, &with_last(&x.dims, n));
        }
    }
}

pub(super) fn mm(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let batch = if name == "aten.bmm.default" { sketch.dims(cursor, 1) } else { Vec::new() };
    let [m, k, n] = [(); 3].map(|()| sketch.dims(cursor, 1)[0]);
    let a = sketch.like(cursor, Float32, &[&batch[..], &[m, k]].concat());
    let b = sketch.like(cursor, Float32, &[&batch[..], &[k, n]].concat());
    let dims = [&batch[..], &[m, n]].concat();
    let args = if name == "aten.addmm.default" {
        let addend = match cursor.below(3) {
            0 => vec![n],
            1 => vec![m, Dim::Fixed(1)],
            _ => dims.clone(),
        };
        let addend = sketch.like(cursor, Float32, &addend);
        let (beta, alpha) = (cursor.of(&[1.0, 0.0, 0.5]), cursor.of(&[1.0, 2.0, 0.0]));
        vec![addend.id, a.id, b.id, sketch.float(beta), sketch.float(alpha)]
    } else {
        vec![a.id, b.id]
    };
    sketch.out(name, &args, Float32, &dims);
}

pub(super) fn reduce(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let floats = name == "aten.mean.dim";
    let x = sketch.any(cursor, if floats { &[Float32] } else { &[Float32, Float32, Int32] }, 0..=5);
    let keep = cursor.flip();
    let rank = x.dims.len();
    let one = name.contains("arg");
    let (dims, reduced): (ValueId, Vec<bool>) = if one {
        if rank == 0 || cursor.one_in(3) {
            (sketch.null(), vec![true; rank])
        } else {
            let (at, axis) = axis(sketch, cursor, rank);
            (axis, (0..rank).map(|axis| axis == at).collect())
        }
    } else {
        let some: Vec<bool> = (0..rank).map(|_| cursor.flip()).collect();
        let list = (0..rank).filter(|&axis| some[axis]).map(|axis| axis as i64).collect::<Vec<_>>();
        let all = list.is_empty();
        (sketch.ints(list), if all { vec![true; rank] } else { some })
    };
    let keepdim = sketch.bool(keep);
    let mut args = vec![x.id, dims, keepdim];
    if matches!(name, "aten.sum.dim_IntList" | "aten.mean.dim") {
        args.push(sketch.null());
    }
    let size = |(&dim, &reduced): (&Dim, &bool)| match (reduced, keep) {
        (false, _) => Some(dim),
        (true, true) => Some(Dim::Fixed(1)),
        (true, false) => None,
    };
    let out: Vec<Dim> = x.dims.iter().zip(&reduced).filter_map(size).collect();
    sketch.out(name, &args, if one { Int32 } else { x.dtype }, &out);
}

pub(super) fn softmax(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, &[Float32], 0..=5);
    let (_, axis) = axis(sketch, cursor, x.dims.len());
    let no = sketch.bool(false);
    sketch.out(name, &[x.id, axis, no], Float32, &x.dims);
}

pub(super) fn layer_norm(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, &[Float32], 1..=4);
    let from = x.dims.len() - 1 - cursor.below(x.dims.len());
    let shape = sketch.size_list(&x.dims[from..]);
    let parameter = |sketch: &mut Sketch, cursor: &mut Cursor<'_>| match cursor.flip() {
        true => sketch.like(cursor, Float32, &x.dims[from..]).id,
        false => sketch.null(),
    };
    let args = [x.id, shape, parameter(sketch, cursor), parameter(sketch, cursor), sketch.float(1e-5)];
    let mut moments = x.dims.clone();
    moments[from..].fill(Dim::Fixed(1));
    let outs = [(Float32, x.dims.clone()), (Float32, moments.clone()), (Float32, moments)];
    sketch.outs(name, &args, &outs);
}

/// A norm of rows.
pub(super) fn norm(sketch: &mut Sketch, cursor: &mut Cursor<'_>, x: &Node) -> Node {
    let Some(&Dim::Fixed(width)) = x.dims.last() else { return x.clone() };
    let weight = sketch.constant(cursor, Float32, &[width]);
    let eps = sketch.float(1e-5);
    sketch.out("et_vk.rms_norm.default", &[x.id, weight.id, eps], Float32, &x.dims)
}

pub(super) fn rms_norm(sketch: &mut Sketch, cursor: &mut Cursor<'_>, _: &str) {
    let width = cursor.of(&[4u32, 8, 12, 6, 64]);
    let x = rows(sketch, cursor, width);
    norm(sketch, cursor, &x);
}

pub(super) fn choose_qparams(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, &[Float32], 1..=3);
    let mut block = vec![1i64; x.dims.len()];
    let mut dims = x.dims.clone();
    if let Some(&Dim::Fixed(width)) = x.dims.last() {
        let last = block.len() - 1;
        block[last] = width.into();
        dims[last] = Dim::Fixed(1);
    }
    let to = cursor.of(&[Int8, UInt8, Int32]);
    let (least, most) = if to == UInt8 { (0, 255) } else { (-128, 127) };
    let none = sketch.null();
    let args = [
        x.id,
        sketch.text("ASYMMETRIC"),
        sketch.ints(block),
        none,
        sketch.int(least),
        sketch.int(most),
        sketch.float(1e-5),
        none,
        none,
        sketch.bool(true),
    ];
    sketch.outs(name, &args, &[(Float32, dims.clone()), (to, dims)]);
}

pub(super) fn rotary(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (heads, dim) = (cursor.of(&[1u32, 2, 4]), cursor.of(&[4u32, 8, 6, 16]));
    if name == "et_vk.apply_rotary_emb_interleaved.default" {
        let dims = [Dim::Fixed(cursor.size(false)), Dim::Live(0), Dim::Fixed(dim)];
        let x = sketch.like(cursor, Float32, &dims);
        let angles = sketch.like(cursor, Float32, &dims[1..]);
        sketch.out(name, &[x.id, angles.id], Float32, &dims);
        return;
    }
    let dims = |heads| vec![Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let (q, k) = (dims(heads * 2), dims(heads));
    let [xq, xk] = [&q, &k].map(|dims| sketch.like(cursor, Float32, dims).id);
    let args = if name == "et_vk.apply_rotary_emb_hf.default" {
        let turning = cursor.of(&[dim, dim / 2 / 2 * 2]);
        let [cos, sin] = [(); 2].map(|()| sketch.constant(cursor, Float32, &[CACHE_ROWS, turning]).id);
        let position = sketch.position();
        vec![xq, xk, cos, sin, position]
    } else {
        let [cos, sin] = [(); 2].map(|()| table_rows(sketch, cursor, dim / 2, 0));
        vec![xq, xk, cos, sin]
    };
    sketch.outs(name, &args, &[(Float32, q), (Float32, k)]);
}

/// Attention over a cache.
pub(super) fn attend(
    sketch: &mut Sketch,
    cursor: &mut Cursor<'_>,
    name: &str,
    [q, k, v]: [ValueId; 3],
    [heads, kv_heads, dim]: [u32; 3],
) -> Node {
    let cache = [1, CACHE_ROWS, kv_heads, dim];
    let mut args = vec![q, k, v];
    if name == "pteron.rotary_sdpa" {
        args.extend([(); 2].map(|()| sketch.constant(cursor, Float32, &[CACHE_ROWS, dim / 2]).id));
    }
    args.extend([(); 2].map(|()| sketch.state(cursor, Float32, &cache)));
    let position = sketch.position();
    let scale = if cursor.one_in(3) { sketch.float(0.5) } else { sketch.null() };
    args.extend([position, sketch.int(1), sketch.null(), sketch.float(0.0), sketch.bool(true), scale]);
    let dims = [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    sketch.out(name, &args, Float32, &dims)
}

pub(super) fn sdpa(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (kv_heads, group, dim) = (cursor.of(&[1u32, 2]), cursor.of(&[1u32, 2, 3]), cursor.of(&[4u32, 8, 6, 32]));
    let dims = |heads| vec![Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let q = sketch.like(cursor, Float32, &dims(kv_heads * group)).id;
    let [k, v] = [(); 2].map(|()| sketch.like(cursor, Float32, &dims(kv_heads)).id);
    attend(sketch, cursor, name, [q, k, v], [kv_heads * group, kv_heads, dim]);
}

pub(super) fn update_cache(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (heads, dim, dtype) = (cursor.of(&[1u32, 2]), cursor.of(&[4u32, 3, 8]), cursor.of(&[Float32, Int32]));
    let dims = [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let value = sketch.like(cursor, dtype, &dims);
    let cache = sketch.state(cursor, dtype, &[1, CACHE_ROWS, heads, dim]);
    let position = sketch.position();
    sketch.out(name, &[value.id, cache, position], dtype, &[Dim::Fixed(1)]);
}

pub(super) fn attention(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let lead = cursor.below(3);
    let batch = sketch.dims(cursor, lead);
    let [m, n] = [(); 2].map(|()| sketch.dims(cursor, 1)[0]);
    let (dim, values) = (Dim::Fixed(cursor.of(&[4u32, 8, 6])), Dim::Fixed(cursor.of(&[4u32, 8, 5])));
    let q = sketch.like(cursor, Float32, &[&batch[..], &[m, dim]].concat());
    let k = sketch.like(cursor, Float32, &[&batch[..], &[n, dim]].concat());
    let v = sketch.like(cursor, Float32, &[&batch[..], &[n, values]].concat());
    let mask = if cursor.flip() { sketch.like(cursor, Float32, &[m, n]).id } else { sketch.null() };
    let scale = if cursor.flip() { sketch.float(0.5) } else { sketch.null() };
    sketch.out(name, &[q.id, k.id, v.id, mask, scale], Float32, &[&batch[..], &[m, values]].concat());
}

pub(super) fn sample_row(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, &[Float32], 1..=3);
    let sampling = sketch.like(cursor, Int32, &[Dim::Fixed(4)]);
    sketch.out(name, &[x.id, sampling.id], Int32, &[Dim::Fixed(1), Dim::Fixed(1)]);
}

pub(super) fn fused_linear(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let (k, count, gated) = (cursor.of(&[32u32, 64]), 1 + cursor.below(3), cursor.flip());
    let count = if gated { 2 } else { count };
    let x = rows(sketch, cursor, k);
    let n = cursor.of(&[8u32, 4, 16]);
    let weights = (0..count).map(|_| sketch.constant_below(cursor, UInt8, &[n, k / 2], 256).id).collect();
    let scales = (0..count).map(|_| sketch.constant(cursor, Float32, &[k / 32, n]).id).collect();
    let none = sketch.null();
    let (eps, group) = (sketch.float(1e-5), sketch.int(32));
    let norm = if cursor.flip() { [sketch.constant(cursor, Float32, &[k]).id, eps] } else { [none, none] };
    let [weights, scales, biases] = [weights, scales, vec![none; count]].map(|ids| sketch.list(ids));
    let flags = [sketch.bool(gated), sketch.bool(false)];
    let args = [&[x.id], &norm[..], &[weights, scales, group, biases, none], &flags[..]].concat();
    let outs = vec![(Float32, with_last(&x.dims, n)); if gated { 1 } else { count }];
    sketch.outs(name, &args, &outs);
}

pub(super) fn symbolic(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let operand = |sketch: &mut Sketch, cursor: &mut Cursor<'_>| match cursor.below(3) {
        0 => sketch.int(if sketch.hostile { cursor.integer() } else { 1 + cursor.below(4) as i64 }),
        1 => sketch.live_size(cursor.below(2)),
        _ => sketch.position(),
    };
    match name {
        "sym_size.int" => drop(sketch.live_size(cursor.below(2))),
        "et_vk.select_as_symint.default" => drop(sketch.position()),
        _ => {
            let (a, b) = (operand(sketch, cursor), operand(sketch, cursor));
            let out = sketch.value(Value::SymInt(0));
            sketch.call(name, &[a, b, out]);
        }
    }
}
