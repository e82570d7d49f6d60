//! The tokens of a file.

use std::collections::HashMap;

use super::super::cursor::shown;
use super::super::metadata::{Metadata, Value};
use crate::error::Result;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";

/// Control tokens with these names are EOS tokens even if the file does not list them: chat models often list only one.
const ENDS: [&str; 8] =
    ["<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|im_end|>", "<|endoftext|>", "<|end|>", "<end_of_turn>", "<EOT>"];

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) id: u32,
    pub(super) text: &'a str,
    pub(super) token_type: TokenType,
    pub(super) score: f64,
}

/// Tokens by id and by text, and special tokens.
pub(super) struct Vocabulary<'a> {
    pub(super) tokens: Vec<Token<'a>>,
    ids: HashMap<&'a str, u32>,
    pub(super) begin: Option<Token<'a>>,
    pub(super) end: Option<Token<'a>>,
    pub(super) unknown: Option<Token<'a>>,
    pub(super) padding: Option<Token<'a>>,
    end_of_turn: Option<Token<'a>>,
    end_of_message: Option<Token<'a>>,
}

impl<'a> Vocabulary<'a> {
    /// Reads the tokens. There may be fewer than rows of the embedding.
    pub(super) fn read(metadata: &Metadata<'a>, rows: u32) -> Result<Self> {
        let texts = metadata.needed(TOKENS, metadata.array(TOKENS))?.texts()?;
        if texts.len() > rows as usize {
            return Err(metadata.fault(TOKENS, format!("there are {}, and the embedding has {rows} rows", texts.len())));
        }
        let token_types = column(metadata, TYPES, texts.len(), "a type of tokens, 1 to 6", token_type)?;
        let scores = column(metadata, SCORES, texts.len(), "a number", |value| match value {
            Value::Float(score) => Some(score),
            Value::Signed(score) => i32::try_from(score).ok().map(f64::from),
            _ => None,
        })?;
        let mut tokens: Vec<Token<'a>> = Vec::with_capacity(texts.len());
        let mut ids = HashMap::with_capacity(texts.len());
        for (id, (index, text)) in (0..rows).zip(texts.into_iter().enumerate()) {
            let token_type = token_types.get(index).copied().unwrap_or(TokenType::Normal);
            let score = scores.get(index).copied().unwrap_or_default();
            // Empty tokens are not found by text.
            if let Some(other) = ids.insert(text, id).filter(|_| !text.is_empty()) {
                let problem = format!("tokens {other} and {id} are both {}", shown(text));
                return Err(metadata.fault(TOKENS, problem));
            }
            tokens.push(Token { id, text, token_type, score });
        }
        ids.remove("");
        let role = |name: &str| role(metadata, &tokens, name);
        let (begin, end, unknown) = (role("bos")?, role("eos")?, role("unknown")?);
        let (padding, end_of_turn, end_of_message) = (role("padding")?, role("eot")?, role("eom")?);
        for token in [begin, end, end_of_turn, end_of_message].into_iter().flatten() {
            let token_type = &mut tokens[token.id as usize].token_type;
            // Old files have no token types.
            if *token_type == TokenType::Normal {
                *token_type = TokenType::Control;
            }
        }
        let unknown = unknown.or_else(|| tokens.iter().find(|token| token.token_type == TokenType::Unknown).copied());
        Ok(Self { tokens, ids, begin, end, unknown, padding, end_of_turn, end_of_message })
    }

    /// The token with this text.
    pub(super) fn find(&self, text: &str) -> Option<Token<'a>> {
        self.ids.get(text).and_then(|&id| self.tokens.get(id as usize)).copied()
    }

    /// Returns the EOS tokens, the file's own first.
    pub(super) fn ends(&self) -> Vec<u32> {
        let control = |token: &Token<'_>| token.token_type == TokenType::Control;
        let named = [self.end, self.end_of_turn, self.end_of_message].into_iter().flatten();
        let known = ENDS.iter().filter_map(|name| self.find(name)).filter(control);
        let mut ends = Vec::new();
        for token in named.chain(known) {
            if !ends.contains(&token.id) {
                ends.push(token.id);
            }
        }
        ends
    }
}

/// Reads an array with one element per token; empty if missing.
fn column<'a, T>(
    metadata: &Metadata<'a>,
    key: &str,
    len: usize,
    what: &str,
    convert: impl Fn(Value<'a>) -> Option<T>,
) -> Result<Vec<T>> {
    match metadata.array(key)? {
        None => Ok(Vec::new()),
        Some(array) if array.len() == len => array.each(what, convert),
        Some(array) => Err(metadata.fault(key, format!("it has {} elements for {len} tokens", array.len()))),
    }
}

fn token_type(value: Value<'_>) -> Option<TokenType> {
    Some(match value.number()? {
        1 => TokenType::Normal,
        2 => TokenType::Unknown,
        3 => TokenType::Control,
        4 => TokenType::UserDefined,
        5 => TokenType::Unused,
        6 => TokenType::Byte,
        _ => return None,
    })
}

/// The token with a role, such as `bos`.
fn role<'a>(metadata: &Metadata<'a>, tokens: &[Token<'a>], name: &str) -> Result<Option<Token<'a>>> {
    let key = format!("tokenizer.ggml.{name}_token_id");
    let Some(id) = metadata.number(&key)? else { return Ok(None) };
    let token = tokens.get(id as usize).filter(|token| !token.text.is_empty());
    token.copied().map(Some).ok_or_else(|| metadata.fault(&key, format!("there is no token {id}")))
}
