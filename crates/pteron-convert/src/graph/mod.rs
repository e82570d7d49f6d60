//! The graph of a decoder, as ExecuTorch's Llama exporter writes it for its Vulkan backend.
//!
//! - `constants`, `layers`: which constants there are, and which calls
//! - `storage`: which tensors fit textures, and the copies where two calls disagree
//! - `memory`: which tensors share memory
//! - `write`: ids for all of it
//!
//! Programs rotate neighbours. Where the exporter would rotate halves, with an operator that takes whole tables, the rows of a
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

/// Tokens are the depth of some textures. The exporter takes no more than the deepest texture has, whatever it is asked for.
pub(crate) const MAX_CALL_TOKENS: u32 = 2048;

/// The graph of a decoder whose sizes were checked, and what its constants are.
pub(crate) fn build(config: &ModelConfig, options: &ConvertOptions) -> (Graph, Vec<ConstantData>) {
    let mut builder = layers::build(config, options);
    let representations = storage::assign(&mut builder, options.float16);
    let memory_objects = memory::plan(&builder);
    write::write(&builder, &write::TensorAssignments { representations, memory_objects, half: options.float16 })
}
