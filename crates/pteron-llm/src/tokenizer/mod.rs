//! Text to token ids and back.
//!
//! A [`Tokenizer`] is read from one of three kinds of files, detected from the bytes: `tokenizer.json` of Hugging Face, the
//! tiktoken file of Llama 3, or a `SentencePiece` model.
//!
//! # Limits
//!
//! A malformed or hostile file is an error, and so is a text that would take too long to encode. Nothing panics:
//!
//! - reading takes memory and time proportional to the file, and some megabytes per pattern (at most eight patterns per part); a
//!   token has at most [`MAX_TOKEN`] bytes, a part at most 64 steps;
//! - encoding accepts texts of up to [`MAX_TEXT`] bytes. All steps together write at most [`MAX_GROWTH`] bytes and take at most
//!   [`MAX_STEPS`] steps of matching and lookup per byte of the text, each with a minimum for short texts. Merging is O(n log n).
//!   Exceeding a limit is [`TokenizerError::Growth`] or [`TokenizerError::Steps`];
//! - decoding returns at most 16 × [`MAX_TOKEN`] bytes per token, and nothing for an id without a token.
//!
//! A regular expression engine that counts its steps matches the patterns. It supports look-around and atomic groups, but no
//! backreferences.

#[cfg(feature = "tokenizers")]
mod base64;
#[cfg(feature = "tokenizers")]
mod charsmap;
#[cfg_attr(not(feature = "tokenizers"), allow(dead_code, reason = "used by tokenizers that are read from files"))]
mod detokenize;
#[cfg(feature = "tokenizers")]
mod hf;
mod ids_only;
#[cfg(feature = "tokenizers")]
mod merge;
#[cfg(feature = "tokenizers")]
mod pattern;
#[cfg(feature = "tokenizers")]
mod sentencepiece;
#[cfg(feature = "tokenizers")]
mod tiktoken;
#[cfg(feature = "tokenizers")]
mod vocabulary;
#[cfg(feature = "tokenizers")]
mod work;

use std::sync::Arc;

pub(crate) use detokenize::Detokenizer;
#[cfg(feature = "tokenizers")]
use hf::HuggingFace;
use ids_only::IdsOnly;
use pteron_format::EscapedText;
#[cfg(feature = "tokenizers")]
use sentencepiece::SentencePiece;
#[cfg(feature = "tokenizers")]
use tiktoken::Tiktoken;
#[cfg(feature = "tokenizers")]
pub use work::{MAX_GROWTH, MAX_STEPS, MAX_TEXT};

use crate::decode_stream::DecodeStream;

/// The longest token in bytes; real ones have some dozen.
pub const MAX_TOKEN: usize = 4096;
/// The largest file in bytes.
pub const MAX_FILE: u64 = 512 << 20;

/// The number of a token, as a program takes and scores it.
pub type TokenId = u32;

/// Whether names of special tokens in a text become those tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseSpecial {
    /// They do. For text that a chat template rendered.
    Yes,
    /// They are plain text. For untrusted text.
    No,
}

/// Whether special tokens appear in decoded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowSpecial {
    /// By their names.
    Yes,
    /// Not at all.
    No,
}

/// The kind of file a tokenizer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// `tokenizer.json`.
    HuggingFace,
    /// Lines of base64 and rank, with Llama 3's special tokens.
    Tiktoken,
    /// A `SentencePiece` model, usually called `tokenizer.model`.
    SentencePiece,
    /// No file: [`Tokenizer::ids_only`].
    IdsOnly,
}

/// A tokenizer that cannot be read, or a text that it cannot encode.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A file that cannot be read.
    #[error("{path}: {source}; name the tokenizer's file, such as tokenizer.json or tokenizer.model")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// Bytes that are not a tokenizer.
    #[error("the file is not a tokenizer: give a tokenizer.json, Llama 3's tokenizer.model, or a SentencePiece model")]
    UnknownFormat,
    /// A `tokenizer.json` that is malformed or uses an unsupported part.
    #[error("tokenizer.json: {}", EscapedText::sentence(.0))]
    HuggingFace(String),
    /// A malformed tiktoken file.
    #[error("the tiktoken file: line {line} {}", EscapedText::sentence(.what))]
    Tiktoken {
        /// The line, counted from 1.
        line: usize,
        /// The defect.
        what: String,
    },
    /// A `SentencePiece` model that is malformed or not supported.
    #[error("the SentencePiece model: {}", EscapedText::sentence(.0))]
    SentencePiece(String),
    /// A `tokenizer_config.json` that is malformed.
    #[error("tokenizer_config.json: {}", EscapedText::sentence(.0))]
    Config(String),
    /// This build reads no tokenizers.
    #[error("this build reads no tokenizers: compile pteron-llm with its feature `tokenizers`")]
    Disabled,
    /// A text that the tokenizer cannot encode.
    #[error("the text cannot be encoded: {}", EscapedText::sentence(.0))]
    Encode(String),
    /// A text that is too long.
    #[error("the text has {bytes} bytes, and at most {most} are encoded at a time: shorten it, or give it in parts")]
    TextTooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The limit in bytes.
        most: usize,
    },
    /// A tokenizer that lengthens a text too much before tokens are looked up.
    #[error("the tokenizer writes more than {most} bytes for each byte of this text: its file is damaged, or hostile")]
    Growth {
        /// The largest factor by which a text may grow.
        most: usize,
    },
    /// A tokenizer that takes too many steps for a text.
    #[error(
        "the tokenizer takes more than {most} steps for each byte of this text: a pattern or a token in its file is damaged, or \
         hostile"
    )]
    Steps {
        /// The most steps per byte.
        most: usize,
    },
    /// A tokenizer that panicked.
    #[error("the tokenizer failed unexpectedly; please report its file")]
    Failed,
    /// A token that is missing from the vocabulary.
    #[error(
        "the tokenizer has no token {:?}, which its configuration names: use the tokenizer_config.json that belongs to it",
        EscapedText::name(.name)
    )]
    NoToken {
        /// The token.
        name: String,
    },
}

/// Converts between text and token ids. Cheap to clone.
///
/// Encodes and decodes as the library that made the file does; tests compare with each library. Text can be decoded token by
/// token: see [`DecodeStream`].
#[derive(Clone, Debug)]
pub struct Tokenizer {
    kind: Arc<dyn TokenizerKind>,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
    /// Whether a prompt begins with the beginning-of-sequence token, where the file leaves it open.
    adds_bos: bool,
}

/// The operations that each file format implements.
trait TokenizerKind: std::fmt::Debug + Send + Sync {
    fn format(&self) -> Format;
    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError>;
    /// Creates a detokenizer for a new text.
    fn detokenizer(&self) -> Detokenizer;
    fn push_token(&self, id: TokenId, show: ShowSpecial, detokenizer: &mut Detokenizer, out: &mut String);
    fn token_bytes(&self, id: TokenId) -> Option<Vec<u8>>;
    /// The token that the file spells like this.
    fn find(&self, name: &str) -> Option<TokenId>;
    fn vocab_size(&self) -> u32;
    fn is_special(&self, id: TokenId) -> bool;
    fn specials(&self) -> Vec<(TokenId, String)>;
    fn bos(&self) -> Option<TokenId>;
    fn eos(&self) -> Option<TokenId>;

    /// The tokens that the file adds before and after a text.
    fn around(&self) -> Option<(&[TokenId], &[TokenId])> {
        None
    }
}

impl Tokenizer {
    /// Reads a file of any of the three kinds.
    ///
    /// # Errors
    /// A file that cannot be read, is malformed, or is not a tokenizer.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let file = pteron_files::read(path, MAX_FILE).map_err(std::io::Error::from);
        Self::from_bytes(&file.map_err(|source| TokenizerError::File { path: path.display().to_string(), source })?)
    }

    /// Reads the content of a file of any of the three kinds.
    ///
    /// # Errors
    /// Bytes that are malformed or not a tokenizer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        guarded(|| Self::read(bytes))
    }

    /// Creates a tokenizer without a vocabulary, for programs that convert between text and tokens themselves. Encoding fails, and
    /// every token decodes to an empty text.
    #[must_use]
    pub fn ids_only() -> Self {
        let kind = IdsOnly;
        Self { bos: kind.bos(), eos: kind.eos(), kind: Arc::new(kind), adds_bos: true }
    }

    #[cfg(not(feature = "tokenizers"))]
    fn read(_: &[u8]) -> Result<Self, TokenizerError> {
        Err(TokenizerError::Disabled)
    }

    #[cfg(feature = "tokenizers")]
    fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        // Text has no control characters but line breaks and tabs; a message has some from its second byte on.
        let is_text = bytes.iter().take(256).all(|byte| *byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t'));
        let kind: Arc<dyn TokenizerKind> = if is_text && hf::detect(bytes) {
            Arc::new(HuggingFace::read(bytes)?)
        } else if is_text && tiktoken::detect(bytes) {
            Arc::new(Tiktoken::read(bytes)?)
        } else if sentencepiece::detect(bytes) {
            Arc::new(SentencePiece::read(bytes)?)
        } else {
            return Err(TokenizerError::UnknownFormat);
        };
        let (bos, eos) = (kind.bos(), kind.eos());
        Ok(Self { kind, bos, eos, adds_bos: true })
    }

    /// Sets the beginning-of-sequence and end-of-sequence tokens, as `tokenizer_config.json` names them. `None` changes nothing.
    ///
    /// # Errors
    /// A name that is no token.
    pub fn with_bos_eos(mut self, bos: Option<&str>, eos: Option<&str>) -> Result<Self, TokenizerError> {
        let find = |name: &str| self.token_id(name).ok_or_else(|| TokenizerError::NoToken { name: name.to_owned() });
        let (bos, eos) = (bos.map(find).transpose()?, eos.map(find).transpose()?);
        self.bos = bos.or(self.bos);
        self.eos = eos.or(self.eos);
        Ok(self)
    }

    /// Adds no beginning-of-sequence token to prompts: models such as Qwen have none, whatever their program states.
    #[must_use]
    pub fn without_bos_prefix(mut self) -> Self {
        self.adds_bos = false;
        self
    }

    /// Whether prompts begin with the beginning-of-sequence token.
    pub(crate) fn adds_bos(&self) -> bool {
        self.adds_bos
    }

    /// The kind of file it came from.
    #[must_use]
    pub fn format(&self) -> Format {
        self.kind.format()
    }

    /// Encodes a text without adding tokens around it.
    ///
    /// With [`ParseSpecial::Yes`], a `SentencePiece` model encodes each part between special tokens like a separate text, so each
    /// part gets the space that the first word of a text gets.
    ///
    /// # Errors
    /// A text with characters for which the tokenizer has no token, not even one for unknown characters.
    pub fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError> {
        guarded(|| self.kind.encode(text, parse))
    }

    /// Encodes a text and adds the tokens around it: those of the post-processor of `tokenizer.json`, or the
    /// beginning-of-sequence token.
    ///
    /// Not for text that a chat template rendered, which contains these tokens already.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError> {
        let (before, after) = self.kind.around().unwrap_or((if self.adds_bos { self.bos.as_slice() } else { &[] }, &[]));
        Ok([before, &self.encode(text, parse)?, after].concat())
    }

    /// Decodes ids to text. An id without a token decodes to nothing.
    #[must_use]
    pub fn decode(&self, ids: &[TokenId], show: ShowSpecial) -> String {
        let mut stream = self.decode_stream(show);
        let mut text = String::new();
        for &id in ids {
            stream.push_into(id, &mut text);
        }
        text += &stream.finish();
        text
    }

    /// Creates a decoder for ids that arrive one by one.
    #[must_use]
    pub fn decode_stream(&self, show: ShowSpecial) -> DecodeStream {
        DecodeStream::new(self.clone(), show)
    }

    pub(crate) fn detokenizer(&self) -> Detokenizer {
        self.kind.detokenizer()
    }

    pub(crate) fn push_token(&self, id: TokenId, show: ShowSpecial, detokenizer: &mut Detokenizer, out: &mut String) {
        self.kind.push_token(id, show, detokenizer, out);
    }

    /// The bytes of a token inside a text, which need not be whole characters. For a special token, its name.
    #[must_use]
    pub fn token_bytes(&self, id: TokenId) -> Option<Vec<u8>> {
        self.kind.token_bytes(id)
    }

    /// The id of a token as its file spells it; special tokens are spelled as their names.
    #[must_use]
    pub fn token_id(&self, name: &str) -> Option<TokenId> {
        self.kind.find(name)
    }

    /// The exclusive upper bound of ids. Some ids may have no token.
    #[must_use]
    pub fn vocab_size(&self) -> u32 {
        self.kind.vocab_size()
    }

    /// Whether a token is special.
    #[must_use]
    pub fn is_special(&self, id: TokenId) -> bool {
        self.kind.is_special(id)
    }

    /// The special tokens with their names, by id.
    #[must_use]
    pub fn special_tokens(&self) -> Vec<(TokenId, String)> {
        self.kind.specials()
    }

    /// The beginning-of-sequence token, if it is known.
    #[must_use]
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// The end-of-sequence token, if it is known. A `tokenizer.json` does not name it; see [`with_bos_eos`](Self::with_bos_eos).
    #[must_use]
    pub fn eos(&self) -> Option<TokenId> {
        self.eos
    }
}

/// Calls a function and converts a panic to an error, where panics unwind. No panic is known; this is a safety net.
fn guarded<T>(call: impl FnOnce() -> Result<T, TokenizerError>) -> Result<T, TokenizerError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(TokenizerError::Failed))
}
