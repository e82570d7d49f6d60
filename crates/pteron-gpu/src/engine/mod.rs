//! The engine: the only callers of wgpu.
//!
//! [`Gpu`] is a device. [`LoadedGraph`] is a graph loaded on it: constants uploaded, pipelines compiled, memory and bind
//! groups created, all from the operators' recipes. [`State`] holds the tensors that calls change and keep (KV caches): one
//! per conversation. A call plans, writes once, runs one compute pass in one submit, and reads live bytes back.

mod adapter;
#[cfg(not(target_arch = "wasm32"))]
mod bandwidth;
mod binding;
mod buffer_plan;
mod buffers;
#[cfg(not(target_arch = "wasm32"))]
mod cache;
mod call;
mod constant_writer;
mod constants;
mod device;
mod device_errors;
mod device_memory;
#[cfg(test)]
mod emulated;
mod encode;
mod feedback;
mod grouped;
mod guards;
mod input_staging;
mod inputs;
mod instance;
mod load;
mod pipelined;
mod pipelines;
mod precision;
mod profile;
mod progress;
mod second_readback;
mod shared_budget;
mod state;
mod streaming;
mod upload;
mod uploaded_inputs;
mod wait;

pub use adapter::{AdapterSummary, DeviceLimits};
pub use buffers::{Allocated, Counts};
#[cfg(not(target_arch = "wasm32"))]
pub use cache::PipelineCacheSummary;
#[cfg(not(target_arch = "wasm32"))]
#[doc(hidden)]
pub use cache::{parse_pipeline_cache, pipeline_cache_content};
#[cfg(test)]
pub(crate) use device::open_adapter;
pub use device::{Gpu, GpuOptions, adapters};
pub use feedback::Feedback;
pub use grouped::MAX_GROUP;
pub use inputs::{Input, TensorData, check_input_count};
pub use load::{ConstantBytes, LoadOptions, LoadedGraph, MemoryUse, PreparedGraph};
pub use pipelined::{PendingCall, Readback};
pub use precision::Precision;
pub use profile::{DispatchTime, Profile, Timing};
pub use progress::{LoadProgress, OnProgress, ProgressCounter};
pub use second_readback::FirstElements;
pub use shared_budget::SharedBudget;
pub use state::State;
pub use streaming::StreamingGraph;

pub use crate::narrow_state::StateDtype;

/// Runs a future to completion on this thread.
#[cfg(not(target_arch = "wasm32"))]
pub fn block_on<F: Future>(future: F) -> F::Output {
    pollster::block_on(future)
}
