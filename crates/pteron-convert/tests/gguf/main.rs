//! Tests of GGUF files through the public API. The files are written here, in memory.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod blocks;
mod hostile;
mod models;
mod refused;
mod tokenizer;
mod writer;
