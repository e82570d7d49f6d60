use crate::ir::{DataType, Value};
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

const NEAREST: &str = "aten.upsample_nearest2d.vec";
const BILINEAR: &str = "aten.upsample_bilinear2d.vec";

fn upsample(name: &str, x: &[u32], size: Value, corners: bool, factors: Value, out: [u32; 2]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, x);
    let size = builder.value(size);
    let corners = builder.value(Value::Bool(corners));
    let factors = builder.value(factors);
    let to = builder.tensor(DataType::Float32, &[x[0], x[1], out[0], out[1]]);
    let args = if name == BILINEAR { vec![input, size, corners, factors, to] } else { vec![input, size, factors, to] };
    builder.call(name, &args);
    builder.output(to);
    builder
}

fn images(shapes: &[[u32; 4]]) -> Vec<Vec<HostTensor>> {
    shapes.iter().map(|shape| vec![f32s(shape, noise(1, shape.iter().product::<u32>() as usize))]).collect()
}

#[test]
fn sizes_and_factors_agree_at_live_shapes() {
    let calls = images(&[[2, 3, 5, 7], [1, 3, 2, 7], [2, 3, 1, 1], [1, 3, 4, 3]]);
    for name in [NEAREST, BILINEAR] {
        for corners in [false, true] {
            let size = || Value::IntList(vec![9, 4]);
            check(&upsample(name, &[2, 3, 5, 7], size(), corners, Value::Null, [9, 4]), &calls, 1e-5);
            for (factors, out) in [([2.0, 3.0], [10, 21]), ([1.5, 0.5], [7, 3])] {
                let factors = Value::DoubleList(factors.to_vec());
                check(&upsample(name, &[2, 3, 5, 7], Value::Null, corners, factors, out), &calls, 1e-5);
            }
        }
    }
}

#[test]
fn channels_may_be_last() {
    for corners in [false, true] {
        let mut builder = GraphBuilder::new();
        let input = builder.input(DataType::Float32, &[2, 5, 7, 3]);
        let size = builder.value(Value::IntList(vec![9, 4]));
        let (corners, none) = (builder.value(Value::Bool(corners)), builder.value(Value::Null));
        let out = builder.tensor(DataType::Float32, &[2, 9, 4, 3]);
        builder.call(super::CHANNELS_LAST, &[input, size, corners, none, out]);
        builder.output(out);
        check(&builder, &images(&[[2, 5, 7, 3], [1, 2, 1, 3]]), 1e-5);
    }
}

#[test]
fn bad_sizes_are_rejected_by_name_and_numbers() {
    let text = load_error(&upsample(NEAREST, &[1, 1, 2, 2], Value::IntList(vec![-3, 4]), false, Value::Null, [4, 4]));
    assert!(text.contains("`output_size` is -3, which no image can have"), "{text}");
    let text = load_error(&upsample(NEAREST, &[1, 1, 2, 2], Value::Null, false, Value::DoubleList(vec![0.0, 2.0]), [4, 4]));
    assert!(text.contains("`scale_factors` has 0, each must be above 0"), "{text}");
    let text = load_error(&upsample(NEAREST, &[1, 1, 2, 2], Value::Null, false, Value::Null, [4, 4]));
    assert!(text.contains("`output_size` and `scale_factors` are both given or both None"), "{text}");
    let text = load_error(&upsample(BILINEAR, &[1, 2, 2], Value::IntList(vec![3, 4]), false, Value::Null, [3, 4]));
    assert!(text.contains("`input` is [1, 2, 2], expected four dimensions"), "{text}");
}

fn sampler(x: &[u32], grid: &[u32], modes: [i64; 2], corners: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, x);
    let points = builder.input(DataType::Float32, grid);
    let args = [builder.int(modes[0]), builder.int(modes[1]), builder.value(Value::Bool(corners))];
    let to = builder.tensor(DataType::Float32, &[x[0], x[1], grid[1], grid[2]]);
    builder.call("aten.grid_sampler_2d.default", &[&[input, points], &args[..], &[to]].concat());
    builder.output(to);
    builder
}

#[test]
fn points_inside_and_outside_agree() {
    let points = |shape: &[u32]| {
        let count = shape.iter().product::<u32>() as usize;
        f32s(shape, noise(2, count).iter().map(|value| value * 2.7).collect())
    };
    for (interpolation, padding) in (0..3).flat_map(|interpolation| (0..3).map(move |padding| (interpolation, padding))) {
        for corners in [false, true] {
            let builder = sampler(&[2, 3, 5, 7], &[2, 4, 6, 2], [interpolation, padding], corners);
            let calls = [(2, 4, 6), (1, 1, 6), (2, 3, 1)].map(|(batch, rows, columns): (u32, u32, u32)| {
                let x = f32s(&[batch, 3, 5, 7], noise(1, batch as usize * 105));
                vec![x, points(&[batch, rows, columns, 2])]
            });
            check(&builder, &calls, 1e-4);
        }
    }
    let text = load_error(&sampler(&[2, 3, 5, 7], &[1, 4, 6, 2], [0, 1], true));
    assert!(text.contains("`grid` is [1, 4, 6, 2], expected [2, height, width, 2]"), "{text}");
    let text = load_error(&sampler(&[2, 3, 5, 7], &[2, 4, 6, 2], [3, 1], true));
    assert!(text.contains("`interpolation_mode` is 3, supported: 0 (bilinear), 1 (nearest)"), "{text}");
    let text = load_error(&sampler(&[2, 3, 5, 7], &[2, 4, 6, 2], [0, -1], true));
    assert!(text.contains("`padding_mode` is -1, supported: 0 (zeros), 1 (border)"), "{text}");
}

#[test]
fn priors_follow_live_sizes() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[2, 5, 7]);
    let args = [builder.int(8), builder.float(0.5), builder.tensor(DataType::Float32, &[35, 2])];
    builder.call("et_vk.grid_priors.default", &[x, args[0], args[1], args[2]]);
    builder.output(args[2]);
    let calls = [[5, 7], [1, 3], [5, 0]]
        .map(|[height, width]: [u32; 2]| vec![f32s(&[2, height, width], noise(1, (2 * height * width) as usize))]);
    check(&builder, &calls, 0.0);
}
