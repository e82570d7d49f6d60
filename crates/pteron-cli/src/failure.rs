//! Errors of the commands, each one sentence: the file, the place, the reason, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use pteron_files::ReadError;

use crate::files::{Foreign, Wanted};
use crate::npz;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}: {reason}", path.display())]
    File {
        path: PathBuf,
        #[source]
        reason: Reason,
    },
    #[error("standard input could not be read: {0}")]
    Input(#[source] io::Error),
    #[error("the output could not be written: {0}")]
    Output(#[source] io::Error),
    #[error(transparent)]
    Gpu(#[from] pteron_gpu::Error),
    #[error(transparent)]
    Model(Box<pteron_llm::Error>),
    #[error(transparent)]
    Convert(Box<pteron_convert::Error>),
    #[error("the program does not return f32 logits for a prompt, so there is nothing to compare")]
    NoLogits,
    #[error("there is no prompt: pass one as an argument, name a file with --file, or pipe text in")]
    NoPrompt,
    #[error(
        "{program}: the argmax differs from the exact path at {} of {positions} positions; {least} % must agree, so nothing is measured",
        positions - agreed
    )]
    Disagreement { program: String, agreed: u64, positions: u64, least: u64 },
    #[error("a prompt of {tokens} tokens does not fit a context of {context}")]
    NoSuchLength { tokens: u32, context: u32 },
    #[error(
        "{offenders} of {lengths} lengths {} more than {limit} times the median of its neighbours, {tokens} tokens the most with \
         {ratio:.2}",
        if *offenders == 1 { "takes" } else { "take" }
    )]
    Uneven { offenders: usize, lengths: usize, tokens: u32, ratio: f64, limit: f64 },
    #[error(
        "{test}{} takes {ratio:.2} times as long {against} as measured, in the median; {least} or more is expected",
        if *depth > 0 { format!(" at depth {depth}") } else { String::new() }
    )]
    Slower { test: String, depth: u32, against: &'static str, ratio: f64, least: f64 },
    #[error("there is no folder to store a tuning in: neither XDG_CACHE_HOME nor HOME (LOCALAPPDATA on Windows) is set")]
    NoCacheFolder,
    #[error(transparent)]
    Hub(Box<pteron_hub::Error>),
    #[error("{}: there is no such file, and {error}", path.display())]
    NeitherFileNorModel {
        path: PathBuf,
        #[source]
        error: Box<pteron_hub::Error>,
    },
    #[error(
        "there is no folder of models: set PTERON_MODELS to one; neither XDG_CACHE_HOME nor HOME (LOCALAPPDATA on Windows) is set"
    )]
    NoModelsFolder,
    #[error("--output writes the results of a file of prompts (.jsonl); redirect the text of a single prompt instead")]
    OutputOfText,
    #[error("--draft and --prompt-lookup apply to a file of prompts (.jsonl), not to a single one")]
    DraftOfText,
    #[error("--endless does not apply to a file of prompts: each ends when its context is full")]
    EndlessFile,
    #[error("--logprobs needs --json, or a file of prompts")]
    LogprobsOfText,
    #[error("{failed} of {total} prompts {} no text; their results say why", if *failed == 1 { "has" } else { "have" })]
    FailedPrompts { failed: usize, total: usize },
    #[error("interrupted after {done} of {total} prompts")]
    InterruptedFile { done: usize, total: usize },
    #[error(
        "{sequences} sequences of {positions} positions need {needed} blocks of the KV cache, but it has room for {total}: measure fewer sequences, or shorter ones"
    )]
    SmallPool { sequences: u32, positions: u32, needed: usize, total: usize },
    #[error("sequences of {positions} positions do not fit a context of {context}: give a shorter --prompt-length or --tg")]
    LongSequences { positions: u32, context: u32 },
    #[error("a step has {rows} rows, which leaves none for prompts beside {sequences} sequences: measure fewer")]
    FewRows { sequences: u32, rows: u32 },
    #[error("a text ended while it was measured: measure shorter ones, or look for an error with `pteron run`")]
    UnsteadyRun,
    #[error(transparent)]
    Engine(#[from] pteron_llm::EngineError),
    #[error("standard input, or a line of it, is longer than {most} bytes")]
    LongInput { most: u64 },
    #[cfg(feature = "serve")]
    #[error(transparent)]
    Server(#[from] pteron_server::ServerError),
    #[cfg(feature = "serve")]
    #[error("{given}: {reason}")]
    Option { given: String, reason: String },
    #[error("interrupted before everything was measured")]
    Interrupted,
}

impl From<pteron_convert::Error> for Failure {
    fn from(error: pteron_convert::Error) -> Self {
        Self::Convert(Box::new(error))
    }
}

impl From<pteron_hub::Error> for Failure {
    fn from(error: pteron_hub::Error) -> Self {
        Self::Hub(Box::new(error))
    }
}

impl From<pteron_llm::Error> for Failure {
    fn from(error: pteron_llm::Error) -> Self {
        match error {
            pteron_llm::Error::File { path, source } => Self::File { path, reason: (*source).into() },
            other => Self::Model(Box::new(other)),
        }
    }
}

impl Failure {
    pub(crate) fn file(path: &Path, reason: impl Into<Reason>) -> Self {
        Self::File { path: path.to_owned(), reason: reason.into() }
    }

    /// Whether the reader of the output stopped reading, as `head` does.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Reason {
    #[error("there is no such file")]
    Absent,
    #[error("it could not be read: {0}")]
    Io(#[source] io::Error),
    #[error("it is a directory; name a file in it{}", example.as_ref().map(|path| format!(", such as {}", path.display())).unwrap_or_default())]
    Directory { example: Option<PathBuf> },
    #[error("it is not a regular file; save its content to one first")]
    Special,
    #[error("it has {len} bytes, more than the {limit} that such a file may have")]
    TooLarge { len: u64, limit: u64 },
    #[error("the file is empty; {wanted} has at least a header, so it may not have been written or downloaded to the end")]
    Empty { wanted: Wanted },
    #[error("it is {found}, not {wanted}; {}", found.advice(*wanted))]
    Foreign { found: Foreign, wanted: Wanted },
    #[error(transparent)]
    Format(Box<pteron_format::Error>),
    #[error("there is no llama-bench in it or in its folders")]
    NoPeer,
    #[error("{}; name one with --peer-model", if *found == 0 { "it has no GGUF file".to_owned() } else { format!("it has {found} GGUF files") })]
    PeerModel { found: usize },
    #[error("it did not print the JSON of llama-bench: {0}")]
    PeerOutput(#[source] serde_json::Error),
    #[error("it ended with {status}; its last line: {last}")]
    PeerFailed { status: std::process::ExitStatus, last: String },
    #[error("it has no method {name:?}; its methods with a graph are: {known}")]
    NoMethod { name: String, known: String },
    #[error("{}", no_such_method(name, known))]
    UnknownMethod { name: String, known: Vec<String> },
    #[error("method {name:?} returns a constant, which `pteron inspect` shows")]
    ConstantMethod { name: String },
    #[error("{}", choose_method(known))]
    ChooseMethod { known: Vec<String> },
    #[error(transparent)]
    Arrays(#[from] npz::Fault),
    #[error("{name} {reason}")]
    Array { name: String, reason: String },
    #[error(transparent)]
    Media(#[from] pteron::media::MediaError),
    #[error("it cannot be {name}: {error}")]
    MediaInput {
        name: String,
        #[source]
        error: pteron::media::MediaError,
    },
    #[error("there is no input {index} for the picture or sound; {takes}")]
    NoInput { index: usize, takes: String },
    #[error("the picture or sound is one input of {count}; {takes}, so name the others with --in")]
    OtherInputs { count: usize, takes: String },
    #[error(
        "it is one of {files} files of other inputs, but there are {calls} pictures or sounds; give one for all, or one for each"
    )]
    Unpaired { files: usize, calls: usize },
    #[error("no output is {what}; they are {found}")]
    NoOutput { what: &'static str, found: String },
    #[error("it has {found} labels, but the output has {classes} classes")]
    Labels { found: usize, classes: usize },
    #[error("it is not UTF-8 text, so it has no labels")]
    NotLabels,
    #[error("there is no array {name}; {takes}, and the file has {found}")]
    MissingArray { name: String, takes: String, found: String },
    #[error("the array {name} is one too many; {takes}")]
    ExtraArray { name: String, takes: String },
    #[error(transparent)]
    Runtime(Box<pteron::Error>),
    #[error("{error}; the call was {call}")]
    Refused {
        #[source]
        error: Box<pteron::Error>,
        call: String,
    },
    #[error(transparent)]
    Model(Box<pteron_llm::Error>),
    #[error("there is no {looked_for} in its folder; name its tokenizer with --tokenizer")]
    NoTokenizer { looked_for: String },
    #[error("line {number}: {reason}")]
    PromptLine { number: usize, reason: String },
    #[error("it has no prompts")]
    NoPrompts,
    #[error("it is not UTF-8 text, so it cannot be a prompt")]
    NotText,
    #[error("it exists with other content, perhaps of another model; choose another folder for {}", program.display())]
    Another { program: PathBuf },
    #[error("it could not be written: {0}")]
    Unwritten(#[source] io::Error),
    #[error("it could not be read, so it is not replaced; remove it")]
    Unread,
    #[error("{what} computes nothing, so there is no graph to draw")]
    NoGraph { what: String },
    #[error("its graphs have more than {most} edges, too many to draw; choose a method with --method")]
    Crowded { most: usize },
    #[error("{place}: the SHA-256 of its bytes is {found}, but its key is {key:?}; the file is damaged")]
    Mismatch { place: String, key: String, found: String },
    #[error("its named data overlaps: the entries add up to {total} bytes, but the file has only {len}")]
    Overlap { total: u64, len: u64 },
}

fn no_such_method(name: &str, known: &[String]) -> String {
    match known {
        [] => format!("it has no method {name:?}, and none that computes"),
        known => format!("it has no method {name:?}; it has {}", known.join(", ")),
    }
}

fn choose_method(known: &[String]) -> String {
    match known {
        [] => "it has no method that computes".to_owned(),
        known => format!("it has no method \"forward\"; choose one of {} with --method", known.join(", ")),
    }
}

impl From<pteron::Error> for Reason {
    fn from(error: pteron::Error) -> Self {
        match error {
            // The array's name tells which input it is.
            pteron::Error::Input { index, reason, .. } => Self::Array { name: format!("arr_{index}"), reason },
            other => Self::Runtime(Box::new(other)),
        }
    }
}

impl From<pteron_llm::Error> for Reason {
    fn from(error: pteron_llm::Error) -> Self {
        match error {
            pteron_llm::Error::NoTokenizer { looked_for } => Self::NoTokenizer { looked_for },
            pteron_llm::Error::Read(error) => match error.downcast::<ReadError>() {
                Ok(error) => error.into(),
                Err(error) => error.into(),
            },
            other => Self::Model(Box::new(other)),
        }
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Io(error),
        }
    }
}

impl From<ReadError> for Reason {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Directory => Self::Directory { example: None },
            ReadError::TooLarge { len, limit } => Self::TooLarge { len, limit },
            _ => Self::Special,
        }
    }
}

impl From<pteron_format::Error> for Reason {
    fn from(error: pteron_format::Error) -> Self {
        Self::Format(Box::new(error))
    }
}
