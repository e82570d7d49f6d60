use crate::ir::DataType;
use crate::testing::{GraphBuilder, bools, check, f32s, i32s, noise};

fn builder(dtypes: [DataType; 3], bounds: [&[u32]; 3], out: &[u32]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let condition = builder.input(DataType::Bool, bounds[0]);
    let values = [1, 2].map(|index| builder.input(dtypes[index - 1], bounds[index]));
    let out = builder.tensor(dtypes[2], out);
    builder.call("aten.where.self", &[condition, values[0], values[1], out]);
    builder.output(out);
    builder
}

#[test]
fn broadcasting_agrees_vectorised_and_element_by_element() {
    let f = DataType::Float32;
    for width in [8u32, 5] {
        let builder = builder([f; 3], [&[6, 1], &[6, width], &[1, width]], &[6, width]);
        let calls = [6, 1, 4, 0].map(|rows: u32| {
            let values = f32s(&[rows, width], noise(1, (rows * width) as usize));
            vec![bools(&[rows, 1], 2), values, f32s(&[1, width], noise(3, width as usize))]
        });
        check(&builder, &calls, 0.0);
    }
}

#[test]
fn nan_is_kept_and_dtypes_are_promoted() {
    let (f, i) = (DataType::Float32, DataType::Int32);
    let odd = vec![f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY, 1.0];
    let same = builder([f; 3], [&[5]; 3], &[5]);
    check(&same, &[vec![bools(&[5], 1), f32s(&[5], odd.clone()), f32s(&[5], vec![f32::NAN; 5])]], 0.0);
    let mixed = builder([f, i, f], [&[5]; 3], &[5]);
    check(&mixed, &[vec![bools(&[5], 1), f32s(&[5], odd), i32s(&[5], vec![1, -2, 3, -4, 5])]], 0.0);
    let integers = builder([i; 3], [&[5], &[], &[5]], &[5]);
    check(&integers, &[vec![bools(&[5], 1), i32s(&[], vec![i32::MIN]), i32s(&[5], vec![i32::MAX; 5])]], 0.0);
    let truths = builder([DataType::Bool; 3], [&[5]; 3], &[5]);
    check(&truths, &[vec![bools(&[5], 1), bools(&[5], 2), bools(&[5], 3)]], 0.0);
}
