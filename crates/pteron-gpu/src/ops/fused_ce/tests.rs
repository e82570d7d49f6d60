use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, check, f32s, i32s, load_error, noise};

fn builder(logits: &[u32], labels: &[u32], valid: f64) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, logits);
    let y = builder.input(DataType::Int32, labels);
    let valid = builder.float(valid);
    let outputs = [builder.tensor(DataType::Float32, &[]), builder.tensor(DataType::Float32, logits)];
    let list = builder.value(Value::ValueList(outputs.to_vec()));
    builder.call("et_vk.fused_ce.default", &[x, y, valid, list]);
    outputs.into_iter().for_each(|output| builder.output(output));
    builder
}

#[test]
fn losses_and_gradients_agree_at_live_rows() {
    for columns in [7, 1, 700] {
        let calls = [5, 1, 0, 3].map(|rows: u32| {
            let columns_i32 = i32::try_from(columns).unwrap();
            let labels =
                (0..i32::try_from(rows).unwrap()).map(|row| if row == 1 { -1 } else { row * 5 % columns_i32 }).collect();
            let logits = noise(u64::from(rows) + 1, (rows * columns) as usize).iter().map(|value| value * 20.0).collect();
            vec![f32s(&[rows, columns], logits), i32s(&[rows], labels)]
        });
        check(&builder(&[5, columns], &[5], 4.0), &calls, 1e-5);
    }
}

#[test]
fn bad_shapes_are_rejected() {
    let text = load_error(&builder(&[5, 7], &[4], 4.0));
    assert!(text.contains("`labels` is [4], expected one for each row of the logits, [5, 7]"), "{text}");
    let text = load_error(&builder(&[5, 7], &[5], 0.0));
    assert!(text.contains("`n_valid` is 0, it must be above 0"), "{text}");
}
