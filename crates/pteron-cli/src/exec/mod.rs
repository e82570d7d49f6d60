//! `pteron exec`: calls a method with arrays, pictures or sound from files, and writes its outputs.

mod args;
mod inputs;
mod media;
mod outputs;
mod profile;
mod trace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use args::Exec;
use pteron::{CallProfile, Gpu, LoadOptions, Method, Precision, Program, State, Tensor, block_on};

use crate::failure::{Failure, Reason};
use crate::loading::LoadingBar;
use crate::npz::{self, Npz};
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, NUMBER};
use crate::{devices, files, models, units};

/// Runs the command.
pub(crate) fn run(mut args: Exec) -> ExitCode {
    match models::replace(&mut args.model, &mut args.data).and_then(|()| exec(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

/// A call: the file of its inputs, and the inputs.
struct Call {
    path: PathBuf,
    inputs: Vec<Tensor>,
    /// The rate of its sound, if it has one.
    rate: Option<u32>,
}

/// Times and profiles of all calls.
#[derive(Default)]
struct Measured {
    /// Wall times of each call, without those of a profiled round where there are others.
    times: Vec<Vec<Duration>>,
    profiles: Vec<profile::Call>,
    /// The wall time of all calls of the last round.
    last: Duration,
}

fn exec(args: &Exec) -> Result<(), Failure> {
    // Inputs that cannot be read are found before the program is loaded.
    let files = args.inputs.iter().map(|path| Npz::open(path)).collect::<Result<Vec<_>, _>>()?;
    let decoded = media::decode(args)?;
    let writer = outputs::OutputWriter::new(args)?;
    let program = open_program(args)?;
    let name = choose_method(args, &program)?;
    let gpu = open_gpu(args)?;
    let start = Instant::now();
    let model = |error: pteron::Error| Failure::file(&args.model, Reason::Runtime(Box::new(error)));
    let bar = LoadingBar::new(&format!("loading {} on {}", args.model.display(), gpu.adapter().name), args.quiet);
    let options = if args.exact { LoadOptions::exact() } else { LoadOptions::default() };
    let options = if args.fast { options.with_precision(Precision::Fast) } else { options };
    let options = options.with_progress(bar.listener()).with_random_constants(args.random_constants);
    let method = block_on(program.load(&gpu, &name, &options));
    drop(bar);
    let method = method.map_err(model)?;
    let mut state = method.new_state().map_err(model)?;
    let loading = start.elapsed();
    let read = |(path, file): (&PathBuf, &Npz)| {
        let inputs = inputs::read(file, &method).map_err(|reason| Failure::file(path, reason))?;
        Ok(Call { path: path.clone(), inputs, rate: None })
    };
    let calls = match args.random_inputs {
        Some(seed) => {
            vec![Call { path: args.model.clone(), inputs: inputs::random(seed, &method).map_err(model)?, rate: None }]
        }
        None if !decoded.is_empty() => media::calls(args, decoded, &files, &method)?,
        None => args.inputs.iter().zip(&files).map(read).collect::<Result<Vec<_>, Failure>>()?,
    };
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|error| Failure::file(out, Reason::Unwritten(error)))?;
    }
    let measured = call_all(args, &method, &mut state, &calls, &writer)?;
    if args.repeat > 1 {
        print_times(&calls, &measured)?;
    }
    if let Some(trace) = &args.profile {
        terminal::print_styled(&profile::render(gpu.adapter(), &measured.profiles, terminal::width()))?;
        if let Some(path) = trace {
            trace::write(path, gpu.adapter(), &measured.profiles)?;
        }
    }
    if !args.quiet {
        let [taken, loading] = [measured.last, loading].map(|time| units::time(time.as_secs_f64()));
        let calls = units::plural(calls.len(), "call");
        terminal::note(&format!("{}: {calls} of {name} in {taken}, loaded in {loading}", gpu.adapter().name));
    }
    Ok(())
}

fn open_program(args: &Exec) -> Result<Program, Failure> {
    let pte = files::open_program(&args.model)?;
    let data = args.data.iter().map(|path| files::open_data(path)).collect::<Result<Vec<_>, _>>()?;
    Program::from_files(pte, data).map_err(|error| Failure::file(&args.model, error))
}

/// Returns the requested method, else `forward`, else the only one.
fn choose_method(args: &Exec, program: &Program) -> Result<String, Failure> {
    let known: Vec<String> = program.methods().map(str::to_owned).collect();
    let fail = |reason| Err(Failure::file(&args.model, reason));
    match (&args.method, known.as_slice()) {
        (Some(name), known) if known.contains(name) => Ok(name.clone()),
        (Some(name), _) if program.constant_methods().any(|constant| constant == name) => {
            fail(Reason::ConstantMethod { name: name.clone() })
        }
        (Some(name), _) => fail(Reason::UnknownMethod { name: name.clone(), known }),
        (None, known) if known.iter().any(|name| name == "forward") => Ok("forward".to_owned()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => fail(Reason::ChooseMethod { known }),
    }
}

fn open_gpu(args: &Exec) -> Result<Gpu, Failure> {
    let gpu = devices::open(&args.gpu, args.quiet)?;
    if args.profile.is_some() {
        gpu.timing()?;
    }
    Ok(gpu)
}

/// Runs all calls `--repeat` times; writes the outputs and takes the profile of the last round.
fn call_all(
    args: &Exec,
    method: &Method,
    state: &mut State,
    calls: &[Call],
    writer: &outputs::OutputWriter<'_>,
) -> Result<Measured, Failure> {
    let mut measured = Measured { times: vec![Vec::new(); calls.len()], ..Measured::default() };
    for round in 1..=args.repeat {
        let is_last = round == args.repeat;
        let profiled = is_last && args.profile.is_some();
        if round > 1 {
            method.reset(state).map_err(|error| Failure::file(&args.model, error))?;
        }
        for (index, call) in calls.iter().enumerate() {
            let fail = |error: pteron::Error| Failure::file(&call.path, inputs::refused(error, &call.inputs));
            let start = Instant::now();
            let (outputs, profile) = if profiled {
                block_on(method.call_profiled(state, &call.inputs)).map_err(fail)?
            } else {
                (block_on(method.call(state, &call.inputs)).map_err(fail)?, CallProfile::default())
            };
            let taken = start.elapsed();
            if !profiled || args.repeat == 1 {
                measured.times[index].push(taken);
            }
            if is_last {
                measured.last += taken;
                if let Some(out) = &args.out {
                    npz::write(&out.join(format!("{index}.npz")), &outputs)?;
                }
                writer.write(index, call, &outputs)?;
            }
            if profiled {
                measured.profiles.push(profile::Call { name: file_name(&call.path), wall: taken, profile });
            }
        }
    }
    Ok(measured)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Prints the minimum and the median of each call's wall times.
fn print_times(calls: &[Call], measured: &Measured) -> Result<(), Failure> {
    let mut table = Table::default();
    let faint = |text: &str| Cell::new(text).style(FAINT);
    table.row([faint("call").right(), faint("min").right(), faint("median").right(), faint("of"), faint("input")]);
    for (index, (call, times)) in calls.iter().zip(&measured.times).enumerate() {
        let mut times = times.clone();
        times.sort_unstable();
        let at = |index: usize| times.get(index).map_or_else(String::new, |time| units::time(time.as_secs_f64()));
        table.row([
            Cell::new(index.to_string()).right(),
            Cell::new(at(0)).style(NUMBER).right(),
            Cell::new(at(times.len() / 2)).style(NUMBER).right(),
            Cell::new(times.len().to_string()),
            Cell::new(file_name(&call.path)),
        ]);
    }
    let mut out = String::new();
    table.write(&mut out, 0, terminal::width());
    terminal::print_styled(&out)
}
