//! Errors of models and sessions.

use pteron::AdapterMisfit;

use crate::constraint::ConstraintError;
use crate::metadata::MetadataError;
use crate::sampling::SamplingError;
use crate::stop::StopError;
#[cfg(feature = "templates")]
use crate::template::TemplateError;
use crate::tokenizer::{TokenId, TokenizerError};

/// An error of a model or a session. `Display` is one sentence that says what a user can change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The GPU device was lost. Models on it can be opened again on a new one.
    #[error(transparent)]
    DeviceLost(pteron::Error),
    /// Too little memory: of the GPU, of the host, or within a budget of the caller.
    #[error(transparent)]
    OutOfMemory(pteron::Error),
    /// An operator or another part of the program that this build cannot run.
    #[error(transparent)]
    Unsupported(pteron::Error),
    /// An input, or a bound of an input, that the program does not take.
    #[error(transparent)]
    Input(pteron::Error),
    /// Another error of the program or the GPU.
    #[error(transparent)]
    Program(pteron::Error),
    /// A tokenizer that cannot be read, or a text it cannot take.
    #[error("{0}")]
    Tokenizer(#[from] TokenizerError),
    /// Missing or invalid metadata.
    #[error("{0}")]
    Metadata(#[from] MetadataError),
    /// A sampling option, or logits that cannot be sampled from.
    #[error("{0}")]
    Sampling(#[from] SamplingError),
    /// A constraint that cannot go on.
    #[error("{0}")]
    Constraint(#[from] ConstraintError),
    /// An invalid stop string.
    #[error("{0}")]
    Stop(#[from] StopError),
    /// A LoRA adapter that does not fit the model.
    #[error("{0}")]
    Adapter(#[from] AdapterMisfit),
    /// A chat template that is malformed, exceeds its limits, or rejects the conversation.
    #[cfg(feature = "templates")]
    #[error("{0}")]
    Template(#[from] TemplateError),
    /// A request that needs a chat template, for a model without one.
    #[error(
        "the model has no chat template, which tools, template variables and named templates need: add chat_template.jinja"
    )]
    NoChatTemplate,
    /// A program without a tokenizer in its folder.
    #[error("there is no {looked_for} beside it; name its tokenizer")]
    NoTokenizer {
        /// The file names that were looked for.
        looked_for: String,
    },
    /// A folder that does not contain exactly one program.
    #[error("the folder contains {} programs (.pte): name one of them", .found)]
    AmbiguousFolder {
        /// The number of programs in it.
        found: usize,
    },
    /// A file that cannot be read, or whose content is rejected.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        source: Box<Error>,
    },
    /// The operating system cannot read a file.
    #[error("{0}")]
    Read(std::io::Error),
    /// A memory budget that does not hold one full context beside the model.
    #[error("{0}")]
    Budget(#[from] crate::batch::BudgetError),
    /// A call that the API does not allow.
    #[error("{0}")]
    Misuse(String),
    /// A program that is not a language model.
    #[error("the program cannot be used as a language model: {0}")]
    NotALanguageModel(String),
    /// A draft model of another vocabulary.
    #[error("the draft model knows {draft} tokens, but the model knows {model}: choose one with the same tokenizer")]
    DraftVocabulary {
        /// The vocabulary size of the draft model.
        draft: u32,
        /// The vocabulary size of the model.
        model: u32,
    },
    /// A program that returns no hidden states, of which embeddings are made.
    #[error("the program makes no embeddings: {0}")]
    NoHiddenStates(String),
    /// A text with more tokens than an embedding can be made of.
    #[error("the text has {tokens} tokens, but embeddings are made of at most {most}: shorten or divide it")]
    TextTooLong {
        /// The number of tokens in the text.
        tokens: usize,
        /// The most tokens.
        most: u32,
    },
    /// A prompt without tokens.
    #[error("the prompt is empty: give at least one word, or a tokenizer that starts texts with a token")]
    EmptyPrompt,
    /// A prompt that leaves no room in the context.
    #[error("the prompt has {tokens} tokens, but the context has room for {context}: shorten it, or drop older turns")]
    PromptTooLong {
        /// The number of tokens in the prompt.
        tokens: usize,
        /// The context length.
        context: u32,
    },
    /// A token outside the vocabulary.
    #[error("token {token} is not in the model's vocabulary of {vocabulary}")]
    TokenOutOfRange {
        /// The token.
        token: TokenId,
        /// The vocabulary size.
        vocabulary: u32,
    },
    /// A rewind past the end of the session.
    #[error("cannot go back to token {to}: the session has {have}")]
    RewindPastEnd {
        /// The requested position.
        to: usize,
        /// The number of tokens in the session.
        have: usize,
    },
}

impl From<pteron::Error> for Error {
    fn from(error: pteron::Error) -> Self {
        use pteron::Error as E;
        match error {
            E::DeviceLost(_) => Self::DeviceLost(error),
            E::TooLarge { .. } | E::GpuOutOfMemory(_) | E::OutOfMemory(_) | E::HostMemory { .. } => Self::OutOfMemory(error),
            E::Unsupported { .. } | E::UnsupportedOperators(_) => Self::Unsupported(error),
            E::Input { .. } | E::Tensor(_) => Self::Input(error),
            E::Adapter(misfit) => Self::Adapter(misfit),
            E::Misuse(_) => Self::Misuse(error.to_string()),
            _ => Self::Program(error),
        }
    }
}

/// The result of sessions and models.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_programs_keep_their_sentence_and_are_told_apart() {
        use pteron::Error as E;
        type Case = (fn() -> E, fn(&Error) -> bool);
        let cases: [Case; 6] = [
            (|| E::DeviceLost("it was unplugged".to_owned()), |error| matches!(error, Error::DeviceLost(_))),
            (|| E::GpuOutOfMemory("a buffer".to_owned()), |error| matches!(error, Error::OutOfMemory(_))),
            (
                || E::TooLarge { what: "the model".to_owned(), need: 9, limit: 8, by: "the budget" },
                |error| matches!(error, Error::OutOfMemory(_)),
            ),
            (
                || E::UnsupportedOperators(vec![("aten.mystery".to_owned(), 3)]),
                |error| matches!(error, Error::Unsupported(_)),
            ),
            (|| E::Tensor("has no bytes".to_owned()), |error| matches!(error, Error::Input(_))),
            (|| E::Misuse("one state, two methods".to_owned()), |error| matches!(error, Error::Misuse(_))),
        ];
        for (make, is_expected) in cases {
            let error = Error::from(make());
            assert!(is_expected(&error), "{error:?}");
            assert_eq!(error.to_string(), make().to_string());
        }
    }
}
