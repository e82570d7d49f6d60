//! Generators: bytes decide every choice, so that a fuzzer's mutation of bytes is a mutation of the typed input.

mod choices;
pub mod cursor;
pub mod graph;
pub mod program;
mod template;
mod tokenizer;

pub use choices::Choices;
pub use template::template;
pub use tokenizer::tokenizer_json;
