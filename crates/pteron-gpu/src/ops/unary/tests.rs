use super::*;
use crate::ir::{DataType, Value};
use crate::testing::{DryRun, GraphBuilder, check, f32s, i32s, load_error, noise};

const SPECIAL: [f32; 16] =
    [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -1e30, 6.0, -3.0];

/// The arguments between the tensor and the output, as exported.
fn arguments(name: &str) -> Vec<Value> {
    let number = |value: f64| Value::Double(value);
    match name {
        "aten.gelu.default" => vec![Value::String("tanh".into())],
        "aten.leaky_relu.default" => vec![number(0.01)],
        "aten.hardshrink.default" => vec![number(0.5)],
        "aten.hardtanh.default" => vec![number(-1.0), number(1.0)],
        "aten.clamp.default" => vec![number(-0.75), Value::Null],
        "aten.pow.Tensor_Scalar" => vec![number(3.0)],
        "aten.elu.default" => vec![number(1.25), number(1.5), number(0.75)],
        _ => Vec::new(),
    }
}

fn builder_with(name: &str, dtype: DataType, bound: &[u32], arguments: Vec<Value>) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(dtype, bound)];
    args.extend(arguments.into_iter().map(|value| builder.value(value)));
    let out = builder.tensor(dtype, bound);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    builder
}

fn builder(name: &str, bound: &[u32]) -> GraphBuilder {
    builder_with(name, DataType::Float32, bound, arguments(name))
}

/// The operators on floats.
fn of_floats() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(|row| row.dtypes.contains(&Elem::F32))
}

#[test]
fn bytes_are_rectified_and_quantised_anew() {
    use crate::reference::{HostData, HostTensor};
    let numbers = [Value::Double(0.031), Value::Int(3), Value::Double(0.019), Value::Int(-9)];
    let builder = builder_with("et_vk.q8ta_relu.default", DataType::Int8, &[256], numbers.to_vec());
    let all = HostTensor { dims: crate::testing::dims(&[256]), data: HostData::U8((0..=255).collect()) };
    check(&builder, &[vec![all]], 0.0);
    let numbers = [Value::Double(0.0), Value::Int(3), Value::Double(0.019), Value::Int(-9)];
    let builder = builder_with("et_vk.q8ta_relu.default", DataType::Int8, &[4], numbers.to_vec());
    assert!(load_error(&builder).contains("`input_scale` is 0, it must be above 0"));
}

#[test]
fn every_row_agrees_at_every_shape() {
    let positive = ["aten.sqrt.default", "aten.rsqrt.default", "aten.log10.default", "aten.log1p.default"];
    for row in of_floats() {
        let calls = [&[3, 37][..], &[1, 1], &[0, 37], &[2, 5], &[3, 37]].map(|shape| {
            let values = noise(7, shape.iter().product::<u32>() as usize);
            let values = values.into_iter().map(|x| if positive.contains(&row.name) { x.abs() + 0.01 } else { x * 20.0 });
            // Exponentials are compared where they are not huge.
            let values = values.map(|x| if row.name == "aten.exp.default" { x / 4.0 } else { x });
            // Near its poles a tangent has no digits.
            let values = values.map(|x| if row.name == "aten.tan.default" { x / 20.0 } else { x });
            vec![f32s(shape, values.collect())]
        });
        check(&builder(row.name, &[3, 37]), &calls, 1e-5);
    }
}

#[test]
fn every_row_agrees_on_special_floats() {
    for row in of_floats() {
        // Sines of numbers with thirty digits are noise.
        let periodic = ["sin", "cos", "tan."].iter().any(|name| row.name.contains(name));
        let keep = |x: &f32| !periodic || x.abs() < 1e4 || x.is_nan();
        let values: Vec<f32> = SPECIAL.into_iter().filter(keep).collect();
        let shape = [u32::try_from(values.len()).unwrap()];
        println!("{}", row.name);
        check(&builder(row.name, &shape), &[vec![f32s(&shape, values)]], 1e-5);
    }
}

#[test]
fn sine_is_accurate_for_large_arguments() {
    let values: Vec<f32> = (0..4001u16).map(|i| (f32::from(i) - 2000.0) * 3.7).collect();
    for name in ["aten.sin.default", "aten.cos.default"] {
        check(&builder(name, &[4001]), &[vec![f32s(&[4001], values.clone())]], 2e-6);
    }
}

#[test]
fn gelu_is_accurate_in_the_tails() {
    let values: Vec<f32> = (0..2001u16).map(|i| (f32::from(i) - 1000.0) / 100.0).collect();
    for way in ["none", "tanh"] {
        let builder = builder_with("aten.gelu.default", DataType::Float32, &[2001], vec![Value::String(way.into())]);
        check(&builder, &[vec![f32s(&[2001], values.clone())]], 1e-6);
    }
    let builder = builder_with("aten.gelu.default", DataType::Float32, &[4], vec![Value::String("sigmoid".into())]);
    assert!(load_error(&builder).contains("`approximate` is \"sigmoid\", supported: \"none\", \"tanh\""));
}

#[test]
fn powers_agree() {
    let values = || vec![-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 10.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for exponent in [0.0, 1.0, 2.0, 3.0, 4.0, 7.0, -1.0, -2.0, -3.0, 0.5, -0.5, 2.5, 65.0, 100.0, f64::INFINITY, f64::NAN] {
        println!("to the power {exponent}");
        let number = vec![Value::Double(exponent)];
        let builder = builder_with("aten.pow.Tensor_Scalar", DataType::Float32, &[13], number);
        check(&builder, &[vec![f32s(&[13], values())]], 2e-5);
    }
}

#[test]
fn integers_agree() {
    let ints = || vec![i32s(&[7], vec![i32::MAX, i32::MIN + 1, 0, -5, 5, 100, -100])];
    for name in ["aten.abs.default", "aten.neg.default"] {
        check(&builder_with(name, DataType::Int32, &[7], vec![]), &[ints()], 0.0);
    }
    for bounds in [vec![Value::Int(-5), Value::Int(7)], vec![Value::Null, Value::Int(3)], vec![Value::Int(9), Value::Int(3)]]
    {
        check(&builder_with("aten.clamp.default", DataType::Int32, &[7], bounds), &[ints()], 0.0);
    }
    for name in ["aten.relu.default", "aten.round.default"] {
        check(&builder_with(name, DataType::Int32, &[7], vec![]), &[ints()], 0.0);
    }
    let text = load_error(&builder_with("aten.sigmoid.default", DataType::Int32, &[4], vec![]));
    assert!(text.contains("`out` has elements I32, but the result's are F32"), "{text}");
}

#[test]
fn clamp_bounds_may_cross_but_not_be_nan() {
    let number = |value: f64| Value::Double(value);
    let values = || vec![f32s(&[5], vec![-2.0, -0.5, 0.0, 0.5, f32::NAN])];
    for bounds in [[number(1.0), number(-1.0)], [Value::Null, Value::Null], [Value::Int(0), number(f64::INFINITY)]] {
        check(&builder_with("aten.clamp.default", DataType::Float32, &[5], bounds.to_vec()), &[values()], 0.0);
    }
    let bounds = vec![number(f64::NAN), Value::Null];
    assert!(load_error(&builder_with("aten.clamp.default", DataType::Float32, &[5], bounds)).contains("`min` is NaN"));
}

#[test]
fn scalars_and_empty_tensors_agree() {
    check(&builder("aten.sigmoid.default", &[]), &[vec![f32s(&[], vec![0.5])]], 1e-6);
    let mut dry_run = DryRun::new(&builder("aten.relu.default", &[5, 1024])).unwrap();
    assert_eq!(dry_run.planned.plans()[0].steps[0].grid.groups(), 5);
    dry_run.call(&[(&[0, 1024], &[])]).unwrap();
    assert_eq!(dry_run.recipes(0), [0usize; 0]);
}
