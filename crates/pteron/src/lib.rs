//! Runs ExecuTorch programs on any GPU.
//!
//! ```no_run
//! use pteron::{Gpu, GpuOptions, LoadOptions, Program, Tensor};
//!
//! # async fn run() -> pteron::Result<()> {
//! let gpu = Gpu::open(&GpuOptions::default()).await?;
//! let program = Program::open("model.pte")?;                                        // mapped and verified
//! let forward = program.load(&gpu, "forward", &LoadOptions::default()).await?;      // weights, pipelines: shared
//! let mut state = forward.new_state()?;                                             // KV caches: one per conversation
//! let tokens = Tensor::from_i64(&[1, 3], &[1, 15, 27])?;
//! let position = Tensor::from_i64(&[1], &[0])?;
//! let logits = forward.call(&mut state, &[tokens, position]).await?;                // any length, any position
//! # Ok(()) }
//! ```
//!
//! A method is loaded once, at its largest shape, and then serves any live shape: a prefill of many tokens, then one token
//! at a time. [`Method::call`] is async; [`block_on`] runs it where there is no executor.
//!
//! A file that is still being fetched can be opened in parts, see [`PartialProgram`], and its weights uploaded as they
//! arrive, see [`Program::load_streaming`].
//!
//! With the feature `media`, pictures and sound become inputs and outputs, see `pteron::media`.

mod bytes;
mod conversion;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod host;
mod interpreter;
#[cfg(feature = "media")]
pub mod media;
mod method;
mod options;
mod partial;
mod pipelined;
mod plan;
mod program;
mod sequences;
mod streaming;
mod summary;
mod tensor;
mod values;

pub use bytes::FileBytes;
#[cfg(not(target_arch = "wasm32"))]
pub use bytes::MappedFile;
pub use error::{Error, Result};
pub use method::{CallProfile, Method, State, TensorSpec};
pub use options::{AppendedOp, LoadOptions};
pub use partial::PartialProgram;
pub use pipelined::{CallInput, CallOutput, PendingCall};
pub use plan::{Operand, PlannedOperator};
pub use program::{ConstantValue, FileRange, Program};
pub use pteron_format::adapter::{AdapterError, LoraAdapter, LowRankUpdate, Projection, Projections};
pub use pteron_format::{Bytes, PartialFile, ScalarType};
pub use pteron_gpu::engine::{
    AdapterSummary, Allocated, Counts, DeviceLimits, DispatchTime, Feedback, Gpu, GpuOptions, LoadProgress, MemoryUse,
    OnProgress, Precision, Profile, StateDtype, Timing, adapters,
};
#[cfg(not(target_arch = "wasm32"))]
pub use pteron_gpu::engine::{PipelineCacheSummary, block_on};
pub use pteron_gpu::fuse::Fusions;
pub use pteron_gpu::sequences::{
    AdapterMisfit, AdapterOptions, AdapterSlots, BLOCK_POSITIONS, SequenceInputs, SequenceOptions, SequenceRows,
};
pub use pteron_gpu::tuning::{Fill, Tuning};
pub use streaming::{CorruptConstant, MethodMemory, StreamingMethod};
pub use summary::{MethodSummary, summarize};
#[doc(hidden)]
pub use summary::{kernel_names, lower};
pub use tensor::Tensor;
