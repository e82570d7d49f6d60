use super::*;
use crate::ir::{DataType, Value};
use crate::testing::{DryRun, GraphBuilder, load_error};

fn live(dry_run: &DryRun, scalar: crate::ir::ValueId) -> i64 {
    dry_run.planned.live().scalar(Scalar::Live(ScalarId(scalar.0)))
}

fn binary(name: &str, a: i64, b: i64) -> crate::Result<i64> {
    let mut builder = GraphBuilder::new();
    let (a, b, out) = (builder.int(a), builder.int(b), builder.value(Value::SymInt));
    builder.call(name, &[a, b, out]);
    DryRun::new(&builder).map(|dry_run| live(&dry_run, out))
}

#[test]
fn arithmetic_matches_python() {
    assert_eq!(binary("add", 3, -5).unwrap(), -2);
    assert_eq!(binary("sub", 3, 5).unwrap(), -2);
    assert_eq!(binary("mul", -3, 5).unwrap(), -15);
    for (a, b, want) in
        [(7, 2, 3), (-7, 2, -4), (7, -2, -4), (-7, -2, 3), (6, -2, -3), (0, 5, 0), (i64::MIN, 2, i64::MIN / 2)]
    {
        assert_eq!(binary("floordiv", a, b).unwrap(), want, "{a} // {b}");
    }
}

#[test]
fn remainders_have_the_sign_of_the_divisor() {
    for (a, b, want) in [(7, 3, 1), (-7, 3, 2), (7, -3, -2), (-7, -3, -1), (6, 3, 0), (-6, 3, 0)] {
        assert_eq!(binary("mod", a, b).unwrap(), want, "{a} mod {b}");
    }
    assert!(binary("mod", 1, 0).unwrap_err().to_string().contains("`b` is zero"));
    assert_eq!((binary("sym_max", 3, -5).unwrap(), binary("sym_min", 3, -5).unwrap()), (3, -5));
}

#[test]
fn a_single_number_is_an_element() {
    let (builder, out) = selected(&[], 0, 0);
    let mut dry_run = DryRun::new(&builder).unwrap();
    dry_run.call(&[(&[], &[41])]).unwrap();
    assert_eq!(live(&dry_run, out), 41);
}

#[test]
fn comparisons_result_in_0_or_1() {
    for (name, results) in [("lt", [1, 0, 0]), ("le", [1, 1, 0]), ("gt", [0, 0, 1]), ("ge", [0, 1, 1]), ("eq", [0, 1, 0])] {
        assert_eq!([-3, 5, 7].map(|a| binary(name, a, 5).unwrap()), results, "{name}");
    }
}

#[test]
fn overflow_and_division_by_zero_are_rejected() {
    let refused = |name, a, b| binary(name, a, b).unwrap_err().to_string();
    assert!(refused("floordiv", 4, 0).contains("`b` is zero"));
    assert!(refused("add", i64::MAX, 1).contains("leaves 64 bits"));
    assert!(refused("sub", i64::MIN, 1).contains("leaves 64 bits"));
    assert!(refused("mul", i64::MAX, 2).contains("leaves 64 bits"));
    assert!(refused("floordiv", i64::MIN, -1).contains("leaves 64 bits"));
}

#[test]
fn sizes_are_live() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[4, 9]);
    let (dim, size) = (builder.int(-1), builder.value(Value::SymInt));
    builder.call("sym_size.int", &[x, dim, size]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(live(&dry_run, size), 9);
    for width in [3, 0, 9] {
        dry_run.call(&[(&[2, width], &[])]).unwrap();
        assert_eq!(live(&dry_run, size), i64::from(width));
    }
}

fn selected(bound: &[u32], dim: i64, index: i64) -> (GraphBuilder, crate::ir::ValueId) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Int32, bound);
    let (dim, index, out) = (builder.int(dim), builder.int(index), builder.value(Value::SymInt));
    builder.call("et_vk.select_as_symint.default", &[x, dim, index, out]);
    (builder, out)
}

#[test]
fn integers_of_inputs_are_live_from_the_first_call() {
    let (builder, out) = selected(&[1, 4], 1, -1);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(live(&dry_run, out), 0);
    dry_run.call(&[(&[1, 4], &[5, 6, 7, 8])]).unwrap();
    assert_eq!(live(&dry_run, out), 8);
    dry_run.call(&[(&[1, 2], &[5, -6])]).unwrap();
    assert_eq!(live(&dry_run, out), -6);
    let error = dry_run.call(&[(&[1, 0], &[])]).unwrap_err().to_string();
    assert!(error.contains("zero elements"), "{error}");
    assert_eq!(live(&dry_run, out), -6);
}

#[test]
fn bad_arguments_are_rejected() {
    assert!(load_error(&selected(&[2, 4], 1, 0).0).contains("does not name one number"));
    assert!(load_error(&selected(&[4], 0, 4).0).contains("`index` is 4, but `x` has 4 elements"));
    assert!(load_error(&selected(&[4], 1, 0).0).contains("`dim` is 1"));
    assert!(load_error(&selected(&[], 1, 0).0).contains("`dim` is 1"));
    let mut builder = GraphBuilder::new();
    let x = builder.constant(DataType::Int32, &[1], vec![0; 4]);
    let (zero, out) = (builder.int(0), builder.value(Value::SymInt));
    builder.call("et_vk.select_as_symint.default", &[x, zero, zero, out]);
    assert!(load_error(&builder).contains("must be an integer input of the graph"));
}
