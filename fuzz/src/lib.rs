//! What fuzzing Pteron's readers means: the bodies, the properties they check, seeds and mutators.
//!
//! - [`program`], [`delegate`], [`external`], [`round_trip`], [`gguf`]: one execution each, over any bytes. A property that does not hold
//!   is a panic, which is what libFuzzer looks for; the `smoke` binary catches it.
//! - [`check`]: the properties
//! - [`corpus`]: real exports and kept finds
//! - [`mutate`]: bytes, fields of typed programs, and tables that share on purpose

mod body;
#[path = "../../crates/pteron-format/tests/common/check.rs"]
pub mod check;
pub mod corpus;
pub mod mutate;

pub use body::{Kind, any, delegate, external, gguf, program, round_trip, typed};
