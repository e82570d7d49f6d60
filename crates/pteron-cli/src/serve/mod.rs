//! `pteron serve`: serves models over HTTP.

mod args;
mod sources;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use args::Log as LogArg;
pub(crate) use args::Serve;
use pteron_server::{ApiKeys, Limits, Log, LogFormat, Server, ServerOptions, Tls};
use sources::{Loading, Purpose, name, sources};

use crate::failure::{Failure, Reason};
use crate::{files, interrupts, terminal};

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
    keys.extend(args.api_key_file.as_deref().map(key_lines).transpose()?.into_iter().flatten());
    let keys = ApiKeys::new(keys.iter().map(String::as_str));
    if keys.is_empty() && (args.api_key_file.is_some() || !args.api_key.is_empty()) {
        return Err(invalid("--api-key", "there is no key, so nobody would need one"));
    }
    let admin_keys = args.admin_key_file.as_deref().map(key_lines).transpose()?.unwrap_or_default();
    let admin_keys = ApiKeys::new(admin_keys.iter().map(String::as_str));
    if admin_keys.is_empty() && args.admin_key_file.is_some() {
        return Err(invalid("--admin-key-file", "there is no key in the file"));
    }
    // Who may ask for texts need not be who may take models away, or name what lies on the disk.
    let administration = !admin_keys.is_empty();
    let catalog = Loading::new(args, 0)?;
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
        .with_tls(tls)
        .with_administration(administration)
        .with_admin_keys(admin_keys)
        .with_catalog(move |model| {
            let path = PathBuf::from(model);
            catalog.source(Some(&path), &name(&path), Purpose::TEXT).map_err(|failure| failure.to_string())
        }))
}

/// The keys in a file, one per line.
fn key_lines(path: &Path) -> Result<Vec<String>, Failure> {
    let text = String::from_utf8(files::read(path, MAX_FILE)?).map_err(|_| Failure::file(path, Reason::NotText))?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

fn invalid(given: &str, reason: &str) -> Failure {
    Failure::Option { given: given.to_owned(), reason: reason.to_owned() }
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
        assert!(wrong(&["--lora", "sql"]).contains("NAME=FOLDER"));
        assert!(wrong(&["--lora", "none:sql=folder"]).contains("the models are bundled"));
        assert!(wrong(&["--lora", "sql=missing"]).contains("adapter_config.json"));
        assert!(options(&parse(&["--api-key", ""])).is_err());
        let administration = |args: &[&str]| options(&parse(args)).unwrap().administration;
        assert!(!administration(&[]) && !administration(&["--api-key", "k"]));
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(administration(&["--admin-key-file", manifest]));
        assert!(Cli::try_parse_from(["pteron", "serve", "--tls-cert", "a.pem"]).is_err());
    }
}
