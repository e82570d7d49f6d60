//! Calls of operators that work element by element.

use pteron_format::vulkan::DataType::{self, Bool, Float32, Int8, Int32, UInt8};
use pteron_format::vulkan::ValueId;

use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{Dim, GraphBuilder, Node};

pub(super) const ALL: &[DataType] = &[Float32, Float32, Int32, UInt8, Int8, Bool];
const NUMBERS: &[DataType] = &[Float32, Float32, Int32];
const WHOLE: &[DataType] = &[Int32, UInt8, Int8, Bool];

/// A number as an argument: sensible, unless the graph is hostile.
pub(super) fn number(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, whole: bool) -> ValueId {
    if builder.hostile && cursor.one_in(8) {
        let value = cursor.float();
        return builder.float(value);
    }
    if whole || cursor.one_in(4) {
        let value = cursor.below(5) as i64 - 1;
        return builder.int(value);
    }
    let value = cursor.ordinary_float();
    builder.float(value)
}

pub(super) fn unary(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let integers = matches!(name, "aten.abs.default" | "aten.neg.default" | "aten.clamp.default");
    let x = builder.any(cursor, if integers { NUMBERS } else { &[Float32] }, 0..=5);
    let whole = x.dtype == Int32;
    let mut args = vec![x.id];
    match name {
        "aten.gelu.default" => args.push(builder.text(cursor.of(&["none", "tanh"]))),
        "aten.leaky_relu.default" | "aten.hardshrink.default" => args.push(number(builder, cursor, false)),
        "aten.pow.Tensor_Scalar" => {
            let exponent = cursor.of(&[2.0, 0.5, -0.5, 3.0, 0.0, 1.0, -1.0, 1.5]);
            args.push(builder.float(exponent));
        }
        "aten.hardtanh.default" | "aten.clamp.default" => {
            for _ in 0..2 {
                let open = name == "aten.clamp.default" && cursor.one_in(4);
                args.push(if open { builder.null() } else { number(builder, cursor, whole) });
            }
        }
        _ => {}
    }
    builder.out(name, &args, x.dtype, &x.dims);
}

/// A tensor that can be broadcast with another, and the sizes they have together.
fn partner(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, x: &Node, dtype: DataType) -> Node {
    let dims: Vec<Dim> = match cursor.below(5) {
        0 => Vec::new(),
        1 => x.dims[cursor.below(x.dims.len() + 1)..].to_vec(),
        2 => x.dims.iter().map(|&dim| if cursor.flip() { dim } else { Dim::Fixed(1) }).collect(),
        _ => x.dims.clone(),
    };
    builder.like(cursor, dtype, &dims)
}

pub(super) fn binary(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let bits = name.starts_with("aten.bitwise");
    let x = builder.any(cursor, if bits { WHOLE } else { NUMBERS }, 0..=5);
    let y = partner(builder, cursor, &x, x.dtype);
    let mut pair = [x.id, y.id];
    if cursor.flip() {
        pair.reverse();
    }
    let mut args = pair.to_vec();
    let mut dtype = x.dtype;
    match name {
        "aten.add.Tensor" | "aten.sub.Tensor" => args.push(number(builder, cursor, dtype == Int32)),
        "aten.div.Tensor" => dtype = Float32,
        "aten.div.Tensor_mode" => match cursor.below(3) {
            0 => {
                args.push(builder.null());
                dtype = Float32;
            }
            mode => args.push(builder.text(["", "floor", "trunc"][mode])),
        },
        _ => {}
    }
    builder.out(name, &args, dtype, &x.dims);
}

pub(super) fn compare_two(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=5);
    let y = partner(builder, cursor, &x, x.dtype);
    builder.out(name, &[x.id, y.id], Bool, &x.dims);
}

pub(super) fn compare_one(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let bits = name == "aten.bitwise_not.default";
    let x = builder.any(cursor, if bits { WHOLE } else { ALL }, 0..=5);
    let mut args = vec![x.id];
    if !matches!(name, "aten.logical_not.default" | "aten.bitwise_not.default") {
        args.push(number(builder, cursor, x.dtype != Float32));
    }
    builder.out(name, &args, if bits { x.dtype } else { Bool }, &x.dims);
}

pub(super) fn where_self(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=4);
    let y = partner(builder, cursor, &x, x.dtype);
    let condition = cursor.of(&[Bool, Bool, UInt8]);
    let condition = partner(builder, cursor, &x, condition);
    builder.out(name, &[condition.id, x.id, y.id], x.dtype, &x.dims);
}

pub(super) fn convert(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let x = builder.any(cursor, ALL, 0..=5);
    let none = builder.null();
    let to = cursor.of(ALL);
    builder.out(name, &[x.id, none, none, none, none, none, none], to, &x.dims);
}

pub(super) fn quantise(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let forward = name.contains(".quantize");
    let x = builder.any(cursor, if forward { &[Float32] } else { &[Int8, UInt8, Int32] }, 0..=4);
    let scale = cursor.of(&[0.25, 0.1, 1.0, 3.0]);
    let scale = builder.float(scale);
    let to = if forward { cursor.of(&[Int8, UInt8]) } else { Float32 };
    let (zero, least, most) = if to == UInt8 { (128, 0, 255) } else { (cursor.below(9) as i64 - 4, -128, 127) };
    let mut args = vec![x.id, scale, builder.int(zero), builder.int(least), builder.int(most), builder.null()];
    if !forward {
        args.push(builder.null());
    }
    builder.out(name, &args, to, &x.dims);
}

pub(super) fn fill(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let mut args = Vec::new();
    let dims = if name.contains("_like") {
        let x = builder.any(cursor, ALL, 0..=5);
        args.push(x.id);
        x.dims
    } else if name.contains("scalar_tensor") {
        Vec::new()
    } else {
        let rank = cursor.below(5);
        let dims = builder.dims(cursor, rank);
        args.push(builder.size_list(&dims));
        dims
    };
    if name.contains("full") || name.contains("scalar_tensor") {
        args.push(number(builder, cursor, false));
    }
    let none = builder.null();
    args.extend(std::iter::repeat_n(none, if name.contains("_like") { 5 } else { 4 }));
    let dtype = cursor.of(ALL);
    builder.out(name, &args, dtype, &dims);
}

pub(super) fn arange(builder: &mut GraphBuilder, cursor: &mut Cursor<'_>, name: &str) {
    let none = builder.null();
    let dtype = cursor.of(&[Float32, Int32]);
    let (end, step, dim) = if cursor.flip() {
        let live = cursor.below(2);
        (builder.live_size(live), 1, Dim::Live(live))
    } else {
        let (count, step) = (cursor.below(12) as u32, cursor.of(&[1i64, 2, -1, 3]));
        (builder.int(i64::from(count) * step), step, Dim::Fixed(count))
    };
    let start = builder.int(0);
    let step = if builder.hostile && cursor.one_in(6) { number(builder, cursor, false) } else { builder.int(step) };
    builder.out(name, &[start, end, step, none, none, none, none], dtype, &[dim]);
}
