use super::*;
use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{Sketch, bools, check, dims, f32s, i32s};

const SPECIAL: [f32; 8] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 2.5];

#[test]
fn every_binary_row_agrees_on_special_floats() {
    for row in BINARY_TABLE {
        let mut sketch = Sketch::new();
        let inputs = [sketch.input(DataType::Float32, &[8, 1]), sketch.input(DataType::Float32, &[8])];
        let out = sketch.tensor(DataType::Bool, &[8, 8]);
        sketch.call(row.name, &[inputs[0], inputs[1], out]);
        sketch.output(out);
        let call = |rows: u32| vec![f32s(&[rows, 1], SPECIAL[..rows as usize].to_vec()), f32s(&[8], SPECIAL.to_vec())];
        check(&sketch, &[call(8), call(1), call(3)], 0.0);
    }
}

#[test]
fn byte_tensors_of_every_remainder_agree() {
    for count in [1u32, 2, 3, 4, 5, 63, 65, 257] {
        let mut sketch = Sketch::new();
        let inputs = [(); 2].map(|()| sketch.input(DataType::Bool, &[count]));
        let out = sketch.tensor(DataType::Bool, &[count]);
        sketch.call("aten.logical_and.default", &[inputs[0], inputs[1], out]);
        sketch.output(out);
        check(&sketch, &[vec![bools(&[count], 1), bools(&[count], 2)]], 0.0);
    }
}

fn alone(name: &str, dtype: DataType, number: Option<Value>, out: DataType, count: u32) -> Sketch {
    let mut sketch = Sketch::new();
    let mut args = vec![sketch.input(dtype, &[count])];
    args.extend(number.map(|number| sketch.value(number)));
    args.push(sketch.tensor(out, &[count]));
    sketch.call(name, &args);
    sketch.output(args[args.len() - 1]);
    sketch
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
