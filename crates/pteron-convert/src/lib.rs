//! Converts checkpoints of decoder-only language models to ExecuTorch programs.
//!
//! A [`Source`] reads a checkpoint: its configuration ([`ModelConfig`]), its weights row by row, and its tokenizer. A
//! [`ProgramTemplate`] is the program that ExecuTorch's Llama exporter would write for that configuration, without the bytes of its
//! constants. [`convert`](convert()) computes those bytes and streams them to a file; memory holds a few blocks of rows, never the
//! model.
//!
//! [`open_adapter`] reads LoRA adapters as PEFT saves them, for programs that are converted from Hugging Face's checkpoints.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::path::Path;
//!
//! use pteron_convert::{ConvertOptions, ProgramTemplate, ScaleMethod, convert, open_checkpoint};
//!
//! # fn main() -> pteron_convert::Result<()> {
//! let source = open_checkpoint(Path::new("SmolLM2-135M-Instruct"))?;
//! let options = ConvertOptions::new(2048);
//! source.check_context(options.max_context_length)?;
//! let template = ProgramTemplate::new(source.config(), &options, &source.metadata())?;
//! let report = convert(&*source, template, ScaleMethod::default(), Path::new("model.pte"), &mut |progress| {
//!     println!("{} of {} bytes", progress.done, progress.total);
//!     ControlFlow::Continue(())
//! })?;
//! println!("{} bytes, relative quantisation error {:.3}", report.bytes, report.relative_error);
//! # Ok(()) }
//! ```

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
pub use hf::{HuggingFace, open_adapter};
pub use open::{CheckpointKind, detect, open_checkpoint};
pub use quantise::ScaleMethod;
pub use source::Source;
pub use synthetic::Synthetic;
pub use template::{ConvertOptions, ProgramTemplate};
pub use write::{Progress, Report, convert};
