//! The program of a decoder before its weights are there.

use pteron_format::program::Program;
use pteron_format::vulkan::Graph;
use serde::Serialize;

use crate::decoder::{Decoder, Weight};
use crate::error::Result;
use crate::source::Facts;
use crate::{check, graph, program};

/// What the caller decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Tokens that the KV cache has room for.
    pub context: u32,
    /// Most tokens of one call, plus one, as the exporter counts (`--max_seq_length`).
    pub longest_call: u32,
    /// How projections are stored.
    pub linears: Form,
    /// How the embedding is stored.
    pub embedding: Form,
    /// Whether logits are computed for all tokens of a call, not only the last.
    pub full_logits: bool,
    /// Whether numbers that are not quantised have 16 bits in the graph: activations, caches, scales, tables.
    pub half: bool,
}

impl Options {
    /// The numbers that share a scale where nobody says.
    pub const USUAL_GROUP: u32 = 32;
    /// The most tokens of one call, plus one, where nobody says.
    pub const USUAL_CALL: u32 = 2048;

    /// What is usual: everything in 4 bits, logits of the last token alone.
    #[must_use]
    pub fn four_bits(context: u32) -> Self {
        let group = Self::USUAL_GROUP;
        Self {
            context,
            longest_call: context.min(Self::USUAL_CALL),
            linears: Form::FourBits { group },
            embedding: Form::FourBits { group },
            full_logits: false,
            half: false,
        }
    }

    /// The most tokens of one call: as many as fit into a texture, even where a longer call is wished for.
    #[must_use]
    pub fn most_tokens(&self) -> u32 {
        self.longest_call.saturating_sub(1).min(graph::MOST_TOKENS)
    }
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Symmetric 4-bit numbers in groups.
    FourBits {
        /// Numbers that share a scale.
        group: u32,
    },
    /// As float32.
    Float32,
}

impl Form {
    /// Groups of so many, or float32 where there are none.
    #[must_use]
    pub fn in_groups(group: Option<u32>) -> Self {
        group.map_or(Self::Float32, |group| Self::FourBits { group })
    }
}

/// A program without its constants' bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// The methods. Segments and named data are empty: whoever writes the file adds the graph and the constants. The methods
    /// count on an empty segment first, then that of the graph; those of constants follow.
    pub program: Program<Vec<u8>>,
    /// The delegate's graph. The keys of its constants are empty until their bytes are hashed.
    pub graph: Graph,
    /// For each of the graph's constants, in its order, what it is.
    pub contents: Vec<Content>,
}

impl Blueprint {
    /// The program of a decoder.
    ///
    /// # Errors
    /// Sizes and options that do not go together, and what would.
    pub fn new(decoder: &Decoder, options: &Options, facts: &Facts) -> Result<Self> {
        check::check(decoder, options)?;
        let (graph, contents) = graph::build(decoder, options);
        Ok(Self { program: program::build(decoder, options, facts), graph, contents })
    }
}

/// What a constant's bytes are. Where the graph has [`DataType::Float16`](pteron_format::vulkan::DataType) for a constant
/// ([`Options::half`]), its numbers are rounded to 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// The nibbles of a weight, two a byte, rows one after the other.
    Nibbles {
        /// The weight.
        weight: Weight,
        /// Numbers that share a scale.
        group: u32,
    },
    /// The scales of a weight that is stored as [`Nibbles`](Self::Nibbles).
    Scales {
        /// The weight.
        weight: Weight,
        /// Numbers that share a scale.
        group: u32,
        /// Which scales lie side by side.
        order: ScaleOrder,
    },
    /// A weight as float32.
    Floats(Weight),
    /// Of every position and frequency, the cosine; `[context, head_width / 2]`.
    Cosines,
    /// Of every position and frequency, the sine.
    Sines,
    /// Zeros.
    Zeros,
}

/// How the scales of a matrix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleOrder {
    /// `[groups of a row, rows]`, as linears take them. Zeros fill the rows up to a multiple of four.
    GroupsFirst,
    /// `[rows, groups of a row]`, as embeddings take them.
    RowsFirst,
}
