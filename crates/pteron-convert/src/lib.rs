//! Checkpoints become programs.
//!
//! A [`Source`] has the weights of a decoder-only transformer and says what shape it has ([`ModelConfig`]). A [`ProgramTemplate`] is the
//! program for such a decoder as ExecuTorch's Llama exporter writes it: graph, methods, and for every constant where its bytes
//! come from. Conversion computes those bytes and writes them in a stream: memory holds a few tensors, never the model.

mod check;
pub mod config;
mod error;
mod floats;
pub mod gguf;
mod graph;
pub mod hf;
mod map;
pub mod open;
mod program;
pub mod quantise;
pub mod rope;
pub mod source;
pub mod synthetic;
pub mod template;
#[cfg(test)]
mod testing;
pub mod write;

pub use config::{LayerWeight, ModelConfig, Weight};
pub use error::{Error, Result};
pub use gguf::Gguf;
pub use hf::HuggingFace;
pub use open::{CheckpointKind, detect, open_checkpoint};
pub use quantise::ScaleMethod;
pub use source::Source;
pub use synthetic::Synthetic;
pub use template::{ConvertOptions, ProgramTemplate};
pub use write::{Progress, Report, convert};
