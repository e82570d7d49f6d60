use super::*;
use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

const TOLERANCE: f32 = 1e-4;

/// A product of two inputs, or of an input and a constant.
fn product(a: &[u32], b: &[u32], constant: bool) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, a);
    let y = if constant {
        builder.floats(b, &noise(4, b.iter().product::<u32>() as usize))
    } else {
        builder.input(DataType::Float32, b)
    };
    let mut out = a.to_vec();
    out[a.len() - 1] = b[b.len() - 1];
    let out = builder.tensor(DataType::Float32, &out);
    builder.call(if a.len() == 2 { "aten.mm.default" } else { "aten.bmm.default" }, &[x, y, out]);
    builder.output(out);
    (builder, out)
}

fn addition(addend: &[u32], [m, n, k]: [u32; 3], beta: Value, alpha: Value) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let inputs = [addend, &[m, k], &[k, n]].map(|dims| builder.input(DataType::Float32, dims));
    let (beta, alpha) = (builder.value(beta), builder.value(alpha));
    let out = builder.tensor(DataType::Float32, &[m, n]);
    builder.call("aten.addmm.default", &[inputs[0], inputs[1], inputs[2], beta, alpha, out]);
    builder.output(out);
    builder
}

fn random(shape: &[u32]) -> HostTensor {
    let seed = shape.iter().fold(7, |seed, &dim| seed * 31 + u64::from(dim));
    f32s(shape, noise(seed, shape.iter().product::<u32>() as usize))
}

/// Calls with matrices of these m, n and k.
fn calls(sizes: &[[u32; 3]]) -> Vec<Vec<HostTensor>> {
    sizes.iter().map(|&[m, n, k]| vec![random(&[m, k]), random(&[k, n])]).collect()
}

#[test]
fn any_live_sizes_in_any_order() {
    let (builder, _) = product(&[70, 132], &[132, 72], false);
    let sizes = [
        [70, 72, 132],
        [1, 72, 132],
        [3, 72, 131],
        [70, 71, 132],
        [69, 33, 129],
        [8, 7, 130],
        [1, 1, 132],
        [70, 1, 132],
        [33, 8, 5],
        [70, 3, 1],
        [0, 72, 132],
        [70, 0, 132],
        [5, 4, 0],
        [70, 72, 0],
        [9, 2, 0],
        [2, 72, 1],
        [1, 1, 1],
    ];
    check(&builder, &calls(&sizes), TOLERANCE);
}

#[test]
fn constants_of_any_layout() {
    for (b, rows) in [
        ([64, 40], [70, 1, 5, 8, 9]),
        ([61, 40], [9, 2, 1, 70, 0]),
        ([33, 7], [70, 8, 1, 9, 33]),
        ([40, 1], [65, 1, 9, 8, 64]),
    ] {
        let calls = rows.map(|m| vec![random(&[m, b[0]])]);
        check(&product(&[70, b[0]], &b, true).0, &calls, TOLERANCE);
    }
}

#[test]
fn many_workgroups_of_each_kernel() {
    // Few rows: threads of a lane share k, all of them, or fewer if there are enough workgroups.
    check(&product(&[2, 3000], &[3000, 12], false).0, &calls(&[[1, 12, 3000], [2, 11, 2999]]), 5e-4);
    check(&product(&[8, 700], &[700, 2100], false).0, &calls(&[[1, 2100, 700], [7, 2099, 700], [4, 2100, 30]]), TOLERANCE);
    // Few columns.
    check(&product(&[2100, 200], &[200, 8], false).0, &calls(&[[2100, 8, 200], [2100, 1, 199], [2000, 5, 200]]), TOLERANCE);
    // Tiles.
    let sizes = [[300, 2300, 36], [259, 2298, 35], [300, 2300, 0], [300, 297, 36], [300, 300, 33]];
    check(&product(&[300, 36], &[36, 2300], false).0, &calls(&sizes), TOLERANCE);
}

#[test]
fn batches_each_have_their_own() {
    let (builder, _) = product(&[5, 140, 36], &[5, 36, 400], false);
    let call = |&[b, m, n, k]: &[u32; 4]| vec![random(&[b, m, k]), random(&[b, k, n])];
    let sizes = [
        [5, 140, 400, 36],
        [5, 139, 399, 35],
        [5, 40, 44, 36],
        [3, 1, 44, 36],
        [1, 7, 43, 35],
        [0, 40, 44, 36],
        [5, 33, 2, 36],
        [2, 40, 1, 33],
        [4, 9, 10, 0],
        [5, 2, 3, 4],
    ];
    check(&builder, &sizes.iter().map(call).collect::<Vec<_>>(), TOLERANCE);
    let (constant, _) = product(&[5, 40, 36], &[5, 36, 44], true);
    check(&constant, &[40, 1, 12].map(|m| vec![random(&[5, m, 36])]), TOLERANCE);
}

#[test]
fn an_addend_of_any_dims_that_broadcast() {
    for (m, n, k) in [(20, 12, 8), (3, 12, 7), (20, 3, 9), (4, 5, 0), (300, 300, 9)] {
        for addend in [vec![n], vec![m, n], vec![1, n], vec![m, 1], vec![1, 1], vec![1], vec![]] {
            let builder = addition(&addend, [m, n, k], Value::Double(1.5), Value::Int(-2));
            check(&builder, &[vec![random(&addend), random(&[m, k]), random(&[k, n])]], TOLERANCE);
        }
    }
    let live = addition(&[70, 40], [70, 40, 20], Value::Int(1), Value::Int(1));
    let call = |m: u32, n: u32, addend: &[u32]| vec![random(addend), random(&[m, 20]), random(&[20, n])];
    check(&live, &[call(70, 40, &[70, 40]), call(3, 40, &[1, 40]), call(70, 8, &[70, 1]), call(9, 40, &[1, 1])], TOLERANCE);
}

#[test]
fn zero_alpha_or_beta_ignores_nan() {
    let broken = |shape: &[u32]| f32s(shape, vec![f32::NAN; shape.iter().product::<u32>() as usize]);
    for m in [2, 40] {
        let none = addition(&[5], [m, 5, 6], Value::Int(0), Value::Double(1.0));
        check(&none, &[vec![broken(&[5]), random(&[m, 6]), random(&[6, 5])]], TOLERANCE);
        let only = addition(&[5], [m, 5, 6], Value::Int(2), Value::Double(0.0));
        check(&only, &[vec![random(&[5]), broken(&[m, 6]), random(&[6, 5])]], TOLERANCE);
    }
}

#[test]
fn nan_and_infinity_stay_in_their_row_and_column() {
    // Sizes with partial last vectors and tiles.
    for [m, n, k] in [[3, 9, 13], [37, 9, 13], [37, 2, 13], [3, 12, 12], [300, 301, 33], [520, 520, 36]] {
        let mut call = calls(&[[m, n, k]]).remove(0);
        let HostData::F32(a) = &mut call[0].data else { unreachable!("floats") };
        a[k as usize - 1] = f32::NAN;
        a[(m * k) as usize - 1] = f32::INFINITY;
        let HostData::F32(b) = &mut call[1].data else { unreachable!("floats") };
        b[(k * n) as usize - 1] = f32::NEG_INFINITY;
        b[0] = f32::INFINITY;
        check(&product(&[m, k], &[k, n], false).0, &[call], TOLERANCE);
    }
}

#[test]
fn live_sizes_choose_the_recipe() {
    let (builder, out) = product(&[600, 512], &[512, 1024], false);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let mut recipe = |m: u32, n: u32, k: u32| {
        dry_run.call(&[(&[m, k], &[]), (&[k, n], &[])]).unwrap();
        assert_eq!(dry_run.dims(out), [m, n]);
        dry_run.recipes(0)
    };
    // Four GEMVs and a GEMM for each of three layouts, then four GEMVs for each of three with few columns.
    for (m, n, k, expected) in [
        (1, 1024, 512, 0),
        (8, 1024, 512, 3),
        (600, 1024, 512, 4),
        (16, 1024, 512, 3),
        (16, 1024, 511, 8),
        (600, 1024, 511, 9),
        (1, 1023, 512, 10),
        (600, 1, 512, 15),
        (600, 8, 512, 22),
        (600, 1, 511, 23),
        (8, 8, 512, 3),
        (1, 4, 3, 5),
    ] {
        assert_eq!(recipe(m, n, k), [expected], "{m} {n} {k}");
    }
    assert!(recipe(0, 1024, 512).is_empty());
    assert!(recipe(600, 0, 512).is_empty());
    assert_eq!(recipe(600, 1024, 0).len(), 1);
    // If the file fixes the second matrix, there are only its recipes.
    for (n, count) in [(64, 5), (8, 9)] {
        let (builder, _) = product(&[600, 512], &[512, n], true);
        assert_eq!(DryRun::new(&builder).unwrap().planned.recipes()[0].list.len(), count);
    }
}

#[test]
fn bad_arguments_are_rejected() {
    let (builder, out) = product(&[20, 12], &[12, 30], false);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let error = dry_run.call(&[(&[20, 11], &[]), (&[12, 30], &[])]).unwrap_err().to_string();
    assert!(error.contains("`mat2` is [12, 30], which cannot be multiplied with [20, 11]"), "{error}");
    assert_eq!(dry_run.dims(out), [20, 30], "an error changes nothing");
    assert!(load_error(&product(&[2, 4, 5], &[3, 5, 6], false).0).contains("`mat2` is [3, 5, 6], which cannot be"));
    assert!(load_error(&product(&[2, 4, 5], &[5, 6], false).0).contains("`mat2` is [5, 6], expected 3 dimensions"));
    let number = Value::Int(1);
    let error = load_error(&addition(&[4], [2, 3, 5], number.clone(), number.clone()));
    assert!(error.contains("`self` is [4], which cannot be broadcast to the product's [2, 3]"), "{error}");
    assert!(load_error(&addition(&[1, 2, 3], [2, 3, 5], number.clone(), number.clone())).contains("`self` is [1, 2, 3]"));
    assert!(load_error(&addition(&[3], [2, 3, 5], Value::Null, number)).contains("`beta` is"));
}

#[test]
fn batches_of_any_rank_are_broadcast() {
    for (a, b, out) in [
        (&[2, 3, 5, 8][..], &[2, 3, 8, 7][..], &[2, 3, 5, 7][..]),
        (&[3, 5, 8], &[8, 7], &[3, 5, 7]),
        (&[2, 1, 5, 8], &[3, 8, 12], &[2, 3, 5, 12]),
        (&[5, 8], &[8, 1], &[5, 1]),
    ] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, a);
        let y = builder.input(DataType::Float32, b);
        let result = builder.tensor(DataType::Float32, out);
        builder.call(super::MATMUL, &[x, y, result]);
        builder.output(result);
        let values = |seed, dims: &[u32]| f32s(dims, noise(seed, dims.iter().product::<u32>() as usize));
        check(&builder, &[vec![values(1, a), values(2, b)]], 1e-5);
    }
}
