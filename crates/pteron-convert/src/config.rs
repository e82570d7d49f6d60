//! The configuration of a decoder-only transformer, and the names and shapes of its weights.

use std::fmt;

use pteron_format::adapter::half_split_row;

/// The configuration of a decoder-only model: Llama 2 and 3, Mistral, Qwen 2 and 3, and models with the same structure.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The size of the vocabulary.
    pub vocab_size: u32,
    /// The width of the residual stream.
    pub hidden_size: u32,
    /// The number of transformer layers.
    pub num_layers: u32,
    /// The number of query heads.
    pub num_heads: u32,
    /// The number of key and value heads.
    pub num_kv_heads: u32,
    /// The size of a head.
    pub head_dim: u32,
    /// The width of the feed-forward network.
    pub intermediate_size: u32,
    /// The epsilon of RMS norms.
    pub norm_eps: f64,
    /// Rotary position embedding.
    pub rope: RopeConfig,
    /// Whether queries and keys are normalised per head before RoPE (QK norm).
    pub qk_norm: bool,
    /// The attention projections that add a bias.
    pub attention_bias: AttentionBias,
    /// Whether the output projection shares the embedding's weights.
    pub tied_embeddings: bool,
    /// The longest context that the model was trained for.
    pub max_position_embeddings: u32,
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// The base of the frequencies (`rope_theta`).
    pub theta: f64,
    /// Frequency scaling for contexts longer than those of pre-training.
    pub scaling: Option<RopeScaling>,
    /// The pairs that the checkpoint rotates.
    pub style: RopeStyle,
}

/// The pairs of elements of a head that RoPE rotates. Programs use the interleaved style; [`ModelConfig::checkpoint_row`] reorders
/// the rows of other checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `2i` and `2i + 1`: Meta's checkpoints and GGUF's Llama models.
    Interleaved,
    /// `i` and `i + head_dim / 2` (GPT-NeoX style): Hugging Face.
    HalfSplit,
}

/// Scaling of the RoPE frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// By wavelength, as in Llama 3.1.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Wavelengths longer than the original context divided by this are scaled in full.
        low_frequency_factor: f64,
        /// Wavelengths shorter than the original context divided by this are not scaled.
        high_frequency_factor: f64,
        /// The context of pre-training.
        original_context: u32,
    },
    /// A divisor per frequency, highest frequency first, `head_dim / 2` in all: how GGUF files store Llama 3.1's scaling.
    FrequencyDivisors(Vec<f32>),
}

/// The attention projections that add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionBias {
    /// None.
    #[default]
    None,
    /// Queries, keys and values.
    Qkv,
    /// Queries, keys, values and the output projection.
    All,
}

/// A weight of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weight {
    /// The token embedding.
    Embedding,
    /// The norm after the last layer.
    FinalNorm,
    /// The output projection (`lm_head`). A model with tied embeddings has none.
    Output,
    /// A weight of a layer.
    Layer(u32, LayerWeight),
}

/// A weight of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum LayerWeight {
    AttentionNorm,
    Query,
    Key,
    Value,
    AttentionOutput,
    QueryBias,
    KeyBias,
    ValueBias,
    AttentionOutputBias,
    QueryNorm,
    KeyNorm,
    FeedForwardNorm,
    Gate,
    Up,
    Down,
}

impl LayerWeight {
    /// All weights of a layer, in the order of their use.
    pub const ALL: [Self; 15] = [
        Self::AttentionNorm,
        Self::Query,
        Self::QueryBias,
        Self::Key,
        Self::KeyBias,
        Self::Value,
        Self::ValueBias,
        Self::QueryNorm,
        Self::KeyNorm,
        Self::AttentionOutput,
        Self::AttentionOutputBias,
        Self::FeedForwardNorm,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];
}

impl fmt::Display for LayerWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AttentionNorm => "attention_norm",
            Self::Query => "query",
            Self::Key => "key",
            Self::Value => "value",
            Self::AttentionOutput => "attention_output",
            Self::QueryBias => "query_bias",
            Self::KeyBias => "key_bias",
            Self::ValueBias => "value_bias",
            Self::AttentionOutputBias => "attention_output_bias",
            Self::QueryNorm => "query_norm",
            Self::KeyNorm => "key_norm",
            Self::FeedForwardNorm => "feed_forward_norm",
            Self::Gate => "gate",
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedding => f.write_str("embedding"),
            Self::FinalNorm => f.write_str("final_norm"),
            Self::Output => f.write_str("output"),
            Self::Layer(layer, part) => write!(f, "layers.{layer}.{part}"),
        }
    }
}

/// Rows and columns of a weight. A vector is a matrix of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    /// The outputs of a projection, the tokens of an embedding, the elements of a vector.
    pub rows: u32,
    /// The inputs of a projection.
    pub columns: u32,
}

impl MatrixShape {
    /// Returns the number of elements.
    #[must_use]
    pub fn count(self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

impl ModelConfig {
    /// Iterates over the weights in the order of a forward pass.
    pub fn weights(&self) -> impl Iterator<Item = Weight> + '_ {
        let layers = (0..self.num_layers).flat_map(|layer| {
            LayerWeight::ALL.into_iter().filter(|&part| self.has(part)).map(move |part| Weight::Layer(layer, part))
        });
        let output = (!self.tied_embeddings).then_some(Weight::Output);
        std::iter::once(Weight::Embedding).chain(layers).chain([Weight::FinalNorm]).chain(output)
    }

    /// Whether the layers have this weight.
    #[must_use]
    pub fn has(&self, part: LayerWeight) -> bool {
        match part {
            LayerWeight::QueryNorm | LayerWeight::KeyNorm => self.qk_norm,
            LayerWeight::QueryBias | LayerWeight::KeyBias | LayerWeight::ValueBias => {
                self.attention_bias != AttentionBias::None
            }
            LayerWeight::AttentionOutputBias => self.attention_bias == AttentionBias::All,
            _ => true,
        }
    }

    /// Returns the width of all query heads together.
    #[must_use]
    pub fn query_dim(&self) -> u32 {
        self.num_heads * self.head_dim
    }

    /// Returns the width of all key heads together, which is also that of all value heads.
    #[must_use]
    pub fn kv_dim(&self) -> u32 {
        self.num_kv_heads * self.head_dim
    }

    /// Returns the shape of a weight.
    #[must_use]
    pub fn shape(&self, weight: Weight) -> MatrixShape {
        let (queries, keys) = (self.query_dim(), self.kv_dim());
        let (rows, columns) = match weight {
            Weight::Embedding | Weight::Output => (self.vocab_size, self.hidden_size),
            Weight::FinalNorm => (self.hidden_size, 1),
            Weight::Layer(_, part) => match part {
                LayerWeight::AttentionNorm | LayerWeight::FeedForwardNorm | LayerWeight::AttentionOutputBias => {
                    (self.hidden_size, 1)
                }
                LayerWeight::Query => (queries, self.hidden_size),
                LayerWeight::Key | LayerWeight::Value => (keys, self.hidden_size),
                LayerWeight::AttentionOutput => (self.hidden_size, queries),
                LayerWeight::QueryBias => (queries, 1),
                LayerWeight::KeyBias | LayerWeight::ValueBias => (keys, 1),
                LayerWeight::QueryNorm | LayerWeight::KeyNorm => (self.head_dim, 1),
                LayerWeight::Gate | LayerWeight::Up => (self.intermediate_size, self.hidden_size),
                LayerWeight::Down => (self.hidden_size, self.intermediate_size),
            },
        };
        MatrixShape { rows, columns }
    }

    /// Maps a row of the program to the row of the checkpoint. Query and key rows of half-split checkpoints are interleaved, as
    /// programs rotate them; attention sums over a head, so the order within it changes nothing else.
    #[must_use]
    pub fn checkpoint_row(&self, weight: Weight, row: u32) -> u32 {
        let rotated = matches!(
            weight,
            Weight::Layer(
                _,
                LayerWeight::Query
                    | LayerWeight::Key
                    | LayerWeight::QueryBias
                    | LayerWeight::KeyBias
                    | LayerWeight::QueryNorm
                    | LayerWeight::KeyNorm
            )
        );
        if !rotated || self.rope.style == RopeStyle::Interleaved {
            return row;
        }
        half_split_row(row, self.head_dim)
    }
}
