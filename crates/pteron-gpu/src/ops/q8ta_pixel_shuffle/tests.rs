use crate::ir::DataType;
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, load_error, noise_bytes};

fn builder(bound: &[u32], factor: i64, out: &[u32]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Int8, bound);
    let args = [builder.float(0.031), builder.int(3), builder.float(1.0 / 0.043), builder.int(-9), builder.int(factor)];
    let to = builder.tensor(DataType::Int8, out);
    builder.call("et_vk.q8ta_pixel_shuffle.default", &[&[x], &args[..], &[to]].concat());
    builder.output(to);
    builder
}

#[test]
fn shuffled_bytes_are_exact_at_live_sizes() {
    let builder = builder(&[1, 18, 5, 4], 3, &[1, 2, 15, 12]);
    let calls = [[5, 4], [1, 3], [4, 1]].map(|[height, width]: [u32; 2]| {
        let shape = [1, 18, height, width];
        vec![HostTensor { dims: dims(&shape), data: HostData::U8(noise_bytes(1, shape.iter().product::<u32>() as usize)) }]
    });
    check(&builder, &calls, 0.0);
}

#[test]
fn channels_that_are_no_blocks_are_rejected() {
    let text = load_error(&builder(&[1, 6, 2, 2], 2, &[1, 1, 4, 4]));
    assert!(text.contains("`upscale_factor` is 2, but `input` has 6 channels"), "{text}");
    let text = load_error(&builder(&[1, 4, 2, 2], 0, &[1, 4, 2, 2]));
    assert!(text.contains("`upscale_factor` is 0, expected 1 to 4096"), "{text}");
}
