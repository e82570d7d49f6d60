//! The graph of a decoder, as ExecuTorch's Llama exporter writes it for its Vulkan backend.
//!
//! - `constants`, `layers`: which constants there are, and which calls
//! - `storage`: which tensors fit textures, and the copies where two calls disagree
//! - `memory`: which tensors share memory
//! - `write`: ids for all of it
//!
//! Programs rotate neighbours. Where the exporter would rotate halves, with an operator that takes whole tables, the rows of a
//! checkpoint are reordered instead ([`Decoder::checkpoint_row`]), and the graph is the same.

mod constants;
mod layers;
mod memory;
mod sketch;
mod storage;
mod write;

use pteron_format::vulkan::Graph;

use crate::blueprint::{Content, Options};
use crate::decoder::Decoder;

/// Tokens are the depth of some textures. The exporter takes no more than the deepest texture has, whatever it is asked for.
pub(crate) const MOST_TOKENS: u32 = 2048;

/// The graph of a decoder whose sizes were checked, and what its constants are.
pub(crate) fn build(decoder: &Decoder, options: &Options) -> (Graph, Vec<Content>) {
    let mut sketch = layers::draw(decoder, options);
    let representations = storage::decide(&mut sketch, options.half);
    let memory_objects = memory::plan(&sketch);
    write::write(&sketch, &write::Decided { representations, memory_objects, half: options.half })
}
