//! `pteron inspect`: shows what a program contains, verifies it, draws its graphs.

mod args;
mod collect;
mod deep;
mod graph;
mod report;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) use args::Inspect;
use clap::CommandFactory;
use clap::error::ErrorKind;
use pteron::FileBytes;
use pteron_format::{Bytes, Ptd, Pte};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::{files, models, terminal};

/// External data with its paths, which messages name.
struct Data {
    paths: Vec<PathBuf>,
    files: Vec<Ptd<FileBytes>>,
}

/// Bytes of constants, state and activations as the file plans them.
pub(crate) fn planned_bytes<B: Bytes>(pte: &Pte<B>) -> u64 {
    let memory = collect::report(Path::new(""), pte, &[], 0).memory;
    [memory.constants_bytes, memory.state_bytes, memory.activations_bytes].into_iter().fold(0, u64::saturating_add)
}

/// Bytes of a program's constants, equal ones counted once.
pub(crate) fn constant_bytes<B: Bytes>(pte: &Pte<B>) -> u64 {
    collect::report(Path::new(""), pte, &[], 0).memory.constants_bytes
}

/// Runs the command over all files; the others are inspected even if one fails.
pub(crate) fn run(mut args: Inspect) -> ExitCode {
    // External constants that were pulled with a model belong to it alone. An error is reported where the file is inspected.
    if let [path] = args.files.as_slice()
        && args.data.is_empty()
        && let Ok(located) = models::locate(path)
    {
        args.data = located.data;
    }
    let args = &args;
    if args.graph.is_some() && args.files.len() > 1 {
        let message = "--graph draws one program; several were given";
        Cli::command().error(ErrorKind::TooManyValues, message).exit();
    }
    let data = match open_data(args) {
        Ok(data) => data,
        Err(failure) => return terminal::end(&failure, args.verbose),
    };
    let mut code = ExitCode::SUCCESS;
    let mut follows = false;
    for path in &args.files {
        match inspect(args, path, &data, follows) {
            Ok(()) => follows = true,
            Err(failure) => {
                code = terminal::end(&failure, args.verbose);
                if matches!(failure, Failure::Output(_)) {
                    break;
                }
            }
        }
    }
    code
}

fn open_data(args: &Inspect) -> Result<Data, Failure> {
    let files = args.data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    if args.deep {
        for (path, file) in args.data.iter().zip(&files) {
            conclude(args, path, &deep::check_data(path, file)?);
        }
    }
    Ok(Data { paths: args.data.clone(), files })
}

/// Inspects one program; a blank line separates it from one it `follows`.
fn inspect(args: &Inspect, path: &Path, data: &Data, follows: bool) -> Result<(), Failure> {
    let path = &models::locate(path)?.program;
    let pte = files::open_program(path)?;
    if !data.files.is_empty() {
        pte.verify_external(&data.files).map_err(|error| Failure::file(path, error))?;
    }
    if args.verify {
        if args.deep {
            conclude(args, path, &deep::check_program(path, &pte)?);
        }
        return Ok(());
    }
    show(args, path, &pte, data, follows)
}

/// Describes a program as `--json` does, without a line's end. External data is verified if it is given.
pub(crate) fn describe(path: &Path, data: &[PathBuf]) -> Result<String, Failure> {
    let located = models::locate(path)?;
    let data = if data.is_empty() { located.data } else { data.to_vec() };
    let pte = files::open_program(&located.program)?;
    let files = data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    if !files.is_empty() {
        pte.verify_external(&files).map_err(|error| Failure::file(&located.program, error))?;
    }
    json(&located.program, &pte, &data, report::LARGEST)
}

fn json(path: &Path, pte: &Pte<FileBytes>, data: &[PathBuf], most: usize) -> Result<String, Failure> {
    serde_json::to_string(&collect::report(path, pte, data, most)).map_err(|error| Failure::Output(error.into()))
}

fn show(args: &Inspect, path: &Path, pte: &Pte<FileBytes>, data: &Data, follows: bool) -> Result<(), Failure> {
    if let Some(language) = args.graph {
        return terminal::print(&graph::draw(path, pte, args.method.as_deref(), language)?);
    }
    let most = if args.verbose { usize::MAX } else { report::LARGEST };
    if args.json {
        return terminal::print(&(json(path, pte, &data.paths, most)? + "\n"));
    }
    let report = collect::report(path, pte, &data.paths, most);
    let gap = if follows { "\n" } else { "" };
    terminal::print_styled(&format!("{gap}{}", text::render(&report, terminal::width())))
}

fn conclude(args: &Inspect, path: &Path, checked: &deep::Checked) {
    if args.verbose {
        terminal::note(&format!("{}: {checked}", path.display()));
    }
}
