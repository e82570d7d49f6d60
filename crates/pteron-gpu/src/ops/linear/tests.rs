use crate::ir::{DataType, Value, ValueId};
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

const TOLERANCE: f32 = 1e-4;

/// A product with constant weights `[n, k]`.
fn builder(x: &[u32], n: u32, bias: bool) -> (GraphBuilder, ValueId) {
    let k = x[x.len() - 1];
    let mut builder = GraphBuilder::new();
    let input = builder.input(DataType::Float32, x);
    let weight = builder.floats(&[n, k], &noise(1, (n * k) as usize));
    let bias = if bias { builder.floats(&[n], &noise(2, n as usize)) } else { builder.value(Value::Null) };
    let mut dims = x.to_vec();
    dims[x.len() - 1] = n;
    let out = builder.tensor(DataType::Float32, &dims);
    builder.call("aten.linear.default", &[input, weight, bias, out]);
    builder.output(out);
    (builder, out)
}

#[test]
fn rows_choose_the_kernel_and_keep_the_dims() {
    let (builder, out) = builder(&[2, 600, 64], 512, true);
    let mut dry_run = DryRun::new(&builder).unwrap();
    for (x, recipe) in
        [([1, 1, 64], 0), ([2, 1, 64], 1), ([2, 4, 64], 3), ([1, 9, 64], 5), ([1, 600, 64], 5), ([2, 600, 64], 4)]
    {
        dry_run.call(&[(&x, &[])]).unwrap();
        assert_eq!(dry_run.recipes(0), [recipe], "{x:?}");
        assert_eq!(dry_run.dims(out), [x[0], x[1], 512]);
    }
    dry_run.call(&[(&[2, 0, 64], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![], vec![2, 0, 512]));
    let error = dry_run.call(&[(&[2, 3, 60], &[])]).unwrap_err().to_string();
    assert!(error.contains("`x` is [2, 3, 60], but the weights have 64 columns"), "{error}");
    assert_eq!(dry_run.dims(out), [2, 0, 512], "an error changes nothing");
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[4, 8]);
    let weight = builder.floats(&[3, 8], &[0.0; 24]);
    let bias = builder.floats(&[2], &[0.0; 2]);
    let out = builder.tensor(DataType::Float32, &[4, 3]);
    let none = builder.value(Value::Null);
    let ints = builder.input(DataType::Int32, &[3, 8]);
    builder.output(out);
    let mut call = |args: &[ValueId]| {
        builder.graph.calls.clear();
        builder.call("aten.linear.default", args);
        load_error(&builder)
    };
    assert!(call(&[x, weight, bias, out]).contains("`bias` is [2], but the output has 3 columns"));
    assert!(call(&[x, ints, none, out]).contains("`weight` has elements I32, supported: [F32]"));
    assert!(call(&[x, bias, none, out]).contains("`weight` is [2], expected two dimensions"));
    assert!(call(&[x, weight, none]).contains("`out` is missing"));
}

fn rows(x: &[u32]) -> Vec<crate::reference::HostTensor> {
    vec![f32s(x, noise(u64::from(x[0]) + 3, x.iter().product::<u32>() as usize))]
}

#[test]
fn any_rows_in_any_order() {
    let (builder, _) = builder(&[130, 100], 77, true);
    let calls: Vec<_> = [130, 1, 7, 64, 0, 2, 9, 33, 8, 130, 3].map(|m| rows(&[m, 100])).into();
    check(&builder, &calls, TOLERANCE);
}

#[test]
fn odd_columns_no_bias_and_other_ranks() {
    for (x, n) in [(vec![37], 5), (vec![12, 37], 5), (vec![2, 3, 2, 3], 1), (vec![9, 1], 70), (vec![1, 33, 258], 66)] {
        check(&builder(&x, n, false).0, &[rows(&x)], TOLERANCE);
    }
}

#[test]
fn no_columns_give_the_bias() {
    for m in [3, 20] {
        check(&builder(&[m, 0], 6, true).0, &[rows(&[m, 0])], TOLERANCE);
    }
}

#[test]
fn many_tiles() {
    check(&builder(&[300, 36], 2300, true).0, &[rows(&[300, 36]), rows(&[259, 36])], TOLERANCE);
}

#[test]
fn weights_may_be_inputs_of_any_live_shape() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[20, 64]);
    let weight = builder.input(DataType::Float32, &[30, 64]);
    let bias = builder.value(Value::Null);
    let out = builder.tensor(DataType::Float32, &[20, 30]);
    builder.call("aten.linear.default", &[x, weight, bias, out]);
    builder.output(out);
    let both = |m: u32, n: u32, k: u32| [rows(&[m, k]), rows(&[n, k])].concat();
    check(&builder, &[both(20, 30, 64), both(3, 30, 61), both(19, 7, 61), both(1, 30, 8)], TOLERANCE);
}
