//! Concatenation and splitting.

use super::*;

/// Concatenates tensors of these bounds.
fn cat_of(dtype: DataType, bounds: &[&[u32]], dim: i64, out: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let tensors = bounds.iter().map(|bound| builder.input(dtype, bound)).collect();
    let (tensors, dim) = (builder.value(Value::ValueList(tensors)), builder.int(dim));
    let out = builder.tensor(dtype, out);
    builder.call("aten.cat.default", &[tensors, dim, out]);
    builder.output(out);
    (builder, out)
}

fn call_of(dtype: DataType, shapes: &[&[u32]]) -> Vec<HostTensor> {
    shapes.iter().zip(1..).map(|(shape, seed)| input(dtype, shape, seed)).collect()
}

#[test]
fn cat_of_every_dtype_agrees() {
    for dtype in TYPES {
        let (builder, _) = cat_of(dtype, &[&[2, 3], &[4, 3], &[1, 3]], 0, &[7, 3]);
        let shapes: [[&[u32]; 3]; 4] = [
            [&[2, 3], &[4, 3], &[1, 3]],
            [&[1, 3], &[0, 3], &[1, 3]],
            [&[2, 2], &[3, 2], &[1, 2]],
            [&[0, 3], &[0, 3], &[0, 3]],
        ];
        check(&builder, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
        let (builder, _) = cat_of(dtype, &[&[2, 1, 4], &[2, 5, 4], &[2, 2, 4]], 1, &[2, 8, 4]);
        let shapes: [[&[u32]; 3]; 4] = [
            [&[2, 1, 4], &[2, 5, 4], &[2, 2, 4]],
            [&[2, 0, 4], &[2, 4, 4], &[2, 1, 4]],
            [&[1, 1, 3], &[1, 4, 3], &[1, 1, 3]],
            [&[2, 1, 1]; 3],
        ];
        check(&builder, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
        for [a, b] in [[5, 6], [16, 32], [4, 8], [1, 1], [3, 17], [37, 22]] {
            let (builder, _) = cat_of(dtype, &[&[9, a], &[9, b]], -1, &[9, a + b]);
            let shapes: [[&[u32]; 2]; 4] = [[&[9, a], &[9, b]], [&[1, a], &[1, b]], [&[2, 1], &[2, b]], [&[9, a], &[9, 0]]];
            check(&builder, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
        }
    }
}

#[test]
fn cat_of_many_tensors_takes_several_dispatches() {
    for dtype in TYPES {
        for (rows, width) in [(5, 3), (1, 3), (3, 16), (1, 1), (7, 4)] {
            let widths: Vec<u32> = (0..17).map(|part| width * (1 + part % 3)).collect();
            let total = widths.iter().sum();
            let shapes = |keep: fn(usize) -> bool| -> Vec<[u32; 2]> {
                (0..).zip(&widths).map(|(part, &width)| [rows, if keep(part) { width } else { 0 }]).collect()
            };
            // Every third input is empty in the second call, and a whole dispatch in the last.
            let calls = [shapes(|_| true), shapes(|part| part % 3 != 0), shapes(|part| part > 7)]
                .map(|shapes| shapes.iter().zip(1..).map(|(shape, seed)| input(dtype, shape, seed)).collect());
            let bounds = shapes(|_| true);
            let bounds: Vec<&[u32]> = bounds.iter().map(|bound| &bound[..]).collect();
            check(&cat_of(dtype, &bounds, 1, &[rows, total]).0, &calls, 0.0);
        }
    }
}

#[test]
fn cat_skips_empty_one_dimensional_tensors() {
    for dtype in TYPES {
        let (builder, _) = cat_of(dtype, &[&[0], &[4, 3], &[2, 3]], -2, &[6, 3]);
        check(&builder, &[call_of(dtype, &[&[0], &[4, 3], &[2, 3]]), call_of(dtype, &[&[0], &[1, 3], &[2, 3]])], 0.0);
        let (builder, _) = cat_of(dtype, &[&[3], &[2]], 0, &[5]);
        check(&builder, &[call_of(dtype, &[&[3], &[2]]), call_of(dtype, &[&[0], &[0]]), call_of(dtype, &[&[0], &[1]])], 0.0);
    }
    // The same tensor may occur twice.
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::UInt8, &[3, 5]);
    let (list, dim) = (builder.value(Value::ValueList(vec![x, x, x])), builder.int(1));
    let out = builder.tensor(DataType::UInt8, &[3, 15]);
    builder.call("aten.cat.default", &[list, dim, out]);
    builder.output(out);
    check(&builder, &inputs(DataType::UInt8, &[&[3, 5], &[1, 5], &[3, 2]]), 0.0);
}

#[test]
fn incompatible_tensors_are_rejected() {
    use DataType::Float32 as F;
    assert!(
        load_error(&cat_of(F, &[&[2, 3], &[2, 4]], 0, &[4, 3]).0)
            .contains("`tensors` has [2, 4] at 1, expected [2, 3] apart")
    );
    assert!(load_error(&cat_of(F, &[&[2, 3], &[1]], 0, &[3, 3]).0).contains("`tensors` has [1] at 1"));
    assert!(load_error(&cat_of(F, &[&[2], &[]], 0, &[3]).0).contains("a single number at 1"));
    assert!(load_error(&cat_of(F, &[], 0, &[0]).0).contains("`tensors` is empty"));
    assert!(load_error(&cat_of(F, &[&[2, 3], &[2, 3]], 2, &[4, 3]).0).contains("`dim` is 2"));
    assert!(load_error(&cat_of(F, &[&[2, 3], &[2, 3]], 0, &[3, 3]).0).contains("past its bound [3, 3]"));
    let large = load_error(&cat_of(F, &[&[1 << 29, 1][..]; 3], 0, &[3, 1]).0);
    assert!(large.contains("`out` has 1610612736 elements, more than kernels index"), "{large}");
}

#[test]
fn cat_promotes_integers_to_floats() {
    let mut builder = GraphBuilder::new();
    let (a, b) = (builder.input(DataType::Float32, &[3]), builder.input(DataType::Int32, &[3]));
    let (list, dim) = (builder.value(Value::ValueList(vec![b, a, b])), builder.int(0));
    let out = builder.tensor(DataType::Float32, &[9]);
    builder.call("aten.cat.default", &[list, dim, out]);
    builder.output(out);
    let call = |count: u32| {
        let integers = (0..i32::try_from(count).unwrap()).collect();
        vec![crate::testing::f32s(&[count], noise(1, count as usize)), crate::testing::i32s(&[count], integers)]
    };
    check(&builder, &[call(3), call(1), call(2)], 0.0);
}

/// Splits a tensor.
fn split_of(dtype: DataType, bound: &[u32], sizes: &[u32], dim: usize) -> (GraphBuilder, Vec<ValueId>) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(dtype, bound);
    let (list, at) = (Value::IntList(sizes.iter().map(|&size| size.into()).collect()), i64::try_from(dim).unwrap());
    let (list, at) = (builder.value(list), builder.int(at));
    let part = |size: &u32| dims(bound).with(dim, *size).to_vec();
    let outs: Vec<ValueId> = sizes.iter().map(part).map(|part| builder.tensor(dtype, &part)).collect();
    let out = builder.value(Value::ValueList(outs.clone()));
    builder.call("aten.split_with_sizes_copy.default", &[x, list, at, out]);
    outs.iter().for_each(|&out| builder.output(out));
    (builder, outs)
}

#[test]
fn split_of_every_dtype_agrees() {
    for dtype in TYPES {
        for (bound, sizes, dim) in [
            (&[2, 8][..], &[4, 4][..], 1),
            (&[5, 4], &[3, 2], 0),
            (&[3, 48], &[16, 0, 32], 1),
            (&[1, 8, 4, 4], &[2, 3, 3], 1),
            (&[3, 11, 2], &[1, 9, 1], 1),
            (&[10, 3], &[1, 2, 1, 1, 1, 1, 1, 1, 1], 0),
            (&[3, 64], &[4, 8, 4, 4, 8, 4, 16, 12, 4], 1),
            (&[5, 3], &[5], 0),
            (&[4, 75], &[37, 38], 1),
        ] {
            let (builder, _) = split_of(dtype, bound, sizes, dim);
            let other = (dim + 1) % bound.len();
            let small = dims(bound).with(other, 1).to_vec();
            let none = dims(bound).with(other, 0).to_vec();
            check(&builder, &inputs(dtype, &[bound, &small, &none, bound]), 0.0);
        }
    }
}

#[test]
fn seven_sections_are_one_dispatch() {
    let recipes = |dtype, bound: &[u32], sizes: &[u32]| DryRun::new(&split_of(dtype, bound, sizes, 1).0).unwrap().recipes(0);
    assert_eq!(recipes(DataType::Float32, &[3, 12], &[4, 8]), [0]);
    assert_eq!(recipes(DataType::Float32, &[3, 12], &[4, 0, 4, 4]), [0]);
    assert_eq!(recipes(DataType::Float32, &[3, 40], &[4; 10]), [0, 2]);
    assert_eq!(recipes(DataType::Float32, &[3, 38], &[4, 4, 4, 4, 4, 4, 4, 4, 4, 2]), [1, 3]);
    assert_eq!(recipes(DataType::UInt8, &[3, 48], &[16, 32]), [0]);
    assert_eq!(recipes(DataType::Float32, &[3, 11], &[5, 6]), [1]);
    // A single row may end anywhere.
    assert_eq!(recipes(DataType::Float32, &[1, 11], &[8, 3]), [0]);
    assert_eq!(recipes(DataType::UInt8, &[3, 12], &[4, 8]), [1]);
    assert_eq!(recipes(DataType::UInt8, &[3, 12], &[5, 7]), [2]);
    assert_eq!(recipes(DataType::Float32, &[3, 0], &[0, 0]), [0usize; 0]);
}

#[test]
fn split_sizes_must_add_up_at_every_shape() {
    let (builder, outs) = split_of(DataType::Float32, &[9, 4], &[5, 4], 0);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let error = dry_run.call(&[(&[7, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`split_sizes` is [5, 4], expected sizes that add up to the 7 of dimension 0"), "{error}");
    dry_run.call(&[(&[9, 1], &[])]).unwrap();
    assert_eq!((dry_run.dims(outs[0]), dry_run.dims(outs[1])), (vec![5, 1], vec![4, 1]));
    use DataType::Float32 as F;
    assert!(load_error(&split_of(F, &[9, 4], &[5, 5], 0).0).contains("add up to the 9"));
    let mut builder = GraphBuilder::new();
    let x = builder.input(F, &[4]);
    let (sizes, dim) = (builder.value(Value::IntList(vec![5, -1])), builder.int(0));
    let outs = [(); 2].map(|()| builder.tensor(F, &[4])).to_vec();
    let out = builder.value(Value::ValueList(outs[..1].to_vec()));
    let both = builder.value(Value::ValueList(outs));
    builder.call("aten.split_with_sizes_copy.default", &[x, sizes, dim, both]);
    assert!(load_error(&builder).contains("`split_sizes` is [5, -1]"));
    builder.graph.calls[0].args[3] = out;
    assert!(load_error(&builder).contains("`out` has 1 tensors, expected 2"));
}

#[test]
fn symbolic_split_sizes_agree() {
    for (dtype, width) in [(DataType::Float32, 4), (DataType::Float32, 3), (DataType::UInt8, 3)] {
        let mut builder = GraphBuilder::new();
        let (x, y) = (builder.input(dtype, &[12, width]), builder.input(dtype, &[7, 1]));
        let zero = builder.int(0);
        let [all, first, rest] = [(); 3].map(|()| builder.value(Value::SymInt));
        builder.call("sym_size.int", &[x, zero, all]);
        builder.call("sym_size.int", &[y, zero, first]);
        builder.call("sub", &[all, first, rest]);
        let sizes = builder.value(Value::ValueList(vec![first, rest]));
        let outs = [7, 12].map(|rows| builder.tensor(dtype, &[rows, width]));
        let out = builder.value(Value::ValueList(outs.to_vec()));
        // At the bounds, symbols have the values that their operators compute: 7 and 5.
        builder.call("aten.split_with_sizes_copy.default", &[x, sizes, zero, out]);
        outs.into_iter().for_each(|out| builder.output(out));
        let call = |(all, first): (u32, u32)| vec![input(dtype, &[all, width], 1), input(dtype, &[first, 1], 2)];
        check(&builder, &[(12, 7), (12, 1), (5, 5), (12, 0), (7, 2), (12, 3)].map(call), 0.0);
    }
}
