use crate::ir::DataType;
use crate::testing::{Sketch, bools, check, f32s, i32s, noise};

fn sketch(dtypes: [DataType; 3], bounds: [&[u32]; 3], out: &[u32]) -> Sketch {
    let mut sketch = Sketch::new();
    let condition = sketch.input(DataType::Bool, bounds[0]);
    let values = [1, 2].map(|index| sketch.input(dtypes[index - 1], bounds[index]));
    let out = sketch.tensor(dtypes[2], out);
    sketch.call("aten.where.self", &[condition, values[0], values[1], out]);
    sketch.output(out);
    sketch
}

#[test]
fn broadcasting_agrees_vectorised_and_element_by_element() {
    let f = DataType::Float32;
    for width in [8u32, 5] {
        let sketch = sketch([f; 3], [&[6, 1], &[6, width], &[1, width]], &[6, width]);
        let calls = [6, 1, 4, 0].map(|rows: u32| {
            let values = f32s(&[rows, width], noise(1, (rows * width) as usize));
            vec![bools(&[rows, 1], 2), values, f32s(&[1, width], noise(3, width as usize))]
        });
        check(&sketch, &calls, 0.0);
    }
}

#[test]
fn nan_is_kept_and_dtypes_are_promoted() {
    let (f, i) = (DataType::Float32, DataType::Int32);
    let odd = vec![f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY, 1.0];
    let same = sketch([f; 3], [&[5]; 3], &[5]);
    check(&same, &[vec![bools(&[5], 1), f32s(&[5], odd.clone()), f32s(&[5], vec![f32::NAN; 5])]], 0.0);
    let mixed = sketch([f, i, f], [&[5]; 3], &[5]);
    check(&mixed, &[vec![bools(&[5], 1), f32s(&[5], odd), i32s(&[5], vec![1, -2, 3, -4, 5])]], 0.0);
    let integers = sketch([i; 3], [&[5], &[], &[5]], &[5]);
    check(&integers, &[vec![bools(&[5], 1), i32s(&[], vec![i32::MIN]), i32s(&[5], vec![i32::MAX; 5])]], 0.0);
    let truths = sketch([DataType::Bool; 3], [&[5]; 3], &[5]);
    check(&truths, &[vec![bools(&[5], 1), bools(&[5], 2), bools(&[5], 3)]], 0.0);
}
