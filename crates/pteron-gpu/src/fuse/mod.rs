//! Fusions: patterns of decoded operators that one kernel computes, replaced by one call.
//!
//! A fusion matches one pattern of decoded operators and never changes what a graph computes, at any live shape: values inside the
//! pattern have no other reader and are no outputs, nothing the pattern reads is mutated, and the fused operator's own decoder
//! decides whether the call is valid. Everything else stays as it is.
//!
//! A fusion inspects each call and its neighbours: chains are followed for `MAX_CHAIN` calls, and of many candidates the
//! nearest are tried. So the work of all fusions is linear in the size of the graph.

mod channels_last;
mod convolution;
mod dead_calls;
mod def_use;
mod editor;
mod fused_linear;
mod grouped_rows;
mod last_row;
mod merge_linears;
mod norm;
mod operators;
mod pack_linears;
mod permutes;
mod recognise;
mod residual;
mod rotary;
mod rotary_halves;
mod same_dims;
mod swiglu;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use crate::graph::DecodedGraph;
use editor::Editor;

pub use channels_last::Relayout;

/// Which fusions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fusions {
    /// Remove calls whose results nothing reads.
    pub dead_calls: bool,
    /// Recognise operators that exporters decompose: RMS norm, rotary embedding, attention over a KV cache.
    pub recognise: bool,
    /// Run each linear on packed weights, with the quantisation of its rows if there is one.
    pub pack_linears: bool,
    /// Merge two or three linears with one input, such as Q, K and V.
    pub merge_linears: bool,
    /// Fuse SwiGLU: two linears with one input, and silu of the first times the second.
    pub swiglu: bool,
    /// Fuse a residual sum into the linear before it.
    pub residual: bool,
    /// Fuse an RMS norm into the linears that read it.
    pub norm: bool,
    /// Compute only the last row of linears where no other is read, as before the logits.
    pub last_row: bool,
    /// Fuse rotary position embedding into attention over a KV cache.
    pub rotary: bool,
    /// Remove permutations of dims that cancel, also around elementwise operators.
    pub permutes: bool,
    /// Hold tensors between convolutions with channels last, and pack their weights.
    pub channels_last: bool,
    /// Fuse activations and residual sums into the convolutions before them.
    pub convolution: bool,
    /// The most bytes of constants in one buffer, such as a device's largest binding.
    pub largest_binding: u64,
}

impl Fusions {
    /// Every fusion.
    pub const ALL: Self = Self {
        dead_calls: true,
        recognise: true,
        pack_linears: true,
        merge_linears: true,
        swiglu: true,
        residual: true,
        norm: true,
        last_row: true,
        rotary: true,
        permutes: true,
        channels_last: true,
        convolution: true,
        largest_binding: u64::MAX,
    };
    /// No fusion: the operators of the file, one by one.
    pub const NONE: Self = Self {
        dead_calls: false,
        recognise: false,
        pack_linears: false,
        merge_linears: false,
        swiglu: false,
        residual: false,
        norm: false,
        last_row: false,
        rotary: false,
        permutes: false,
        channels_last: false,
        convolution: false,
        ..Self::ALL
    };

    /// The same for a device whose bindings have at most this many bytes.
    #[must_use]
    pub fn within(self, largest_binding: u64) -> Self {
        Self { largest_binding: self.largest_binding.min(largest_binding), ..self }
    }
}

impl Default for Fusions {
    fn default() -> Self {
        Self::ALL
    }
}

/// The longest chain of views or copies that a fusion follows. Exporters write one or two.
const MAX_CHAIN: usize = 16;

/// Replaces every match of one pattern.
type Fusion = fn(&mut Editor<'_>);

/// Fuses the operators of a graph.
///
/// # Errors
/// A fused graph that takes more memory or work than the size of the file's graph justifies, or a fusion that leaves an invalid graph.
pub(crate) fn fuse(graph: DecodedGraph, fusions: &Fusions) -> Result<DecodedGraph> {
    // Copies that change nothing would hide what is recognised after them, and attention over a cache shows which tensors are rotated.
    // Quantised rows have one reader once the calls that find their ranges are part of linears. SwiGLU comes before merged
    // linears, because its two linears have one input too. Norms and sums come after linears are merged.
    let passes: [(bool, &'static str, Fusion); 24] = [
        (fusions.dead_calls, "dead_calls", dead_calls::find),
        (fusions.recognise, "copies", recognise::copies::find),
        (fusions.recognise, "half_tables", recognise::half_tables::find),
        (fusions.recognise, "rms_norm", recognise::rms_norm::find),
        (fusions.recognise, "linear", recognise::linear::find),
        (fusions.recognise, "attention", recognise::attention::find),
        (fusions.recognise, "kv_cache", recognise::kv_cache::find),
        (fusions.recognise, "rotary_embedding", recognise::rotary::find),
        (fusions.pack_linears, "pack_linears", pack_linears::find),
        (fusions.pack_linears, "grouped_rows", grouped_rows::find),
        (fusions.swiglu, "swiglu", swiglu::find),
        (fusions.merge_linears, "merge_linears", merge_linears::find),
        (fusions.residual, "residual", residual::find),
        (fusions.norm, "norm", norm::find),
        (fusions.last_row, "last_row", last_row::find),
        (fusions.rotary, "rotary", rotary::find),
        (fusions.rotary, "rotary_halves", rotary_halves::find),
        // What fusions have left without a reader.
        (fusions.dead_calls, "dead_calls", dead_calls::find),
        (fusions.permutes, "permutes", permutes::find),
        (fusions.channels_last, "channels_last", channels_last::find),
        (fusions.convolution, "silu", convolution::silu),
        (fusions.convolution, "activations", convolution::activations),
        (fusions.convolution, "residual_convolution", convolution::residual),
        // Those that follow a residual sum.
        (fusions.convolution, "activations", convolution::activations),
    ];
    let mut on = passes.into_iter().filter(|(on, ..)| *on);
    on.try_fold(graph, |graph, (_, fusion, find)| apply(graph, fusion, find, fusions.largest_binding))
}

/// Applies one fusion to a graph.
fn apply(graph: DecodedGraph, fusion: &'static str, find: Fusion, largest_binding: u64) -> Result<DecodedGraph> {
    let mut editor = Editor::new(&graph, largest_binding);
    find(&mut editor);
    let Some(source) = editor.finish() else { return Ok(graph) };
    DecodedGraph::assemble(source, graph.size()).map_err(|error| match error {
        Error::Budget { .. } => error,
        error => Error::InvalidFusion { fusion, error: Box::new(error) },
    })
}
