//! Random texts of a grammar, without a model: of the tokens that a mask allows, any one.

use std::time::{Duration, Instant};

use pteron_llm::{ChatRequest, ShowSpecial, TokenId, Tokenizer};
use serde_json::Value;

use super::Grammars;
use crate::backend::{Backend, BackendError, ChatPrompt, GenerateRequest, ModelInfo, Statistics, TokenSource};
use crate::format::FormKind;

/// A vocabulary in the place of a model.
pub(super) struct Vocabulary {
    tokenizer: Tokenizer,
    size: u32,
    end: TokenId,
    /// The tokens of one byte, by that.
    bytes: Vec<(u8, TokenId)>,
}

impl Vocabulary {
    pub(super) fn new(tokenizer: Tokenizer, size: u32, end: TokenId) -> Self {
        let byte = |id| match tokenizer.token_bytes(id).as_deref() {
            Some([byte]) => Some((*byte, id)),
            _ => None,
        };
        let bytes = (0..size).filter_map(byte).collect();
        Self { tokenizer, size, end, bytes }
    }

    /// The tokens that are one of these bytes.
    fn spelled(&self, wanted: &[u8]) -> Vec<TokenId> {
        self.bytes.iter().filter(|(byte, _)| wanted.contains(byte)).map(|(_, id)| *id).collect()
    }

    /// The vocabulary of the bundled model.
    pub(super) fn bundled() -> Self {
        Self::new(Tokenizer::from_bytes(pteron_demo_model::TOKENIZER).unwrap(), 6144, 0)
    }
}

impl Backend for Vocabulary {
    fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    fn info(&self) -> ModelInfo {
        ModelInfo { context_length: 1 << 20, vocab_size: self.size, eos_ids: vec![self.end], has_chat_template: false }
    }

    fn text_prompt(&self, _: &str) -> Result<Vec<TokenId>, BackendError> {
        Err(BackendError::Draining)
    }

    fn chat_prompt(&self, _: &ChatRequest) -> Result<ChatPrompt, BackendError> {
        Err(BackendError::Draining)
    }

    fn submit(&self, _: GenerateRequest) -> Result<Box<dyn TokenSource>, BackendError> {
        Err(BackendError::Draining)
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn drain(&self) {}
}

/// How long a text goes on as chance has it, before it is brought to its end.
#[derive(Clone, Copy)]
pub(super) struct Length {
    pub(super) random: usize,
    pub(super) most: usize,
}

/// How a text of a grammar ended.
#[derive(Debug)]
pub(super) enum Walk {
    /// The grammar cannot be compiled.
    Refused(String),
    /// The grammar ended with an error within a text, which had begun so.
    Failed {
        reason: String,
        text: String,
    },
    /// No end in sight.
    Endless,
    Whole(String),
}

/// Writes texts of grammars.
pub(super) struct Walker {
    vocabulary: Vocabulary,
    grammars: Grammars,
    random: u64,
    /// The time that each mask took.
    pub(super) masks: Vec<Duration>,
    /// The time that each grammar took to compile.
    pub(super) compiling: Vec<Duration>,
}

impl Walker {
    pub(super) fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, grammars: Grammars::new(), random: 1, masks: Vec::new(), compiling: Vec::new() }
    }

    /// Writes one text of a schema.
    pub(super) fn write(&mut self, schema: &Value, length: Length) -> Walk {
        let started = Instant::now();
        let compiled = match self.grammars.compile(&self.vocabulary, FormKind::Json(schema.clone())) {
            Ok(compiled) => compiled,
            Err(reason) => return Walk::Refused(reason),
        };
        self.compiling.push(started.elapsed());
        let mut constraint = compiled.constraint();
        let mut tokens: Vec<TokenId> = Vec::new();
        for place in 0..length.most {
            let started = Instant::now();
            let mask = constraint.mask();
            self.masks.push(started.elapsed());
            let next = mask.and_then(|mask| {
                let token = self.choose(&mask, place >= length.random).ok_or("no token is allowed")?;
                if token != self.vocabulary.end {
                    constraint.accept(token)?;
                }
                Ok(token)
            });
            let text = |tokens: &[TokenId]| self.vocabulary.tokenizer.decode(tokens, ShowSpecial::No);
            match next {
                Err(reason) => return Walk::Failed { reason, text: text(&tokens) },
                Ok(token) if token == self.vocabulary.end => return Walk::Whole(text(&tokens)),
                Ok(token) => tokens.push(token),
            }
            if constraint.is_complete() {
                return Walk::Whole(text(&tokens));
            }
        }
        Walk::Endless
    }

    /// One of the allowed tokens: any, or one that brings the text to its end.
    fn choose(&mut self, mask: &[u32], ending: bool) -> Option<TokenId> {
        assert_eq!(mask.len(), self.vocabulary.size.div_ceil(32) as usize);
        let is_allowed = |id: &TokenId| mask.get(*id as usize / 32).is_some_and(|word| word >> (*id % 32) & 1 == 1);
        // A string has brackets and commas, too, so it ends first; a number ends with either.
        let spelled = [&b"\""[..], b"}]", b","].map(|bytes| self.vocabulary.spelled(bytes));
        let preferred = [vec![self.vocabulary.end]].into_iter().chain(spelled).collect::<Vec<_>>();
        if let Some(found) = preferred.iter().flatten().find(|id| ending && is_allowed(id)) {
            return Some(*found);
        }
        // Knuth's generator: the upper half is random enough.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let count: u32 = mask.iter().map(|word| word.count_ones()).sum();
        let mut at = u32::try_from(self.random >> 33).unwrap_or_default() % count.max(1);
        for (base, word) in (0..).step_by(32).zip(mask) {
            if at < word.count_ones() {
                return (0..32).filter(|bit| word >> bit & 1 == 1).nth(at as usize).map(|bit| base + bit);
            }
            at -= word.count_ones();
        }
        None
    }
}
