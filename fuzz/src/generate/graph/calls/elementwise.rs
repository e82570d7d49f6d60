//! Calls of operators that work element by element.

use pteron_format::vulkan::DataType::{self, Bool, Float32, Int8, Int32, UInt8};
use pteron_format::vulkan::ValueId;

use crate::generate::cursor::Cursor;
use crate::generate::graph::sketch::{Dim, Node, Sketch};

pub(super) const ALL: &[DataType] = &[Float32, Float32, Int32, UInt8, Int8, Bool];
const NUMBERS: &[DataType] = &[Float32, Float32, Int32];
const WHOLE: &[DataType] = &[Int32, UInt8, Int8, Bool];

/// A number as an argument: sensible, unless the graph is hostile.
pub(super) fn number(sketch: &mut Sketch, cursor: &mut Cursor<'_>, whole: bool) -> ValueId {
    if sketch.hostile && cursor.one_in(8) {
        let value = cursor.float();
        return sketch.float(value);
    }
    if whole || cursor.one_in(4) {
        let value = cursor.below(5) as i64 - 1;
        return sketch.int(value);
    }
    let value = cursor.ordinary_float();
    sketch.float(value)
}

pub(super) fn unary(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let integers = matches!(name, "aten.abs.default" | "aten.neg.default" | "aten.clamp.default");
    let x = sketch.any(cursor, if integers { NUMBERS } else { &[Float32] }, 0..=5);
    let whole = x.dtype == Int32;
    let mut args = vec![x.id];
    match name {
        "aten.gelu.default" => args.push(sketch.text(cursor.of(&["none", "tanh"]))),
        "aten.leaky_relu.default" | "aten.hardshrink.default" => args.push(number(sketch, cursor, false)),
        "aten.pow.Tensor_Scalar" => {
            let exponent = cursor.of(&[2.0, 0.5, -0.5, 3.0, 0.0, 1.0, -1.0, 1.5]);
            args.push(sketch.float(exponent));
        }
        "aten.hardtanh.default" | "aten.clamp.default" => {
            for _ in 0..2 {
                let open = name == "aten.clamp.default" && cursor.one_in(4);
                args.push(if open { sketch.null() } else { number(sketch, cursor, whole) });
            }
        }
        _ => {}
    }
    sketch.out(name, &args, x.dtype, &x.dims);
}

/// A tensor that can be broadcast with another, and the sizes they have together.
fn partner(sketch: &mut Sketch, cursor: &mut Cursor<'_>, x: &Node, dtype: DataType) -> Node {
    let dims: Vec<Dim> = match cursor.below(5) {
        0 => Vec::new(),
        1 => x.dims[cursor.below(x.dims.len() + 1)..].to_vec(),
        2 => x.dims.iter().map(|&dim| if cursor.flip() { dim } else { Dim::Fixed(1) }).collect(),
        _ => x.dims.clone(),
    };
    sketch.like(cursor, dtype, &dims)
}

pub(super) fn binary(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let bits = name.starts_with("aten.bitwise");
    let x = sketch.any(cursor, if bits { WHOLE } else { NUMBERS }, 0..=5);
    let y = partner(sketch, cursor, &x, x.dtype);
    let mut pair = [x.id, y.id];
    if cursor.flip() {
        pair.reverse();
    }
    let mut args = pair.to_vec();
    let mut dtype = x.dtype;
    match name {
        "aten.add.Tensor" | "aten.sub.Tensor" => args.push(number(sketch, cursor, dtype == Int32)),
        "aten.div.Tensor" => dtype = Float32,
        "aten.div.Tensor_mode" => match cursor.below(3) {
            0 => {
                args.push(sketch.null());
                dtype = Float32;
            }
            mode => args.push(sketch.text(["", "floor", "trunc"][mode])),
        },
        _ => {}
    }
    sketch.out(name, &args, dtype, &x.dims);
}

pub(super) fn compare_two(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, ALL, 0..=5);
    let y = partner(sketch, cursor, &x, x.dtype);
    sketch.out(name, &[x.id, y.id], Bool, &x.dims);
}

pub(super) fn compare_one(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let bits = name == "aten.bitwise_not.default";
    let x = sketch.any(cursor, if bits { WHOLE } else { ALL }, 0..=5);
    let mut args = vec![x.id];
    if !matches!(name, "aten.logical_not.default" | "aten.bitwise_not.default") {
        args.push(number(sketch, cursor, x.dtype != Float32));
    }
    sketch.out(name, &args, if bits { x.dtype } else { Bool }, &x.dims);
}

pub(super) fn where_self(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, ALL, 0..=4);
    let y = partner(sketch, cursor, &x, x.dtype);
    let condition = cursor.of(&[Bool, Bool, UInt8]);
    let condition = partner(sketch, cursor, &x, condition);
    sketch.out(name, &[condition.id, x.id, y.id], x.dtype, &x.dims);
}

pub(super) fn convert(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let x = sketch.any(cursor, ALL, 0..=5);
    let none = sketch.null();
    let to = cursor.of(ALL);
    sketch.out(name, &[x.id, none, none, none, none, none, none], to, &x.dims);
}

pub(super) fn quantise(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let forward = name.contains(".quantize");
    let x = sketch.any(cursor, if forward { &[Float32] } else { &[Int8, UInt8, Int32] }, 0..=4);
    let scale = cursor.of(&[0.25, 0.1, 1.0, 3.0]);
    let scale = sketch.float(scale);
    let to = if forward { cursor.of(&[Int8, UInt8]) } else { Float32 };
    let (zero, least, most) = if to == UInt8 { (128, 0, 255) } else { (cursor.below(9) as i64 - 4, -128, 127) };
    let mut args = vec![x.id, scale, sketch.int(zero), sketch.int(least), sketch.int(most), sketch.null()];
    if !forward {
        args.push(sketch.null());
    }
    sketch.out(name, &args, to, &x.dims);
}

pub(super) fn fill(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let mut args = Vec::new();
    let dims = if name.contains("_like") {
        let x = sketch.any(cursor, ALL, 0..=5);
        args.push(x.id);
        x.dims
    } else if name.contains("scalar_tensor") {
        Vec::new()
    } else {
        let rank = cursor.below(5);
        let dims = sketch.dims(cursor, rank);
        args.push(sketch.size_list(&dims));
        dims
    };
    if name.contains("full") || name.contains("scalar_tensor") {
        args.push(number(sketch, cursor, false));
    }
    let none = sketch.null();
    args.extend(std::iter::repeat_n(none, if name.contains("_like") { 5 } else { 4 }));
    let dtype = cursor.of(ALL);
    sketch.out(name, &args, dtype, &dims);
}

pub(super) fn arange(sketch: &mut Sketch, cursor: &mut Cursor<'_>, name: &str) {
    let none = sketch.null();
    let dtype = cursor.of(&[Float32, Int32]);
    let (end, step, dim) = if cursor.flip() {
        let live = cursor.below(2);
        (sketch.live_size(live), 1, Dim::Live(live))
    } else {
        let (count, step) = (cursor.below(12) as u32, cursor.of(&[1i64, 2, -1, 3]));
        (sketch.int(i64::from(count) * step), step, Dim::Fixed(count))
    };
    let start = sketch.int(0);
    let step = if sketch.hostile && cursor.one_in(6) { number(sketch, cursor, false) } else { sketch.int(step) };
    sketch.out(name, &[start, end, step, none, none, none, none], dtype, &[dim]);
}
