//! The command line: commands, and the options that several of them share.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pteron::StateDtype;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Runs ExecuTorch programs (.pte) on any GPU.
#[derive(Debug, Parser)]
#[command(name = "pteron", version, styles = STYLES, propagate_version = true, subcommand_required = true)]
#[command(after_help = "Exit status: 0 success, 1 failure, 2 wrong command line.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Continues a prompt, with the bundled model or one of yours
    Run(crate::generate::Run),
    /// Chats with a model at the terminal
    Chat(crate::generate::Chat),
    /// Serves models over HTTP, with the APIs of OpenAI and Anthropic
    #[cfg(feature = "serve")]
    Serve(crate::serve::Serve),
    /// Converts a checkpoint to a program: Hugging Face folders, GGUF files, or synthetic weights
    Convert(crate::convert::Convert),
    /// Fetches a model from a Hugging Face endpoint
    #[cfg(feature = "pull")]
    Pull(crate::pull::Pull),
    /// Lists the models that were pulled, and removes them
    Models(crate::models::ModelsArgs),
    /// Shows what a program contains: methods, operators, constants, KV caches, memory
    Inspect(crate::inspect::Inspect),
    /// Calls a method with arrays from .npz files and writes its outputs
    Exec(crate::exec::Exec),
    /// Measures prefill and decode speed of a language model
    Bench(crate::bench::Bench),
    /// Measures which kernels are faster on this GPU, and remembers the result
    Tune(crate::tune::Tune),
    /// Lists the GPUs, the default first
    Devices(crate::devices::Devices),
    /// Reports what a bug report needs, and whether the bundled model gives the expected output here
    Doctor(crate::doctor::Doctor),
    /// Prints the script that makes a shell complete commands and options
    Completions(crate::reference::Completions),
    /// Writes the manual pages, one per command
    // For those who package the command.
    #[command(name = "man", hide = true)]
    Manual(crate::reference::Manual),
}

/// GPU selection.
#[derive(Args, Clone, Debug)]
pub(crate) struct GpuArgs {
    /// Part of the GPU's name, driver or backend [default: the best one]
    #[arg(long, value_name = "NAME")]
    pub(crate) adapter: Option<String>,

    /// Neither reads nor writes the cache of compiled kernels; `pteron devices` shows its folder
    #[arg(long)]
    pub(crate) no_pipeline_cache: bool,
}

/// Element type of the KV cache.
#[derive(Args, Clone, Debug)]
pub(crate) struct KvArgs {
    /// Element type of the KV cache: auto is f16 where the GPU has it (half the memory, and to read), else f32
    #[arg(long, value_name = "DTYPE", value_enum, default_value_t = KvDtype::Auto)]
    kv_dtype: KvDtype,

    /// The name of `--kv-dtype f16` before 0.2.
    #[arg(long, hide = true, conflicts_with = "kv_dtype")]
    half_cache: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KvDtype {
    Auto,
    F16,
    F32,
}

impl KvArgs {
    pub(crate) fn dtype(&self) -> StateDtype {
        match (self.kv_dtype, self.half_cache) {
            (KvDtype::F16, _) | (_, true) => StateDtype::F16,
            (KvDtype::Auto, false) => StateDtype::Auto,
            (KvDtype::F32, false) => StateDtype::F32,
        }
    }
}

/// The model, and the GPU it runs on.
#[derive(Args, Clone, Debug)]
pub(crate) struct ModelArgs {
    /// A language model: a program, or OWNER/NAME of one that was pulled [default: the bundled model]
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,

    /// Its tokenizer [default: tokenizer.json or tokenizer.model in the model's folder]
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) tokenizer: Option<PathBuf>,

    /// Its chat template [default: the one in the model's folder]
    #[arg(long, value_name = "FILE.jinja")]
    pub(crate) template: Option<PathBuf>,

    /// External constants of the program; repeatable
    #[arg(long, value_name = "FILE.ptd", requires = "model")]
    pub(crate) data: Vec<PathBuf>,

    /// Context length in tokens, where the program does not declare it
    #[arg(long, value_name = "N")]
    pub(crate) context_length: Option<u32>,

    /// The token that begins a text, where the program does not declare it
    #[arg(long, value_name = "ID")]
    pub(crate) bos_id: Option<u32>,

    /// A token that ends a text, where the program does not declare it; repeatable
    #[arg(long = "eos-id", value_name = "ID")]
    pub(crate) eos_ids: Vec<u32>,

    /// Treats the program as one with a KV cache, where it does not declare it
    #[arg(long)]
    pub(crate) kv_cache: bool,

    #[command(flatten)]
    pub(crate) kv: KvArgs,

    #[command(flatten)]
    pub(crate) gpu: GpuArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn dtype(args: &[&str]) -> StateDtype {
        match Cli::try_parse_from([&["pteron", "chat"][..], args].concat()).unwrap().command {
            Command::Chat(chat) => chat.model.kv.dtype(),
            other => panic!("{other:?} is not what was typed"),
        }
    }

    #[test]
    fn the_old_name_of_the_kv_dtype_still_works_and_is_hidden() {
        assert_eq!((dtype(&[]), dtype(&["--kv-dtype", "f32"])), (StateDtype::Auto, StateDtype::F32));
        assert_eq!((dtype(&["--kv-dtype", "f16"]), dtype(&["--half-cache"])), (StateDtype::F16, StateDtype::F16));
        assert!(Cli::try_parse_from(["pteron", "run", "--half-cache", "--kv-dtype", "f32"]).is_err());
        let mut command = Cli::command();
        for name in ["run", "chat", "bench"] {
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            assert!(help.contains("--kv-dtype") && !help.contains("--half-cache"), "{name}");
        }
    }
}
