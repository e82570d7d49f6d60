use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, i32s, load_error, noise, noise_bytes};

/// A call with scales and zero points as inputs. `block` is the argument after the input or the zero points, by operator.
fn builder(name: &str, x: &[u32], scales: &[u32], block: Option<Value>, integers: DataType) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let dequantises = name.contains("dequantize");
    let (from, to) = if dequantises { (integers, DataType::Float32) } else { (DataType::Float32, integers) };
    let input = builder.input(from, x);
    let (scale, zero) = (builder.input(DataType::Float32, scales), builder.input(DataType::Int32, scales));
    let none = builder.value(Value::Null);
    let affine = name.contains("affine");
    let mut args = vec![input];
    let block = block.map(|block| builder.value(block));
    args.extend(block.filter(|_| affine));
    args.extend([scale, zero]);
    args.extend(block.filter(|_| !affine));
    args.extend([none].into_iter().filter(|_| affine));
    args.extend([builder.int(-100), builder.int(90)]);
    args.extend([none].into_iter().filter(|_| !affine));
    args.extend([none].into_iter().filter(|_| dequantises));
    let out = builder.tensor(to, x);
    args.push(out);
    builder.call(name, &args);
    builder.output(out);
    builder
}

fn call(name: &str, x: &[u32], scales: &[u32], integers: DataType) -> Vec<HostTensor> {
    let count = |shape: &[u32]| shape.iter().product::<u32>() as usize;
    let input = match (name.contains("dequantize"), integers) {
        (false, _) => f32s(x, noise(1, count(x)).iter().map(|value| value * 3.0).collect()),
        (true, DataType::Int32) => i32s(x, noise_bytes(1, count(x)).iter().map(|&byte| i32::from(byte) * 3).collect()),
        (true, _) => HostTensor { dims: dims(x), data: HostData::U8(noise_bytes(1, count(x))) },
    };
    let steps = noise(2, count(scales)).iter().map(|value| value.abs() / 8.0 + 0.01).collect();
    let zeros = noise_bytes(3, count(scales)).iter().map(|&byte| i32::from(byte) % 19 - 9).collect();
    vec![input, f32s(scales, steps), i32s(scales, zeros)]
}

#[test]
fn channels_tokens_tensors_and_blocks_agree_at_live_shapes() {
    for kind in ["quantize", "dequantize"] {
        for integers in [DataType::Int8, DataType::UInt8, DataType::Int32] {
            let name = format!("quantized_decomposed.{kind}_per_channel.default");
            let axis = || Some(Value::Int(1));
            let calls = [6, 1, 0, 3].map(|rows| call(&name, &[rows, 5, 3], &[5], integers));
            check(&builder(&name, &[6, 5, 3], &[5], axis(), integers), &calls, 1e-6);
            let name = format!("quantized_decomposed.{kind}_per_token.default");
            let calls = [6, 1, 3].map(|rows| call(&name, &[rows, 7], &[rows, 1], integers));
            check(&builder(&name, &[6, 7], &[6, 1], None, integers), &calls, 1e-6);
            let name = format!("quantized_decomposed.{kind}_per_tensor.tensor");
            let calls = [6, 1, 3].map(|rows| call(&name, &[rows, 7], &[], integers));
            check(&builder(&name, &[6, 7], &[], None, integers), &calls, 1e-6);
            let name = format!("torchao.{kind}_affine.default");
            let calls = [6, 2, 4].map(|rows| call(&name, &[rows, 8], &[rows / 2, 2], integers));
            check(&builder(&name, &[6, 8], &[3, 2], Some(Value::IntList(vec![2, 4])), integers), &calls, 1e-6);
        }
    }
}

#[test]
fn bad_blocks_and_parameters_are_rejected() {
    let integers = DataType::Int8;
    let text = load_error(&builder(
        "torchao.quantize_affine.default",
        &[6, 8],
        &[3, 2],
        Some(Value::IntList(vec![4, 4])),
        integers,
    ));
    assert!(text.contains("`block_size` has 4, which does not divide 6 of an input of [6, 8]"), "{text}");
    let text = load_error(&builder(
        "quantized_decomposed.quantize_per_channel.default",
        &[6, 8],
        &[7],
        Some(Value::Int(1)),
        integers,
    ));
    assert!(text.contains("`scale` is [7], but an input of [6, 8] has blocks of [6, 1], 8 in all"), "{text}");
    let text = load_error(&builder(
        "quantized_decomposed.quantize_per_channel.default",
        &[6, 8],
        &[8],
        Some(Value::Int(2)),
        integers,
    ));
    assert!(text.contains("`axis` is 2"), "{text}");
}
