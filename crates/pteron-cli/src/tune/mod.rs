//! `pteron tune`: measures which of several kernels for the same operator are faster on this GPU, and remembers the result.
//!
//! [`choice`] lists the alternatives and picks among them, [`store`] is the file between runs; `pteron bench` measures.

mod args;
mod choice;
mod store;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pteron::{Gpu, Program, Tuning};
use serde::Serialize;

pub(crate) use args::Tune;
use choice::{Knob, SpeedUps, Trial};
pub(crate) use store::Store;
use store::{Key, Values};

use crate::bench::{AbComparison, Target, Workload};
use crate::failure::{Failure, Reason};
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, NUMBER, TITLE, clean};
use crate::{devices, folders, inspect, interrupts};

/// Returns the stored tuning for a program on a GPU, if there is one.
pub(crate) fn remembered(gpu: &Gpu, program: &Program, quiet: bool) -> Option<Tuning> {
    let store = read(&folders::tuning_file()?, quiet);
    // Counting constants takes time; most users have no tuning.
    if !store.knows(gpu.adapter()) {
        return None;
    }
    store.get(&key(gpu, program))
}

/// Describes how a tuning differs from the defaults.
pub(crate) fn describe(tuning: Tuning) -> String {
    choice::describe(tuning)
}

fn read(path: &Path, quiet: bool) -> Store {
    let store = Store::read(path);
    if let Some(warning) = store.warning.as_ref().filter(|_| !quiet) {
        terminal::warn(warning);
    }
    store
}

fn key(gpu: &Gpu, program: &Program) -> Key {
    Key::new(gpu.adapter(), inspect::constant_bytes(program.pte()))
}

/// Runs the command.
pub(crate) fn run(args: &Tune) -> ExitCode {
    match tune(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

fn tune(args: &Tune) -> Result<(), Failure> {
    let file = folders::tuning_file().ok_or(Failure::NoCacheFolder)?;
    let quiet = args.quiet || args.json;
    let target = AbComparison::target(&args.target)?;
    let gpu = devices::open(&args.gpu, quiet)?;
    let key = key(&gpu, &target.program);
    if args.forget {
        let forgotten = remember(&file, &key, None, quiet)?;
        return show(args.json, &Forgotten { key, forgotten, file }, Forgotten::text);
    }
    let mut report = measure(args, &gpu, &target, key, quiet)?;
    let wins = report.wins();
    // Where the defaults are best, the result of an earlier run no longer holds.
    let tuning = wins.then_some(report.tuning);
    remember(&file, &report.key, tuning, quiet)?;
    report.remembered = tuning.map(|tuning| Remembered { values: tuning.into(), file });
    show(args.json, &report.json(), |_| report.text())
}

/// Writes the file if anything in it changes, and returns whether it did.
fn remember(file: &Path, key: &Key, tuning: Option<Tuning>, quiet: bool) -> Result<bool, Failure> {
    let mut store = read(file, quiet);
    let changed = store.set(key, tuning);
    if changed && store.is_unread {
        return Err(Failure::file(file, Reason::Unread));
    }
    if changed {
        store.write(file)?;
    }
    Ok(changed)
}

/// Measures the alternatives of one setting after another, each on top of those that won before, then the winners together.
fn measure(args: &Tune, gpu: &Gpu, target: &Target, key: Key, quiet: bool) -> Result<Report, Failure> {
    let mut comparison = AbComparison::new(gpu, target, args.repeat, quiet)?;
    // From here on the first Ctrl-C ends the measurement before anything is written.
    interrupts::defer_first_interrupt();
    let speed_ups = |comparison: &AbComparison<'_>, tuning: Tuning, workload: Workload, against: Tuning| {
        if !quiet {
            terminal::note(&format!("A/B comparison: {} against {}", describe(tuning), describe(against)));
        }
        let [prefill, decode] = comparison.speed_ups(tuning, workload)?;
        Ok::<_, Failure>(SpeedUps { prefill, decode })
    };
    let (mut best, mut trials) = (Tuning::default(), Vec::new());
    for knob in Knob::of(gpu.caps()) {
        let workload = comparison.fitting(knob.workload());
        let trial = |tuning: Tuning| {
            let speed_ups = speed_ups(&comparison, tuning, workload, best)?;
            Ok(Trial { knob, tuning, workload, speed_ups, taken: false })
        };
        let mut own = knob.alternatives(best).into_iter().map(trial).collect::<Result<Vec<_>, Failure>>()?;
        if let Some(tuning) = choice::take(&mut own) {
            best = tuning;
            comparison.rebase(best)?;
        }
        trials.extend(own);
    }
    let mut together = Vec::new();
    if best != Tuning::default() {
        comparison.rebase(Tuning::default())?;
        let mut workloads = vec![comparison.fitting(Workload::USUAL)];
        workloads.extend(trials.iter().filter(|trial| trial.taken).map(|trial| trial.workload));
        workloads.dedup();
        for workload in workloads {
            together.push((workload, speed_ups(&comparison, best, workload, Tuning::default())?));
        }
    }
    Ok(Report { key, program: target.name.clone(), repeat: args.repeat, trials, tuning: best, together, remembered: None })
}

/// Measurements and their result.
struct Report {
    key: Key,
    program: String,
    repeat: u32,
    trials: Vec<Trial>,
    /// The winners together, and their speed relative to the defaults.
    tuning: Tuning,
    together: Vec<(Workload, SpeedUps)>,
    remembered: Option<Remembered>,
}

#[derive(Clone, Serialize)]
struct Remembered {
    #[serde(flatten)]
    values: Values,
    file: PathBuf,
}

/// A line of the table.
#[derive(Serialize)]
struct Line {
    knob: String,
    #[serde(flatten)]
    workload: Workload,
    #[serde(flatten)]
    speed_ups: SpeedUps,
    taken: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    key: &'a Key,
    program: &'a str,
    repeat: u32,
    trials: Vec<Line>,
    /// The winners measured together, in each workload in which one won; empty where there is none.
    together: Vec<Line>,
    /// The stored tuning; null where the defaults are best.
    remembered: Option<Remembered>,
}

impl Report {
    /// Whether the winners together beat the defaults.
    fn wins(&self) -> bool {
        let speed_ups: Vec<SpeedUps> = self.together.iter().map(|(_, speed_ups)| *speed_ups).collect();
        choice::wins_together(&speed_ups)
    }

    fn together(&self) -> Vec<Line> {
        let (knob, taken) = (format!("together: {}", describe(self.tuning)), self.wins());
        let line = |&(workload, speed_ups): &_| Line { knob: knob.clone(), workload, speed_ups, taken };
        self.together.iter().map(line).collect()
    }

    fn json(&self) -> Json<'_> {
        let line = |trial: &Trial| {
            let &Trial { workload, speed_ups, taken, .. } = trial;
            Line { knob: trial.knob.describe(trial.tuning).unwrap_or_default(), workload, speed_ups, taken }
        };
        Json {
            key: &self.key,
            program: &self.program,
            repeat: self.repeat,
            trials: self.trials.iter().map(line).collect(),
            together: self.together(),
            remembered: self.remembered.clone(),
        }
    }

    fn text(&self) -> String {
        let Key { adapter, driver, backend, shape_class } = &self.key;
        let [adapter, driver, backend, program] = [adapter, driver, backend, &self.program].map(|text| clean(text));
        let mut out = format!("{TITLE}{program}{TITLE:#} on {adapter} ({driver}, {backend})\n");
        let faint = |text: &str| Cell::new(text).style(FAINT);
        let mut table = Table::default();
        table.row([faint("knob"), faint("tests"), faint("prefill").right(), faint("decode").right(), faint("taken")]);
        let Json { trials, together, .. } = self.json();
        for Line { knob, workload: Workload { prefill, depth }, speed_ups, taken } in trials.into_iter().chain(together) {
            let times = |ratio: f64| Cell::new(format!("{ratio:.2} ×")).style(NUMBER).right();
            let taken = Cell::new(if taken { "yes" } else { "no" });
            let tests = faint(&format!("pp {prefill}, tg at {depth}"));
            table.row([Cell::new(knob), tests, times(speed_ups.prefill), times(speed_ups.decode), taken]);
        }
        table.write(&mut out, 2, terminal::width());
        out.push_str(&match &self.remembered {
            Some(Remembered { file, .. }) => format!(
                "Stored for programs with about {shape_class} of constants: {}, in {}\n",
                describe(self.tuning),
                clean(&file.display().to_string()),
            ),
            None => "The defaults are fastest here; nothing is stored.\n".to_owned(),
        });
        out
    }
}

/// The output of `--forget`.
#[derive(Serialize)]
struct Forgotten {
    #[serde(flatten)]
    key: Key,
    /// Whether there was an entry to remove.
    forgotten: bool,
    file: PathBuf,
}

impl Forgotten {
    fn text(&self) -> String {
        let Self { key: Key { adapter, shape_class, .. }, forgotten, .. } = self;
        let what = if *forgotten { "Removed the tuning" } else { "There was no tuning" };
        format!("{what} for {} and programs with about {shape_class} of constants.\n", clean(adapter))
    }
}

fn show<T: Serialize>(json: bool, report: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    if json {
        let line = serde_json::to_string(report).map_err(|error| Failure::Output(error.into()))?;
        return terminal::print(&format!("{line}\n"));
    }
    terminal::print_styled(&text(report))
}
