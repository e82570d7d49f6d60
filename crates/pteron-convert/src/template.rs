//! The program of a decoder before its weights are there.

use pteron_format::program::Program;
use pteron_format::vulkan::Graph;
use serde::Serialize;

use crate::config::{ModelConfig, Weight};
use crate::error::Result;
use crate::source::CheckpointMetadata;
use crate::{check, graph, program};

/// What the caller decides.
#[derive(Clone, Debug, PartialEq)]
pub struct ConvertOptions {
    /// Tokens that the KV cache has room for.
    pub max_context_length: u32,
    /// Most tokens of one call, plus one, as the exporter counts (`--max_seq_length`).
    pub max_seq_length: u32,
    /// How projections are stored.
    pub linear_format: WeightFormat,
    /// How the embedding is stored.
    pub embedding_format: WeightFormat,
    /// Whether logits are computed for all tokens of a call, not only the last.
    pub full_logits: bool,
    /// Whether numbers that are not quantised have 16 bits in the graph: activations, caches, scales, tables.
    pub float16: bool,
}

impl ConvertOptions {
    /// The numbers that share a scale where nobody says.
    pub const DEFAULT_GROUP: u32 = 32;
    /// The most tokens of one call, plus one, where nobody says.
    pub const DEFAULT_MAX_SEQ_LENGTH: u32 = 2048;

    /// What is usual: everything in 4 bits, logits of the last token alone.
    #[must_use]
    pub fn new(context: u32) -> Self {
        let group = Self::DEFAULT_GROUP;
        Self {
            max_context_length: context,
            max_seq_length: context.min(Self::DEFAULT_MAX_SEQ_LENGTH),
            linear_format: WeightFormat::Int4 { group },
            embedding_format: WeightFormat::Int4 { group },
            full_logits: false,
            float16: false,
        }
    }

    /// The most tokens of one call: as many as fit into a texture, even where a longer call is wished for.
    #[must_use]
    pub fn max_call_tokens(&self) -> u32 {
        self.max_seq_length.saturating_sub(1).min(graph::MAX_CALL_TOKENS)
    }
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// Symmetric 4-bit numbers in groups.
    #[serde(rename = "four_bits")]
    Int4 {
        /// Numbers that share a scale.
        group: u32,
    },
    /// As float32.
    Float32,
}

impl WeightFormat {
    /// Groups of so many, or float32 where there are none.
    #[must_use]
    pub fn from_group_size(group: Option<u32>) -> Self {
        group.map_or(Self::Float32, |group| Self::Int4 { group })
    }
}

/// A program without its constants' bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTemplate {
    /// The methods. Segments and named data are empty: whoever writes the file adds the graph and the constants. The methods
    /// count on an empty segment first, then that of the graph; those of constants follow.
    pub program: Program<Vec<u8>>,
    /// The delegate's graph. The keys of its constants are empty until their bytes are hashed.
    pub graph: Graph,
    /// For each of the graph's constants, in its order, what it is.
    pub constant_data: Vec<ConstantData>,
}

impl ProgramTemplate {
    /// The program of a decoder.
    ///
    /// # Errors
    /// Sizes and options that do not go together, and what would.
    pub fn new(config: &ModelConfig, options: &ConvertOptions, metadata: &CheckpointMetadata) -> Result<Self> {
        check::check(config, options)?;
        let (graph, constant_data) = graph::build(config, options);
        Ok(Self { program: program::build(config, options, metadata), graph, constant_data })
    }
}

/// What a constant's bytes are. Where the graph has [`DataType::Float16`](pteron_format::vulkan::DataType) for a constant
/// ([`ConvertOptions::half`]), its numbers are rounded to 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstantData {
    /// The nibbles of a weight, two a byte, rows one after the other.
    Int4 {
        /// The weight.
        weight: Weight,
        /// Numbers that share a scale.
        group: u32,
    },
    /// The scales of a weight that is stored as [`Int4`](Self::Int4).
    Scales {
        /// The weight.
        weight: Weight,
        /// Numbers that share a scale.
        group: u32,
        /// Which scales lie side by side.
        order: ScaleOrder,
    },
    /// A weight as float32.
    Float(Weight),
    /// Of every position and frequency, the cosine; `[context, head_width / 2]`.
    RopeCos,
    /// Of every position and frequency, the sine.
    RopeSin,
    /// Zeros.
    Zeros,
}

/// How the scales of a matrix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleOrder {
    /// `[groups of a row, rows]`, as linears take them. Zeros fill the rows up to a multiple of four.
    GroupMajor,
    /// `[rows, groups of a row]`, as embeddings take them.
    RowMajor,
}
