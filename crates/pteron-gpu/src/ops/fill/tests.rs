use crate::ir::{DataType, Value};
use crate::testing::{Sketch, check, f32s, refusal};

const TYPES: [DataType; 5] = [DataType::Float32, DataType::Int32, DataType::UInt8, DataType::Int8, DataType::Bool];

/// A call with as many empty options as the operator has.
fn call(sketch: &mut Sketch, name: &str, first: &[crate::ir::ValueId], options: usize, dtype: DataType, dims: &[u32]) {
    let none = sketch.value(Value::Null);
    let out = sketch.tensor(dtype, dims);
    sketch.call(name, &[first, &vec![none; options], &[out]].concat());
    sketch.output(out);
}

#[test]
fn fixed_shapes_of_every_dtype_agree() {
    for dtype in TYPES {
        for shape in [&[][..], &[1], &[3, 37], &[2, 1, 5, 1, 3], &[0, 4]] {
            let mut sketch = Sketch::new();
            let size = sketch.value(Value::IntList(shape.iter().map(|&dim: &u32| dim.into()).collect()));
            let value = sketch.float(-3.0);
            call(&mut sketch, "aten.full.default", &[size, value], 4, dtype, shape);
            call(&mut sketch, "aten.zeros.default", &[size], 4, dtype, shape);
            call(&mut sketch, "aten.ones.default", &[size], 4, dtype, shape);
            check(&sketch, &[vec![], vec![]], 0.0);
        }
        let mut sketch = Sketch::new();
        let value = sketch.int(7);
        call(&mut sketch, "aten.scalar_tensor.default", &[value], 4, dtype, &[]);
        check(&sketch, &[vec![]], 0.0);
    }
}

#[test]
fn symbolic_shapes_and_shapes_of_a_tensor_agree() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[9, 5]);
    let (zero, five, value) = (sketch.int(0), sketch.int(5), sketch.float(f64::NEG_INFINITY));
    let length = sketch.value(Value::SymInt);
    sketch.call("sym_size.int", &[x, zero, length]);
    let size = sketch.value(Value::ValueList(vec![five, length]));
    call(&mut sketch, "aten.full.default", &[size, value], 4, DataType::Float32, &[5, 9]);
    call(&mut sketch, "aten.full_like.default", &[x, value], 5, DataType::Float32, &[9, 5]);
    call(&mut sketch, "aten.ones_like.default", &[x], 5, DataType::Bool, &[9, 5]);
    call(&mut sketch, "aten.zeros_like.default", &[x], 5, DataType::Int32, &[9, 5]);
    check(&sketch, &[9, 1, 4, 0, 9].map(|rows: u32| vec![f32s(&[rows, 5], vec![1.0; (rows * 5) as usize])]), 0.0);
}

#[test]
fn symbolic_fill_value_agrees() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[9]);
    let (zero, length) = (sketch.int(0), sketch.value(Value::SymInt));
    sketch.call("sym_size.int", &[x, zero, length]);
    call(&mut sketch, "aten.scalar_tensor.default", &[length], 4, DataType::Float32, &[]);
    call(&mut sketch, "aten.scalar_tensor.default", &[length], 4, DataType::Int32, &[]);
    check(&sketch, &[9, 1, 4].map(|count: u32| vec![f32s(&[count], vec![1.0; count as usize])]), 0.0);
}

#[test]
fn negative_sizes_are_rejected() {
    let mut sketch = Sketch::new();
    let size = sketch.value(Value::IntList(vec![3, -1]));
    call(&mut sketch, "aten.zeros.default", &[size], 4, DataType::Float32, &[3, 1]);
    let text = refusal(&sketch);
    assert!(text.contains("`size` is [3, -1], which no tensor can have"), "{text}");
}
