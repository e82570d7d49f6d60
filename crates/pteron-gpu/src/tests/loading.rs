//! Loading progress: reported meanwhile, and complete at the end. Uploads and compilation run concurrently, and either may
//! fail.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use super::{cache_values, own_gpu, two_caches};
use crate::Error;
use crate::engine::{Gpu, LoadOptions, LoadProgress, LoadedGraph, OnProgress, PreparedGraph, ProgressCounter, block_on};
use crate::ir::{ConstantId, DataType};
use crate::testing::{GraphBuilder, f32s, noise, noise_bytes, run};

/// A graph whose one constant takes more than one write, and is read back.
fn builder() -> (GraphBuilder, Vec<u8>) {
    let bytes = noise_bytes(1, (16 << 20) + 5);
    let mut builder = GraphBuilder::new();
    let constant = builder.constant(DataType::UInt8, &[u32::try_from(bytes.len()).unwrap()], bytes.clone());
    let input = builder.input(DataType::Float32, &[4]);
    let (once, twice) = (builder.tensor(DataType::Float32, &[4]), builder.tensor(DataType::Float32, &[4]));
    builder.call("aten.sigmoid.default", &[input, once]);
    builder.call("aten.sigmoid.default", &[once, twice]);
    builder.output(constant);
    builder.output(twice);
    (builder, bytes)
}

/// Loads a graph, and returns it with all progress reports.
fn load(gpu: &Gpu, builder: &GraphBuilder) -> (LoadedGraph, Vec<LoadProgress>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = OnProgress::new({
        let told = Arc::clone(&told);
        move |progress| told.lock().unwrap().push(progress)
    });
    let graph = PreparedGraph::new(gpu, builder.decode().unwrap(), &LoadOptions::default()).unwrap();
    let mut loading = ProgressCounter::new(Some(&listener));
    loading.expect(&graph);
    let constants = |id: ConstantId| builder.constants.get(id.index()).map(|bytes| Cow::Borrowed(bytes.as_slice()));
    let loaded = block_on(graph.load(&constants, &loading)).unwrap();
    let told = told.lock().unwrap().clone();
    (loaded, told)
}

#[test]
fn progress_ends_at_the_announced_totals() {
    let (gpu, (builder, bytes)) = (own_gpu(), builder());
    // The device stores whole words.
    let total_bytes = bytes.len().next_multiple_of(4) as u64;
    // The second time the device has the pipeline already.
    for _ in 0..2 {
        let (loaded, told) = load(&gpu, &builder);
        assert!(told.iter().all(|now| (now.total_bytes, now.total_pipelines) == (total_bytes, 1)), "{told:?}");
        let steps = told.windows(2).map(|pair| (pair[0], pair[1]));
        for (before, after) in steps {
            assert!(before.uploaded_bytes <= after.uploaded_bytes, "{told:?}");
            assert!(before.ready_pipelines <= after.ready_pipelines, "{told:?}");
        }
        assert!(told.iter().any(|now| 0 < now.uploaded_bytes && now.uploaded_bytes < total_bytes), "{told:?}");
        let last = told.last().unwrap();
        assert_eq!((last.uploaded_bytes, last.ready_pipelines), (total_bytes, 1));
        let outputs = run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&[4], vec![1.0, 2.0, 3.0, 4.0])]).unwrap();
        assert!(outputs[0].bytes == bytes, "a constant of several writes is whole");
    }
    assert_eq!(gpu.counts().pipelines, 1);
}

/// Adjacent constants of all lengths, so that batches begin and end inside them and at every alignment.
#[test]
fn constants_of_any_length_are_uploaded_whole() {
    let lengths = [1, 2, 3, 4, 5, 4097, (8 << 20) - 3, 7, (8 << 20) + 1, 1 << 16, (20 << 20) + 2, 9];
    let mut builder = GraphBuilder::new();
    for (seed, &length) in (0..).zip(&lengths) {
        let constant = builder.constant(DataType::UInt8, &[u32::try_from(length).unwrap()], noise_bytes(seed, length));
        builder.output(constant);
    }
    let (gpu, sum) = (own_gpu(), |all: u64, &length: &usize| all + length.next_multiple_of(4) as u64);
    let (loaded, told) = load(&gpu, &builder);
    let last = told.last().unwrap();
    assert_eq!((last.uploaded_bytes, last.total_bytes), (last.total_bytes, lengths.iter().fold(0, sum)));
    let outputs = run(&loaded, &mut loaded.new_state().unwrap(), &[]).unwrap();
    for (output, want) in outputs.iter().zip(&builder.constants) {
        assert!(output.bytes == *want, "a constant of {} bytes", want.len());
    }
}

/// A state with a nonzero initial value is read from the file, however many leading zeros it has; a zero state needs
/// nothing.
#[test]
fn states_start_as_the_file_has_them() {
    let builder = two_caches(2048, [0.5, 0.0]);
    let graph = builder.load_on(&own_gpu(), &LoadOptions::default()).unwrap();
    let outputs = run(&graph, &mut graph.new_state().unwrap(), &[f32s(&[1, 1, 1, 4], vec![1.0; 4])]).unwrap();
    for (output, last) in outputs.iter().zip([0.5f32, 0.0]) {
        let want = cache_values(2048, 1.0, last);
        assert!(output.bytes == bytemuck::cast_slice::<f32, u8>(&want), "the one that ends with {last}");
    }
}

#[test]
fn failed_upload_is_reported_and_the_device_stays_usable() {
    let (gpu, (builder, _)) = (own_gpu(), builder());
    let graph = PreparedGraph::new(&gpu, builder.decode().unwrap(), &LoadOptions::default()).unwrap();
    let missing = block_on(graph.load(&|_| None, &ProgressCounter::default())).unwrap_err();
    assert!(matches!(missing, Error::MissingConstant { .. }), "{missing}");
    let (loaded, _) = load(&gpu, &builder);
    run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&[4], noise(1, 4))]).unwrap();
}

#[test]
fn device_lost_while_loading_is_reported() {
    let (gpu, (builder, bytes)) = (own_gpu(), builder());
    let graph = PreparedGraph::new(&gpu, builder.decode().unwrap(), &LoadOptions::default()).unwrap();
    // The device is lost when the first constant is requested: pipelines are compiling by then, and nothing is uploaded.
    let constants = |_| {
        gpu.destroy();
        Some(Cow::Borrowed(bytes.as_slice()))
    };
    let lost = block_on(graph.load(&constants, &ProgressCounter::default())).unwrap_err();
    assert!(matches!(lost, Error::Lost(_)), "{lost}");
}

/// The allocator reserves little more than a graph needs: joined constants are not duplicated, and staging buffers are
/// freed.
#[test]
fn allocated_memory_is_close_to_needed() {
    let gpu = own_gpu();
    let mut builder = GraphBuilder::new();
    let floats = 6 << 20;
    let mut last = builder.input(DataType::Float32, &[floats]);
    let alpha = builder.int(1);
    for seed in 0..4 {
        let weights = builder.floats(&[floats], &noise(seed, floats as usize));
        let sum = builder.tensor(DataType::Float32, &[floats]);
        builder.call("aten.add.Tensor", &[last, weights, alpha, sum]);
        last = sum;
    }
    builder.output(last);
    let graph = builder.load_on(&gpu, &LoadOptions::default()).unwrap();
    let mut state = graph.new_state().unwrap();
    run(&graph, &mut state, &[f32s(&[floats], noise(9, floats as usize))]).unwrap();
    let needed = graph.memory_needed();
    assert_eq!(needed.constant_bytes, 4 * 4 * u64::from(floats));
    let Some(allocated) = gpu.allocated() else { return };
    assert!(allocated.used_bytes <= allocated.reserved_bytes, "{allocated:?}");
    assert!(allocated.used_bytes >= graph.memory_bytes(), "{allocated:?}, {}", graph.memory_bytes());
    // Staging and readback hold another copy of this graph's input and output, which a model's do not.
    let copies = 2 * 4 * u64::from(floats);
    let most = (needed.constant_bytes + needed.activation_bytes + copies) * 110 / 100;
    assert!(allocated.reserved_bytes <= most, "{allocated:?}, at most {most}, {needed:?}");
}

#[test]
fn constants_of_floats_of_every_size_are_converted() {
    let values = [1.5f32, -0.25, 3.0e38];
    let doubles = [1.5f64, -0.25, 1e-3];
    let brain: Vec<u8> = values.iter().flat_map(|&value| half::bf16::from_f32(value).to_le_bytes()).collect();
    let wide: Vec<u8> = doubles.iter().flat_map(|value| value.to_le_bytes()).collect();
    let expected: [Vec<f32>; 2] =
        [values.map(|value| half::bf16::from_f32(value).to_f32()).to_vec(), vec![1.5, -0.25, 1e-3]];
    for ((dtype, bytes), want) in [(DataType::BFloat16, brain), (DataType::Float64, wide)].into_iter().zip(expected) {
        let mut builder = GraphBuilder::new();
        let constant = builder.constant(dtype, &[3], bytes);
        let out = builder.tensor(dtype, &[3]);
        builder.call("aten.neg.default", &[constant, out]);
        builder.output(out);
        let loaded = builder.load(&LoadOptions::default()).unwrap();
        let out = run(&loaded, &mut loaded.new_state().unwrap(), &[]).unwrap().remove(0);
        let got: Vec<f32> = bytemuck::pod_collect_to_vec(&out.bytes);
        assert_eq!(got, want.iter().map(|value| -value).collect::<Vec<_>>(), "{dtype:?}");
    }
}
