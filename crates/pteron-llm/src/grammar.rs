//! JSON schemas, regular expressions and grammars as [constraints](TokenConstraint), by the crate `llguidance` over the model's own
//! tokenizer.
//!
//! ```no_run
//! use pteron_llm::{GenerationOptions, GrammarSource, Grammars, Model, Session, pteron::block_on};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::open_blocking("models/llama")?;
//! let grammars = Grammars::of(model.tokenizer(), model.metadata());
//! let schema = r#"{"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}"#;
//! let grammar = grammars.compile(&GrammarSource::JsonSchema(schema.to_owned()))?;
//!
//! let mut session = Session::new(&model)?;
//! let prompt = model.text_prompt("When was Rust 1.0 released? ")?;
//! let generation = session.generate(&prompt, GenerationOptions::default())?;
//! println!("{}", block_on(generation.with_constraint(grammar.constraint()).text())?);
//! # Ok(()) }
//! ```
//!
//! Schemas and grammars may be hostile: the time and memory of compiling and of a step are limited by `llguidance`, and where it panics,
//! that is an error.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use pteron_format::EscapedText;
use serde_json::{Map, Value, json};

use crate::batch::TokenMask;
use crate::constraint::{ConstraintError, TokenConstraint};
use crate::metadata::Metadata;
use crate::tokenizer::{ParseSpecial, TokenId, Tokenizer};

/// Longer tokens are left out: no grammar is helped by them, and the trie keeps their length in 16 bits.
const MAX_TOKEN: usize = 512;
/// JSON on one line, with a space after colons and commas. Models that are lost would write white space without end.
const JSON_STYLE: [(&str, &str); 2] = [("key_separator", ": "), ("item_separator", ", ")];

/// The form of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarSource {
    /// JSON of a schema, which is JSON itself. Objects have their keys in the order of the schema.
    JsonSchema(String),
    /// A regular expression that the whole text matches.
    Regex(String),
    /// A grammar in Lark's language.
    Lark(String),
}

/// A schema, expression or grammar that cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct GrammarError {
    reason: String,
}

impl GrammarError {
    fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// The first line of the engine's reason, without the parser's state. The regex parser shows the pattern after its first line, and then
    /// says what is wrong with it.
    fn of(reason: &str) -> Self {
        let mut lines = reason.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or("the grammar engine does not say why");
        let cause = lines.find_map(|line| line.strip_prefix("error: ")).filter(|_| first.ends_with(':'));
        let line = cause.map_or_else(|| first.to_owned(), |cause| format!("{first} {cause}"));
        Self::new(format!("cannot be compiled: {}", EscapedText::sentence(&line)))
    }
}

/// The grammars of a model. What all of them share, a trie of the vocabulary, is built when the first one is compiled.
pub struct Grammars {
    tokenizer: Tokenizer,
    vocabulary: u32,
    eos_ids: Vec<TokenId>,
    factory: OnceLock<Result<Arc<ParserFactory>, GrammarError>>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammars").field("vocabulary", &self.vocabulary).finish_non_exhaustive()
    }
}

impl Grammars {
    /// Prepares the grammars of a model. Costs nothing yet.
    #[must_use]
    pub fn new(tokenizer: &Tokenizer, vocab_size: u32, eos_ids: &[TokenId]) -> Self {
        let (tokenizer, eos_ids) = (tokenizer.clone(), eos_ids.to_vec());
        Self { tokenizer, vocabulary: vocab_size, eos_ids, factory: OnceLock::new() }
    }

    /// Prepares the grammars of a model with this metadata.
    #[must_use]
    pub fn of(tokenizer: &Tokenizer, metadata: &Metadata) -> Self {
        Self::new(tokenizer, metadata.vocab_size, &metadata.eos_ids)
    }

    /// Compiles a grammar, for any number of texts. The first one takes longer: it builds the trie.
    ///
    /// # Errors
    /// The source is malformed, asks for what `llguidance` does not have, or the model has no end-of-sequence token.
    pub fn compile(&self, source: &GrammarSource) -> Result<Grammar, GrammarError> {
        let factory = self.factory.get_or_init(|| guarded(|| self.factory()));
        let factory = factory.as_ref().map_err(Clone::clone)?;
        let grammar = match source {
            GrammarSource::JsonSchema(schema) => TopLevelGrammar::from_json_schema(with_style(parsed(schema)?)),
            GrammarSource::Regex(regex) => TopLevelGrammar::from_regex(regex),
            GrammarSource::Lark(grammar) => TopLevelGrammar::from_lark(grammar.clone()),
        };
        let matcher = guarded(|| Ok(Matcher::new(factory.create_parser(grammar))))?;
        match matcher.get_error() {
            Some(reason) => Err(GrammarError::of(&reason)),
            None => Ok(Grammar { matcher, vocabulary: self.vocabulary }),
        }
    }

    fn factory(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        let eos = self.eos_ids.first();
        let eos = eos.ok_or_else(|| GrammarError::new("needs a model with an end-of-sequence token"))?;
        let words: Vec<Vec<u8>> = (0..self.vocabulary).map(|id| word(&self.tokenizer, id)).collect();
        let trie = TokTrie::from(&TokRxInfo::new(self.vocabulary, *eos), &words).with_eos_tokens(&self.eos_ids);
        let environment: TokEnv = Arc::new(Environment { tokenizer: self.tokenizer.clone(), trie });
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
        let mut factory = factory.map_err(|error| GrammarError::of(&error.to_string()))?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Arc::new(factory))
    }
}

/// A compiled grammar.
pub struct Grammar {
    matcher: Matcher,
    vocabulary: u32,
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grammar").field("vocabulary", &self.vocabulary).finish_non_exhaustive()
    }
}

impl Grammar {
    /// Creates the constraint of one text, which starts at the beginning of the grammar.
    #[must_use]
    pub fn constraint(&self) -> Box<dyn TokenConstraint> {
        Box::new(GrammarConstraint { matcher: self.matcher.deep_clone(), vocabulary: self.vocabulary })
    }
}

/// Calls a function of the grammar engine. One that panics is an error of the grammar.
fn guarded<T>(call: impl FnOnce() -> Result<T, GrammarError>) -> Result<T, GrammarError> {
    let stopped = || GrammarError::new("cannot be compiled: the grammar engine stopped");
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(stopped()))
}

fn parsed(schema: &str) -> Result<Value, GrammarError> {
    serde_json::from_str(schema).map_err(|error| GrammarError::of(&format!("the schema is not JSON: {error}")))
}

/// Has JSON written on one line.
fn with_style(schema: Value) -> Value {
    let mut schema = match schema {
        Value::Object(map) => map,
        Value::Bool(true) => Map::new(),
        other => return other,
    };
    let mut style = Map::from_iter([("whitespace_flexible".to_owned(), json!(false))]);
    style.extend(JSON_STYLE.map(|(name, value)| (name.to_owned(), value.into())));
    schema.insert("x-guidance".to_owned(), style.into());
    Value::Object(schema)
}

/// The bytes of a token, as the trie takes them: a special token after a marker that no text has, an unused one empty.
fn word(tokenizer: &Tokenizer, id: TokenId) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    if tokenizer.is_special(id) {
        return [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes.as_slice()].concat();
    }
    let is_marker = bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER);
    if is_marker || bytes.len() > MAX_TOKEN { Vec::new() } else { bytes }
}

/// The tokenizer as the grammar engine sees it.
struct Environment {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let text = std::str::from_utf8(bytes).ok();
        let tokens = text.and_then(|text| self.tokenizer.encode(text, ParseSpecial::No).ok());
        tokens.unwrap_or_else(|| self.trie.greedy_tokenize(bytes))
    }

    /// Tokens are never forced from text, so it does not matter which ones a text has.
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

/// The state of a grammar within one text.
struct GrammarConstraint {
    matcher: Matcher,
    vocabulary: u32,
}

/// Drops what is no token: the grammar engine's masks have a bit more than the vocabulary.
fn within(vocabulary: u32, mask: &[u32]) -> Vec<u32> {
    let words = usize::try_from(vocabulary.div_ceil(32)).unwrap_or(usize::MAX);
    let mut mask = mask.get(..words).unwrap_or(mask).to_vec();
    if let (Some(last), used @ 1..) = (mask.get_mut(words.saturating_sub(1)), vocabulary % 32) {
        *last &= (1 << used) - 1;
    }
    mask
}

impl TokenConstraint for GrammarConstraint {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| ConstraintError::new(error.to_string()))?;
        Ok(within(self.vocabulary, mask.as_slice()).into())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.matcher.consume_token(token).map_err(|error| ConstraintError::new(error.to_string()))
    }

    fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_a_bit_for_each_token_and_none_for_others() {
        assert_eq!(within(64, &[u32::MAX, u32::MAX, 1]), [u32::MAX, u32::MAX]);
        assert_eq!(within(33, &[u32::MAX, u32::MAX]), [u32::MAX, 1]);
        assert_eq!(within(63, &[0, u32::MAX]), [0, u32::MAX >> 1]);
    }

    #[test]
    fn sources_that_cannot_be_compiled_say_why() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/demo/tokenizer.json");
        let tokenizer = Tokenizer::from_bytes(&std::fs::read(path).unwrap()).unwrap();
        let grammars = Grammars::new(&tokenizer, 6144, &[0]);
        let reason = |source| grammars.compile(&source).unwrap_err().to_string();
        let text = str::to_owned;
        assert!(reason(GrammarSource::JsonSchema(text("{"))).contains("the schema is not JSON"));
        assert!(reason(GrammarSource::JsonSchema(text("{\"type\": \"day\"}"))).starts_with("cannot be compiled: "));
        assert!(reason(GrammarSource::Regex(text("("))).starts_with("cannot be compiled: "));
        assert!(reason(GrammarSource::Lark(text("start: nothing"))).starts_with("cannot be compiled: "));
        let no_end = Grammars::new(&tokenizer, 6144, &[]);
        assert!(no_end.compile(&GrammarSource::Regex(text("a"))).is_err());
    }
}
