//! Graphs of tensor operators at live shapes.
//!
//! **Internal to Pteron**: the API may change in any release. Use `pteron`.
//!
//! Front ends ([`frontend`]) translate the content of files into the graph IR ([`ir`]). Below it are two parts. The first is
//! independent of the GPU: a [`graph::DecodedGraph`] holds decoded operators ([`plan::Op`]), and [`resize::Planned`] turns the dims
//! of a call's inputs into checked plans. The second, [`engine`], is the only caller of wgpu: it creates memory, pipelines
//! and bind groups from the recipes at load, and runs plans in one pass and one submit.

mod append_rows;
pub mod args;
mod batch;
pub mod budget;
mod caps;
pub mod constant_reads;
mod coop_matrix;
mod elementwise;
pub mod engine;
pub mod error;
pub mod frontend;
pub mod fuse;
pub mod graph;
mod index_offsets;
mod int8;
pub mod ir;
pub mod kernel;
pub mod live;
mod matmul;
pub mod memory;
mod narrow_state;
pub mod ops;
pub mod packing;
pub mod plan;
mod reduction;
#[cfg(any(test, feature = "reference"))]
pub mod reference;
pub mod resize;
mod rewrite;
mod rms_norm;
pub mod row_axes;
pub mod sequences;
pub mod shape;
mod sorting;
mod strided_copy;
pub mod tuning;
mod window;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::{Error, OpError, Result};
