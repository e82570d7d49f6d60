//! Pteron in a browser: what the npm package `pteron` calls.
//!
//! This is the border between the engine and JavaScript, and no more. What differs in browsers is in the engine's device module;
//! fetching, keeping and resuming downloads is the package's. Offsets and lengths are JavaScript's numbers, exact up to 2⁵³.

mod convert;
mod error;
mod gpu;
mod llm;
mod loader;
mod method;
mod opening;

pub use gpu::WebGpu;
pub use llm::{WebModel, WebSession};
pub use loader::WebLoader;
pub use method::{WebMethod, WebState};
pub use opening::{WebDataHead, WebHead};
