//! Tests of the graph and the engine as a whole; those of single operators are beside them.

mod cache;
mod docs;
mod filling;
mod follow;
mod fusions;
mod limits;
mod loading;
mod memory;
mod operators;
mod random;
mod resize;

use crate::engine::{Gpu, GpuOptions, LoadOptions, LoadedGraph, block_on};
use crate::testing::Sketch;

/// A device of one test alone, so that nobody else's work is counted.
fn own_gpu() -> Gpu {
    let options = GpuOptions { adapter: std::env::var("PTERON_ADAPTER").ok(), ..GpuOptions::default() };
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

fn load_on(gpu: &Gpu, sketch: &Sketch, options: &LoadOptions) -> crate::Result<LoadedGraph> {
    sketch.load_on(gpu, options)
}
