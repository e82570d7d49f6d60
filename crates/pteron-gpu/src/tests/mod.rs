//! Tests of the graph and the engine as a whole; tests of single operators are beside them.

mod blow_ups;
mod bounds;
mod cache;
mod convolutions;
mod docs;
mod from_device;
mod fusions;
mod guards;
mod large_inputs;
mod limits;
mod loading;
mod memory;
mod no_memory;
mod operators;
mod pipelined;
mod random;
mod resize;
mod streaming;

use crate::engine::{Gpu, GpuOptions, LoadOptions, LoadedGraph, block_on};
use crate::ir::DataType;
use crate::testing::GraphBuilder;

/// A separate device per test, so that other work is not counted.
fn own_gpu() -> Gpu {
    let options = GpuOptions { adapter: std::env::var("PTERON_ADAPTER").ok(), ..GpuOptions::default() };
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

/// Two caches of `rows` rows with the given initial value in the last row of each. The input is their first row.
fn two_caches(rows: u32, last: [f32; 2]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let row = builder.input(DataType::Float32, &[1, 1, 1, 4]);
    let start = builder.int(0);
    for last in last {
        let cache = builder.floats(&[1, rows, 1, 4], &cache_values(rows, 0.0, last));
        let out = builder.tensor(DataType::Float32, &[1]);
        builder.call("update_cache.default", &[row, cache, start, out]);
        builder.output(cache);
    }
    builder
}

/// The content of such a cache.
fn cache_values(rows: u32, first: f32, last: f32) -> Vec<f32> {
    let mut values = vec![0.0; 4 * rows as usize];
    let end = values.len() - 4;
    values[..4].fill(first);
    values[end] = last;
    values
}

fn load_on(gpu: &Gpu, builder: &GraphBuilder, options: &LoadOptions) -> crate::Result<LoadedGraph> {
    builder.load_on(gpu, options)
}
