use crate::ir::{DataType, Value};
use crate::testing::{Sketch, check, f32s, noise, refusal};

fn number(value: f64) -> Value {
    Value::Double(value)
}

#[test]
fn quantise_and_dequantise_agree() {
    let mut sketch = Sketch::new();
    let x = sketch.input(DataType::Float32, &[3, 37]);
    let q = sketch.tensor(DataType::Int8, &[3, 37]);
    let back = sketch.tensor(DataType::Float32, &[3, 37]);
    let scheme = [number(0.05), Value::Int(-3), Value::Int(-128), Value::Int(127)].map(|value| sketch.value(value));
    let none = sketch.value(Value::Null);
    let call = |first, last: &[_]| [&[first], &scheme[..], last].concat();
    sketch.call("quantized_decomposed.quantize_per_tensor.default", &call(x, &[none, q]));
    sketch.call("quantized_decomposed.dequantize_per_tensor.default", &call(q, &[none, none, back]));
    sketch.output(q);
    sketch.output(back);
    let calls = [3, 1, 0, 2]
        .map(|rows: u32| vec![f32s(&[rows, 37], noise(3, (rows * 37) as usize).iter().map(|value| value * 9.0).collect())]);
    check(&sketch, &calls, 1e-6);
}

#[test]
fn scale_of_zero_is_rejected() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut sketch = Sketch::new();
        let x = sketch.input(DataType::Float32, &[4]);
        let scheme = [number(scale), Value::Int(0), Value::Int(-128), Value::Int(127), Value::Null];
        let scheme = scheme.map(|value| sketch.value(value));
        let q = sketch.tensor(DataType::Int8, &[4]);
        sketch.call("quantized_decomposed.quantize_per_tensor.default", &[&[x], &scheme[..], &[q]].concat());
        assert!(refusal(&sketch).contains("`scale` is"), "{scale}");
    }
}

#[test]
fn other_dim_orders_are_rejected() {
    for (order, fine) in [(vec![0, 1], true), (vec![1, 0], false)] {
        let mut sketch = Sketch::new();
        let x = sketch.input(DataType::Int32, &[4, 3]);
        let options = [(); 5].map(|()| sketch.value(Value::Null));
        let order = sketch.value(Value::IntList(order));
        let out = sketch.tensor(DataType::Float32, &[4, 3]);
        sketch.call("dim_order_ops._to_dim_order_copy.default", &[&[x], &options[..], &[order, out]].concat());
        sketch.output(out);
        match fine {
            true => check(&sketch, &[vec![crate::testing::i32s(&[4, 3], (0..12).collect())]], 0.0),
            false => assert!(refusal(&sketch).contains("`dim_order` is [1, 0], only the contiguous order is supported")),
        }
    }
}
