//! Calls of operators that say where elements go.

use pteron_format::vulkan::DataType::{Float32, Int32, UInt8};
use pteron_format::vulkan::ValueId;

use super::elementwise::{ALL, number};
use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{CACHE_ROWS, Dim, GraphBuilder};

/// An axis of a tensor, counted from either end.
pub(super) fn axis(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, rank: usize) -> (usize, ValueId) {
    let axis = cursor.below(rank);
    let counted = if cursor.flip() { axis as i64 } else { axis as i64 - rank.max(1) as i64 };
    (axis, builder.int(counted))
}

/// Some axes in any order, each once.
fn axes(cursor: &mut Cursor<'_>, rank: usize) -> Vec<usize> {
    let mut axes: Vec<usize> = (0..rank).collect();
    for at in (1..rank).rev() {
        axes.swap(at, cursor.below(at + 1));
    }
    axes
}

/// Operators that take a tensor and give it back in other dims or whole.
pub(super) fn kept(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=5);
    let mut args = vec![x.id];
    let mut dims = x.dims.clone();
    match name {
        "aten.clone.default" => args.push(builder.null()),
        "dim_order_ops._clone_dim_order.default" => {
            args.push(builder.bool(false));
            let order = (0..dims.len() as i64).collect();
            args.push(if cursor.flip() { builder.null() } else { builder.ints(order) });
        }
        "aten.view_copy.default" => {
            dims = viewed(cursor, dims);
            args.push(builder.size_list(&dims));
        }
        "aten.unsqueeze_copy.default" => {
            let at = cursor.below(dims.len() + 1);
            dims.insert(at, Dim::Fixed(1));
            args.push(builder.int(at as i64));
        }
        "aten.squeeze_copy.dims" => {
            let chosen: Vec<usize> = (0..dims.len()).filter(|_| cursor.flip()).collect();
            args.push(builder.ints(chosen.iter().map(|&axis| axis as i64).collect()));
            let mut at = 0;
            dims.retain(|&dim| {
                at += 1;
                !(chosen.contains(&(at - 1)) && dim == Dim::Fixed(1))
            });
        }
        _ => {}
    }
    builder.out(name, &args, x.dtype, &dims);
}

/// The same elements in other dims.
fn viewed(cursor: &mut Cursor<'_>, mut dims: Vec<Dim>) -> Vec<Dim> {
    match (cursor.below(4), dims.last().copied()) {
        (0, _) => dims.insert(cursor.below(dims.len() + 1), Dim::Fixed(1)),
        (1, Some(Dim::Fixed(width))) if width % 2 == 0 => {
            dims.pop();
            dims.extend([Dim::Fixed(2), Dim::Fixed(width / 2)]);
        }
        (2, Some(Dim::Fixed(width))) if dims.len() > 1 => {
            if let Dim::Fixed(above) = dims[dims.len() - 2] {
                dims.truncate(dims.len() - 2);
                dims.push(Dim::Fixed(above.saturating_mul(width)));
            }
        }
        _ => {}
    }
    dims
}

pub(super) fn prepack(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let dims = [cursor.size(false), cursor.size(false)];
    let constant = builder.constant(cursor, Float32, &dims);
    let packed = builder.out(name, &[constant.id], Float32, &constant.dims);
    if cursor.flip() {
        // A buffer that a later call writes again, as exporters keep state in delegates.
        let other = builder.like(cursor, Float32, &packed.dims);
        let one = builder.int(1);
        builder.call("aten.add.Tensor", &[packed.id, other.id, one, packed.id]);
    }
}

pub(super) fn select(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 1..=5);
    let (at, axis) = axis(builder, cursor, x.dims.len());
    let index = match (x.dims[at], cursor.below(4)) {
        (Dim::Fixed(CACHE_ROWS), 0) => builder.position(),
        (Dim::Fixed(size), 1) => builder.int(cursor.below(size.min(16) as usize) as i64),
        (_, 2) => builder.int(0),
        _ => builder.int(-1),
    };
    let mut dims = x.dims.clone();
    dims.remove(at);
    builder.out(name, &[x.id, axis, index], x.dtype, &dims);
}

pub(super) fn slice(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 1..=5);
    let (at, axis) = axis(builder, cursor, x.dims.len());
    let mut dims = x.dims.clone();
    let one = builder.int(1);
    let args = match x.dims[at] {
        Dim::Fixed(size) if size > 1 && size < 4096 => {
            let from = cursor.below(size as usize - 1) as u32;
            let to = from + 1 + cursor.below((size - from) as usize) as u32;
            let step = 1 + cursor.below(3) as u32;
            dims[at] = Dim::Fixed((to.min(size) - from).div_ceil(step));
            [builder.int(from), builder.int(to), builder.int(step)]
        }
        _ => [builder.null(), builder.int(i64::MAX), one],
    };
    builder.out(name, &[&[x.id, axis], &args[..]].concat(), x.dtype, &dims);
}

/// Rows of a table from the position on, as many as a live dim has.
pub(super) fn table_rows(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, width: u32, live: usize) -> ValueId {
    let table = builder.constant(cursor, Float32, &[CACHE_ROWS, width]);
    let (start, tokens) = (builder.position(), builder.live_size(live));
    let end = builder.value(pteron_format::vulkan::Value::SymInt(0));
    builder.call("add", &[start, tokens, end]);
    let (zero, one) = (builder.int(0), builder.int(1));
    let dims = [Dim::Live(live), Dim::Fixed(width)];
    builder.out("aten.slice_copy.Tensor", &[table.id, zero, start, end, one], Float32, &dims).id
}

pub(super) fn reorder(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let ranks = if name == "aten.t_copy.default" { 0..=2 } else { 0..=5 };
    let x = builder.any(cursor, ALL, ranks);
    let order = axes(cursor, x.dims.len());
    let (args, dims) = match name {
        "aten.t_copy.default" => (vec![x.id], x.dims.iter().rev().copied().collect()),
        "aten.flip.default" => {
            let some = order[..cursor.below(order.len() + 1)].iter().map(|&axis| axis as i64).collect();
            (vec![x.id, builder.ints(some)], x.dims.clone())
        }
        _ => {
            let list = builder.ints(order.iter().map(|&axis| axis as i64).collect());
            (vec![x.id, list], order.iter().map(|&axis| x.dims[axis]).collect())
        }
    };
    builder.out(name, &args, x.dtype, &dims);
}

pub(super) fn expand(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=4);
    let lead = builder.dims(cursor, 1);
    let grow = |dim: Dim, cursor: &mut Cursor<'_>| if dim == Dim::Fixed(1) { Dim::Fixed(cursor.size(false)) } else { dim };
    let mut dims: Vec<Dim> = x.dims.iter().map(|&dim| grow(dim, cursor)).collect();
    if cursor.flip() {
        dims.splice(0..0, lead);
    }
    let sizes = builder.size_list(&dims);
    let implicit = builder.bool(false);
    builder.out(name, &[x.id, sizes, implicit], x.dtype, &dims);
}

pub(super) fn repeat(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=4);
    let new = usize::from(cursor.flip());
    let times: Vec<u32> = (0..x.dims.len() + new).map(|_| cursor.of(&[1, 1, 2, 3])).collect();
    let size = |(at, &times): (usize, &u32)| match at.checked_sub(new).map(|axis| x.dims[axis]) {
        None => Dim::Fixed(times),
        Some(Dim::Fixed(size)) => Dim::Fixed(size.saturating_mul(times)),
        // Reaches past its bound where it repeats, and is refused then.
        Some(live) => live,
    };
    let dims: Vec<Dim> = times.iter().enumerate().map(size).collect();
    let repeats = builder.ints(times.iter().map(|&times| times.into()).collect());
    builder.out(name, &[x.id, repeats], x.dtype, &dims);
}

pub(super) fn cat(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 1..=4);
    let (at, axis) = axis(builder, cursor, x.dims.len());
    let count = if cursor.one_in(6) { 10 } else { 1 + cursor.below(4) };
    let mut dims = x.dims.clone();
    let Dim::Fixed(size) = dims[at] else {
        let list = builder.list(vec![x.id]);
        builder.out(name, &[list, axis], x.dtype, &dims);
        return;
    };
    let mut parts = vec![x.id];
    let mut sum = size;
    for _ in 1..count {
        let own = cursor.of(&[size, size, 1, 2, 3]);
        dims[at] = Dim::Fixed(own);
        let dtype = if cursor.one_in(5) { Float32 } else { x.dtype };
        parts.push(builder.like(cursor, dtype, &dims).id);
        sum = sum.saturating_add(own);
    }
    dims[at] = Dim::Fixed(sum);
    let list = builder.list(parts);
    builder.out(name, &[list, axis], x.dtype, &dims);
    if cursor.one_in(4) {
        // The same list once more, as files may share one.
        builder.out(name, &[list, axis], x.dtype, &dims);
    }
}

pub(super) fn split(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 1..=4);
    let (at, axis) = axis(builder, cursor, x.dims.len());
    let Dim::Fixed(mut left) = x.dims[at] else { return kept(builder, cursor, "aten.alias_copy.default") };
    let mut sizes = Vec::new();
    while sizes.len() < 9 && left > 0 {
        let size = 1 + cursor.below(left.min(8) as usize) as u32;
        sizes.push(size);
        left -= size;
    }
    sizes.push(left);
    let outs: Vec<_> = sizes
        .iter()
        .map(|&size| {
            let mut dims = x.dims.clone();
            dims[at] = Dim::Fixed(size);
            (x.dtype, dims)
        })
        .collect();
    let sizes = builder.ints(sizes.iter().map(|&size| size.into()).collect());
    builder.outs(name, &[x.id, sizes, axis], &outs);
}

pub(super) fn pad(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=4);
    let mut dims = x.dims.clone();
    let mut pads = Vec::new();
    for at in (0..dims.len()).rev().take(cursor.below(dims.len() + 1)) {
        let Dim::Fixed(size) = dims[at] else { break };
        let (before, after) = (cursor.below(4) as u32, cursor.below(3) as u32);
        dims[at] = Dim::Fixed(size.saturating_add(before + after));
        pads.extend([i64::from(before), i64::from(after)]);
    }
    if cursor.one_in(5) && pads.len() >= 2 {
        // An edge cut off.
        pads[0] -= 4;
    }
    let pads = builder.ints(pads);
    let value = number(builder, cursor, x.dtype != Float32);
    builder.out(name, &[x.id, pads, value], x.dtype, &dims);
}

pub(super) fn gather(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 1..=4);
    let (at, axis) = axis(builder, cursor, x.dims.len());
    let rows = GraphBuilder::bound(&x.dims)[at].min(if matches!(x.dims[at], Dim::Live(_)) { 1 } else { u32::MAX });
    let mut dims = x.dims.clone();
    match name {
        "aten.gather.default" => {
            dims[at] = Dim::Fixed(cursor.size(false));
            let index = builder.indices(cursor, &dims, rows);
            let sparse = builder.bool(false);
            builder.out(name, &[x.id, axis, index.id, sparse], x.dtype, &dims);
        }
        "aten.index_select.default" => {
            dims[at] = if cursor.flip() { Dim::Live(0) } else { Dim::Fixed(cursor.size(false)) };
            let index = builder.indices(cursor, &dims[at..=at], rows);
            builder.out(name, &[x.id, axis, index.id], x.dtype, &dims);
        }
        _ => {
            let rank = cursor.below(3);
            let own = builder.dims(cursor, rank);
            let index = builder.indices(cursor, &own, rows);
            let none = builder.null();
            let list = builder.list([vec![none; at], vec![index.id]].concat());
            dims.splice(at..=at, own);
            builder.out(name, &[x.id, list], x.dtype, &dims);
        }
    }
}

pub(super) fn embedding(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let (rows, width) = (cursor.of(&[3, 16, 24]), cursor.of(&[4u32, 8, 16, 32, 6]));
    let rank = cursor.below(3);
    let mut dims = builder.dims(cursor, rank);
    let args = if name == "aten.embedding.default" {
        let table = builder.constant(cursor, Float32, &[rows, width]);
        let index = builder.indices(cursor, &dims, rows);
        let (padding, no) = (builder.int(-1), builder.bool(false));
        vec![table.id, index.id, padding, no, no]
    } else {
        let group = cursor.of(&[width, width / 2]);
        let table = builder.constant_below(cursor, UInt8, &[rows, width / 2], 256);
        let scales = builder.constant(cursor, Float32, &[rows, width / group]);
        let index = builder.indices(cursor, &dims, rows);
        let (group, linear) = (builder.int(group), builder.bool(cursor.flip()));
        vec![table.id, scales.id, group, index.id, linear]
    };
    dims.push(Dim::Fixed(width));
    builder.out(name, &args, Float32, &dims);
}

pub(super) fn store(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, &[Float32, Int32], 0..=3);
    let bound = GraphBuilder::bound(&x.dims);
    let state = builder.state(cursor, x.dtype, &bound);
    builder.call(name, &[x.id, state]);
}
