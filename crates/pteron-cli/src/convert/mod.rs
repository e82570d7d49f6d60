//! `pteron convert`: converts a checkpoint to a program.

mod args;
mod report;
mod sidecars;

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use args::Convert;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pteron_convert::{ProgramTemplate, Progress, Report, Source, Synthetic, open_checkpoint, synthetic};

use crate::failure::{Failure, Reason};
use crate::{interrupts, terminal};

/// A bar that appears sooner would only flicker.
const SHOW_AFTER: Duration = Duration::from_millis(500);

/// Runs the command.
pub(crate) fn run(args: &Convert) -> ExitCode {
    interrupts::defer_first_interrupt();
    match convert(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, args.verbose),
    }
}

fn convert(args: &Convert) -> Result<(), Failure> {
    let bar = Bar::new(args);
    let converted = write(args, &mut |progress| bar.show(progress));
    bar.end();
    show(args, &converted?)
}

/// Converts without a word to the terminal, and returns the report as JSON.
pub(crate) fn convert_silently(
    args: &Convert,
    watch: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<String, Failure> {
    let Converted { report, sidecars, time } = write(args, watch)?;
    report::json(args, &report, &sidecars, time)
}

/// What a conversion wrote.
struct Converted {
    report: Report,
    sidecars: sidecars::Sidecars,
    time: Duration,
}

fn write(args: &Convert, watch: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<Converted, Failure> {
    let start = Instant::now();
    let source = open(args)?;
    let options = args.options(source.config());
    source.check_context(options.max_context_length)?;
    let metadata = source.metadata();
    let template = ProgramTemplate::new(source.config(), &options, &metadata)?;
    // `-o llama/model.pte` makes the folder: a model is a folder with its tokenizer.
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, Reason::Unwritten(error)))?;
    }
    let sidecars = sidecars::plan(&args.out, metadata.sidecars)?;
    let report = pteron_convert::convert(&*source, template, args.scales.into(), &args.out, watch)?;
    sidecars.write()?;
    Ok(Converted { report, sidecars, time: start.elapsed() })
}

fn open(args: &Convert) -> Result<Box<dyn Source>, Failure> {
    Ok(match (&args.synthetic, &args.source) {
        (Some(shape), _) => Box::new(Synthetic::new(synthetic::parse(shape)?, args.seed)),
        (None, Some(path)) => open_checkpoint(path)?,
        (None, None) => {
            let message = "name a source to convert, or a shape with --synthetic".to_owned();
            return Err(pteron_convert::Error::InvalidOption(message).into());
        }
    })
}

fn show(args: &Convert, Converted { report, sidecars, time }: &Converted) -> Result<(), Failure> {
    if args.json {
        return terminal::print(&report::json(args, report, sidecars, *time)?);
    }
    if args.report {
        terminal::print_styled(&report::table(report))?;
    }
    if !args.quiet {
        terminal::note(&report::line(args, report, sidecars, *time));
    }
    Ok(())
}

/// A progress bar on standard error, where that is a terminal and the conversion takes a while.
struct Bar {
    bar: ProgressBar,
    quiet: bool,
    start: Instant,
}

impl Bar {
    fn new(args: &Convert) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let template = "  {bar:32} {binary_bytes} of {binary_total_bytes}, {eta} left  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self { bar, quiet: args.quiet, start: Instant::now() }
    }

    fn show(&self, progress: Progress) -> ControlFlow<()> {
        if !self.quiet && self.bar.is_hidden() && self.start.elapsed() > SHOW_AFTER {
            // This target stays hidden where standard error is no terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        self.bar.set_message(progress.weight.map(|weight| weight.to_string()).unwrap_or_default());
        if interrupts::interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
