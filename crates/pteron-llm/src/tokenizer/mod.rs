//! Text to token ids and back.
//!
//! A [`Tokenizer`] is read from one of three kinds of files, and the bytes say which: `tokenizer.json` of Hugging Face, the
//! tiktoken file of Llama 3, or a `SentencePiece` model.
//!
//! # Limits
//!
//! A file that is broken, or hostile, is an error, and so is a text that it would take too long for. Nothing panics:
//!
//! - reading takes memory and time in proportion to the file, and some megabytes for each of its patterns (at most eight in a
//!   part); a token has at most [`MAX_TOKEN`] bytes, a part at most 64 steps;
//! - encoding takes texts of up to [`MAX_TEXT`] bytes. All steps together write at most [`MAX_GROWTH`] bytes for each byte of the
//!   text, and match and look up at most [`MAX_STEPS`] times, each beside a floor for short texts. Merging takes time in
//!   proportion to `n log n`. What would take more is [`TokenizerError::Growth`] or [`TokenizerError::Steps`];
//! - decoding gives at most 16 × [`MAX_TOKEN`] bytes for a token, and nothing for an id without one.
//!
//! Patterns are matched by an engine of our own that counts its steps; it knows look-around and atomic groups, but no references
//! to groups.

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
    /// They do. For text that a chat template has made.
    Yes,
    /// They are text like any other. For text that somebody else wrote.
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
        /// Why not.
        source: std::io::Error,
    },
    /// Bytes that are no tokenizer.
    #[error("the file is not a tokenizer: give a tokenizer.json, Llama 3's tokenizer.model, or a SentencePiece model")]
    UnknownFormat,
    /// A `tokenizer.json` that is broken or uses a part that is not supported.
    #[error("tokenizer.json: {}", EscapedText::sentence(.0))]
    HuggingFace(String),
    /// A tiktoken file that is broken.
    #[error("the tiktoken file: line {line} {}", EscapedText::sentence(.what))]
    Tiktoken {
        /// The line, counted from 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// A `SentencePiece` model that is broken or not supported.
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
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// A tokenizer that makes a text too long before it looks for tokens.
    #[error("the tokenizer writes more than {most} bytes for each byte of this text: its file is damaged, or hostile")]
    Growth {
        /// How many times as long a text may become.
        most: usize,
    },
    /// A tokenizer that takes too many steps for a text.
    #[error(
        "the tokenizer takes more than {most} steps for each byte of this text: a pattern or a token in its file is damaged, or \
         hostile"
    )]
    Steps {
        /// How many steps it may take for each byte.
        most: usize,
    },
    /// A tokenizer that failed in a way that nobody has thought of.
    #[error("the tokenizer failed unexpectedly; please report its file")]
    Failed,
    /// A token that should be there.
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
/// Encoding is that of the library which made the file; the tests compare with each. Decoding is, too, and is written so that
/// text can be shown token by token: see [`DecodeStream`].
#[derive(Clone, Debug)]
pub struct Tokenizer {
    kind: Arc<dyn TokenizerKind>,
    bos: Option<TokenId>,
    eos: Option<TokenId>,
}

/// The operations that each file format implements.
trait TokenizerKind: std::fmt::Debug + Send + Sync {
    fn format(&self) -> Format;
    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError>;
    /// A detokenizer for the tokens of a new text.
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
    /// A file that cannot be read, is broken, or is no tokenizer.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self, TokenizerError> {
        let path = path.as_ref();
        let file = pteron_files::read(path, MAX_FILE).map_err(std::io::Error::from);
        Self::from_bytes(&file.map_err(|source| TokenizerError::File { path: path.display().to_string(), source })?)
    }

    /// Reads the content of a file of any of the three kinds.
    ///
    /// # Errors
    /// Bytes that are broken, or no tokenizer.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        guarded(|| Self::read(bytes))
    }

    /// Creates a tokenizer without a vocabulary, for programs that convert between text and tokens themselves. Encoding fails, and
    /// every token decodes to an empty text.
    #[must_use]
    pub fn ids_only() -> Self {
        let kind = IdsOnly;
        Self { bos: kind.bos(), eos: kind.eos(), kind: Arc::new(kind) }
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
        Ok(Self { kind, bos, eos })
    }

    /// The same with these tokens at the start and at the end of texts, as `tokenizer_config.json` names them. `None` changes
    /// nothing.
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

    /// The kind of file it came from.
    #[must_use]
    pub fn format(&self) -> Format {
        self.kind.format()
    }

    /// The ids of a text, and nothing around them.
    ///
    /// With [`ParseSpecial::Yes`], a `SentencePiece` model encodes what stands between special tokens like a text of its own, so
    /// each part gets the space that the first word of a text gets.
    ///
    /// # Errors
    /// A text with characters for which the tokenizer has no token, not even one for what is unknown.
    pub fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError> {
        guarded(|| self.kind.encode(text, parse))
    }

    /// The ids of a text with what belongs around it: what the post-processor of `tokenizer.json` adds, or the token for the
    /// start of a text.
    ///
    /// Not for text that a chat template has made, which has its own.
    ///
    /// # Errors
    /// As for [`encode`](Self::encode).
    pub fn encode_prompt(&self, text: &str, parse: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError> {
        let (before, after) = self.kind.around().unwrap_or((self.bos.as_slice(), &[]));
        Ok([before, &self.encode(text, parse)?, after].concat())
    }

    /// The text of ids. An id without a token gives nothing.
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

    /// Decodes ids as they come.
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

    /// The bytes that a token stands for inside a text; they need not be whole characters. A special token is its name.
    #[must_use]
    pub fn token_bytes(&self, id: TokenId) -> Option<Vec<u8>> {
        self.kind.token_bytes(id)
    }

    /// The id of a token by how its file spells it; for special tokens, that is their name.
    #[must_use]
    pub fn token_id(&self, name: &str) -> Option<TokenId> {
        self.kind.find(name)
    }

    /// Ids are smaller than this. Some may have no token.
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

    /// The token that starts a text, if it is known.
    #[must_use]
    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// The token that ends a text, if it is known. A `tokenizer.json` does not say; see [`with_bos_eos`](Self::with_bos_eos).
    #[must_use]
    pub fn eos(&self) -> Option<TokenId> {
        self.eos
    }
}

/// Calls a function and turns a panic into an error, where panics unwind. No panic is known; this is the last net.
fn guarded<T>(call: impl FnOnce() -> Result<T, TokenizerError>) -> Result<T, TokenizerError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(TokenizerError::Failed))
}
