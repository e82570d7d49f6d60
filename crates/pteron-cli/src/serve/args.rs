//! The options of `pteron serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::{GpuArgs, KvArgs};

const EXAMPLES: &str = "\
Examples:
  pteron serve                                          the bundled model at http://127.0.0.1:8080
  pteron serve llama --alias gpt-4o-mini                a model of yours, under a name that a client has fixed
  pteron serve llama qwen --host 0.0.0.0 --api-key-file keys.txt
  pteron serve llama --lora sql=adapters/sql            a LoRA adapter, as the model sql
  pteron serve llama --embed qwen-embedding             text from one model, embeddings from another
  curl localhost:8080/v1/completions -d '{\"prompt\": \"A thread is\"}'

Clients of OpenAI take http://127.0.0.1:8080/v1 as their base URL, clients of Anthropic http://127.0.0.1:8080. The page at / \
chats. SIGTERM and Ctrl-C finish the requests that run; a second one ends the server at once.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// Language models: programs, folders with one, or OWNER/NAME of models that were pulled [default: the bundled model, or those of
    /// --embed alone]
    #[arg(value_name = "MODEL")]
    pub(super) models: Vec<PathBuf>,

    /// A smaller model of the same vocabulary that drafts tokens; the texts are the same
    #[arg(long, value_name = "MODEL")]
    pub(super) draft: Option<PathBuf>,

    /// Drafts tokens from repetitions in the prompt and the text, for models that repeat what they read; the texts are the same
    #[arg(long, conflicts_with = "draft")]
    pub(super) prompt_lookup: bool,

    /// A model whose hidden states become embeddings: a decoder or an encoder; repeatable. One that is a MODEL, too, is loaded twice
    #[arg(long, value_name = "MODEL")]
    pub(super) embed: Vec<PathBuf>,

    /// How the hidden states of a text become one vector [default: last for decoders, mean for encoders]
    #[arg(long, value_name = "WHICH", value_enum)]
    pub(super) pooling: Option<Pooling>,

    /// Lets requests ask for fewer dimensions of embeddings, for models that were trained for that (Matryoshka)
    #[arg(long)]
    pub(super) matryoshka: bool,

    /// The address to listen on; 0.0.0.0 for all
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(super) host: String,

    /// The port to listen on; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 8080)]
    pub(super) port: u16,

    /// Another name of the first model, or of the one that is named; repeatable
    #[arg(long, value_name = "NAME[=MODEL]")]
    pub(super) alias: Vec<String>,

    /// A LoRA adapter of the first model, or of the one that is named: a folder as PEFT saves it. Requests choose it by its name, as a
    /// model; repeatable
    #[arg(long, value_name = "[MODEL:]NAME=FOLDER")]
    pub(super) lora: Vec<String>,

    /// Room for this many adapters per model, for those that are loaded over HTTP as well [default: those of --lora]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(super) max_loras: Option<u32>,

    /// The largest rank of an adapter [default: the largest of --lora, at least 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) max_lora_rank: Option<u32>,

    /// A key that clients need; repeatable. Other users of this machine see it: prefer --api-key-file
    #[arg(long, value_name = "KEY")]
    pub(super) api_key: Vec<String>,

    /// A file with a key per line
    #[arg(long, value_name = "FILE")]
    pub(super) api_key_file: Option<PathBuf>,

    /// Load and unload models and adapters for clients that have a key of this file, one per line
    #[arg(long, value_name = "FILE")]
    pub(super) admin_key_file: Option<PathBuf>,

    /// An origin whose pages may call the server, or * for any; repeatable
    #[arg(long, value_name = "ORIGIN")]
    pub(super) cors: Vec<String>,

    /// The certificate for HTTPS, and those between it and a root, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,

    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,

    /// Most bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    pub(super) max_request: usize,

    /// Most requests that run or wait at once; further ones get status 429
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(super) max_queue: usize,

    /// Most texts that are generated in one step [default: by the GPU]
    #[arg(long, value_name = "N")]
    pub(super) max_sequences: Option<u32>,

    /// Most seconds that a request may take [default: any]
    #[arg(long, value_name = "SECONDS")]
    pub(super) timeout: Option<u64>,

    /// Seconds that requests have to finish after SIGTERM or Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub(super) drain_timeout: u64,

    /// GPU memory of each model with its KV cache, in MiB [default: its share of the device's]
    #[arg(long, value_name = "MIB")]
    pub(super) memory: Option<u64>,

    /// How events are written to standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Log::Text)]
    pub(super) log: Log,

    /// The tokenizer [default: the one in the model's folder]
    #[arg(long, value_name = "FILE")]
    pub(super) tokenizer: Option<PathBuf>,

    /// The chat template [default: the one in the model's folder]
    #[arg(long, value_name = "FILE.jinja")]
    pub(super) template: Option<PathBuf>,

    #[command(flatten)]
    pub(super) kv: KvArgs,

    #[command(flatten)]
    pub(super) gpu: GpuArgs,

    /// Prints the structure of an error as well
    #[arg(short, long)]
    pub(super) verbose: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pooling {
    Last,
    Mean,
    First,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Log {
    Text,
    Json,
    Off,
}
