use pteron_format::vulkan::DataType;

use super::*;
use crate::testing::{Dry, Sketch, check, f32s, noise, refusal};

fn sketch(name: &str, bound: &[u32]) -> Sketch {
    let mut sketch = Sketch::new();
    let (x, out) = (sketch.input(DataType::Float32, bound), sketch.tensor(DataType::Float32, bound));
    sketch.call(name, &[x, out]);
    sketch.output(out);
    sketch
}

#[test]
fn the_table_is_what_the_registry_names() {
    assert!(DEF.names.iter().copied().eq(TABLE.iter().map(|row| row.name)));
    for (row, code) in TABLE.iter().zip(0..) {
        assert_eq!(row.code, code, "{}", row.name);
    }
}

#[test]
fn every_row_agrees_at_every_shape() {
    let positive = ["aten.sqrt.default", "aten.rsqrt.default"];
    for row in TABLE {
        let calls = [&[3, 37][..], &[1, 1], &[0, 37], &[2, 5], &[3, 37]].map(|shape| {
            let values = noise(7, shape.iter().product::<u32>() as usize);
            let values = values.into_iter().map(|x| if positive.contains(&row.name) { x.abs() + 0.01 } else { x * 20.0 });
            // Exponentials are compared where they are not huge.
            let values = values.map(|x| if row.name == "aten.exp.default" { x / 4.0 } else { x });
            vec![f32s(shape, values.collect())]
        });
        check(&sketch(row.name, &[3, 37]), &calls, 1e-5);
    }
}

#[test]
fn sigmoid_holds_at_the_ends() {
    let ends = vec![f32::MIN, -1e4, -100.0, -88.0, -0.0, 0.0, 17.0, 88.0, 100.0, 1e4, f32::MAX];
    check(&sketch("aten.sigmoid.default", &[11]), &[vec![f32s(&[11], ends)]], 1e-6);
}

#[test]
fn a_single_number_and_nothing() {
    check(&sketch("aten.sigmoid.default", &[]), &[vec![f32s(&[], vec![0.5])]], 1e-6);
    let mut dry = Dry::new(&sketch("aten.relu.default", &[5, 1024])).unwrap();
    assert_eq!(dry.planned.plans()[0].steps[0].grid.groups(), 5);
    dry.call(&[(&[0, 1024], &[])]).unwrap();
    assert_eq!(dry.recipes(0), [0usize; 0]);
}

#[test]
fn other_elements_are_refused() {
    let mut sketch = Sketch::new();
    let (x, out) = (sketch.input(DataType::Int32, &[4]), sketch.tensor(DataType::Int32, &[4]));
    sketch.call("aten.relu.default", &[x, out]);
    assert!(refusal(&sketch).contains("`self` has elements I32"));
}
