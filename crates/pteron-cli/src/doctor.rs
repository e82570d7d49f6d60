//! `pteron doctor`: the metadata a bug report needs, on one screen, and whether the bundled model generates the expected tokens here.

mod check;
mod folders;
mod system;
mod text;

use std::process::ExitCode;

use clap::Args;
use pteron::{adapters, block_on};
use serde::Serialize;

use crate::cli::GpuArgs;
use crate::devices::{self, Device};
use crate::failure::Failure;
use crate::terminal;

#[derive(Args, Debug)]
#[command(after_help = "\
Exit status: 0 if the bundled model gives the tokens that PyTorch gives, 1 if it does not or cannot run.

Examples:
  pteron doctor                    a report to paste into an issue
  pteron doctor --adapter nvidia   checks another GPU than the default
  pteron doctor --json | jq .check for scripts")]
pub(crate) struct Doctor {
    #[command(flatten)]
    gpu: GpuArgs,

    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Doctor) -> ExitCode {
    let report = Report::collect(args);
    match report.print(args) {
        Ok(()) if report.ok => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(failure) => terminal::end(&failure, false),
    }
}

/// The report. The names of the fields are those of `--json`; a change of meaning raises `report_version`.
#[derive(Serialize)]
struct Report {
    report_version: u32,
    /// Whether the bundled model generates the expected tokens.
    ok: bool,
    version: &'static str,
    /// Whether the compiler optimised this build.
    optimised: bool,
    system: system::System,
    /// Every adapter, best first; `used` marks the one that was checked.
    adapters: Vec<Device>,
    folders: Vec<folders::Folder>,
    tuning: folders::Tuning,
    check: check::Check,
}

impl Report {
    fn collect(args: &Doctor) -> Self {
        let gpu = devices::open(&args.gpu, true);
        let summary = gpu.as_ref().ok().map(pteron::Gpu::adapter);
        let found = block_on(adapters());
        let is_used = |adapter: &pteron::AdapterSummary| {
            summary.is_some_and(|used| {
                (&used.name, &used.driver, &used.backend) == (&adapter.name, &adapter.driver, &adapter.backend)
            })
        };
        // Two cards of one kind have the same name; the first is the one that is opened.
        let used = found.iter().position(is_used);
        let tuning = folders::Tuning::read(summary);
        let check = check::Check::run(&gpu);
        Self {
            report_version: 1,
            ok: check.ok,
            version: env!("CARGO_PKG_VERSION"),
            optimised: !cfg!(debug_assertions),
            system: system::System::collect(),
            adapters: found.iter().enumerate().map(|(index, adapter)| Device::new(adapter, Some(index) == used)).collect(),
            folders: folders::Folder::all(),
            tuning,
            check,
        }
    }

    fn print(&self, args: &Doctor) -> Result<(), Failure> {
        if args.json {
            let line = serde_json::to_string(self).map_err(|error| Failure::Output(error.into()))?;
            return terminal::print(&format!("{line}\n"));
        }
        terminal::print_styled(&text::render(self, terminal::width()))
    }
}
