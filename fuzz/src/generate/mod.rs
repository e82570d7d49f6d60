//! Generators: bytes decide every choice, so that a fuzzer's mutation of bytes is a mutation of the typed input.

mod choices;
pub mod cursor;
pub mod graph;
mod kernels;
pub mod part;
pub mod program;
mod template;
mod tokenizer;
mod xnnpack;

pub use choices::Choices;
pub use template::template;
pub use tokenizer::tokenizer_json;
