use super::NAME;
use crate::ir::{DataType, Value};
use crate::reference::{HostData, HostTensor};
use crate::testing::{GraphBuilder, check, dims, f32s, load_error, noise, noise_bytes};

fn builder(m: u32, k: u32, n: u32, bias: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[1, m, k]);
    let multipliers = builder.input(DataType::Float32, &[1, m, 1]);
    let zero_points = builder.input(DataType::Int8, &[1, m, 1]);
    let weight = builder.constant(DataType::Int8, &[n, k], noise_bytes(5, (n * k) as usize));
    let scales: Vec<f32> = noise(6, n as usize).iter().map(|scale| 0.01 + scale * 0.005).collect();
    let scales = builder.floats(&[n], &scales);
    let bias = if bias { builder.floats(&[n], &noise(7, n as usize)) } else { builder.value(Value::Null) };
    let out = builder.tensor(DataType::Float32, &[1, m, n]);
    builder.call(NAME, &[x, multipliers, zero_points, weight, scales, bias, out]);
    builder.output(out);
    builder
}

fn call(m: u32, k: u32) -> Vec<HostTensor> {
    let multipliers = noise(8, m as usize).iter().map(|value| 90.0 + 20.0 * value).collect();
    let zero_points = HostTensor { dims: dims(&[1, m, 1]), data: HostData::U8(noise_bytes(9, m as usize)) };
    vec![f32s(&[1, m, k], noise(u64::from(m), (m * k) as usize)), f32s(&[1, m, 1], multipliers), zero_points]
}

#[test]
fn rows_are_exact_but_for_the_last_float_operations() {
    for (k, n, bias) in [(64, 12, true), (37, 9, false), (5, 70, true), (256, 33, true)] {
        let calls: Vec<_> = [40, 1, 0, 3, 9, 6, 2].map(|m| call(m, k)).to_vec();
        check(&builder(40, k, n, bias), &calls, 1e-6);
    }
}

#[test]
fn rows_without_parameters_are_refused() {
    let mut wrong = builder(4, 8, 4, false);
    wrong.graph.calls[0].args[1] = wrong.floats(&[3], &[1.0; 3]);
    assert!(load_error(&wrong).contains("`multipliers` is [3], expected one for each of the input's 4 rows"));
}
