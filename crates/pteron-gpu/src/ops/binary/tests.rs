use crate::ir::{DataType, Value};
use crate::testing::{GraphBuilder, bools, check, f32s, i32s, noise};

fn builder(name: &str, dtype: DataType, a: &[u32], b: &[u32], out: &[u32], alpha: Option<f64>) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(dtype, a), builder.input(dtype, b)];
    if let Some(alpha) = alpha {
        args.push(builder.float(alpha));
    }
    args.push(builder.tensor(dtype, out));
    builder.call(name, &args);
    builder.output(args[args.len() - 1]);
    builder
}

#[test]
fn equal_shapes_of_any_length_agree() {
    let builder = builder("aten.add.Tensor", DataType::Float32, &[64, 37], &[64, 37], &[64, 37], Some(0.5));
    let calls = [64, 1, 7, 0, 33, 64].map(|rows: u32| {
        let count = rows as usize * 37;
        vec![f32s(&[rows, 37], noise(1, count)), f32s(&[rows, 37], noise(2, count))]
    });
    check(&builder, &calls, 1e-6);
}

#[test]
fn broadcasting_either_input_agrees_at_live_shapes() {
    let builder = builder("aten.mul.Tensor", DataType::Float32, &[3, 9, 1, 5], &[9, 4, 1], &[3, 9, 4, 5], None);
    let calls = [(3, 9), (2, 1), (1, 5)].map(|(outer, middle): (u32, u32)| {
        let a = f32s(&[outer, middle, 1, 5], noise(3, (outer * middle * 5) as usize));
        vec![a, f32s(&[middle, 4, 1], noise(4, (middle * 4) as usize))]
    });
    check(&builder, &calls, 1e-6);
}

#[test]
fn scalars_and_integers_agree() {
    let number = builder("aten.add.Tensor", DataType::Float32, &[5, 7], &[], &[5, 7], Some(2.0));
    check(&number, &[vec![f32s(&[5, 7], noise(5, 35)), f32s(&[], vec![0.25])]], 1e-6);
    let integers = builder("aten.add.Tensor", DataType::Int32, &[6], &[6], &[6], Some(3.0));
    check(&integers, &[vec![i32s(&[6], (0..6).collect()), i32s(&[6], (10..16).collect())]], 0.0);
}

#[test]
fn incompatible_shapes_are_rejected_without_effect() {
    let builder = builder("aten.add.Tensor", DataType::Float32, &[8], &[8], &[8], Some(1.0));
    let loaded = builder.load(&Default::default()).unwrap();
    let mut state = loaded.new_state().unwrap();
    let good = [f32s(&[3], vec![1.0, 2.0, 3.0]), f32s(&[3], vec![1.0; 3])];
    let before = crate::testing::run(&loaded, &mut state, &good).unwrap();
    let error = crate::testing::run(&loaded, &mut state, &[f32s(&[3], vec![0.0; 3]), f32s(&[4], vec![0.0; 4])]).unwrap_err();
    assert_eq!(error.to_string(), "aten.add.Tensor (call 0): `other` is [4], which cannot be broadcast with [3]");
    assert_eq!(crate::testing::run(&loaded, &mut state, &good).unwrap(), before);
}

const SPECIAL: [f32; 10] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, 1.0, -1.0, 2.5, -7.0, 0.1, 1e30];

/// Every pair of special numbers, by broadcasting a column against a row.
fn pairs(name: &str, argument: Option<Value>, tolerance: f32) {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(DataType::Float32, &[10, 1]), builder.input(DataType::Float32, &[10])];
    args.extend(argument.map(|value| builder.value(value)));
    let out = builder.tensor(DataType::Float32, &[10, 10]);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    println!("{name}");
    check(&builder, &[vec![f32s(&[10, 1], SPECIAL.to_vec()), f32s(&[10], SPECIAL.to_vec())]], tolerance);
}

/// The reciprocal of these divisors is subnormal, which GPUs may flush to zero.
#[test]
fn quotients_of_huge_numbers_are_not_flushed() {
    for mode in [Value::Null, Value::String("floor".into()), Value::String("trunc".into())] {
        let mut builder = GraphBuilder::new();
        let mut args = [(); 2].map(|()| builder.input(DataType::Float32, &[4])).to_vec();
        args.push(builder.value(mode));
        let out = builder.tensor(DataType::Float32, &[4]);
        args.push(out);
        builder.call("aten.div.Tensor_mode", &args);
        builder.output(out);
        let (a, b) = (vec![3e38, -3e38, 3.3e38, 1.0], vec![3e38, 1.5e38, 1e38, 2e38]);
        check(&builder, &[vec![f32s(&[4], a), f32s(&[4], b)]], 1e-6);
    }
}

#[test]
fn special_floats_agree_with_the_host() {
    pairs("aten.add.Tensor", Some(Value::Int(1)), 1e-6);
    pairs("aten.sub.Tensor", Some(Value::Double(2.5)), 1e-6);
    pairs("aten.mul.Tensor", None, 1e-6);
    pairs("aten.div.Tensor", None, 1e-6);
    pairs("aten.minimum.default", None, 0.0);
    pairs("aten.pow.Tensor_Tensor", None, 2e-5);
    for mode in ["floor", "trunc"] {
        pairs("aten.div.Tensor_mode", Some(Value::String(mode.into())), 1e-6);
    }
    pairs("aten.div.Tensor_mode", Some(Value::Null), 1e-6);
}

#[test]
fn integer_division_agrees() {
    let numbers: Vec<i32> = vec![-7, -6, -1, 0, 1, 6, 7, i32::MAX];
    let divisors: Vec<i32> = vec![-3, -2, -1, 1, 2, 3];
    for mode in ["floor", "trunc"] {
        let mut builder = GraphBuilder::new();
        let mut args = vec![builder.input(DataType::Int32, &[8, 1]), builder.input(DataType::Int32, &[6])];
        args.push(builder.value(Value::String(mode.into())));
        args.push(builder.tensor(DataType::Int32, &[8, 6]));
        builder.call("aten.div.Tensor_mode", &args);
        builder.output(args[3]);
        check(&builder, &[vec![i32s(&[8, 1], numbers.clone()), i32s(&[6], divisors.clone())]], 0.0);
    }
    // Without rounding it is a float.
    let mut builder = GraphBuilder::new();
    let inputs = [builder.input(DataType::Int32, &[8, 1]), builder.input(DataType::Int32, &[6])];
    let out = builder.tensor(DataType::Float32, &[8, 6]);
    builder.call("aten.div.Tensor", &[inputs[0], inputs[1], out]);
    builder.output(out);
    check(&builder, &[vec![i32s(&[8, 1], numbers), i32s(&[6], divisors)]], 1e-6);
}

#[test]
fn integer_powers_wrap() {
    let mut builder = GraphBuilder::new();
    let inputs = [builder.input(DataType::Int32, &[7, 1]), builder.input(DataType::Int32, &[6])];
    let out = builder.tensor(DataType::Int32, &[7, 6]);
    builder.call("aten.pow.Tensor_Tensor", &[inputs[0], inputs[1], out]);
    builder.output(out);
    let calls = vec![i32s(&[7, 1], vec![-3, -2, -1, 0, 1, 2, 10]), i32s(&[6], vec![-2, -1, 0, 1, 5, 31])];
    check(&builder, &[calls], 0.0);
}

#[test]
fn bitwise_operators_agree() {
    for name in ["aten.bitwise_and.Tensor", "aten.bitwise_or.Tensor"] {
        let integers = builder(name, DataType::Int32, &[5], &[5], &[5], None);
        check(&integers, &[vec![i32s(&[5], vec![0, 1, -1, 6, 12]), i32s(&[5], vec![3, -8, 7, 5, 10])]], 0.0);
        let truths = builder(name, DataType::Bool, &[2, 5], &[2, 5], &[2, 5], None);
        check(&truths, &[vec![bools(&[2, 5], 1), bools(&[2, 5], 2)]], 0.0);
    }
}

#[test]
fn unknown_rounding_mode_is_rejected() {
    let mut builder = GraphBuilder::new();
    let mut args = vec![builder.input(DataType::Float32, &[4]), builder.input(DataType::Float32, &[4])];
    args.push(builder.value(Value::String("ceil".into())));
    args.push(builder.tensor(DataType::Float32, &[4]));
    builder.call("aten.div.Tensor_mode", &args);
    assert!(
        crate::testing::load_error(&builder).contains("`rounding_mode` is \"ceil\", supported: None, \"floor\", \"trunc\"")
    );
}
