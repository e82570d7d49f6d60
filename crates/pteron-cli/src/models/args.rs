//! The options of `pteron models`.

use clap::{Args, Subcommand};
use pteron_hub::ModelRef;

const HELP: &str = "\
Models are kept in pteron/models below $XDG_CACHE_HOME (default ~/.cache; %LOCALAPPDATA% on Windows, ~/Library/Caches on macOS), or in \
the folder that PTERON_MODELS names. `pteron pull` fetches them.

Examples:
  pteron models                        name, revision, size and folder of each
  pteron models --json | jq .models
  pteron models remove owner/name      all of it
  pteron models remove owner/name@v1   one revision";

#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(super) command: Option<ModelsCommand>,

    /// Prints one JSON object instead of the table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// Removes pulled models
    Remove(Remove),
}

#[derive(Args, Debug)]
pub(super) struct Remove {
    /// The models
    #[arg(required = true, value_name = "OWNER/NAME")]
    pub(super) models: Vec<ModelRef>,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    pub(super) quiet: bool,
}
