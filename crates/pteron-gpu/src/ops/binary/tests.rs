use pteron_format::vulkan::DataType;

use crate::testing::{Sketch, check, f32s, i32s, noise};

fn sketch(name: &str, dtype: DataType, a: &[u32], b: &[u32], out: &[u32], alpha: Option<f64>) -> Sketch {
    let mut sketch = Sketch::new();
    let mut args = vec![sketch.input(dtype, a), sketch.input(dtype, b)];
    if let Some(alpha) = alpha {
        args.push(sketch.float(alpha));
    }
    args.push(sketch.tensor(dtype, out));
    sketch.call(name, &args);
    sketch.output(args[args.len() - 1]);
    sketch
}

#[test]
fn same_shapes_at_any_length() {
    let sketch = sketch("aten.add.Tensor", DataType::Float32, &[64, 37], &[64, 37], &[64, 37], Some(0.5));
    let calls = [64, 1, 7, 0, 33, 64].map(|rows: u32| {
        let count = rows as usize * 37;
        vec![f32s(&[rows, 37], noise(1, count)), f32s(&[rows, 37], noise(2, count))]
    });
    check(&sketch, &calls, 1e-6);
}

#[test]
fn broadcasting_both_ways_at_live_shapes() {
    let sketch = sketch("aten.mul.Tensor", DataType::Float32, &[3, 9, 1, 5], &[9, 4, 1], &[3, 9, 4, 5], None);
    let calls = [(3, 9), (2, 1), (1, 5)].map(|(outer, middle): (u32, u32)| {
        let a = f32s(&[outer, middle, 1, 5], noise(3, (outer * middle * 5) as usize));
        vec![a, f32s(&[middle, 4, 1], noise(4, (middle * 4) as usize))]
    });
    check(&sketch, &calls, 1e-6);
}

#[test]
fn a_single_number_and_integers() {
    let number = sketch("aten.add.Tensor", DataType::Float32, &[5, 7], &[], &[5, 7], Some(2.0));
    check(&number, &[vec![f32s(&[5, 7], noise(5, 35)), f32s(&[], vec![0.25])]], 1e-6);
    let integers = sketch("aten.add.Tensor", DataType::Int32, &[6], &[6], &[6], Some(3.0));
    check(&integers, &[vec![i32s(&[6], (0..6).collect()), i32s(&[6], (10..16).collect())]], 0.0);
}

#[test]
fn shapes_that_do_not_go_together_are_refused_and_change_nothing() {
    let sketch = sketch("aten.add.Tensor", DataType::Float32, &[8], &[8], &[8], Some(1.0));
    let loaded = sketch.load(&Default::default()).unwrap();
    let state = loaded.new_state().unwrap();
    let good = [f32s(&[3], vec![1.0, 2.0, 3.0]), f32s(&[3], vec![1.0; 3])];
    let before = crate::testing::run(&loaded, &state, &good).unwrap();
    let error = crate::testing::run(&loaded, &state, &[f32s(&[3], vec![0.0; 3]), f32s(&[4], vec![0.0; 4])]).unwrap_err();
    assert_eq!(error.to_string(), "aten.add.Tensor (call 0): `other` is [4], which cannot be broadcast with [3]");
    assert_eq!(crate::testing::run(&loaded, &state, &good).unwrap(), before);
}
