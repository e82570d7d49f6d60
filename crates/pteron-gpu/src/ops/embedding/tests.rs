use crate::ir::{DataType, Value, ValueId};
use crate::live::TensorId;
use crate::testing::{Dry, Sketch, check, dims, i32s, noise, refusal};

fn sketch(table: &[u32], bound: &[u32], out: &[u32]) -> (Sketch, ValueId) {
    let mut sketch = Sketch::new();
    let values = noise(5, table.iter().product::<u32>() as usize);
    let weight = sketch.floats(table, &values);
    let indices = sketch.input(DataType::Int32, bound);
    let (padding, no) = (sketch.int(-1), sketch.value(Value::Bool(false)));
    let out = sketch.tensor(DataType::Float32, out);
    sketch.call("aten.embedding.default", &[weight, indices, padding, no, no, out]);
    sketch.output(out);
    (sketch, out)
}

#[test]
fn rows_by_index_agree() {
    for width in [1, 3, 4, 16, 130, 600] {
        let (sketch, _) = sketch(&[11, width], &[2, 7], &[2, 7, width]);
        let ids = |count: u32| (3..).step_by(7).map(|id| id % 11).take(count as usize).collect();
        let call = |shape: [u32; 2]| vec![i32s(&shape, ids(shape[0] * shape[1]))];
        check(&sketch, &[[2, 7], [1, 1], [2, 3], [0, 7], [1, 7], [2, 7]].map(call), 0.0);
    }
}

#[test]
fn single_index_agrees() {
    let (sketch, _) = sketch(&[5, 4], &[], &[4]);
    check(&sketch, &[vec![i32s(&[], vec![4])], vec![i32s(&[], vec![0])]], 0.0);
}

#[test]
fn computed_indices_are_clamped() {
    let mut sketch = Sketch::new();
    let weight = sketch.floats(&[5, 4], &noise(5, 20));
    let (x, none, indices) =
        (sketch.input(DataType::Int32, &[6]), sketch.value(Value::Null), sketch.tensor(DataType::Int32, &[6]));
    let (padding, no) = (sketch.int(-1), sketch.value(Value::Bool(false)));
    let out = sketch.tensor(DataType::Float32, &[6, 4]);
    sketch.call("aten.clone.default", &[x, none, indices]);
    sketch.call("aten.embedding.default", &[weight, indices, padding, no, no, out]);
    sketch.output(out);
    check(&sketch, &[vec![i32s(&[6], vec![-1, 0, 4, 5, i32::MAX, i32::MIN])]], 0.0);
}

#[test]
fn recipe_follows_the_row_width() {
    for (width, recipe) in [(16, 0), (6, 1)] {
        let (sketch, out) = sketch(&[5, width], &[9], &[9, width]);
        let mut dry = Dry::new(&sketch).unwrap();
        assert_eq!(dry.recipes(0), [recipe]);
        dry.call(&[(&[3], &[0; 3])]).unwrap();
        assert_eq!(dry.dims(out), [3, width]);
        dry.call(&[(&[0], &[])]).unwrap();
        assert_eq!((dry.dims(out), dry.recipes(0)), (vec![0, width], vec![]));
        let index = dry.graph.nodes[0].flow.index_inputs[0];
        assert_eq!((index.indices, index.range(&dims(&[5, width]))), (TensorId(1), (0, 5)));
    }
}

#[test]
fn bad_arguments_are_rejected() {
    assert!(refusal(&sketch(&[5], &[2], &[2, 5]).0).contains("`weight` is [5], expected rows and columns"));
    assert!(refusal(&sketch(&[0, 4], &[2], &[2, 4]).0).contains("`weight` is [0, 4], with zero elements"));
    assert!(refusal(&sketch(&[2, 4], &[1; 8], &[1; 8]).0).contains("too many dimensions"));
}
