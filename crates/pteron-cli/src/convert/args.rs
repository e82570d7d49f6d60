//! What can be typed behind `pteron convert`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pteron_convert::template::{self, ConvertOptions};
use pteron_convert::{ModelConfig, ScaleMethod, synthetic};

/// As many tokens as a context has where nobody says, unless the model was trained for fewer.
const USUAL_CONTEXT: u32 = 4096;

const EXAMPLES: &str = "\
Sources: a Hugging Face folder (config.json and safetensors), a GGUF file, or --synthetic. Tokenizer and chat template are \
written beside the program, where `pteron run` finds them.

Examples:
  pteron convert Llama-3.2-1B -o llama/model.pte        a folder as it was downloaded
  pteron convert qwen2.5-0.5b-q4_0.gguf -o qwen/model.pte
                                                        4-bit blocks as they are, bit for bit
  pteron convert Llama-3.2-1B -o m.pte --context 8192   with room for more tokens
  pteron convert Llama-3.2-1B -o m.pte --report | less  how far each tensor is off
  pteron convert --synthetic llama-3.1-8b -o big.pte    random weights, to measure speed
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

    /// Makes up weights instead, for a shape by name or by numbers
    #[arg(long, value_name = "SHAPE", conflicts_with = "source", long_help = synthetic_help())]
    pub(crate) synthetic: Option<String>,

    /// What made-up weights follow from
    #[arg(long, value_name = "N", default_value_t = 0, requires = "synthetic")]
    pub(crate) seed: u64,

    /// Tokens that the KV cache has room for [default: 4096, or what the model was trained for]
    #[arg(long, value_name = "N")]
    pub(crate) context: Option<u32>,

    /// Most tokens of one call, plus one; longer prompts go in several [default: 2048, or the context]
    #[arg(long, value_name = "N")]
    pub(crate) longest_call: Option<u32>,

    /// Numbers that share a scale: 32, 64, 128 or 256
    #[arg(long, value_name = "N", default_value_t = ConvertOptions::DEFAULT_GROUP)]
    pub(crate) group: u32,

    /// How projections are stored
    #[arg(long, value_name = "FORM", default_value_t = Form::FourBits)]
    pub(crate) linears: Form,

    /// How the embedding is stored
    #[arg(long, value_name = "FORM", default_value_t = Form::FourBits)]
    pub(crate) embedding: Form,

    /// How scales are chosen
    #[arg(long, value_name = "HOW", default_value_t = HowScaled::Search)]
    pub(crate) scales: HowScaled,

    /// Has the program hold all but 4-bit numbers with 16 bits, the KV cache too; this runtime computes with 32
    #[arg(long)]
    pub(crate) half: bool,

    /// Has the program compute logits for all tokens of a call, not only the last
    #[arg(long)]
    pub(crate) full_logits: bool,

    /// Prints for every tensor how far it is from the source's
    #[arg(long)]
    pub(crate) report: bool,

    /// Prints one JSON object, with that of every tensor
    #[arg(long, conflicts_with = "report")]
    pub(crate) json: bool,

    /// Says nothing on standard error unless something fails
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Says more where something fails
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

fn synthetic_help() -> String {
    let names: Vec<&str> = synthetic::names().collect();
    format!(
        "Makes up weights instead, for a shape by name or by numbers\n\nNames: {}. Numbers: layers=2,width=256,heads=4,kv=2,\
         hidden=512,vocab=1000,head=64; behind a name only those that differ",
        names.join(", ")
    )
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Symmetric 4-bit numbers in groups
    #[value(name = "4bit")]
    FourBits,
    /// As float32
    Float32,
}

/// How the scale of a group is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HowScaled {
    /// The one with the least squared error
    Search,
    /// As ExecuTorch's exporter chooses them, bit for bit
    Exporter,
    /// By the greatest number of a group
    MaxAbs,
}

macro_rules! shown_as_typed {
    ($($name:ty),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
            }
        }
    )*};
}
shown_as_typed!(Form, HowScaled);

impl From<HowScaled> for ScaleMethod {
    fn from(how: HowScaled) -> Self {
        match how {
            HowScaled::Search => Self::Search,
            HowScaled::Exporter => Self::Exporter,
            HowScaled::MaxAbs => Self::MaxAbs,
        }
    }
}

impl Convert {
    /// What is wanted of the program of such a decoder.
    pub(super) fn options(&self, config: &ModelConfig) -> ConvertOptions {
        let context = self.context.unwrap_or_else(|| config.max_position_embeddings.clamp(1, USUAL_CONTEXT));
        let stored = |form| template::WeightFormat::from_group_size((form == Form::FourBits).then_some(self.group));
        ConvertOptions {
            max_context_length: context,
            max_seq_length: self.longest_call.unwrap_or_else(|| context.min(ConvertOptions::DEFAULT_MAX_SEQ_LENGTH)),
            linear_format: stored(self.linears),
            embedding_format: stored(self.embedding),
            full_logits: self.full_logits,
            float16: self.half,
        }
    }
}
