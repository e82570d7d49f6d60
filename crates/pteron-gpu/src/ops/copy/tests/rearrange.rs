//! Sliding windows, pixel shuffles and repeated elements.

use super::{TYPES, inputs, one};
use crate::ir::{DataType, Value};
use crate::testing::{check, load_error};

fn unfold(dtype: DataType, bound: &[u32], how: [i64; 3], out: &[u32]) -> crate::testing::GraphBuilder {
    one("aten.unfold_copy.default", dtype, bound, &how.map(Value::Int), out).0
}

#[test]
fn windows_agree_at_live_shapes() {
    for dtype in TYPES {
        let calls = inputs(dtype, &[&[3, 12], &[1, 4], &[2, 7], &[0, 12]]);
        check(&unfold(dtype, &[3, 12], [1, 4, 2], &[3, 5, 4]), &calls, 0.0);
        check(&unfold(dtype, &[3, 12], [0, 1, 1], &[3, 12, 1]), &inputs(dtype, &[&[3, 12], &[1, 5]]), 0.0);
    }
    let text = load_error(&unfold(DataType::Float32, &[3, 12], [1, 13, 1], &[3, 1, 13]));
    assert!(text.contains("`size` is 13, but dimension 1 has 12 elements"), "{text}");
    let text = load_error(&unfold(DataType::Float32, &[3, 12], [1, 3, 0], &[3, 1, 3]));
    assert!(text.contains("`step` is 0, it must be at least 1"), "{text}");
}

#[test]
fn pixels_are_shuffled_at_live_shapes() {
    let shuffle = |dtype, bound: &[u32], factor, out: &[u32]| {
        one("aten.pixel_shuffle.default", dtype, bound, &[Value::Int(factor)], out).0
    };
    for dtype in TYPES {
        let calls = inputs(dtype, &[&[2, 18, 5, 4], &[1, 9, 1, 3], &[2, 18, 4, 1]]);
        check(&shuffle(dtype, &[2, 18, 5, 4], 3, &[2, 2, 15, 12]), &calls, 0.0);
    }
    let text = load_error(&shuffle(DataType::Float32, &[1, 6, 2, 2], 2, &[1, 1, 4, 4]));
    assert!(text.contains("`upscale_factor` is 2, but `self` has 6 channels, no multiple of its square"), "{text}");
}

#[test]
fn elements_are_repeated_at_live_shapes() {
    let repeat = |dtype, dim: Value, out: &[u32]| {
        one("aten.repeat_interleave.self_int", dtype, &[3, 5], &[Value::Int(3), dim, Value::Null], out).0
    };
    for dtype in TYPES {
        let calls = inputs(dtype, &[&[3, 5], &[1, 5], &[2, 1], &[0, 5]]);
        check(&repeat(dtype, Value::Int(0), &[9, 5]), &calls, 0.0);
        check(&repeat(dtype, Value::Int(-1), &[3, 15]), &calls, 0.0);
        check(&repeat(dtype, Value::Null, &[45]), &calls, 0.0);
    }
    let text = load_error(&repeat(DataType::Float32, Value::Int(2), &[3, 5]));
    assert!(text.contains("`dim` is 2, but the tensor has 2 dimensions"), "{text}");
}
