//! Expands and repeats.

use super::*;

fn expand_of(dtype: DataType, bound: &[u32], sizes: &[i64], out: &[u32]) -> (GraphBuilder, ValueId) {
    let middle = [Value::IntList(sizes.to_vec()), Value::Bool(false)];
    one("aten.expand_copy.default", dtype, bound, &middle, out)
}

fn repeat_of(dtype: DataType, bound: &[u32], repeats: &[i64], out: &[u32]) -> (GraphBuilder, ValueId) {
    one("aten.repeat.default", dtype, bound, &[Value::IntList(repeats.to_vec())], out)
}

#[test]
fn expand_of_every_dtype_agrees() {
    for dtype in thinned(TYPES, 3) {
        check(&expand_of(dtype, &[4], &[3, 4], &[3, 4]).0, &inputs(dtype, &[&[4], &[3], &[0], &[4]]), 0.0);
        check(&expand_of(dtype, &[5, 1], &[-1, 7], &[5, 7]).0, &inputs(dtype, &[&[5, 1], &[1, 1], &[0, 1]]), 0.0);
        check(
            &expand_of(dtype, &[5, 1, 3], &[2, -1, 4, 3], &[2, 5, 4, 3]).0,
            &inputs(dtype, &[&[5, 1, 3], &[2, 1, 3]]),
            0.0,
        );
        check(&expand_of(dtype, &[5, 1, 16], &[5, 4, 16], &[5, 4, 16]).0, &inputs(dtype, &[&[5, 1, 16], &[2, 1, 16]]), 0.0);
        check(&expand_of(dtype, &[5, 1], &[-1, 43], &[5, 43]).0, &inputs(dtype, &[&[5, 1], &[3, 1]]), 0.0);
        check(&expand_of(dtype, &[], &[2, 3], &[2, 3]).0, &inputs(dtype, &[&[]]), 0.0);
        check(&expand_of(dtype, &[1, 3], &[0, 3], &[0, 3]).0, &inputs(dtype, &[&[1, 3]]), 0.0);
        check(&expand_of(dtype, &[1], &[2, 1, 3, 1, 2], &[2, 1, 3, 1, 2]).0, &inputs(dtype, &[&[1]]), 0.0);
    }
    assert_eq!(recipe(&expand_of(DataType::Float32, &[5, 1, 16], &[5, 4, 16], &[5, 4, 16])), [VEC4]);
    assert_eq!(recipe(&expand_of(DataType::Float32, &[5, 1], &[5, 4], &[5, 4])), [ELEMENTS]);
}

#[test]
fn sizes_equal_to_bounds_follow_the_live_shape() {
    let (builder, out) = expand_of(DataType::Float32, &[6, 1, 4], &[6, 3, 4], &[6, 3, 4]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    for live in [5, 0, 2, 6] {
        dry_run.call(&[(&[live, 1, 4], &[])]).unwrap();
        assert_eq!(dry_run.dims(out), [live, 3, 4]);
    }
    // Ambiguous: one element to be repeated, or the live size.
    let error = dry_run.call(&[(&[1, 1, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`size` is [6, 3, 4]") && error.contains("could mean 6 or 1"), "{error}");
    assert_eq!(dry_run.dims(out), [6, 3, 4]);
    // A copy that keeps every dim aliases its input.
    let alias = |builder: &GraphBuilder| DryRun::new(builder).unwrap().graph.nodes[0].op.alias().is_some();
    assert!(alias(&expand_of(DataType::Float32, &[6, 4], &[1, -1, 4], &[1, 6, 4]).0));
    assert!(!alias(&expand_of(DataType::Float32, &[6, 1], &[-1, 4], &[6, 4]).0));
    assert!(!alias(&expand_of(DataType::Float32, &[6, 4], &[2, -1, 4], &[2, 6, 4]).0));
}

#[test]
fn symbolic_sizes_agree() {
    let mut builder = GraphBuilder::new();
    let (x, y) = (builder.input(DataType::Int32, &[1, 5]), builder.input(DataType::Int32, &[9, 1]));
    let (zero, one, no) = (builder.int(0), builder.int(1), builder.value(Value::Bool(false)));
    let [rows, columns] = [(); 2].map(|()| builder.value(Value::SymInt));
    builder.call("sym_size.int", &[y, zero, rows]);
    builder.call("sym_size.int", &[x, one, columns]);
    let sizes = builder.value(Value::ValueList(vec![rows, columns]));
    let outs = [(); 3].map(|()| builder.tensor(DataType::Int32, &[9, 5]));
    builder.call("aten.expand_copy.default", &[x, sizes, no, outs[0]]);
    builder.call("aten.expand_copy.default", &[y, sizes, no, outs[1]]);
    let repeats = builder.value(Value::ValueList(vec![rows, one]));
    builder.call("aten.repeat.default", &[x, repeats, outs[2]]);
    outs.into_iter().for_each(|out| builder.output(out));
    let call =
        |(rows, columns): (u32, u32)| vec![input(DataType::Int32, &[1, columns], 1), input(DataType::Int32, &[rows, 1], 2)];
    check(&builder, &[(9, 5), (1, 1), (4, 2), (0, 5), (9, 5)].map(call), 0.0);
}

#[test]
fn repeat_of_every_dtype_agrees() {
    for dtype in TYPES {
        check(&repeat_of(dtype, &[3], &[2], &[6]).0, &inputs(dtype, &[&[3], &[1], &[0], &[3]]), 0.0);
        check(&repeat_of(dtype, &[3, 5], &[2, 2], &[6, 10]).0, &inputs(dtype, &[&[3, 5], &[1, 2], &[3, 0]]), 0.0);
        check(&repeat_of(dtype, &[3, 5, 7], &[2, 1, 2], &[6, 5, 14]).0, &inputs(dtype, &[&[3, 5, 7], &[2, 1, 4]]), 0.0);
        check(&repeat_of(dtype, &[3, 16], &[2, 3, 1], &[2, 9, 16]).0, &inputs(dtype, &[&[3, 16], &[1, 16]]), 0.0);
        check(&repeat_of(dtype, &[2, 3], &[2, 1, 0, 1], &[2, 1, 0, 3]).0, &inputs(dtype, &[&[2, 3]]), 0.0);
        check(&repeat_of(dtype, &[], &[2, 3], &[2, 3]).0, &inputs(dtype, &[&[]]), 0.0);
        check(&repeat_of(dtype, &[2, 2, 2, 2], &[2; 4], &[4; 4]).0, &inputs(dtype, &[&[2, 2, 2, 2], &[1, 2, 1, 2]]), 0.0);
    }
    // Rows that stay contiguous are still copied in vectors of four.
    assert_eq!(recipe(&repeat_of(DataType::Float32, &[3, 16], &[2, 3, 1], &[2, 9, 16])), [VEC4]);
}

#[test]
fn bad_arguments_are_rejected() {
    use DataType::Float32 as F;
    assert!(load_error(&expand_of(F, &[3], &[-1, 3], &[1, 3]).0).contains("but -1 is no size for a new dimension"));
    assert!(load_error(&expand_of(F, &[3], &[2, -2], &[2, 3]).0).contains("only a dimension of 1 can be expanded to -2"));
    assert!(load_error(&expand_of(F, &[3], &[4], &[4]).0).contains("`size` is [4] for [3], but only a dimension of 1"));
    assert!(load_error(&expand_of(F, &[2, 3], &[3], &[3]).0).contains("has 1 numbers for [2, 3], expected 2 to 8"));
    assert!(load_error(&expand_of(F, &[3, 0], &[3, 1], &[3, 1]).0).contains("only a dimension of 1"));
    assert!(load_error(&repeat_of(F, &[3, 2], &[2], &[6]).0).contains("expected 2 to 8"));
    assert!(load_error(&repeat_of(F, &[3], &[-1], &[3]).0).contains("`repeats` is [-1] for [3]"));
    assert!(load_error(&repeat_of(F, &[3], &[1 << 40], &[3]).0).contains("`repeats` is"));
    assert!(load_error(&repeat_of(F, &[3], &[1 << 30], &[3]).0).contains("`out` has 3221225472 elements"));
    assert!(load_error(&expand_of(F, &[1, 1], &[1 << 31, 1 << 31], &[3, 3]).0).contains("more than kernels index"));
    assert!(load_error(&repeat_of(F, &[2; 5], &[2; 5], &[4; 5]).0).contains("needs 10 axes, kernels support 8"));
}
