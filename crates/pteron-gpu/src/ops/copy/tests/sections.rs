//! Concatenation and splitting.

use super::*;

/// Concatenates tensors of these bounds.
fn cat_of(dtype: DataType, bounds: &[&[u32]], dim: i64, out: &[u32]) -> (Sketch, ValueId) {
    let mut sketch = Sketch::new();
    let tensors = bounds.iter().map(|bound| sketch.input(dtype, bound)).collect();
    let (tensors, dim) = (sketch.value(Value::ValueList(tensors)), sketch.int(dim));
    let out = sketch.tensor(dtype, out);
    sketch.call("aten.cat.default", &[tensors, dim, out]);
    sketch.output(out);
    (sketch, out)
}

fn call_of(dtype: DataType, shapes: &[&[u32]]) -> Vec<HostTensor> {
    shapes.iter().zip(1..).map(|(shape, seed)| input(dtype, shape, seed)).collect()
}

#[test]
fn cat_of_every_dtype_agrees() {
    for dtype in TYPES {
        let (sketch, _) = cat_of(dtype, &[&[2, 3], &[4, 3], &[1, 3]], 0, &[7, 3]);
        let shapes: [[&[u32]; 3]; 4] = [
            [&[2, 3], &[4, 3], &[1, 3]],
            [&[1, 3], &[0, 3], &[1, 3]],
            [&[2, 2], &[3, 2], &[1, 2]],
            [&[0, 3], &[0, 3], &[0, 3]],
        ];
        check(&sketch, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
        let (sketch, _) = cat_of(dtype, &[&[2, 1, 4], &[2, 5, 4], &[2, 2, 4]], 1, &[2, 8, 4]);
        let shapes: [[&[u32]; 3]; 4] = [
            [&[2, 1, 4], &[2, 5, 4], &[2, 2, 4]],
            [&[2, 0, 4], &[2, 4, 4], &[2, 1, 4]],
            [&[1, 1, 3], &[1, 4, 3], &[1, 1, 3]],
            [&[2, 1, 1]; 3],
        ];
        check(&sketch, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
        for [a, b] in [[5, 6], [16, 32], [4, 8], [1, 1], [3, 17], [37, 22]] {
            let (sketch, _) = cat_of(dtype, &[&[9, a], &[9, b]], -1, &[9, a + b]);
            let shapes: [[&[u32]; 2]; 4] = [[&[9, a], &[9, b]], [&[1, a], &[1, b]], [&[2, 1], &[2, b]], [&[9, a], &[9, 0]]];
            check(&sketch, &shapes.map(|shapes| call_of(dtype, &shapes)), 0.0);
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
        let (sketch, _) = cat_of(dtype, &[&[0], &[4, 3], &[2, 3]], -2, &[6, 3]);
        check(&sketch, &[call_of(dtype, &[&[0], &[4, 3], &[2, 3]]), call_of(dtype, &[&[0], &[1, 3], &[2, 3]])], 0.0);
        let (sketch, _) = cat_of(dtype, &[&[3], &[2]], 0, &[5]);
        check(&sketch, &[call_of(dtype, &[&[3], &[2]]), call_of(dtype, &[&[0], &[0]]), call_of(dtype, &[&[0], &[1]])], 0.0);
    }
    // The same tensor may occur twice.
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::UInt8, &[3, 5]);
    let (list, dim) = (sketch.value(Value::ValueList(vec![x, x, x])), sketch.int(1));
    let out = sketch.tensor(DataType::UInt8, &[3, 15]);
    sketch.call("aten.cat.default", &[list, dim, out]);
    sketch.output(out);
    check(&sketch, &inputs(DataType::UInt8, &[&[3, 5], &[1, 5], &[3, 2]]), 0.0);
}

#[test]
fn incompatible_tensors_are_rejected() {
    use DataType::Float32 as F;
    assert!(
        refusal(&cat_of(F, &[&[2, 3], &[2, 4]], 0, &[4, 3]).0).contains("`tensors` has [2, 4] at 1, expected [2, 3] apart")
    );
    assert!(refusal(&cat_of(F, &[&[2, 3], &[1]], 0, &[3, 3]).0).contains("`tensors` has [1] at 1"));
    assert!(refusal(&cat_of(F, &[&[2], &[]], 0, &[3]).0).contains("a single number at 1"));
    assert!(refusal(&cat_of(F, &[], 0, &[0]).0).contains("`tensors` is empty"));
    assert!(refusal(&cat_of(F, &[&[2, 3], &[2, 3]], 2, &[4, 3]).0).contains("`dim` is 2"));
    assert!(refusal(&cat_of(F, &[&[2, 3], &[2, 3]], 0, &[3, 3]).0).contains("past its bound [3, 3]"));
    let large = refusal(&cat_of(F, &[&[1 << 29, 1][..]; 3], 0, &[3, 1]).0);
    assert!(large.contains("`out` has 1610612736 elements, more than kernels index"), "{large}");
}

#[test]
fn cat_promotes_integers_to_floats() {
    let mut sketch = Sketch::new();
    let (a, b) = (sketch.input(DataType::Float32, &[3]), sketch.input(DataType::Int32, &[3]));
    let (list, dim) = (sketch.value(Value::ValueList(vec![b, a, b])), sketch.int(0));
    let out = sketch.tensor(DataType::Float32, &[9]);
    sketch.call("aten.cat.default", &[list, dim, out]);
    sketch.output(out);
    let call = |count: u32| {
        let integers = (0..i32::try_from(count).unwrap()).collect();
        vec![crate::testing::f32s(&[count], noise(1, count as usize)), crate::testing::i32s(&[count], integers)]
    };
    check(&sketch, &[call(3), call(1), call(2)], 0.0);
}

/// Splits a tensor.
fn split_of(dtype: DataType, bound: &[u32], sizes: &[u32], dim: usize) -> (Sketch, Vec<ValueId>) {
    let mut sketch = Sketch::new();
    let x = sketch.input(dtype, bound);
    let (list, at) = (Value::IntList(sizes.iter().map(|&size| size.into()).collect()), i64::try_from(dim).unwrap());
    let (list, at) = (sketch.value(list), sketch.int(at));
    let part = |size: &u32| dims(bound).with(dim, *size).to_vec();
    let outs: Vec<ValueId> = sizes.iter().map(part).map(|part| sketch.tensor(dtype, &part)).collect();
    let out = sketch.value(Value::ValueList(outs.clone()));
    sketch.call("aten.split_with_sizes_copy.default", &[x, list, at, out]);
    outs.iter().for_each(|&out| sketch.output(out));
    (sketch, outs)
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
            let (sketch, _) = split_of(dtype, bound, sizes, dim);
            let other = (dim + 1) % bound.len();
            let small = dims(bound).with(other, 1).to_vec();
            let none = dims(bound).with(other, 0).to_vec();
            check(&sketch, &inputs(dtype, &[bound, &small, &none, bound]), 0.0);
        }
    }
}

#[test]
fn seven_sections_are_one_dispatch() {
    let recipes = |dtype, bound: &[u32], sizes: &[u32]| Dry::new(&split_of(dtype, bound, sizes, 1).0).unwrap().recipes(0);
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
    let (sketch, outs) = split_of(DataType::Float32, &[9, 4], &[5, 4], 0);
    let mut dry = Dry::new(&sketch).unwrap();
    let error = dry.call(&[(&[7, 4], &[])]).unwrap_err().to_string();
    assert!(error.contains("`split_sizes` is [5, 4], expected sizes that add up to the 7 of dimension 0"), "{error}");
    dry.call(&[(&[9, 1], &[])]).unwrap();
    assert_eq!((dry.dims(outs[0]), dry.dims(outs[1])), (vec![5, 1], vec![4, 1]));
    use DataType::Float32 as F;
    assert!(refusal(&split_of(F, &[9, 4], &[5, 5], 0).0).contains("add up to the 9"));
    let mut sketch = Sketch::new();
    let x = sketch.input(F, &[4]);
    let (sizes, dim) = (sketch.value(Value::IntList(vec![5, -1])), sketch.int(0));
    let outs = [(); 2].map(|()| sketch.tensor(F, &[4])).to_vec();
    let out = sketch.value(Value::ValueList(outs[..1].to_vec()));
    let both = sketch.value(Value::ValueList(outs));
    sketch.call("aten.split_with_sizes_copy.default", &[x, sizes, dim, both]);
    assert!(refusal(&sketch).contains("`split_sizes` is [5, -1]"));
    sketch.graph.calls[0].args[3] = out;
    assert!(refusal(&sketch).contains("`out` has 1 tensors, expected 2"));
}

#[test]
fn symbolic_split_sizes_agree() {
    for (dtype, width) in [(DataType::Float32, 4), (DataType::Float32, 3), (DataType::UInt8, 3)] {
        let mut sketch = Sketch::new();
        let (x, y) = (sketch.input(dtype, &[12, width]), sketch.input(dtype, &[7, 1]));
        let zero = sketch.int(0);
        let [all, first, rest] = [(); 3].map(|()| sketch.value(Value::SymInt));
        sketch.call("sym_size.int", &[x, zero, all]);
        sketch.call("sym_size.int", &[y, zero, first]);
        sketch.call("sub", &[all, first, rest]);
        let sizes = sketch.value(Value::ValueList(vec![first, rest]));
        let outs = [7, 12].map(|rows| sketch.tensor(dtype, &[rows, width]));
        let out = sketch.value(Value::ValueList(outs.to_vec()));
        // At the bounds, symbols have the values that their operators compute: 7 and 5.
        sketch.call("aten.split_with_sizes_copy.default", &[x, sizes, zero, out]);
        outs.into_iter().for_each(|out| sketch.output(out));
        let call = |(all, first): (u32, u32)| vec![input(dtype, &[all, width], 1), input(dtype, &[first, 1], 2)];
        check(&sketch, &[(12, 7), (12, 1), (5, 5), (12, 0), (7, 2), (12, 3)].map(call), 0.0);
    }
}
