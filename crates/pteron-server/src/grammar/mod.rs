//! Grammars and JSON schemas as masks of tokens, by the crate `llguidance` over the model's own tokenizer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use pteron_format::EscapedText;
use pteron_llm::{ParseSpecial, TokenId, Tokenizer};
use serde_json::{Value, json};

use crate::backend::{Backend, Constraint};
use crate::format::FormKind;

/// Longer tokens are left out: no grammar is helped by them, and the trie keeps their length in 16 bits.
const MAX_TOKEN: usize = 512;
/// The most white space between two tokens of JSON. Models that are lost would write it without end.
const JSON_STYLE: [(&str, &str); 2] = [("key_separator", ": "), ("item_separator", ", ")];

/// The grammars of a model. What all of them share, a trie of the vocabulary, is built when the first one is asked for.
pub(crate) struct Grammars {
    factory: OnceLock<Result<Arc<ParserFactory>, String>>,
}

/// A grammar, ready for any number of texts.
pub(crate) struct Compiled {
    matcher: Matcher,
    vocabulary: u32,
}

impl Grammars {
    pub(crate) fn new() -> Self {
        Self { factory: OnceLock::new() }
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// Why it cannot be compiled, as the end of a sentence about it.
    pub(crate) fn compile(&self, backend: &dyn Backend, form: FormKind) -> Result<Compiled, String> {
        let factory = self.factory.get_or_init(|| guarded(|| factory(backend)));
        let factory = factory.as_ref().map_err(Clone::clone)?;
        let grammar = match form {
            FormKind::Json(schema) => TopLevelGrammar::from_json_schema(with_style(schema)),
            FormKind::Regex(regex) => TopLevelGrammar::from_regex(&regex),
            FormKind::Lark(grammar) => TopLevelGrammar::from_lark(grammar),
        };
        let matcher = guarded(|| Ok(Matcher::new(factory.create_parser(grammar))))?;
        match matcher.get_error() {
            Some(reason) => Err(sentence(&reason)),
            None => Ok(Compiled { matcher, vocabulary: backend.info().vocab_size }),
        }
    }
}

impl Compiled {
    /// The constraint of a text.
    pub(crate) fn constraint(&self) -> Box<dyn Constraint> {
        Box::new(GrammarConstraint { matcher: self.matcher.deep_clone(), vocabulary: self.vocabulary })
    }
}

/// Why a grammar does not compile: the first line, without the parser's state. The regex parser shows the pattern after its first line,
/// and then says what is wrong with it.
fn sentence(reason: &str) -> String {
    let mut lines = reason.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or("cannot be compiled");
    let cause = lines.find_map(|line| line.strip_prefix("error: ")).filter(|_| first.ends_with(':'));
    let line = cause.map_or_else(|| first.to_owned(), |cause| format!("{first} {cause}"));
    format!("cannot be compiled: {}", EscapedText::sentence(&line))
}

/// Calls a function of the grammar engine. One that panics is an error of the grammar.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err("cannot be compiled: the grammar engine stopped".to_owned()))
}

/// Has JSON written on one line, with a space after colons and commas.
fn with_style(schema: Value) -> Value {
    let mut schema = match schema {
        Value::Object(map) => map,
        Value::Bool(true) => serde_json::Map::new(),
        other => return other,
    };
    let mut style = serde_json::Map::from_iter([("whitespace_flexible".to_owned(), json!(false))]);
    style.extend(JSON_STYLE.map(|(name, value)| (name.to_owned(), value.into())));
    schema.insert("x-guidance".to_owned(), style.into());
    Value::Object(schema)
}

fn factory(backend: &dyn Backend) -> Result<Arc<ParserFactory>, String> {
    let info = backend.info();
    let Some(eos) = info.eos_ids.first() else {
        return Err("needs a model with an end-of-sequence token".to_owned());
    };
    let tokenizer = backend.tokenizer().clone();
    let words: Vec<Vec<u8>> = (0..info.vocab_size).map(|id| word(&tokenizer, id)).collect();
    let trie = TokTrie::from(&TokRxInfo::new(info.vocab_size, *eos), &words).with_eos_tokens(&info.eos_ids);
    let environment: TokEnv = Arc::new(Environment { tokenizer, trie });
    let slices = llguidance::earley::SlicedBiasComputer::general_slices();
    let factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices);
    let mut factory = factory.map_err(|error| sentence(&error.to_string()))?;
    factory.quiet().limits_mut().verbose_errors = false;
    Ok(Arc::new(factory))
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

impl Constraint for GrammarConstraint {
    fn mask(&mut self) -> Result<Vec<u32>, String> {
        let mask = self.matcher.compute_mask_or_eos().map_err(|error| error.to_string())?;
        Ok(within(self.vocabulary, mask.as_slice()))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), String> {
        self.matcher.consume_token(token).map_err(|error| error.to_string())
    }

    fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

#[cfg(test)]
mod schemas;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;
