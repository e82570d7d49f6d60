//! Calls that stand together as exporters write them, so that there is something to fuse.

use pteron_format::vulkan::DataType::Float32;
use pteron_format::vulkan::ValueId;

use super::movement::table_rows;
use super::products::{attend, norm, q4_linear};
use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{Dim, GraphBuilder, Node};

const WIDTH: u32 = 32;

fn hidden(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) -> Node {
    let dims = [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(WIDTH)];
    let x = builder.like(cursor, Float32, &dims);
    if cursor.flip() { norm(builder, cursor, &x) } else { x }
}

fn view(builder: &mut GraphBuilder, x: &Node, dims: &[Dim]) -> Node {
    let sizes = builder.size_list(dims);
    builder.out("aten.view_copy.default", &[x.id, sizes], x.dtype, dims)
}

fn sum(builder: &mut GraphBuilder, a: &Node, b: &Node) -> Node {
    let one = builder.int(1);
    builder.out("aten.add.Tensor", &[a.id, b.id, one], Float32, &a.dims)
}

/// A gated feed-forward with a residual.
pub(super) fn feed_forward(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) {
    let x = hidden(builder, cursor);
    let n = cursor.of(&[32u32, 64]);
    let (gate, up) = (q4_linear(builder, cursor, &x, n), q4_linear(builder, cursor, &x, n));
    let sigmoid = builder.out("aten.sigmoid.default", &[gate.id], Float32, &gate.dims);
    let silu = builder.out("aten.mul.Tensor", &[gate.id, sigmoid.id], Float32, &gate.dims);
    let gated = builder.out("aten.mul.Tensor", &[silu.id, up.id], Float32, &gate.dims);
    let down = q4_linear(builder, cursor, &gated, WIDTH);
    if cursor.flip() {
        let residual = builder.like(cursor, Float32, &down.dims);
        sum(builder, &residual, &down);
    }
}

/// Queries, keys and values, turned by their position, and attention over a cache.
pub(super) fn self_attention(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) {
    let x = hidden(builder, cursor);
    let (heads, kv_heads, dim) = (cursor.of(&[2u32, 4]), 2, cursor.of(&[8u32, 16]));
    let head_dims = |heads| [Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads), Dim::Fixed(dim)];
    let project = |builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, heads: u32| {
        let y = q4_linear(builder, cursor, &x, heads * dim);
        view(builder, &y, &head_dims(heads))
    };
    let q = project(builder, cursor, heads);
    let [k, v] = [(); 2].map(|()| project(builder, cursor, kv_heads));
    let mut turned: [ValueId; 2] = [q.id, k.id];
    if cursor.flip() {
        let [cos, sin] = [(); 2].map(|()| table_rows(builder, cursor, dim / 2, 0));
        let outs = [(Float32, q.dims.clone()), (Float32, k.dims.clone())];
        let outs = builder.outs("et_vk.apply_rotary_emb.default", &[q.id, k.id, cos, sin], &outs);
        turned = [outs[0].id, outs[1].id];
    }
    let y = attend(builder, cursor, "sdpa_with_kv_cache.default", [turned[0], turned[1], v.id], [heads, kv_heads, dim]);
    let y = view(builder, &y, &[Dim::Fixed(1), Dim::Live(0), Dim::Fixed(heads * dim)]);
    q4_linear(builder, cursor, &y, WIDTH);
}

/// Logits of the last row.
pub(super) fn last_logits(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>) {
    let x = hidden(builder, cursor);
    let (one, minus) = (builder.int(1), builder.int(-1));
    if cursor.flip() {
        let y = q4_linear(builder, cursor, &x, 64);
        builder.out("aten.select_copy.int", &[y.id, one, minus], Float32, &[Dim::Fixed(1), Dim::Fixed(64)]);
    } else {
        let last = builder.out("aten.select_copy.int", &[x.id, one, minus], Float32, &[Dim::Fixed(1), Dim::Fixed(WIDTH)]);
        q4_linear(builder, cursor, &last, 64);
    }
}
