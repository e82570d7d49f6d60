use super::CHANNELS_LAST;
use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

fn builder(x: &[u32], affine: bool, parameters: u32, channels_last: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, x);
    let count = parameters as usize;
    let mut parameter = |seed| builder.floats(&[parameters], &noise(seed, count));
    let [weight, bias, mean] = [1, 2, 3].map(&mut parameter);
    let variances: Vec<f32> = noise(4, count).iter().map(|value| value.abs() + 0.1).collect();
    let variance = builder.floats(&[parameters], &variances);
    let none = builder.value(Value::Null);
    let (weight, bias) = if affine { (weight, bias) } else { (none, none) };
    let (momentum, eps) = (builder.float(0.1), builder.float(1e-3));
    let out = builder.tensor(DataType::Float32, x);
    let mut args = vec![input, weight, bias, mean, variance, momentum, eps];
    if channels_last {
        args.push(out);
        builder.call(CHANNELS_LAST, &args);
    } else {
        let [first, second] = [0; 2].map(|_| builder.tensor(DataType::Float32, &[0]));
        args.push(builder.value(Value::ValueList(vec![out, first, second])));
        builder.call("aten._native_batch_norm_legit_no_training.default", &args);
    }
    builder.output(out);
    builder
}

#[test]
fn every_rank_at_every_shape() {
    for (bound, shapes) in [
        (vec![5, 12], vec![vec![1, 12], vec![3, 12], vec![0, 12]]),
        (vec![2, 6, 9], vec![vec![2, 6, 1], vec![1, 6, 7]]),
        (vec![2, 5, 4, 7], vec![vec![1, 5, 3, 3], vec![2, 5, 1, 7]]),
    ] {
        for affine in [true, false] {
            let shapes = [vec![bound.clone()], shapes.clone()].concat();
            let values = |shape: &Vec<u32>| vec![f32s(shape, noise(9, shape.iter().product::<u32>() as usize))];
            let calls: Vec<_> = shapes.iter().map(values).collect();
            check(&builder(&bound, affine, bound[1], false), &calls, 1e-5);
        }
    }
}

#[test]
fn channels_may_be_last() {
    let shapes = [[2, 3, 5, 6], [1, 1, 2, 6]];
    let calls: Vec<_> =
        shapes.iter().map(|shape| vec![f32s(shape, noise(9, shape.iter().product::<u32>() as usize))]).collect();
    check(&builder(&[2, 3, 5, 6], true, 6, true), &calls, 1e-5);
}

#[test]
fn parameters_of_another_length_are_refused() {
    let error = load_error(&builder(&[2, 5, 4], true, 6, false));
    assert!(error.contains("`weight` is [6], but the input has 5 channels"), "{error}");
    let error = load_error(&builder(&[2, 5, 4], false, 6, false));
    assert!(error.contains("`running_mean` is [6], but the input has 5 channels"), "{error}");
    assert!(load_error(&builder(&[5], true, 5, false)).contains("`input` is [5], expected 2 dimensions or more"));
}
