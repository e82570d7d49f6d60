//! `pteron serve`: serves models over HTTP.

mod args;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use args::Log as LogArg;
pub(crate) use args::Serve;
use pteron::{Gpu, block_on};
use pteron_llm::{Engine, EngineOptions, ModelOptions};
use pteron_server::{ApiKeys, EngineBackend, Limits, Log, LogFormat, ModelSource, Server, ServerOptions, Tls};

use crate::cli::ModelArgs;
use crate::failure::{Failure, Reason};
use crate::{devices, files, generate, interrupts, terminal, tune};

/// The name of the bundled model.
const BUNDLED: &str = "bundled";
/// Files of keys and certificates are small.
const MAX_FILE: u64 = 1 << 20;

/// Runs the command.
pub(crate) fn run(args: Serve) -> ExitCode {
    let verbose = args.verbose;
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, verbose),
    }
}

fn serve(args: Serve) -> Result<(), Failure> {
    let options = options(&args)?;
    let is_open = options.keys.is_empty();
    let server = Server::new(sources(&args)?, options)?;
    interrupts::defer_first_termination();
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let host = if args.host.contains(':') { format!("[{}]", args.host) } else { args.host.clone() };
    let on_listening = |address: SocketAddr| {
        if args.log == LogArg::Text {
            terminal::note(&format!("{scheme}://{address}: the page to chat; {scheme}://{address}/v1: the API"));
        }
        if is_open && !address.ip().is_loopback() {
            terminal::warn("everybody who reaches this address can use the server: set --api-key-file");
        }
    };
    Ok(server.run(&format!("{host}:{}", args.port), on_listening, interrupts::interrupted)?)
}

fn options(args: &Serve) -> Result<ServerOptions, Failure> {
    let mut keys = args.api_key.clone();
    if let Some(path) = &args.api_key_file {
        let text = files::read(path, MAX_FILE)?;
        let text = String::from_utf8(text).map_err(|_| Failure::file(path, Reason::NotText))?;
        keys.extend(text.lines().map(|line| line.trim().to_owned()));
    }
    let keys = ApiKeys::new(keys.iter().map(String::as_str));
    if keys.is_empty() && (args.api_key_file.is_some() || !args.api_key.is_empty()) {
        return Err(invalid("--api-key", "there is no key, so nobody would need one"));
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::new(files::read(certificate, MAX_FILE)?, files::read(key, MAX_FILE)?)),
        _ => None,
    };
    let format = match args.log {
        LogArg::Text => LogFormat::Text,
        LogArg::Json => LogFormat::Json,
        LogArg::Off => LogFormat::Off,
    };
    let limits = Limits::default()
        .with_body(args.max_request)
        .with_requests(args.max_queue)
        .with_generation(args.timeout.map(Duration::from_secs));
    Ok(ServerOptions::default()
        .with_keys(keys)
        .with_cors(args.cors.iter().cloned())
        .with_limits(limits)
        .with_drain_timeout(Duration::from_secs(args.drain_timeout))
        .with_log(Log::new(format))
        .with_tls(tls))
}

fn invalid(given: &str, reason: &str) -> Failure {
    Failure::Option { given: given.to_owned(), reason: reason.to_owned() }
}

/// The models, by their names, and how each is loaded.
fn sources(args: &Serve) -> Result<Vec<ModelSource>, Failure> {
    let models: Vec<Option<&PathBuf>> = match args.models.as_slice() {
        [] => vec![None],
        models => models.iter().map(Some).collect(),
    };
    if models.len() > 1 && (args.tokenizer.is_some() || args.template.is_some()) {
        return Err(invalid("--tokenizer and --template", "belong to one model, but there are several"));
    }
    let names: Vec<String> = models.iter().map(|model| model.map_or(BUNDLED.to_owned(), |path| name(path))).collect();
    let mut sources: Vec<ModelSource> = Vec::new();
    for (model, name) in models.iter().zip(&names) {
        sources.push(source(args, *model, name, models.len())?);
    }
    for alias in &args.alias {
        let (alias, model) = alias.split_once('=').unwrap_or((alias, &names[0]));
        let at = names.iter().position(|name| name == model);
        let at =
            at.ok_or_else(|| invalid(&format!("--alias {alias}={model}"), &format!("the models are {}", names.join(", "))))?;
        sources[at] = sources[at].clone().with_alias(alias);
    }
    Ok(sources)
}

/// The name of a model: that of its folder, of its file, or OWNER/NAME.
fn name(path: &Path) -> String {
    let shown = match path.extension().is_some_and(|extension| extension == "pte") {
        true => path.file_stem().map(Path::new),
        false if path.exists() => path.file_name().map(Path::new),
        false => None,
    };
    shown.unwrap_or(path).display().to_string()
}

fn source(args: &Serve, path: Option<&PathBuf>, name: &str, models: usize) -> Result<ModelSource, Failure> {
    let path = path.map(|path| if path.is_dir() { only_program(path) } else { Ok(path.clone()) }).transpose()?;
    let model = ModelArgs {
        model: path,
        tokenizer: args.tokenizer.clone(),
        template: args.template.clone(),
        data: Vec::new(),
        context_length: None,
        bos_id: None,
        eos_ids: Vec::new(),
        kv_cache: false,
        kv: args.kv.clone(),
        gpu: args.gpu.clone(),
    };
    // A file that is missing or damaged ends the command at once, not after the first request.
    generate::sources(&model, false)?;
    let memory = args.memory.map(|mib| mib.saturating_mul(1 << 20));
    let (queue, sequences, quiet) = (args.max_queue, args.max_sequences, args.log != LogArg::Text);
    Ok(ModelSource::new(name, move || {
        let load = || -> Result<EngineBackend, String> {
            let engine = load(&model, memory, models, queue, sequences, quiet).map_err(|failure| failure.to_string())?;
            EngineBackend::new(engine)
        };
        load().map(|backend| Arc::new(backend) as _)
    }))
}

/// The only program of a folder.
fn only_program(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file(folder, error))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut programs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pte") && path.is_file());
    match (programs.next(), programs.count()) {
        (Some(program), 0) => Ok(program),
        (found, others) => {
            let found = others + usize::from(found.is_some());
            Err(pteron_llm::Error::File {
                path: folder.to_owned(),
                source: Box::new(pteron_llm::Error::AmbiguousFolder { found }),
            }
            .into())
        }
    }
}

fn load(
    model: &ModelArgs,
    memory: Option<u64>,
    models: usize,
    queue: usize,
    sequences: Option<u32>,
    quiet: bool,
) -> Result<Engine, Failure> {
    let (program, assets, _) = generate::sources(model, false)?;
    let gpu = devices::open(&model.gpu, quiet)?;
    let tuning = tune::remembered(&gpu, &program, true).unwrap_or_default();
    let options =
        ModelOptions::default().with_metadata(generate::flags(model)).with_kv_dtype(model.kv.dtype()).with_tuning(tuning);
    let options = EngineOptions::default()
        .with_model(options)
        .with_max_queue(queue)
        .with_max_sequences(sequences)
        .with_memory_budget(memory.or_else(|| share(&gpu, models)));
    Ok(block_on(Engine::load(&gpu, &program, assets, options))?)
}

/// The memory of each of several models, where the device's is known. One model has what the engine takes by itself.
fn share(gpu: &Gpu, models: usize) -> Option<u64> {
    let parts = u64::try_from(models).ok().filter(|models| *models > 1)?;
    gpu.adapter().memory_bytes.map(|bytes| bytes / 8 * 7 / parts)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parse(args: &[&str]) -> Serve {
        match Cli::try_parse_from([&["pteron", "serve"][..], args].concat()).unwrap().command {
            Command::Serve(serve) => serve,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_arguments_the_bundled_model_is_served_on_this_machine_alone() {
        let args = parse(&[]);
        assert_eq!((args.host.as_str(), args.port, args.models.len()), ("127.0.0.1", 8080, 0));
        assert_eq!(sources(&args).unwrap().len(), 1);
        assert!(options(&args).unwrap().keys.is_empty());
    }

    #[test]
    fn models_are_named_by_folder_file_or_reference() {
        assert_eq!(name(Path::new("models/llama.pte")), "llama");
        assert_eq!(name(Path::new("owner/name")), "owner/name");
        assert_eq!(name(Path::new(env!("CARGO_MANIFEST_DIR"))), "pteron-cli");
    }

    #[test]
    fn options_that_contradict_are_refused() {
        let wrong = |args: &[&str]| sources(&parse(args)).map(|_| ()).unwrap_err().to_string();
        assert!(wrong(&["--alias", "gpt=none"]).contains("the models are bundled"));
        assert!(wrong(&["missing.pte"]).contains("missing.pte"));
        assert!(options(&parse(&["--api-key", ""])).is_err());
        assert!(Cli::try_parse_from(["pteron", "serve", "--tls-cert", "a.pem"]).is_err());
    }
}
