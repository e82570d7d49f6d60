//! Checkpoints become programs.
//!
//! A [`Source`] has the weights of a decoder-only transformer and says what shape it has ([`Decoder`]). A [`Blueprint`] is the
//! program for such a decoder as ExecuTorch's Llama exporter writes it: graph, methods, and for every constant where its bytes
//! come from. Conversion computes those bytes and writes them in a stream: memory holds a few tensors, never the model.

pub mod blueprint;
mod check;
pub mod decoder;
mod error;
mod floats;
pub mod gguf;
mod graph;
pub mod hf;
mod map;
pub mod open;
mod program;
pub mod quantise;
pub mod rotary;
pub mod source;
pub mod synthetic;
#[cfg(test)]
mod testing;
pub mod write;

pub use blueprint::{Blueprint, Options};
pub use decoder::{Decoder, Part, Weight};
pub use error::{Error, Result};
pub use gguf::Gguf;
pub use hf::HuggingFace;
pub use open::{Kind, detect, open_source};
pub use quantise::Scales;
pub use source::Source;
pub use synthetic::Synthetic;
pub use write::{Progress, Report, convert};
