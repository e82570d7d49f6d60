use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, check, f32s, load_error};

const TYPES: [DataType; 5] = [DataType::Float32, DataType::Int32, DataType::UInt8, DataType::Int8, DataType::Bool];

/// A call with as many empty options as the operator has.
fn call(
    builder: &mut GraphBuilder,
    name: &str,
    first: &[crate::ir::ValueId],
    options: usize,
    dtype: DataType,
    dims: &[u32],
) {
    let none = builder.value(Value::Null);
    let out = builder.tensor(dtype, dims);
    builder.call(name, &[first, &vec![none; options], &[out]].concat());
    builder.output(out);
}

#[test]
fn fixed_shapes_of_every_dtype_agree() {
    for dtype in TYPES {
        for shape in [&[][..], &[1], &[3, 37], &[2, 1, 5, 1, 3], &[0, 4]] {
            let mut builder = GraphBuilder::new();
            let size = builder.value(Value::IntList(shape.iter().map(|&dim: &u32| dim.into()).collect()));
            let value = builder.float(-3.0);
            call(&mut builder, "aten.full.default", &[size, value], 4, dtype, shape);
            call(&mut builder, "aten.zeros.default", &[size], 4, dtype, shape);
            call(&mut builder, "aten.ones.default", &[size], 4, dtype, shape);
            check(&builder, &[vec![], vec![]], 0.0);
        }
        let mut builder = GraphBuilder::new();
        let value = builder.int(7);
        call(&mut builder, "aten.scalar_tensor.default", &[value], 4, dtype, &[]);
        check(&builder, &[vec![]], 0.0);
    }
}

#[test]
fn symbolic_shapes_and_shapes_of_a_tensor_agree() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[9, 5]);
    let (zero, five, value) = (builder.int(0), builder.int(5), builder.float(f64::NEG_INFINITY));
    let length = builder.value(Value::SymInt);
    builder.call("sym_size.int", &[x, zero, length]);
    let size = builder.value(Value::ValueList(vec![five, length]));
    call(&mut builder, "aten.full.default", &[size, value], 4, DataType::Float32, &[5, 9]);
    call(&mut builder, "aten.full_like.default", &[x, value], 5, DataType::Float32, &[9, 5]);
    call(&mut builder, "aten.ones_like.default", &[x], 5, DataType::Bool, &[9, 5]);
    call(&mut builder, "aten.zeros_like.default", &[x], 5, DataType::Int32, &[9, 5]);
    check(&builder, &[9, 1, 4, 0, 9].map(|rows: u32| vec![f32s(&[rows, 5], vec![1.0; (rows * 5) as usize])]), 0.0);
}

#[test]
fn symbolic_fill_value_agrees() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[9]);
    let (zero, length) = (builder.int(0), builder.value(Value::SymInt));
    builder.call("sym_size.int", &[x, zero, length]);
    call(&mut builder, "aten.scalar_tensor.default", &[length], 4, DataType::Float32, &[]);
    call(&mut builder, "aten.scalar_tensor.default", &[length], 4, DataType::Int32, &[]);
    check(&builder, &[9, 1, 4].map(|count: u32| vec![f32s(&[count], vec![1.0; count as usize])]), 0.0);
}

#[test]
fn negative_sizes_are_rejected() {
    let mut builder = GraphBuilder::new();
    let size = builder.value(Value::IntList(vec![3, -1]));
    call(&mut builder, "aten.zeros.default", &[size], 4, DataType::Float32, &[3, 1]);
    let text = load_error(&builder);
    assert!(text.contains("`size` is [3, -1], which no tensor can have"), "{text}");
}
