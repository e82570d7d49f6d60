//! `pteron pull`: fetches a model from a Hugging Face endpoint.

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pteron_hub::{Error, Hub, ModelRef, Progress, PullOptions, PulledModel, Stage};

use crate::failure::Failure;
use crate::{interrupts, models, terminal, units};

/// The exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

const HELP: &str = "\
Fetches the program (.pte) with its external constants (.ptd), tokenizer, chat template and configuration, into the folder that \
`pteron models` shows. Other commands then take OWNER/NAME where they take a program. A pull that is stopped continues where it stopped; \
every file is compared with its checksum before it gets its name. Where a repository has several programs, they are listed, and --program \
chooses one.

Environment: HF_ENDPOINT is the endpoint [default: https://huggingface.co], HF_TOKEN the token for models that are not public [default: the \
file token below HF_HOME, as Hugging Face's tools write it]; PTERON_MODELS the folder of models. HF_HUB_OFFLINE=1 fetches nothing. \
SSL_CERT_FILE names root certificates, and HTTPS_PROXY a proxy.

Examples:
  pteron pull owner/name                            then: pteron run --model owner/name \"Hello\"
  pteron pull owner/name --program model_q4.pte     one of several programs
  pteron pull owner/name --program '*q4*'           by a pattern that one program matches
  pteron pull owner/name --revision v1.0            a branch, a tag or a commit
  pteron pull owner/name --include '*.pte' --include 'tokenizer*'
                                                    every file that matches, and no others";

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Pull {
    /// The model: OWNER/NAME, also OWNER/NAME@REVISION:FILE.pte
    #[arg(value_name = "OWNER/NAME")]
    model: ModelRef,

    /// A branch, a tag or a commit [default: main]
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,

    /// The program, where there are several: its path, its name, or a pattern
    #[arg(long, value_name = "FILE.pte", conflicts_with = "include")]
    program: Option<String>,

    /// Fetches the files that match this pattern instead; `*` stands for any characters; repeatable
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,

    /// Prints one JSON object about the pulled model
    #[arg(long)]
    json: bool,

    /// Prints nothing on standard error but errors
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Pull) -> ExitCode {
    interrupts::defer_first_interrupt();
    match pull(args).and_then(|pulled| report(args, pulled)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = terminal::end(&failure, false);
            if matches!(&failure, Failure::Hub(error) if matches!(**error, Error::Interrupted { .. })) {
                return INTERRUPTED.into();
            }
            code
        }
    }
}

fn pull(args: &Pull) -> Result<PulledModel, Failure> {
    let mut model = args.model.clone();
    if let Some(revision) = &args.revision {
        model = model.with_revision(revision)?;
    }
    if let Some(program) = &args.program {
        model = model.with_file(program)?;
    }
    let hub = Hub::from_env()?;
    let models = models::folder()?;
    let options = PullOptions::default().with_include(args.include.iter().cloned());
    let mut display = Display::new(args.quiet);
    let pulled = hub.pull(&models, &model, &options, &mut |progress| {
        display.update(progress);
        if interrupts::interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    drop(display);
    Ok(pulled?)
}

fn report(args: &Pull, pulled: PulledModel) -> Result<(), Failure> {
    if args.json {
        let json = serde_json::to_string(&models::Entry::from(pulled)).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{json}\n"));
    }
    if !args.quiet {
        let files = units::plural(pulled.files.len(), "file");
        let size = units::bytes(pulled.bytes);
        terminal::note(&format!("{} {}: {files}, {size} in {}", pulled.name, pulled.label(), pulled.folder.display()));
    }
    Ok(())
}

/// The progress of a pull: a bar at a terminal, else a line per file.
struct Display {
    bar: ProgressBar,
    /// The line that was written last.
    line: String,
    is_silent: bool,
}

impl Display {
    fn new(quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(
            None,
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() },
        );
        let template = "{spinner} {bar:24} {bytes} of {total_bytes} · {bytes_per_sec} · {eta} · {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, line: String::new(), is_silent: quiet }
    }

    fn update(&mut self, progress: Progress<'_>) {
        let line = match progress.stage {
            Stage::Waiting => "waiting for another process that pulls this model".to_owned(),
            Stage::Listing => "asking for its files".to_owned(),
            Stage::Downloading(path) => format!("fetching {path}"),
            Stage::Verifying(path) => format!("checking {path}"),
            Stage::Retrying { problem, wait } => format!("{problem}; trying again in {}", units::time(wait.as_secs_f64())),
            _ => String::new(),
        };
        if progress.total > 0 {
            self.bar.set_length(progress.total);
        }
        self.bar.set_position(progress.done);
        if line != self.line {
            // Bytes that were there before are no speed.
            self.bar.reset_eta();
            self.bar.set_message(terminal::clean(&line).into_owned());
            if self.bar.is_hidden()
                && !self.is_silent
                && matches!(progress.stage, Stage::Downloading(_) | Stage::Retrying { .. })
            {
                terminal::note(&line);
            }
            self.line = line;
        }
        self.bar.tick();
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
