//! Graphs of operators that the exporter never writes.

use super::Sample;
use crate::ir::{DataType, Value};
use crate::ops::{convert, lora, q8_conv, q8_linear, sample_row, sdpa};
use crate::testing::{GraphBuilder, f32s, i32s, noise, noise_bytes};

pub(super) fn samples() -> Vec<Sample> {
    let mut samples = convolutions();
    let linear = q8_linear::tests::Case::new("et_vk.linear_q8csw.default", 7, 24, 10);
    samples.push((linear.builder(), linear.calls(&[7, 1, 3])));
    samples.extend([
        comparisons(),
        rows(),
        cached_attention(),
        sampled_rows(),
        sdpa::paged::tests::sample(),
        lora::tests::sample(),
    ]);
    samples.extend(["pteron.embedding_bf16", "pteron.embedding_f16"].map(half_tables));
    samples.extend([convert::AS_BF16, convert::AS_F16].map(narrowed));
    samples
}

/// The argmax of each row of logits.
fn sampled_rows() -> Sample {
    let mut builder = GraphBuilder::new();
    let (logits, how) = (builder.input(DataType::Float32, &[1, 6, 40]), builder.input(DataType::Int32, &[6, 4]));
    let out = builder.tensor(DataType::Int32, &[6]);
    builder.call(sample_row::ROWS_NAME, &[logits, how, out]);
    builder.output(out);
    let calls = [6, 1, 3].map(|rows: u32| {
        vec![f32s(&[1, rows, 40], noise(5, rows as usize * 40)), i32s(&[rows, 4], vec![0; rows as usize * 4])]
    });
    (builder, calls.to_vec())
}

/// Rows of a table of 16-bit floats, held as bytes. No number has the exponent of infinities.
fn half_tables(name: &str) -> Sample {
    let mut builder = GraphBuilder::new();
    let bytes = noise_bytes(3, 11 * 6).into_iter().map(|byte| byte & 0xbf).collect();
    let weight = builder.constant(DataType::UInt8, &[11, 6], bytes);
    let indices = builder.input(DataType::Int32, &[7]);
    let out = builder.tensor(DataType::Float32, &[7, 3]);
    builder.call(name, &[weight, indices, out]);
    builder.output(out);
    let calls = [7, 1, 4].map(|count: u32| vec![i32s(&[count], (0..count.cast_signed()).map(|id| id * 3 % 11).collect())]);
    (builder, calls.to_vec())
}

fn narrowed(name: &str) -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[5, 9]);
    let out = builder.tensor(DataType::Float32, &[5, 9]);
    builder.call(name, &[x, out]);
    builder.output(out);
    let calls = [5, 1, 2].map(|rows: u32| vec![f32s(&[rows, 9], noise(rows.into(), rows as usize * 9))]);
    (builder, calls.to_vec())
}

fn convolutions() -> Vec<Sample> {
    let case = |name: &'static str| {
        let depthwise = name.contains("_dw");
        let groups = if depthwise { 4 } else { 1 };
        q8_conv::tests::Case { padding: [1, 1], groups, ..q8_conv::tests::Case::new(name, [1, 4, 6, 7], 8, [3, 2]) }
    };
    let names = [
        "et_vk.q8ta_conv2d_general.default",
        "et_vk.q8ta_conv2d_im2col.default",
        "et_vk.conv2d_q8ta_q8csw_q8to.default",
        "et_vk.conv2d_q8ta_q8csw_q8to_dw.default",
        "et_vk.conv2d_q8ta_q8csw.default",
        "et_vk.conv2d_q8csw.default",
    ];
    names.map(case).into_iter().map(|case| (case.builder(), case.calls(&[[6, 7], [3, 4], [6, 2]]))).collect()
}

/// Slices that start at the result of each comparison of a live length, and of a remainder, a maximum and a minimum.
fn comparisons() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[12, 4]);
    let (zero, one, six, none) = (builder.int(0), builder.int(1), builder.int(6), builder.value(Value::Null));
    let length = builder.value(Value::SymInt);
    builder.call("sym_size.int", &[x, zero, length]);
    for name in ["lt", "le", "gt", "ge", "eq", "mod", "sym_max", "sym_min"] {
        let (start, out) = (builder.value(Value::SymInt), builder.tensor(DataType::Float32, &[12, 4]));
        builder.call(name, &[length, six, start]);
        builder.call("aten.slice_copy.Tensor", &[x, zero, start, none, one, out]);
        builder.output(out);
    }
    let calls = [12, 6, 5].map(|rows: u32| vec![f32s(&[rows, 4], noise(1, rows as usize * 4))]);
    (builder, calls.to_vec())
}

/// Scales and zero points of rows, in two outputs.
fn rows() -> Sample {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[9, 20]);
    let range = [builder.int(-128), builder.int(127)];
    let outputs = [builder.tensor(DataType::Float32, &[9]), builder.tensor(DataType::Int8, &[9])];
    builder.call("etvk.choose_qparams_per_row.default", &[x, range[0], range[1], outputs[0], outputs[1]]);
    outputs.into_iter().for_each(|output| builder.output(output));
    let calls = [9, 1, 4].map(|rows: u32| vec![f32s(&[rows, 20], noise(1, rows as usize * 20))]);
    (builder, calls.to_vec())
}

/// Attention over caches that hold the new tokens.
fn cached_attention() -> Sample {
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let q = builder.input(float, &[1, 9, 4, 8]);
    let caches = [(); 2].map(|()| builder.input(float, &[1, 20, 2, 8]));
    let position = builder.input(DataType::Int32, &[1]);
    let (zero, at, none) = (builder.int(0), builder.value(Value::SymInt), builder.value(Value::Null));
    let (no_dropout, causal) = (builder.float(0.0), builder.value(Value::Bool(true)));
    let out = builder.tensor(float, &[1, 9, 4, 8]);
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    builder.call("llama.custom_sdpa.default", &[q, caches[0], caches[1], at, none, no_dropout, causal, none, out]);
    builder.output(out);
    let calls = [(9, 0), (1, 9), (5, 15)].map(|(count, at): (u32, i32)| {
        let cache = |seed: u64| f32s(&[1, 20, 2, 8], noise(seed, 320));
        vec![f32s(&[1, count, 4, 8], noise(3, count as usize * 32)), cache(1), cache(2), i32s(&[1], vec![at])]
    });
    (builder, calls.to_vec())
}
