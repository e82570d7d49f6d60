//! Fuzzing of Pteron: targets with their oracles, seeds, mutators, typed generators, and the farm that runs them.
//!
//! - [`target`]: the table [`TARGETS`]; one row per target
//! - [`targets`]: one module per target: the function over bytes, with its oracle
//! - [`generate`]: generators that turn bytes into typed inputs, such as a graph or a `tokenizer.json`
//! - [`mutate`]: mutators of bytes, JSON and typed programs
//! - [`seeds`]: real files and kept findings to start from
//! - [`oracle`]: one execution, measured: panics, heap, time, error texts
//! - [`check`]: the properties of the file formats
//! - [`farm`]: runs the libFuzzer binary in slices and sums up

#[path = "../../crates/pteron-format/tests/common/check.rs"]
pub mod check;
pub mod corpus;
pub mod farm;
pub mod generate;
pub mod mutate;
pub mod oracle;
pub mod seeds;
pub mod target;
pub mod targets;

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../../crates/pteron-format/tests/common/xnnpack.rs"]
mod xnnpack_sample;

pub use target::{TARGETS, Target};
