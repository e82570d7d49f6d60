use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, check, f32s, load_error, noise};

fn number(value: f64) -> Value {
    Value::Double(value)
}

#[test]
fn quantise_and_dequantise_agree() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[3, 37]);
    let q = builder.tensor(DataType::Int8, &[3, 37]);
    let back = builder.tensor(DataType::Float32, &[3, 37]);
    let scheme = [number(0.05), Value::Int(-3), Value::Int(-128), Value::Int(127)].map(|value| builder.value(value));
    let none = builder.value(Value::Null);
    let call = |first, last: &[_]| [&[first], &scheme[..], last].concat();
    builder.call("quantized_decomposed.quantize_per_tensor.default", &call(x, &[none, q]));
    builder.call("quantized_decomposed.dequantize_per_tensor.default", &call(q, &[none, none, back]));
    builder.output(q);
    builder.output(back);
    let calls = [3, 1, 0, 2]
        .map(|rows: u32| vec![f32s(&[rows, 37], noise(3, (rows * 37) as usize).iter().map(|value| value * 9.0).collect())]);
    check(&builder, &calls, 1e-6);
}

#[test]
fn scale_of_zero_is_rejected() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[4]);
        let scheme = [number(scale), Value::Int(0), Value::Int(-128), Value::Int(127), Value::Null];
        let scheme = scheme.map(|value| builder.value(value));
        let q = builder.tensor(DataType::Int8, &[4]);
        builder.call("quantized_decomposed.quantize_per_tensor.default", &[&[x], &scheme[..], &[q]].concat());
        assert!(load_error(&builder).contains("`scale` is"), "{scale}");
    }
}

#[test]
fn other_dim_orders_are_rejected() {
    for (order, fine) in [(vec![0, 1], true), (vec![1, 0], false)] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Int32, &[4, 3]);
        let options = [(); 5].map(|()| builder.value(Value::Null));
        let order = builder.value(Value::IntList(order));
        let out = builder.tensor(DataType::Float32, &[4, 3]);
        builder.call("dim_order_ops._to_dim_order_copy.default", &[&[x], &options[..], &[order, out]].concat());
        builder.output(out);
        match fine {
            true => check(&builder, &[vec![crate::testing::i32s(&[4, 3], (0..12).collect())]], 0.0),
            false => assert!(load_error(&builder).contains("`dim_order` is [1, 0], only the contiguous order is supported")),
        }
    }
}

#[test]
fn numbers_of_16_bits_are_the_nearest() {
    let ties = [
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0,
        -0.099_975_586,
        65519.9,
        65520.0,
        3e38,
    ];
    let small = [6e-8, 3e-8, 2.98e-8, 9e-8, -6.1e-5, 5.96e-8, 0.0, -0.0];
    let mut values = [ties, small].concat();
    values.extend([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
    values.extend(noise(11, 500));
    let count = u32::try_from(values.len()).unwrap();
    for name in [super::AS_BF16, super::AS_F16] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[count]);
        let out = builder.tensor(DataType::Float32, &[count]);
        builder.call(name, &[x, out]);
        builder.output(out);
        check(&builder, &[vec![f32s(&[count], values.clone())], vec![f32s(&[2], vec![0.1, 0.2])]], 0.0);
    }
}
