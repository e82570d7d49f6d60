//! The options of `pteron convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pteron_convert::template::{self, ConvertOptions};
use pteron_convert::{ModelConfig, ScaleMethod, synthetic};

/// The default context length, unless the model was trained for less.
const USUAL_CONTEXT: u32 = 4096;

const EXAMPLES: &str = "\
Sources: a Hugging Face folder (config.json and safetensors), a GGUF file, or --synthetic. Tokenizer and chat template are \
written to the program's folder, where `pteron run` finds them.

Examples:
  pteron convert Llama-3.2-1B -o llama/model.pte        a folder as it was downloaded
  pteron convert qwen2.5-0.5b-q4_0.gguf -o qwen/model.pte
                                                        4-bit blocks are kept bit for bit
  pteron convert Llama-3.2-1B -o m.pte --context 8192   with room for more tokens
  pteron convert Llama-3.2-1B -o m.pte --report | less  the quantisation error of each tensor
  pteron convert --synthetic llama-3.1-8b -o big.pte    synthetic weights, to measure speed
  pteron convert --synthetic qwen3-8b,layers=2 -o q.pte the same with two layers
";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// A Hugging Face folder or a GGUF file
    #[arg(value_name = "SOURCE", required_unless_present = "synthetic")]
    pub(crate) source: Option<PathBuf>,

    /// The program to write
    #[arg(short, long, value_name = "MODEL.pte")]
    pub(crate) out: PathBuf,

    /// Writes synthetic weights instead, of a shape by name or by numbers
    #[arg(long, value_name = "SHAPE", conflicts_with = "source", long_help = synthetic_help())]
    pub(crate) synthetic: Option<String>,

    /// Seed of synthetic weights
    #[arg(long, value_name = "N", default_value_t = 0, requires = "synthetic")]
    pub(crate) seed: u64,

    /// Context length: tokens that fit the KV cache [default: 4096, or the model's own if shorter]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u32>,

    /// Most tokens of one call, plus one; longer prompts are split [default: 2048, or the context]
    #[arg(long, value_name = "N")]
    pub(crate) longest_call: Option<u32>,

    /// Quantisation group size: 32, 64, 128 or 256
    #[arg(long, value_name = "N", default_value_t = ConvertOptions::DEFAULT_GROUP)]
    pub(crate) group: u32,

    /// Storage of linear layers
    #[arg(long, value_name = "STORAGE", default_value_t = WeightStorage::FourBits)]
    pub(crate) linears: WeightStorage,

    /// Storage of the embedding
    #[arg(long, value_name = "STORAGE", default_value_t = WeightStorage::FourBits)]
    pub(crate) embedding: WeightStorage,

    /// Method that chooses quantisation scales
    #[arg(long, value_name = "METHOD", default_value_t = ScaleChoice::Search)]
    pub(crate) scales: ScaleChoice,

    /// Stores all but 4-bit weights as f16, the KV cache too; this runtime computes in f32
    #[arg(long = "f16", alias = "half")]
    pub(crate) f16: bool,

    /// Quantises rows of activations to 8 bits before 4-bit linears, each by its own range (8da4w)
    #[arg(long)]
    pub(crate) int8_activations: bool,

    /// Computes logits for all tokens of a call, not only the last
    #[arg(long)]
    pub(crate) full_logits: bool,

    /// Prints the quantisation error of every tensor
    #[arg(long)]
    pub(crate) report: bool,

    /// Prints one JSON object, with the quantisation error of every tensor
    #[arg(long, conflicts_with = "report")]
    pub(crate) json: bool,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Prints the structure of an error as well
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

fn synthetic_help() -> String {
    let names: Vec<&str> = synthetic::names().collect();
    format!(
        "Writes synthetic weights instead, of a shape by name or by numbers\n\nNames: {}. Numbers: layers=2,width=256,heads=4,kv=2,\
         hidden=512,vocab=1000,head=64; after a name, those that differ from it",
        names.join(", ")
    )
}

/// Storage of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightStorage {
    /// Symmetric 4-bit quantisation in groups
    #[value(name = "4bit")]
    FourBits,
    /// As float32
    Float32,
}

/// Choice of the scale of a quantisation group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScaleChoice {
    /// Least squared error
    Search,
    /// As ExecuTorch's exporter, bit for bit
    Exporter,
    /// Largest absolute value of the group
    MaxAbs,
}

macro_rules! display_as_typed {
    ($($name:ty),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
            }
        }
    )*};
}
display_as_typed!(WeightStorage, ScaleChoice);

impl From<ScaleChoice> for ScaleMethod {
    fn from(choice: ScaleChoice) -> Self {
        match choice {
            ScaleChoice::Search => Self::Search,
            ScaleChoice::Exporter => Self::Exporter,
            ScaleChoice::MaxAbs => Self::MaxAbs,
        }
    }
}

impl Convert {
    /// The conversion options for a model of this configuration.
    pub(super) fn options(&self, config: &ModelConfig) -> ConvertOptions {
        let context = self.context.unwrap_or_else(|| config.max_position_embeddings.clamp(1, USUAL_CONTEXT));
        let format =
            |storage| template::WeightFormat::from_group_size((storage == WeightStorage::FourBits).then_some(self.group));
        ConvertOptions::new(context)
            .with_max_seq_length(self.longest_call.unwrap_or_else(|| context.min(ConvertOptions::DEFAULT_MAX_SEQ_LENGTH)))
            .with_linear_format(format(self.linears))
            .with_embedding_format(format(self.embedding))
            .with_full_logits(self.full_logits)
            .with_float16(self.f16)
            .with_int8_activations(self.int8_activations)
    }
}
