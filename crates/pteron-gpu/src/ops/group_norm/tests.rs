use super::{CHANNELS_LAST, MOMENTS, SEGMENTS, WHOLE, max_segments, split};
use crate::ir::{DataType, Value};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

fn builder(x: &[u32], groups: i64, affine: bool, channels_last: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, x);
    let channels = if channels_last { x[x.len() - 1] } else { x[1] };
    let none = builder.value(Value::Null);
    let mut parameter = |seed| if affine { builder.floats(&[channels], &noise(seed, channels as usize)) } else { none };
    let [weight, bias] = [1, 2].map(&mut parameter);
    let pixels: u32 = x.iter().product::<u32>() / x[0] / channels;
    let sizes = [x[0], channels, pixels].map(|size| builder.int(size.into()));
    let (number, eps) = (builder.int(groups), builder.float(1e-5));
    let out = builder.tensor(DataType::Float32, x);
    let rows = [x[0], u32::try_from(groups).unwrap_or(1)];
    let [mean, rstd] = [0; 2].map(|_| builder.tensor(DataType::Float32, &rows));
    let outputs = builder.value(Value::ValueList(vec![out, mean, rstd]));
    let name = if channels_last { CHANNELS_LAST } else { "aten.native_group_norm.default" };
    builder.call(name, &[&[input, weight, bias], &sizes[..], &[number, eps, outputs]].concat());
    [out, mean, rstd].into_iter().for_each(|output| builder.output(output));
    builder
}

fn values(shape: &[u32]) -> Vec<HostTensor> {
    vec![f32s(shape, noise(7, shape.iter().product::<u32>() as usize).iter().map(|value| value + 3.0).collect())]
}

#[test]
fn live_sizes_come_from_the_input() {
    for (bound, groups, shapes) in [
        (vec![3, 6, 11], 2, vec![vec![1, 6, 11], vec![3, 6, 4], vec![2, 6, 1], vec![0, 6, 4]]),
        (vec![2, 8, 5, 6], 4, vec![vec![2, 8, 1, 6], vec![1, 8, 3, 3]]),
        (vec![2, 8], 1, vec![vec![1, 8]]),
        (vec![1, 4, 70, 80], 2, vec![vec![1, 4, 70, 79], vec![1, 4, 9, 9]]),
    ] {
        let calls: Vec<_> = [vec![bound.clone()], shapes].concat().iter().map(|shape| values(shape)).collect();
        check(&builder(&bound, groups, true, false), &calls, 1e-4);
        check(&builder(&bound, groups, false, false), &calls[..1], 1e-4);
    }
}

#[test]
fn channels_may_be_last() {
    let calls: Vec<_> = [[2, 5, 6, 8], [1, 3, 3, 8]].iter().map(|shape| values(shape)).collect();
    check(&builder(&[2, 5, 6, 8], 4, true, true), &calls, 1e-4);
    check(&builder(&[1, 70, 80, 4], 2, true, true), &[values(&[1, 70, 80, 4])], 1e-4);
}

#[test]
fn few_long_groups_are_split() {
    let builder = builder(&[64, 4, 128, 128], 2, true, false);
    let mut dry_run = DryRun::new(&builder).unwrap();
    for (x, recipes) in [
        ([1, 4, 128, 128], vec![MOMENTS, SEGMENTS]),
        ([1, 4, 32, 32], vec![WHOLE]),
        ([0, 4, 128, 128], vec![]),
        ([64, 4, 128, 128], vec![MOMENTS, SEGMENTS]),
    ] {
        dry_run.call(&[(&x, &[])]).unwrap();
        assert_eq!(dry_run.recipes(0), recipes, "{x:?}");
    }
}

#[test]
fn segments_fit_the_scratch_of_any_bound() {
    for rows in [1u64, 2, 3, 7, 100, 511, 512, 5000] {
        for length in [1u32, 4095, 8192, 8193, 100_000, 5_000_000] {
            let (splits, chunk) = split(rows, length);
            assert!(splits == 1 || rows * u64::from(splits) <= max_segments(rows * u64::from(length)), "{rows} {length}");
            assert!(splits <= 256 && u64::from(splits - 1) * u64::from(chunk) < u64::from(length));
        }
    }
}

#[test]
fn groups_that_do_not_divide_are_refused() {
    let error = load_error(&builder(&[1, 6, 4], 4, true, false));
    assert!(error.contains("`group` is 4, which does not divide the 6 channels of the input"), "{error}");
    assert!(load_error(&builder(&[1, 6, 4], 0, true, false)).contains("`group` is 0, expected at least 1"));
}

#[test]
fn batches_are_normalised_by_their_own_moments() {
    use crate::testing::case::{Case, F, flag, float, none, x};
    for (shape, parameters) in
        [(vec![5, 3, 4, 6], true), (vec![2, 40, 300], false), (vec![1, 2, 90, 100], true), (vec![9, 4], true)]
    {
        let channels: &[u32] = &shape[1..2];
        let parameter = || if parameters { x(F, channels) } else { none() };
        let args = [x(F, &shape), parameter(), parameter(), flag(true), float(0.1), float(1e-5)];
        let outs: [(_, &[u32]); 3] = [(F, &shape), (F, channels), (F, channels)];
        Case::listed("aten._native_batch_norm_legit.no_stats", args, &outs).check(&[1], 1e-4);
    }
}
