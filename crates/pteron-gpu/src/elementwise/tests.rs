//! Properties of all elementwise families: types, promotion, errors, broadcasting at live shapes.

use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, bools, check, dims, f32s, i32s, load_error, noise, noise_bytes};

const F: DataType = DataType::Float32;
const I: DataType = DataType::Int32;
const B: DataType = DataType::Bool;

fn any(dtype: DataType, shape: &[u32], seed: u64) -> HostTensor {
    let count = shape.iter().map(|&dim| dim as usize).product();
    match dtype {
        DataType::Float32 => f32s(shape, noise(seed, count)),
        DataType::Int32 => i32s(shape, noise_bytes(seed, count).iter().map(|&byte| i32::from(byte) - 128).collect()),
        DataType::Bool => bools(shape, seed),
        _ => HostTensor { dims: dims(shape), data: HostData::U8(noise_bytes(seed, count)) },
    }
}

fn builder(name: &str, inputs: &[(DataType, &[u32])], values: &[Value], out: (DataType, &[u32])) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args: Vec<_> = inputs.iter().map(|&(dtype, bound)| builder.input(dtype, bound)).collect();
    args.extend(values.iter().map(|value| builder.value(value.clone())));
    args.push(builder.tensor(out.0, out.1));
    builder.call(name, &args);
    builder.output(args[args.len() - 1]);
    builder
}

#[test]
fn every_pair_of_dtypes_is_compared() {
    let types = [F, I, B, DataType::UInt8, DataType::Int8];
    for a in types {
        for b in types {
            let builder = builder("aten.lt.Tensor", &[(a, &[5, 7]), (b, &[7])], &[], (B, &[5, 7]));
            let calls = [5, 1, 3].map(|rows| vec![any(a, &[rows, 7], 3), any(b, &[7], 4)]);
            check(&builder, &calls, 0.0);
        }
    }
}

#[test]
fn every_dtype_converts_to_every_other() {
    let types = [F, I, B, DataType::UInt8, DataType::Int8];
    let options = || vec![Value::Null; 6];
    for from in types {
        for to in types {
            let builder = builder("aten._to_copy.default", &[(from, &[9, 3])], &options(), (to, &[9, 3]));
            check(&builder, &[9, 1, 0, 4].map(|rows| vec![any(from, &[rows, 3], 5)]), 0.0);
        }
    }
}

#[test]
fn broadcasting_agrees_vectorised_and_element_by_element() {
    for width in [8u32, 7] {
        let bounds: [(DataType, &[u32]); 2] = [(F, &[3, 9, 1, width]), (F, &[9, 4, 1])];
        let builder = builder("aten.mul.Tensor", &bounds, &[], (F, &[3, 9, 4, width]));
        let calls = [(3, 9), (2, 1), (1, 5), (0, 9)]
            .map(|(outer, middle): (u32, u32)| vec![any(F, &[outer, middle, 1, width], 3), any(F, &[middle, 4, 1], 4)]);
        check(&builder, &calls, 1e-6);
    }
}

#[test]
fn ranks_from_zero_to_eight_agree() {
    let shapes: [(&[u32], &[u32], &[u32]); 6] = [
        (&[], &[], &[]),
        (&[5], &[], &[5]),
        (&[], &[3, 1], &[3, 1]),
        (&[2, 1, 3, 2, 5], &[2, 3, 1, 2, 1], &[2, 3, 3, 2, 5]),
        (&[1, 2, 1, 3, 1, 2, 1, 2], &[2, 1, 3, 1, 2, 1, 2, 1], &[2, 2, 3, 3, 2, 2, 2, 2]),
        (&[4, 1], &[1, 1, 4], &[1, 4, 4]),
    ];
    for (a, b, out) in shapes {
        let builder = builder("aten.minimum.default", &[(F, a), (F, b)], &[], (F, out));
        check(&builder, &[vec![any(F, a, 1), any(F, b, 2)]], 0.0);
    }
}

#[test]
fn more_elements_than_one_row_of_workgroups_agree() {
    let builder = builder("aten.neg.default", &[(I, &[300_001])], &[], (I, &[300_001]));
    check(&builder, &[vec![any(I, &[300_001], 1)], vec![any(I, &[70_000], 2)]], 0.0);
}

#[test]
fn unsupported_arguments_are_rejected_by_name() {
    let int = |value| vec![Value::Int(value)];
    let text = load_error(&builder("aten.add.Tensor", &[(I, &[4]), (I, &[4])], &int(1), (B, &[4])));
    assert!(text.contains("`out` has elements Bool, but the result's are I32"), "{text}");
    let text = load_error(&builder("aten.bitwise_or.Tensor", &[(I, &[4]), (F, &[4])], &[], (I, &[4])));
    assert!(text.contains("`other` has elements F32, supported: [I32, U8, I8, Bool]"), "{text}");
    let half = vec![Value::Double(0.5)];
    let text = load_error(&builder("aten.add.Tensor", &[(I, &[4]), (I, &[4])], &half, (I, &[4])));
    assert!(text.contains("`out` has elements I32, but the result's are F32"), "{text}");
    let text = load_error(&builder("aten.where.self", &[(F, &[4]), (F, &[4]), (F, &[4])], &[], (F, &[4])));
    assert!(text.contains("`condition` has elements F32"), "{text}");
    let text = load_error(&builder("aten.mul.Tensor", &[(F, &[4]), (F, &[3])], &[], (F, &[4])));
    assert!(text.contains("`other` is [3], which cannot be broadcast with [4]"), "{text}");
}

#[test]
fn results_are_cast_to_the_declared_type_as_pytorch_casts() {
    let one = || vec![Value::Int(1)];
    let types = [F, I, B, DataType::UInt8, DataType::Int8];
    for a in types {
        for (b, out) in [(F, F), (I, F), (B, F), (DataType::UInt8, F)] {
            let builder = builder("aten.add.Tensor", &[(a, &[5, 7]), (b, &[7])], &one(), (out, &[5, 7]));
            check(&builder, &[5, 1].map(|rows| vec![any(a, &[rows, 7], 3), any(b, &[7], 4)]), 1e-6);
        }
    }
    for out in [I, DataType::UInt8, DataType::Int8] {
        let builder = builder("aten.mul.Tensor", &[(I, &[5, 7]), (DataType::Int8, &[7])], &[], (out, &[5, 7]));
        check(&builder, &[5, 1].map(|rows| vec![any(I, &[rows, 7], 3), any(DataType::Int8, &[7], 4)]), 0.0);
    }
    let builder = builder("aten.eq.Tensor", &[(F, &[4]), (F, &[4])], &[], (F, &[4]));
    check(&builder, &[vec![any(F, &[4], 1), any(F, &[4], 1)]], 0.0);
}
