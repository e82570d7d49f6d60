//! One module per target or family: each target is a row of the table and the function it names.

pub mod caches;
pub mod checkpoint;
pub mod files;
pub mod gguf;
pub mod metadata;
pub mod stop;
pub mod template;
pub mod tokenizer;
