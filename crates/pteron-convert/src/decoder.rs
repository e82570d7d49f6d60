//! What a decoder-only transformer is to this crate: its sizes, and the names of its weights.

use std::fmt;

/// The sizes and switches of a decoder: Llama 2 and 3, Mistral, Qwen 2 and 3, and all that are built like them.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    /// Tokens it knows.
    pub vocabulary: u32,
    /// Numbers in an embedding.
    pub width: u32,
    /// Blocks of attention and feed-forward network.
    pub layers: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub key_value_heads: u32,
    /// Numbers in a head.
    pub head_width: u32,
    /// Numbers between gate and down projection.
    pub hidden: u32,
    /// What norms add before they divide.
    pub norm_epsilon: f64,
    /// Where a position goes.
    pub rotary: Rotary,
    /// Whether each head of queries and keys has a norm of its own, before rotation.
    pub head_norms: bool,
    /// Which projections of attention add a bias.
    pub biases: Biases,
    /// Whether the output projection is the embedding.
    pub tied: bool,
    /// The longest context it was trained for.
    pub trained_context: u32,
}

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the frequencies.
    pub theta: f64,
    /// Frequencies stretched for contexts longer than those of pre-training.
    pub scaling: Option<Scaling>,
    /// Which two numbers of a head the checkpoint rotates together.
    pub pairs: Pairs,
}

/// Which numbers of a head are rotated together. Programs rotate neighbours; [`Decoder::checkpoint_row`] reorders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// `2i` and `2i + 1`, as Meta's checkpoints and GGUF's Llamas have them.
    Neighbours,
    /// `i` and `i + head_width / 2`, as Hugging Face has them.
    Halves,
}

/// How frequencies are stretched.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
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
    Divisors(Vec<f32>),
}

/// Which projections of attention add a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Biases {
    /// None.
    #[default]
    None,
    /// Queries, keys and values.
    Inputs,
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
    Layer(u32, Part),
}

/// A weight of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Part {
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

impl Part {
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

impl fmt::Display for Part {
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
pub struct Matrix {
    /// Its rows: the outputs of a projection, the tokens of an embedding, the numbers of a vector.
    pub rows: u32,
    /// Its columns: the inputs of a projection.
    pub columns: u32,
}

impl Matrix {
    /// How many numbers it has.
    #[must_use]
    pub fn count(self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }
}

impl Decoder {
    /// Every weight it has, in the order a forward pass uses them.
    pub fn weights(&self) -> impl Iterator<Item = Weight> + '_ {
        let layers = (0..self.layers).flat_map(|layer| {
            Part::ALL.into_iter().filter(|&part| self.has(part)).map(move |part| Weight::Layer(layer, part))
        });
        let output = (!self.tied).then_some(Weight::Output);
        std::iter::once(Weight::Embedding).chain(layers).chain([Weight::FinalNorm]).chain(output)
    }

    /// Whether its layers have this part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        match part {
            Part::QueryNorm | Part::KeyNorm => self.head_norms,
            Part::QueryBias | Part::KeyBias | Part::ValueBias => self.biases != Biases::None,
            Part::AttentionOutputBias => self.biases == Biases::All,
            _ => true,
        }
    }

    /// Numbers in all heads of queries.
    #[must_use]
    pub fn query_width(&self) -> u32 {
        self.heads * self.head_width
    }

    /// Numbers in all heads of keys, and in all of values.
    #[must_use]
    pub fn key_value_width(&self) -> u32 {
        self.key_value_heads * self.head_width
    }

    /// The shape of a weight.
    #[must_use]
    pub fn matrix(&self, weight: Weight) -> Matrix {
        let (queries, keys) = (self.query_width(), self.key_value_width());
        let (rows, columns) = match weight {
            Weight::Embedding | Weight::Output => (self.vocabulary, self.width),
            Weight::FinalNorm => (self.width, 1),
            Weight::Layer(_, part) => match part {
                Part::AttentionNorm | Part::FeedForwardNorm | Part::AttentionOutputBias => (self.width, 1),
                Part::Query => (queries, self.width),
                Part::Key | Part::Value => (keys, self.width),
                Part::AttentionOutput => (self.width, queries),
                Part::QueryBias => (queries, 1),
                Part::KeyBias | Part::ValueBias => (keys, 1),
                Part::QueryNorm | Part::KeyNorm => (self.head_width, 1),
                Part::Gate | Part::Up => (self.hidden, self.width),
                Part::Down => (self.width, self.hidden),
            },
        };
        Matrix { rows, columns }
    }

    /// The row of the checkpoint that is this row of the program: queries and keys come in the order in which programs rotate
    /// them, neighbours together. Attention sums over a head, so that their order within it changes nothing else.
    #[must_use]
    pub fn checkpoint_row(&self, weight: Weight, row: u32) -> u32 {
        let rotated = matches!(
            weight,
            Weight::Layer(_, Part::Query | Part::Key | Part::QueryBias | Part::KeyBias | Part::QueryNorm | Part::KeyNorm)
        );
        if !rotated || self.rotary.pairs == Pairs::Neighbours {
            return row;
        }
        let (head, within) = (row / self.head_width, row % self.head_width);
        head * self.head_width + within / 2 + within % 2 * (self.head_width / 2)
    }
}
