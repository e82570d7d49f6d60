use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, bools, check, f32s, i32s, load_error, noise};

fn builder(dtype: DataType, bound: &[u32], pad: &[i64], value: f64, out: &[u32]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(dtype, bound);
    let (pad, value) = (builder.value(Value::IntList(pad.to_vec())), builder.float(value));
    let to = builder.tensor(dtype, out);
    builder.call("aten.constant_pad_nd.default", &[x, pad, value, to]);
    builder.output(to);
    builder
}

#[test]
fn positive_and_negative_padding_agrees_at_live_shapes() {
    let calls = || [6, 1, 4, 0].map(|rows: u32| vec![f32s(&[rows, 5], noise(1, (rows * 5) as usize))]);
    check(&builder(DataType::Float32, &[6, 5], &[1, 2], 0.5, &[6, 8]), &calls(), 0.0);
    check(&builder(DataType::Float32, &[6, 5], &[0, 0, 3, 1], f64::NEG_INFINITY, &[10, 5]), &calls(), 0.0);
    check(&builder(DataType::Float32, &[6, 5], &[-1, -2, 1, 0], 7.0, &[7, 2]), &calls(), 0.0);
    check(&builder(DataType::Float32, &[], &[], 7.0, &[]), &[vec![f32s(&[], vec![3.0])]], 0.0);
}

#[test]
fn integers_and_bytes_agree() {
    check(&builder(DataType::Int32, &[3], &[2, 1], 9.0, &[6]), &[vec![i32s(&[3], vec![1, -2, 3])]], 0.0);
    for (pad, width) in [([1, 1], 7), ([3, 0], 8), ([-2, 5], 8)] {
        check(&builder(DataType::Bool, &[3, 5], &pad, 1.0, &[3, width]), &[vec![bools(&[3, 5], 1)]], 0.0);
    }
}

#[test]
fn bad_arguments_are_rejected() {
    let text = load_error(&builder(DataType::Float32, &[3], &[-2, -2], 0.0, &[3]));
    assert!(text.contains("`pad` makes [-1] of [3], which no tensor can have"), "{text}");
    let text = load_error(&builder(DataType::Float32, &[3], &[1, 1, 1, 1], 0.0, &[3]));
    assert!(text.contains("`pad` has 4 numbers, allowed are two for each of 1 dimensions"), "{text}");
}

#[test]
fn borders_of_elements_and_rolls_agree() {
    use crate::testing::case::{B, Case, F, I8, ints, x};
    for dtype in [F, I8, B] {
        let shape: &[u32] = &[3, 5, 6];
        let out = |rows: u32, columns: u32| vec![3, 5 + rows, 6 + columns];
        for name in ["aten.reflection_pad2d.default", "aten.replication_pad2d.default"] {
            for (pad, out) in [([1, 2, 3, 4], out(7, 3)), ([5, 0, 0, 1], out(1, 5)), ([0; 4], out(0, 0))] {
                Case::new(name, [x(dtype, shape), ints(&pad)], (dtype, &out)).check(&[1, 0], 0.0);
            }
        }
        for (shifts, axes) in [(vec![2, -9], vec![0, 2]), (vec![7], vec![]), (vec![1, 1], vec![-1, 2])] {
            Case::new("aten.roll.default", [x(dtype, shape), ints(&shifts), ints(&axes)], (dtype, shape))
                .check(&[1, 0], 0.0);
        }
    }
    let case = Case::new("aten.reflection_pad1d.default", [x(F, &[2, 3]), ints(&[3, 0])], (F, &[2, 6]));
    let text = load_error(&case.builder());
    assert!(text.contains("`padding` is 3 for a dimension of 3, which it must be below"), "{text}");
}
