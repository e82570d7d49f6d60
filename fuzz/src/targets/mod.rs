//! One module per target or family: each target is a row of the table and the function it names.

pub mod caches;
pub mod checkpoint;
pub mod files;
pub mod gguf;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod graph;
pub mod metadata;
pub mod method;
pub mod sampling;
pub mod stop;
pub mod template;
pub mod token_loop;
pub mod tokenizer;
