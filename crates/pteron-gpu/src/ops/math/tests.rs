use crate::ir::{DataType, Value};
use crate::testing::case::{Case, F, I, float, int, none, x};
use crate::testing::{GraphBuilder, check, f32s, load_error};

const FUNCTIONS: [&str; 13] = [
    "aten.log.default",
    "aten.log2.default",
    "aten.expm1.default",
    "aten.reciprocal.default",
    "aten.erf.default",
    "aten.sinh.default",
    "aten.cosh.default",
    "aten.asin.default",
    "aten.acos.default",
    "aten.atan.default",
    "aten.asinh.default",
    "aten.acosh.default",
    "aten.atanh.default",
];

#[test]
fn functions_agree_over_their_range() {
    let mut values: Vec<f32> = (-60..=60).map(|step| step as f32 * 0.05).collect();
    values.extend([0.0, 1e-6, -1e-4, 1.0, -1.0, 12.0, -30.0, 1e5, 3e20, -2e15, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    let count = u32::try_from(values.len()).unwrap();
    for name in FUNCTIONS {
        let case = Case::new(name, [x(F, &[count])], (F, &[count]));
        println!("{name}");
        check(&case.builder(), &[vec![f32s(&[count], values.clone())]], 3e-6);
    }
}

#[test]
fn integers_become_floats_and_stay_integers_where_pytorch_keeps_them() {
    for name in ["aten.erf.default", "aten.atan.default", "aten.cosh.default"] {
        for dtype in [I, DataType::Bool, DataType::UInt8] {
            Case::new(name, [x(dtype, &[9, 3])], (F, &[9, 3])).check(&[1, 4], 1e-5);
        }
    }
    for name in ["aten.sign.default", "aten.floor.default", "aten.ceil.default", "aten.trunc.default", "aten.frac.default"] {
        for dtype in [F, I, DataType::Int8] {
            Case::new(name, [x(dtype, &[9, 3])], (dtype, &[9, 3])).check(&[1, 4], 1e-6);
        }
    }
}

#[test]
fn arithmetic_with_scalars_follows_the_output_type() {
    let with_alpha = ["aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar"];
    for name in with_alpha {
        Case::new(name, [x(I, &[7, 3]), int(5), int(2)], (I, &[7, 3])).check(&[1], 0.0);
        Case::new(name, [x(I, &[7, 3]), float(0.5), int(2)], (F, &[7, 3])).check(&[1], 0.0);
        Case::new(name, [x(F, &[7, 3]), float(0.5), int(1)], (F, &[7, 3])).check(&[1], 1e-6);
    }
    let names = ["aten.mul.Scalar", "aten.floor_divide.Scalar", "aten.fmod.Scalar", "aten.remainder.Scalar"];
    for name in names {
        for scalar in [3, -2] {
            Case::new(name, [x(I, &[7, 3]), int(scalar)], (I, &[7, 3])).check(&[1], 0.0);
            // An integer where the program meant a float: the output shows it.
            Case::new(name, [x(I, &[7, 3]), int(scalar)], (F, &[7, 3])).check(&[1], 0.0);
        }
        for scalar in [0.75, -1.3] {
            Case::new(name, [x(F, &[7, 3]), float(scalar)], (F, &[7, 3])).check(&[1], 1e-5);
        }
    }
    Case::new("aten.div.Scalar", [x(I, &[7, 3]), int(3)], (F, &[7, 3])).check(&[1], 1e-6);
    for mode in [Value::Null, Value::String("floor".into()), Value::String("trunc".into())] {
        let out = if mode == Value::Null { F } else { I };
        let args = |dtype| [x(dtype, &[7, 3]), int(3), crate::testing::case::Arg::Value(mode.clone())];
        Case::new("aten.div.Scalar_mode", args(I), (out, &[7, 3])).check(&[1], 1e-6);
        Case::new("aten.div.Scalar_mode", args(F), (F, &[7, 3])).check(&[1], 1e-6);
    }
}

#[test]
fn powers_of_a_scalar_and_bits_agree() {
    Case::new("aten.pow.Scalar", [float(1.5), x(F, &[7, 3])], (F, &[7, 3])).check(&[1], 1e-5);
    Case::new("aten.pow.Scalar", [int(2), x(I, &[7, 3])], (I, &[7, 3])).check(&[1], 0.0);
    for name in ["aten.bitwise_and.Scalar", "aten.bitwise_or.Scalar", "aten.bitwise_xor.Scalar"] {
        for dtype in [I, DataType::Int8, DataType::UInt8] {
            Case::new(name, [x(dtype, &[7, 3]), int(5)], (dtype, &[7, 3])).check(&[1], 0.0);
        }
    }
    for (name, by) in [
        ("aten.bitwise_left_shift.Tensor_Scalar", 3),
        ("aten.bitwise_right_shift.Tensor_Scalar", 1),
        ("aten.bitwise_left_shift.Tensor_Scalar", 40),
        ("aten.bitwise_right_shift.Tensor_Scalar", 40),
    ] {
        Case::new(name, [x(I, &[7, 3]), int(by)], (I, &[7, 3])).check(&[1], 0.0);
    }
}

#[test]
fn logit_and_rounding_to_decimals_agree() {
    Case::new("aten.logit.default", [x(F, &[9, 3]), float(0.01)], (F, &[9, 3])).check(&[2], 1e-5);
    Case::new("aten.logit.default", [x(F, &[9, 3]), none()], (F, &[9, 3])).check(&[2], 1e-5);
    Case::new("aten.round.decimals", [x(F, &[9, 3]), int(2)], (F, &[9, 3])).check(&[2], 1e-6);
}

#[test]
fn symbolic_scalar_follows_the_call() {
    let mut builder = GraphBuilder::new();
    let input = builder.input(F, &[9]);
    let (zero, length) = (builder.int(0), builder.value(Value::SymInt));
    builder.call("sym_size.int", &[input, zero, length]);
    let out = builder.tensor(F, &[9]);
    builder.call("aten.mul.Scalar", &[input, length, out]);
    builder.output(out);
    check(&builder, &[9, 1, 4].map(|count: u32| vec![f32s(&[count], vec![1.5; count as usize])]), 0.0);
}

#[test]
fn bad_arguments_are_rejected() {
    let text = load_error(&Case::new("aten.bitwise_and.Scalar", [x(F, &[3]), int(1)], (F, &[3])).builder());
    assert!(text.contains("`self` has elements F32"), "{text}");
    let text = load_error(&Case::new("aten.round.decimals", [x(F, &[3]), int(99)], (F, &[3])).builder());
    assert!(text.contains("`decimals` is 99"), "{text}");
    let text = load_error(&Case::new("aten.sinh.default", [x(F, &[3])], (I, &[3])).builder());
    assert!(text.contains("`out` has elements I32, but the result's are F32"), "{text}");
}
