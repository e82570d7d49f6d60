//! The farm's command line.

use std::path::PathBuf;

use clap::Parser;

/// Runs every fuzz target in slices and sums up. Ctrl-C ends the run with a summary.
#[derive(Parser)]
#[command(name = "farm")]
pub(super) struct Args {
    /// How long to fuzz, in hours
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// How long to fuzz, in minutes; added to the hours
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// Processes at a time [default: one per core]
    #[arg(long)]
    pub(super) jobs: Option<usize>,
    /// Run this target alone; may be given more than once
    #[arg(long, value_name = "TARGET")]
    pub(super) only: Vec<String>,
    /// Run the targets that compute, too: on the GPU or software adapter that is there
    #[arg(long)]
    pub(super) gpu: bool,
    /// Keep corpus, findings, totals and summary in this folder; a later run goes on from there
    #[arg(long, value_name = "FOLDER", default_value = "farm-out")]
    pub(super) out: PathBuf,
    /// Start from the inputs in this folder, too, which has a folder for each target
    #[arg(long, value_name = "FOLDER")]
    pub(super) seeds: Option<PathBuf>,
    /// Make the seeds from the files of the repository at this place instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "seeds")]
    pub(super) repository: Option<PathBuf>,
    /// Leave the corpus as it has grown, with inputs that add nothing
    #[arg(long)]
    pub(super) no_merge: bool,
    /// List the targets and do nothing else
    #[arg(long)]
    pub(super) list: bool,
}

impl Args {
    /// How long to fuzz, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        (self.hours * 60.0 + self.minutes).max(0.0) * 60.0
    }
}
