//! What a decoder-only transformer is to this crate: its sizes, and the names of its weights.

use std::fmt;

/// The sizes and switches of a decoder: Llama 2 and 3, Mistral, Qwen 2 and 3, and all that are built like them.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Tokens it knows.
    pub vocab_size: u32,
    /// Numbers in an embedding.
    pub hidden_size: u32,
    /// Blocks of attention and feed-forward network.
    pub num_layers: u32,
    /// Heads of queries.
    pub num_heads: u32,
    /// Heads of keys and values.
    pub num_kv_heads: u32,
    /// Numbers in a head.
    pub head_dim: u32,
    /// Numbers between gate and down projection.
    pub intermediate_size: u32,
    /// What norms add before they divide.
    pub norm_eps: f64,
    /// Where a position goes.
    pub rope: RopeConfig,
    /// Whether each head of queries and keys has a norm of its own, before rotation.
    pub qk_norm: bool,
    /// Which projections of attention add a bias.
    pub attention_bias: AttentionBias,
    /// Whether the output projection is the embedding.
    pub tied_embeddings: bool,
    /// The longest context it was trained for.
    pub max_position_embeddings: u32,
}

/// RopeConfig position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// The base of the frequencies.
    pub theta: f64,
    /// Frequencies stretched for contexts longer than those of pre-training.
    pub scaling: Option<RopeScaling>,
    /// Which two numbers of a head the checkpoint rotates together.
    pub style: RopeStyle,
}

/// Which numbers of a head are rotated together. Programs rotate neighbours; [`ModelConfig::checkpoint_row`] reorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// `2i` and `2i + 1`, as Meta's checkpoints and GGUF's Llamas have them.
    Interleaved,
    /// `i` and `i + head_width / 2`, as Hugging Face has them.
    HalfSplit,
}

/// How frequencies are stretched.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// By their wavelength, as Llama 3.1 does.
    Llama3 {
        /// By how much slow frequencies are divided.
        factor: f64,
        /// Wavelengths longer than the original context divided by this are stretched in full.
        low_frequency_factor: f64,
        /// Wavelengths shorter than the original context divided by this are left alone.
        high_frequency_factor: f64,
        /// The context of pre-training.
        original_context: u32,
    },
    /// Each is divided by a number of its own, the fastest first: how GGUF files spell Llama 3.1's scaling out. There are
    /// `head_width / 2` of them.
    FrequencyDivisors(Vec<f32>),
}

/// Which projections of attention add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionBias {
    /// None.
    #[default]
    None,
    /// Queries, keys and values.
    Qkv,
    /// Queries, keys, values, and the projection back.
    All,
}

/// A weight of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Weight {
    /// A row for each token.
    Embedding,
    /// The norm after the last layer.
    FinalNorm,
    /// From the last norm to logits. A tied decoder has none.
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
    /// All of them, in the order a layer uses them.
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
    /// Its rows: the outputs of a projection, the tokens of an embedding, the numbers of a vector.
    pub rows: u32,
    /// Its columns: the inputs of a projection.
    pub columns: u32,
}

impl MatrixShape {
    /// How many numbers it has.
    #[must_use]
    pub fn count(self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

impl ModelConfig {
    /// Every weight it has, in the order a forward pass uses them.
    pub fn weights(&self) -> impl Iterator<Item = Weight> + '_ {
        let layers = (0..self.num_layers).flat_map(|layer| {
            LayerWeight::ALL.into_iter().filter(|&part| self.has(part)).map(move |part| Weight::Layer(layer, part))
        });
        let output = (!self.tied_embeddings).then_some(Weight::Output);
        std::iter::once(Weight::Embedding).chain(layers).chain([Weight::FinalNorm]).chain(output)
    }

    /// Whether its layers have this part.
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

    /// Numbers in all heads of queries.
    #[must_use]
    pub fn query_dim(&self) -> u32 {
        self.num_heads * self.head_dim
    }

    /// Numbers in all heads of keys, and in all of values.
    #[must_use]
    pub fn kv_dim(&self) -> u32 {
        self.num_kv_heads * self.head_dim
    }

    /// The shape of a weight.
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

    /// The row of the checkpoint that is this row of the program: queries and keys come in the order in which programs rotate
    /// them, neighbours together. Attention sums over a head, so that their order within it changes nothing else.
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
        let (head, within) = (row / self.head_dim, row % self.head_dim);
        head * self.head_dim + within / 2 + within % 2 * (self.head_dim / 2)
    }
}
