//! GPU time of the attention kernels compared with naive kernels of one thread per element, in one run.
//!
//! ```text
//! cargo run --release -p pteron-gpu --features bench --example attention -- [--adapter NAME] [--repeat N]
//! ```
//!
//! The shape is that of Llama 3.2 1B: 32 query heads, 8 KV heads, a head dim of 64, a cache of 2,048. Cooperative matrices
//! are used where the GPU has them. Each figure is the median over the repetitions of the time between the timestamps around
//! one dispatch.

use std::collections::BTreeMap;
use std::process::ExitCode;

use pteron_gpu::engine::{Gpu, GpuOptions, LoadOptions, LoadedGraph, Precision, TensorData, block_on};
use pteron_gpu::fuse::Fusions;
use pteron_gpu::ir::{Call, DataType, Graph, Tensor, Value, ValueId};
use pteron_gpu::shape::Dims;

const HEADS: u32 = 32;
const KV_HEADS: u32 = 8;
const LANES: u32 = 64;
const CONTEXT: u32 = 2048;
const MAX_TOKENS: u32 = 2048;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let option = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let repeat = option("--repeat").and_then(|text| text.parse().ok()).unwrap_or(20);
    match run(option("--adapter"), repeat) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("attention: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(adapter: Option<String>, repeat: usize) -> pteron_gpu::Result<()> {
    let gpu = block_on(Gpu::open(&GpuOptions::default().with_adapter(adapter)))?;
    let summary = gpu.adapter();
    println!("{} ({}, {}), {repeat} repetitions, microseconds", summary.name, summary.driver, summary.backend);
    println!("{HEADS} heads over {KV_HEADS}, {LANES} lanes, cache {CONTEXT}");
    let kinds = ["sdpa_with_kv_cache.default", "pteron.sdpa_naive"];
    let graphs = kinds.map(|name| load(&gpu, name));
    for (tokens, position) in
        [(1, 0), (1, 512), (1, 2047), (8, 2040), (128, 0), (128, 1920), (512, 0), (512, 1536), (2048, 0)]
    {
        for (kind, graph) in kinds.iter().zip(&graphs) {
            let graph = graph.as_ref().map_err(|error| pteron_gpu::Error::Device(error.to_string()))?;
            let times = time(graph, tokens, position, repeat)?;
            let line: Vec<String> = times.iter().map(|(label, time)| format!("{label} {time:.1}")).collect();
            println!("S = {tokens:4}, position {position:4}, {kind}: {}", line.join(", "));
        }
    }
    Ok(())
}

/// A graph of one attention whose position is an input.
fn load(gpu: &Gpu, name: &str) -> pteron_gpu::Result<LoadedGraph> {
    let mut graph = Graph::default();
    let mut add = |value: Value| graph.add(value);
    let tensor = |dtype, dims: &[u32]| Value::Tensor(Tensor::new(dtype, dims));
    let float = |heads, length| tensor(DataType::Float32, &[1, length, heads, LANES]);
    let position = add(tensor(DataType::Int32, &[1]));
    let [q, k, v] = [HEADS, KV_HEADS, KV_HEADS].map(|heads| add(float(heads, MAX_TOKENS)));
    let [k_cache, v_cache] = [0, 1].map(|_| add(float(KV_HEADS, CONTEXT)));
    let (zero, none, yes) = (add(Value::Int(0)), add(Value::Null), add(Value::Bool(true)));
    let (at, out) = (add(Value::SymInt), add(float(HEADS, MAX_TOKENS)));
    graph.inputs = vec![position, q, k, v, k_cache, v_cache];
    graph.outputs = vec![out];
    let call = |name: &str, args: &[ValueId]| Call::named(name, args.to_vec());
    let calls = [
        call("et_vk.select_as_symint.default", &[position, zero, zero, at]),
        call(name, &[q, k, v, k_cache, v_cache, at, zero, none, zero, yes, none, out]),
    ];
    graph.calls = calls.into_iter().flatten().collect();
    let options = LoadOptions { precision: Precision::Fast, ..LoadOptions::default() };
    block_on(LoadedGraph::load(gpu, graph.decode(&Fusions::NONE)?, &|_| None, &options))
}

/// The median time of each kernel, by label.
fn time(graph: &LoadedGraph, tokens: u32, position: u32, repeat: usize) -> pteron_gpu::Result<BTreeMap<String, f64>> {
    let noise = |count: u32| -> Vec<f32> {
        (0..count).map(|i| f32::from(u16::try_from(i * 7 % 64).unwrap_or(0)) / 64.0 - 0.5).collect()
    };
    let shape = |heads: u32, length: u32| Dims::new(&[1, length, heads, LANES]).unwrap_or(Dims::SCALAR);
    let lengths = [(HEADS, tokens), (KV_HEADS, tokens), (KV_HEADS, tokens), (KV_HEADS, CONTEXT), (KV_HEADS, CONTEXT)];
    let data: Vec<Vec<f32>> = lengths.iter().map(|&(heads, length)| noise(heads * length * LANES)).collect();
    let at = [i32::try_from(position).unwrap_or(0)];
    let mut inputs = vec![TensorData::i32(Dims::new(&[1]).unwrap_or(Dims::SCALAR), &at).into()];
    inputs.extend(
        lengths.iter().zip(&data).map(|(&(heads, length), data)| TensorData::f32(shape(heads, length), data).into()),
    );
    let mut state = graph.new_state()?;
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..repeat {
        let (_, profile) = block_on(graph.call_profiled(&mut state, &inputs))?;
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for dispatch in &profile.dispatches {
            *sums.entry(dispatch.kernel).or_default() += profile.duration(dispatch) / 1000.0;
        }
        for (label, time) in sums {
            all.entry(label.to_owned()).or_default().push(time);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok(all.into_iter().map(|(label, times)| (label, median(times))).collect())
}
