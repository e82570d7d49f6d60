//! Decodes text token by token.

use crate::tokenizer::{Detokenizer, ShowSpecial, TokenId, Tokenizer};

/// Converts token ids to text as they arrive. Made by [`Tokenizer::decode_stream`].
///
/// [`push`](Self::push) returns text that is certain: it holds whole characters only, and no later token changes it. The chunks and
/// the text of [`finish`](Self::finish), concatenated, are exactly what [`Tokenizer::decode`] gives for all ids at once,
/// because that is how `decode` is written.
///
/// A character that will never be completed becomes U+FFFD as soon as that is known: with the next token, or at the end.
#[derive(Clone, Debug)]
pub struct DecodeStream {
    tokenizer: Tokenizer,
    show: ShowSpecial,
    detokenizer: Detokenizer,
}

impl DecodeStream {
    pub(crate) fn new(tokenizer: Tokenizer, show: ShowSpecial) -> Self {
        let detokenizer = tokenizer.detokenizer();
        Self { tokenizer, show, detokenizer }
    }

    /// Adds a token and returns the text that it completes: often a word, sometimes nothing.
    pub fn push(&mut self, id: TokenId) -> String {
        let mut text = String::new();
        self.push_into(id, &mut text);
        text
    }

    /// Adds a token and appends the text that it completes to a string.
    pub fn push_into(&mut self, id: TokenId, text: &mut String) {
        self.tokenizer.push_token(id, self.show, &mut self.detokenizer, text);
    }

    /// Whether an unfinished character is held back.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.detokenizer.is_pending()
    }

    /// Returns the text that was held back. No token follows.
    #[must_use]
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        self.detokenizer.finish(&mut text);
        text
    }
}
