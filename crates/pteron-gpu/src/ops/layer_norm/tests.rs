use crate::ir::{DataType, Value};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

struct Case<'a> {
    bound: &'a [u32],
    normalized: &'a [u32],
    weight: bool,
    bias: bool,
    eps: f64,
}

fn builder(case: &Case<'_>) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let x = builder.input(float, case.bound);
    let sizes = builder.value(Value::IntList(case.normalized.iter().map(|&size| size.into()).collect()));
    let count = case.normalized.iter().product::<u32>() as usize;
    let mut parameter = |given: bool, seed| {
        if given { builder.floats(case.normalized, &noise(seed, count)) } else { builder.value(Value::Null) }
    };
    let (weight, bias) = (parameter(case.weight, 5), parameter(case.bias, 6));
    let eps = builder.float(case.eps);
    let kept = case.bound.len().saturating_sub(case.normalized.len());
    let moments: Vec<u32> = case.bound.iter().enumerate().map(|(axis, &size)| if axis < kept { size } else { 1 }).collect();
    let outputs = [case.bound, &moments, &moments].map(|dims| builder.tensor(float, dims));
    let list = builder.value(Value::ValueList(outputs.to_vec()));
    builder.call("aten.native_layer_norm.default", &[x, sizes, weight, bias, eps, list]);
    outputs.into_iter().for_each(|output| builder.output(output));
    builder
}

fn rows(bound: &[u32], normalized: &[u32]) -> GraphBuilder {
    builder(&Case { bound, normalized, weight: true, bias: true, eps: 1e-5 })
}

fn noisy(shape: &[u32]) -> Vec<HostTensor> {
    let count = shape.iter().product::<u32>();
    vec![f32s(shape, noise(count.into(), count as usize))]
}

#[test]
fn rows_of_any_width_agree() {
    for width in [2, 3, 4, 64, 130, 256, 1023, 1028, 4100] {
        let calls = [9, 1, 0, 4, 9].map(|rows| noisy(&[1, rows, width]));
        check(&rows(&[1, 9, width], &[width]), &calls, 2e-5);
    }
}

#[test]
fn optional_weight_and_bias_agree() {
    for (weight, bias) in [(false, false), (true, false), (false, true), (true, true)] {
        for width in [12, 13] {
            let case = Case { bound: &[5, width], normalized: &[width], weight, bias, eps: 1e-5 };
            check(&builder(&case), &[noisy(&[5, width]), noisy(&[2, width])], 2e-5);
        }
    }
}

#[test]
fn several_normalised_dimensions_agree() {
    check(&rows(&[7], &[7]), &[noisy(&[7])], 2e-5);
    check(&rows(&[4, 3, 6], &[4, 3, 6]), &[noisy(&[4, 3, 6])], 2e-5);
    check(&rows(&[5, 4, 3, 2], &[3, 2]), &[[5, 4], [1, 1], [0, 4], [3, 2]].map(|[a, b]| noisy(&[a, b, 3, 2])), 2e-5);
    check(&rows(&[2, 3, 1, 5, 4], &[1, 5, 4]), &[noisy(&[2, 3, 1, 5, 4]), noisy(&[1, 3, 1, 5, 4])], 2e-5);
}

#[test]
fn split_rows_agree() {
    for (bound, normalized) in
        [(&[3, 40_000][..], &[40_000][..]), (&[2, 33_001], &[33_001]), (&[5, 60, 80, 8], &[60, 80, 8])]
    {
        let builder = rows(bound, normalized);
        let wide = usize::from(bound != [2, 33_001]);
        assert_eq!(DryRun::new(&builder).unwrap().recipes(0), [2 + wide, 4 + wide], "{bound:?}");
        let mut few = bound.to_vec();
        few[0] = 1;
        check(&builder, &[noisy(bound), noisy(&few)], 2e-5);
    }
}

#[test]
fn a_large_mean_leaves_the_variance_accurate() {
    for (count, width) in [(3, 64), (3, 65), (2, 20_000), (40, 33)] {
        let case = Case { bound: &[count, width], normalized: &[width], weight: false, bias: false, eps: 0.0 };
        // Integers around 100,000 and their differences are exact.
        let values = noise(3, (count * width) as usize).into_iter().map(|x| 100_000.0 + (x * 8.0).round()).collect();
        check(&builder(&case), &[vec![f32s(&[count, width], values)]], 2e-3);
    }
}

#[test]
fn constant_rows_and_rows_with_nan_agree() {
    let builder = rows(&[4, 8], &[8]);
    let mut values = [vec![0.1; 8], vec![-3.0e5; 8], noise(3, 16)].concat();
    check(&builder, &[vec![f32s(&[4, 8], values.clone())]], 1e-5);
    values[20] = f32::NAN;
    check(&builder, &[vec![f32s(&[4, 8], values)]], 1e-5);
}

#[test]
fn empty_rows_have_mean_0_and_rstd_nan() {
    let case = Case { bound: &[3, 0], normalized: &[0], weight: false, bias: false, eps: 1e-5 };
    check(&builder(&case), &[noisy(&[3, 0]), noisy(&[0, 0]), noisy(&[1, 0])], 0.0);
}

#[test]
fn bad_arguments_are_rejected() {
    let of = |case: Case<'_>| load_error(&builder(&case));
    let case = |bound, normalized| Case { bound, normalized, weight: false, bias: false, eps: 1e-5 };
    assert!(of(case(&[4, 8], &[4])).contains("`normalized_shape` is [4], but `input` is [4, 8]"));
    assert!(of(case(&[8], &[4, 8])).contains("`normalized_shape` has 2 dimensions, `input` has 1"));
    assert!(of(case(&[4, 8], &[])).contains("`normalized_shape` has 0 dimensions"));
    assert!(of(Case { eps: -1.0, ..case(&[4, 8], &[8]) }).contains("`eps` is -1"));
    assert!(of(Case { eps: f64::NAN, ..case(&[4, 8], &[8]) }).contains("`eps` is NaN"));
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let (x, sizes) = (builder.input(float, &[4, 8]), builder.value(Value::IntList(vec![8])));
    let (weight, none, eps) = (builder.floats(&[4], &[1.0; 4]), builder.value(Value::Null), builder.float(1e-5));
    let outputs = [&[4, 8][..], &[4, 1], &[4, 1]].map(|dims| builder.tensor(float, dims));
    let list = builder.value(Value::ValueList(outputs.to_vec()));
    builder.call("aten.native_layer_norm.default", &[x, sizes, none, weight, eps, list]);
    assert!(load_error(&builder).contains("`bias` is [4], expected [8]"));
    let mut dry_run = DryRun::new(&rows(&[4, 8], &[8])).unwrap();
    let error = dry_run.call(&[(&[4, 7], &[])]).unwrap_err().to_string();
    assert!(error.contains("`normalized_shape` is [8], but `input` is [4, 7]"), "{error}");
}
