//! Errors.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pteron_format::EscapedText;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error. Its text is one sentence that says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text that names no model, revision or file.
    #[error("{:?} names no model: {problem}", EscapedText::name(text))]
    Name {
        /// The text.
        text: String,
        /// Its defect.
        problem: &'static str,
    },
    /// A model that is not in the folder of pulled models.
    #[error("no model {} was pulled; fetch it with `pteron pull {}`", EscapedText::name(model), EscapedText::name(model))]
    NotPulled {
        /// The model, with its revision if one was named.
        model: String,
    },
    /// A revision must be named, or no pulled one is of that name.
    #[error("{} was pulled in the revisions {}; name one of them, as in {}@{}",
        EscapedText::name(model), EscapedText::sentence(&revisions.join(", ")), EscapedText::name(model),
        EscapedText::name(revisions.first().map_or("", String::as_str)))]
    ManyRevisions {
        /// The model.
        model: String,
        /// The pulled revisions.
        revisions: Vec<String>,
    },
    /// A program must be named.
    #[error("{} has {} programs; {}: {}", EscapedText::name(model), programs.len(),
        if *pulled { format!("name one of them, as in {}:{}", EscapedText::name(model), EscapedText::name(programs.first().map_or("", String::as_str))) }
        else { "choose one with --program, or several with --include".to_owned() },
        EscapedText::sentence(&programs.join(", ")))]
    ManyPrograms {
        /// The model.
        model: String,
        /// The paths of its programs.
        programs: Vec<String>,
        /// Whether the model is in the folder of pulled models.
        pulled: bool,
    },
    /// A model without such a program.
    #[error("{} has no program{}{}", EscapedText::name(model),
        wanted.as_ref().map(|wanted| format!(" {:?}", EscapedText::name(wanted))).unwrap_or_else(|| " (.pte)".to_owned()),
        if programs.is_empty() { String::new() } else { format!("; it has {}", EscapedText::sentence(&programs.join(", "))) })]
    NoProgram {
        /// The model.
        model: String,
        /// The program that was asked for.
        wanted: Option<String>,
        /// The paths of the programs it has.
        programs: Vec<String>,
    },
    /// A pattern that no file matches.
    #[error("no file of {} matches {:?}", EscapedText::name(model), EscapedText::name(pattern))]
    NoMatch {
        /// The model.
        model: String,
        /// The pattern.
        pattern: String,
    },
    /// An address that cannot be an endpoint.
    #[error("the endpoint {:?} of HF_ENDPOINT {problem}", EscapedText::name(endpoint))]
    Endpoint {
        /// The address.
        endpoint: String,
        /// Its defect.
        problem: &'static str,
    },
    /// A token, or a file of certificates, that cannot be used.
    #[error("{} {problem}", EscapedText::sentence(source_of))]
    Setting {
        /// Where it comes from.
        source_of: String,
        /// Its defect.
        problem: String,
    },
    /// The environment forbids to use the network.
    #[error(
        "HF_HUB_OFFLINE is set, so {} is not fetched; unset it, or name a model that was pulled",
        EscapedText::name(model)
    )]
    Offline {
        /// The model.
        model: String,
    },
    /// The endpoint does not know the model, or hides it.
    #[error("{endpoint} has no model {}, or hides it from {}; check the name, or {}", EscapedText::name(model), token.who(), token.advice())]
    NoModel {
        /// The model.
        model: String,
        /// The endpoint.
        endpoint: String,
        /// The token that was sent.
        token: TokenState,
    },
    /// The owner of the model grants access to it.
    #[error("{} asks for an agreement before it is fetched: accept it at {endpoint}/{}, and {}", EscapedText::name(model), EscapedText::name(model), token.advice())]
    Gated {
        /// The model.
        model: String,
        /// The endpoint.
        endpoint: String,
        /// The token that was sent.
        token: TokenState,
    },
    /// The endpoint rejects the token.
    #[error("{endpoint} rejects the token of {}; create a new one there", EscapedText::name(token_source))]
    Unauthorised {
        /// The endpoint.
        endpoint: String,
        /// Where the token comes from.
        token_source: String,
    },
    /// A model without that revision.
    #[error("{} has no revision {:?}", EscapedText::name(model), EscapedText::name(revision))]
    NoRevision {
        /// The model.
        model: String,
        /// The revision.
        revision: String,
    },
    /// The endpoint allows no more requests for now.
    #[error("{host} accepts no more requests for now; try again {}", wait.map_or_else(|| "later".to_owned(), |wait| format!("in {} s", wait.as_secs())))]
    TooManyRequests {
        /// The host.
        host: String,
        /// How long it asks to wait.
        wait: Option<Duration>,
    },
    /// A status that is no success.
    #[error("{} answers with status {status} for {:?}", EscapedText::name(host), EscapedText::name(what))]
    Status {
        /// The host.
        host: String,
        /// What was asked for.
        what: String,
        /// The HTTP status.
        status: u16,
    },
    /// No connection, or one that was lost again and again.
    #[error("{}: {}; the same command continues where it stopped", EscapedText::name(host), EscapedText::sentence(problem))]
    Network {
        /// The host.
        host: String,
        /// The error of the connection.
        problem: String,
    },
    /// A response that is not as it must be.
    #[error("{} sent {} that {}", EscapedText::name(host), EscapedText::sentence(what), EscapedText::sentence(problem))]
    Response {
        /// The host.
        host: String,
        /// What it is.
        what: String,
        /// Its defect.
        problem: String,
    },
    /// A listing with a path that leads out of the model's folder, or that some system cannot hold.
    #[error(
        "the listing of {} has the unsafe path {:?}, so nothing of it is fetched",
        EscapedText::name(model),
        EscapedText::name(path)
    )]
    UnsafePath {
        /// The model.
        model: String,
        /// The path.
        path: String,
    },
    /// A file that is not what the listing states.
    #[error(
        "{:?} of {} has the checksum {found} instead of {expected}; it was damaged on the way or replaced, so it is not kept",
        EscapedText::name(file),
        EscapedText::name(model)
    )]
    Checksum {
        /// The model.
        model: String,
        /// The path of the file.
        file: String,
        /// The checksum that the endpoint states.
        expected: String,
        /// That of the bytes.
        found: String,
    },
    /// A file that cannot be read.
    #[error("{}: it could not be read: {error}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file that cannot be written.
    #[error("{}: it could not be written: {error}; what has arrived is kept, and the same command continues", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A manifest of the folder of pulled models that is malformed.
    #[error("{}: it is no manifest of a pulled model: {problem}; remove the model and pull it again", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// Its defect.
        problem: String,
    },
    /// The caller stopped the pull.
    #[error("interrupted with {done} of {total} bytes; the same command continues there")]
    Interrupted {
        /// Bytes that are kept.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
}

/// Whether a token was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenState {
    /// There is none.
    None,
    /// There is one, but the endpoint is not encrypted.
    Withheld,
    /// It was sent.
    Sent,
}

impl TokenState {
    fn who(&self) -> &'static str {
        match self {
            Self::Sent => "the owner of the token",
            Self::None | Self::Withheld => "everybody without a token",
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::None => "set HF_TOKEN to the token of somebody who may read it",
            Self::Withheld => "use an https endpoint: the token is not sent over http",
            Self::Sent => "use the token of somebody who may read it",
        }
    }
}

impl Error {
    pub(crate) fn name(text: &str, problem: &'static str) -> Self {
        Self::Name { text: text.to_owned(), problem }
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Read { path, error }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Write { path, error }
    }
}
