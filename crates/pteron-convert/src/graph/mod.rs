//! Builds the graph that ExecuTorch's Llama exporter writes for its Vulkan backend.
//!
//! - `constants`, `layers`: the constants and the calls
//! - `storage`: texture or buffer per tensor, and copies where two calls disagree
//! - `memory`: tensors that share memory
//! - `write`: value ids
//!
//! Programs use interleaved RoPE. Where the exporter would use the half-split style, with another operator, the rows of the
//! checkpoint are reordered instead ([`ModelConfig::checkpoint_row`]), and the graph is the same.

mod builder;
mod constants;
mod layers;
mod memory;
mod storage;
mod write;

use pteron_format::vulkan::Graph;

use crate::config::ModelConfig;
use crate::template::{ConstantData, ConvertOptions};

/// Tokens are the depth of some textures, so the exporter limits calls to the largest texture depth.
pub(crate) const MAX_CALL_TOKENS: u32 = 2048;

/// Builds the graph of a checked model. Returns it with the contents of its constants.
pub(crate) fn build(config: &ModelConfig, options: &ConvertOptions) -> (Graph, Vec<ConstantData>) {
    let mut builder = layers::build(config, options);
    let representations = storage::assign(&mut builder, options.float16);
    let memory_objects = memory::plan(&builder);
    write::write(&builder, &write::TensorAssignments { representations, memory_objects, f16: options.float16 })
}
