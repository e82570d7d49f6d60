use crate::ir::DataType;
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

fn builder(latent: &[u32; 2], scales: &[u32], group: i64) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, latent);
    let s = builder.input(DataType::Float32, scales);
    let group = builder.int(group);
    let out = builder.tensor(DataType::UInt8, &[latent[0], latent[1].div_ceil(2)]);
    builder.call("et_vk.q4gsw_requant.default", &[x, s, group, out]);
    builder.output(out);
    builder
}

#[test]
fn codes_are_exact_at_live_rows() {
    for (columns, group) in [(16, 8), (13, 4), (6, 32)] {
        let groups = columns / group + u32::from(columns % group != 0);
        let calls = [7, 1, 4].map(|rows: u32| {
            let mut scales: Vec<f32> = noise(2, (groups * rows) as usize).iter().map(|value| value / 3.0).collect();
            // A scale of 0 has only the code of 0.
            scales[0] = 0.0;
            vec![f32s(&[rows, columns], noise(1, (rows * columns) as usize)), f32s(&[groups, rows], scales)]
        });
        check(&builder(&[7, columns], &[groups, 7], group.into()), &calls, 0.0);
    }
}

#[test]
fn missing_scales_are_rejected() {
    let text = load_error(&builder(&[6, 16], &[1, 6], 8));
    assert!(text.contains("`scales` is [1, 6], expected [2, 6] or more for [6, 16]"), "{text}");
    let text = load_error(&builder(&[6, 16], &[2, 6], 0));
    assert!(text.contains("`group_size` is 0, expected at least 1"), "{text}");
}
