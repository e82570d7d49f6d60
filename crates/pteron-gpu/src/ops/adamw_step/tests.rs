use crate::ir::{DataType, Value, ValueId};
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

const NUMBERS: [f64; 7] = [1e-3, 0.9, 0.999, 1e-8, 0.01, 0.1, 0.001];

fn builder(bounds: [&[u32]; 4], numbers: [f64; 7], in_place: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let inputs = bounds.map(|bound| builder.input(DataType::Float32, bound));
    let numbers = numbers.map(|number| builder.float(number));
    let outputs: Vec<ValueId> = if in_place {
        inputs[..3].to_vec()
    } else {
        bounds[..3].iter().map(|bound| builder.tensor(DataType::Float32, bound)).collect()
    };
    let list = builder.value(Value::ValueList(outputs.clone()));
    builder.call("et_vk.adamw_step.default", &[&inputs[..], &numbers[..], &[list]].concat());
    outputs.into_iter().for_each(|output| builder.output(output));
    builder
}

#[test]
fn steps_agree_at_live_shapes_in_place_and_not() {
    let calls = [6, 1, 0, 4].map(|rows: u32| {
        let values = |seed: u64| noise(seed, rows as usize * 7);
        let squares = values(3).iter().map(|value| value * value).collect();
        vec![
            f32s(&[rows, 7], values(1)),
            f32s(&[rows, 7], values(2)),
            f32s(&[rows, 7], squares),
            f32s(&[rows, 7], values(4)),
        ]
    });
    for in_place in [false, true] {
        check(&builder([&[6, 7]; 4], NUMBERS, in_place), &calls, 1e-5);
    }
}

#[test]
fn bad_numbers_and_shapes_are_rejected() {
    let text = load_error(&builder([&[6, 7], &[6, 7], &[6, 7], &[7, 6]], NUMBERS, false));
    assert!(text.contains("`grad` is [7, 6], but `param` is [6, 7]"), "{text}");
    let mut numbers = NUMBERS;
    numbers[5] = 0.0;
    let text = load_error(&builder([&[6, 7]; 4], numbers, false));
    assert!(text.contains("`bias_correction1` is 0, which divides"), "{text}");
}
