use super::*;
use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, bools, check, dims, f32s, i32s};

const SPECIAL: [f32; 8] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5];

#[test]
fn every_binary_row_agrees_on_special_floats() {
    for row in BINARY_TABLE {
        let mut builder = GraphBuilder::new();
        let inputs = [builder.input(DataType::Float32, &[8, 1]), builder.input(DataType::Float32, &[8])];
        let out = builder.tensor(DataType::Bool, &[8, 8]);
        builder.call(row.name, &[inputs[0], inputs[1], out]);
        builder.output(out);
        let call = |rows: u32| vec![f32s(&[rows, 1], SPECIAL[..rows as usize].to_vec()), f32s(&[8], SPECIAL.to_vec())];
        check(&builder, &[call(8), call(1), call(3)], 0.0);
    }
}

#[test]
fn byte_tensors_of_every_remainder_agree() {
    for count in [1u32, 2, 3, 4, 5, 63, 65, 257] {
        let mut builder = GraphBuilder::new();
        let inputs = [(); 2].map(|()| builder.input(DataType::Bool, &[count]));
        let out = builder.tensor(DataType::Bool, &[count]);
        builder.call("aten.logical_and.default", &[inputs[0], inputs[1], out]);
        builder.output(out);
        check(&builder, &[vec![bools(&[count], 1), bools(&[count], 2)]], 0.0);
    }
}

fn alone(name: &str, dtype: DataType, number: Option<Value>, out: DataType, count: u32) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(dtype, &[count])];
    args.extend(number.map(|number| builder.value(number)));
    args.push(builder.tensor(out, &[count]));
    builder.call(name, &args);
    builder.output(args[args.len() - 1]);
    builder
}

#[test]
fn every_unary_row_agrees() {
    for row in UNARY_TABLE.iter().filter(|row| row.name.ends_with(".Scalar")) {
        // Integers are compared with fractions and with numbers out of their range as floats are.
        for number in [0.0, 1.0, 2.5, -1e12] {
            let value = || Some(Value::Double(number));
            check(
                &alone(row.name, DataType::Float32, value(), DataType::Bool, 8),
                &[vec![f32s(&[8], SPECIAL.to_vec())]],
                0.0,
            );
            let integers = vec![i32s(&[5], vec![-2, 0, 1, 2, 3])];
            check(&alone(row.name, DataType::Int32, value(), DataType::Bool, 5), &[integers], 0.0);
        }
    }
    let not = "aten.logical_not.default";
    check(&alone(not, DataType::Float32, None, DataType::Bool, 8), &[vec![f32s(&[8], SPECIAL.to_vec())]], 0.0);
    let not = "aten.bitwise_not.default";
    check(&alone(not, DataType::Int32, None, DataType::Int32, 4), &[vec![i32s(&[4], vec![0, 1, -1, 77])]], 0.0);
    let bytes = || HostTensor { dims: dims(&[5]), data: HostData::U8(vec![0, 1, 1, 0, 1]) };
    check(&alone(not, DataType::Bool, None, DataType::Bool, 5), &[vec![bytes()]], 0.0);
    check(&alone(not, DataType::UInt8, None, DataType::UInt8, 5), &[vec![bytes()]], 0.0);
}
