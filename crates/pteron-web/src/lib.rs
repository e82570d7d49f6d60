//! WebAssembly bindings for the npm package `pteron`.
//!
//! This crate converts between JavaScript values and the engine's types, and nothing else. The engine's device module handles what
//! differs in browsers; the package fetches, caches and resumes downloads. Offsets and lengths are JavaScript numbers, exact up to
//! 2⁵³.

mod convert;
mod error;
mod gpu;
mod head;
mod llm;
mod loader;
mod method;

pub use gpu::WebGpu;
pub use head::{WebDataHead, WebHead};
pub use llm::{WebModel, WebSession};
pub use loader::WebLoader;
pub use method::{WebMethod, WebState};
