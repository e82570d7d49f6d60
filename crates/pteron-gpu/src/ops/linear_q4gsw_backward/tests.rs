use crate::ir::DataType;
use crate::testing::{GraphBuilder, check, f32s, load_error, noise, noise_bytes};

fn builder(rows: u32, n: u32, k: u32, group: u32) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let d_out = builder.input(DataType::Float32, &[rows, n]);
    let weight = builder.constant(DataType::UInt8, &[n, k / 2], noise_bytes(1, (n * k / 2) as usize));
    let scales = builder.floats(&[k / group, n], &noise(2, (k / group * n) as usize));
    let group = builder.int(group.into());
    let out = builder.tensor(DataType::Float32, &[rows, k]);
    builder.call("et_vk.linear_q4gsw_backward.default", &[d_out, weight, scales, group, out]);
    builder.output(out);
    builder
}

#[test]
fn gradients_agree_at_live_rows() {
    for (rows, n, k, group) in [(9, 12, 32, 32), (70, 36, 96, 32), (5, 7, 24, 8), (2, 3, 12, 4)] {
        let calls = [rows, 1, 2, 0].map(|rows: u32| vec![f32s(&[rows, n], noise(3, (rows * n) as usize))]);
        check(&builder(rows, n, k, group), &calls, 1e-4);
    }
}

#[test]
fn too_many_columns_are_rejected() {
    let mut builder = builder(4, 8, 32, 32);
    let input = builder.graph.inputs[0];
    let Some(crate::ir::Value::Tensor(d_out)) = builder.graph.values.get_mut(input.index()) else {
        unreachable!("an input")
    };
    d_out.dims = vec![4, 9];
    let text = load_error(&builder);
    assert!(text.contains("`d_out` is [4, 9], but the weights have 8 rows"), "{text}");
}
