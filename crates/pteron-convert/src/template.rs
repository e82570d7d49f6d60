//! The program of a model without the bytes of its constants.

use pteron_format::program::Program;
use pteron_format::vulkan::Graph;
use serde::Serialize;

use crate::config::{ModelConfig, Weight};
use crate::error::Result;
use crate::source::CheckpointMetadata;
use crate::{check, graph, program};

/// Options of a conversion.
///
/// ```
/// use pteron_convert::ConvertOptions;
/// use pteron_convert::template::WeightFormat;
///
/// let options = ConvertOptions::new(4096).with_max_seq_length(512).with_embedding_format(WeightFormat::Float32);
/// assert_eq!(options.max_call_tokens(), 511);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// The capacity of the KV cache, in tokens (the exporter's `--max_context_length`).
    pub max_context_length: u32,
    /// One more than the longest call, in tokens (the exporter's `--max_seq_length`).
    pub max_seq_length: u32,
    /// The format of linear weights.
    pub linear_format: WeightFormat,
    /// The format of the embedding.
    pub embedding_format: WeightFormat,
    /// Whether to compute logits for every token of a call instead of the last one.
    pub full_logits: bool,
    /// Whether activations, caches, scales and tables are float16 in the graph.
    pub float16: bool,
    /// Whether rows of activations are quantised to 8 bits before 4-bit linears, each by its own range (8da4w).
    pub int8_activations: bool,
}

impl ConvertOptions {
    /// The default group size of 4-bit weights.
    pub const DEFAULT_GROUP: u32 = 32;
    /// The default of [`max_seq_length`](Self::max_seq_length), where the context is at least as long.
    pub const DEFAULT_MAX_SEQ_LENGTH: u32 = 2048;

    /// Creates the default options: all weights in 4 bits, logits of the last token.
    #[must_use]
    pub fn new(max_context_length: u32) -> Self {
        let group = Self::DEFAULT_GROUP;
        Self {
            max_context_length,
            max_seq_length: max_context_length.min(Self::DEFAULT_MAX_SEQ_LENGTH),
            linear_format: WeightFormat::Int4 { group },
            embedding_format: WeightFormat::Int4 { group },
            full_logits: false,
            float16: false,
            int8_activations: false,
        }
    }

    /// Sets [`max_seq_length`](Self::max_seq_length).
    #[must_use]
    pub fn with_max_seq_length(self, max_seq_length: u32) -> Self {
        Self { max_seq_length, ..self }
    }

    /// Sets [`linear_format`](Self::linear_format).
    #[must_use]
    pub fn with_linear_format(self, linear_format: WeightFormat) -> Self {
        Self { linear_format, ..self }
    }

    /// Sets [`embedding_format`](Self::embedding_format).
    #[must_use]
    pub fn with_embedding_format(self, embedding_format: WeightFormat) -> Self {
        Self { embedding_format, ..self }
    }

    /// Sets [`full_logits`](Self::full_logits).
    #[must_use]
    pub fn with_full_logits(self, full_logits: bool) -> Self {
        Self { full_logits, ..self }
    }

    /// Sets [`float16`](Self::float16).
    #[must_use]
    pub fn with_float16(self, float16: bool) -> Self {
        Self { float16, ..self }
    }

    /// Sets [`int8_activations`](Self::int8_activations).
    #[must_use]
    pub fn with_int8_activations(self, int8_activations: bool) -> Self {
        Self { int8_activations, ..self }
    }

    /// Returns the longest call in tokens: `max_seq_length - 1`, limited by the depth of a texture.
    #[must_use]
    pub fn max_call_tokens(&self) -> u32 {
        self.max_seq_length.saturating_sub(1).min(graph::MAX_CALL_TOKENS)
    }
}

/// The storage format of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightFormat {
    /// Symmetric 4-bit integers with a scale per group.
    #[serde(rename = "four_bits")]
    Int4 {
        /// Elements per scale.
        group: u32,
    },
    /// float32.
    Float32,
}

impl WeightFormat {
    /// Returns 4-bit groups of this size, or float32 for `None`.
    #[must_use]
    pub fn from_group_size(group: Option<u32>) -> Self {
        group.map_or(Self::Float32, |group| Self::Int4 { group })
    }
}

/// A program without the bytes of its constants.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTemplate {
    /// The methods. Segments and named data are empty; [`convert`](crate::convert) adds them. The methods expect an empty first
    /// segment, then the graph, then the constants.
    pub program: Program<Vec<u8>>,
    /// The delegate's graph. The keys of its constants are empty until their bytes are hashed.
    pub graph: Graph,
    /// The contents of each constant of the graph, in order.
    pub constant_data: Vec<ConstantData>,
}

impl ProgramTemplate {
    /// Builds the program of a model.
    ///
    /// # Errors
    /// [`Error::InvalidModel`](crate::Error::InvalidModel) or [`Error::InvalidOption`](crate::Error::InvalidOption), with the values
    /// that would be accepted.
    pub fn new(config: &ModelConfig, options: &ConvertOptions, metadata: &CheckpointMetadata) -> Result<Self> {
        check::check(config, options)?;
        let (graph, constant_data) = graph::build(config, options);
        Ok(Self { program: program::build(config, options, metadata), graph, constant_data })
    }
}

/// The contents of a constant. Floats are written as the graph's element type: float32, or float16 with
/// [`ConvertOptions::float16`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstantData {
    /// The 4-bit values of a weight in row-major order, two per byte.
    Int4 {
        /// The weight.
        weight: Weight,
        /// Elements per scale.
        group: u32,
    },
    /// The scales of a weight that is stored as [`Int4`](Self::Int4).
    Scales {
        /// The weight.
        weight: Weight,
        /// Elements per scale.
        group: u32,
        /// The memory order of the scales.
        order: ScaleOrder,
    },
    /// The sums of each group of a weight that is stored as [`Int4`](Self::Int4), `[groups, rows]`, int32; the rows are zero-padded to
    /// a multiple of four.
    Sums {
        /// The weight.
        weight: Weight,
        /// Elements per scale.
        group: u32,
    },
    /// A weight that is not quantised.
    Float(Weight),
    /// The RoPE cosines, `[context, head_dim / 2]`.
    RopeCos,
    /// The RoPE sines, `[context, head_dim / 2]`.
    RopeSin,
    /// Zeros.
    Zeros,
}

/// The memory order of the scales of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleOrder {
    /// `[groups, rows]`, for linear layers; the rows are zero-padded to a multiple of four.
    GroupMajor,
    /// `[rows, groups]`, for embeddings.
    RowMajor,
}
