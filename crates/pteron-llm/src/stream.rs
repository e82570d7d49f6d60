//! Text token by token.

use crate::tokenizer::{Joiner, ShowSpecial, TokenId, Tokenizer};

/// Turns token ids into text as they come. Made by [`Tokenizer::stream`].
///
/// What [`push`](Self::push) returns is certain: it holds whole characters only, and no later token changes it. The pieces and
/// what [`finish`](Self::finish) returns, put together, are exactly what [`Tokenizer::decode`] gives for all ids at once,
/// because that is how `decode` is written.
///
/// A character that will never be completed becomes U+FFFD as soon as that is known: with the next token, or at the end.
#[derive(Clone, Debug)]
pub struct TextStream {
    tokenizer: Tokenizer,
    show: ShowSpecial,
    joiner: Joiner,
}

impl TextStream {
    pub(crate) fn new(tokenizer: Tokenizer, show: ShowSpecial) -> Self {
        let joiner = tokenizer.joiner();
        Self { tokenizer, show, joiner }
    }

    /// The text that this token makes certain; often a word, sometimes nothing.
    pub fn push(&mut self, id: TokenId) -> String {
        let mut text = String::new();
        self.push_into(id, &mut text);
        text
    }

    /// The same, appended to a string.
    pub fn push_into(&mut self, id: TokenId, text: &mut String) {
        self.tokenizer.join(id, self.show, &mut self.joiner, text);
    }

    /// Whether bytes of an unfinished character wait for more.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.joiner.is_pending()
    }

    /// What was held back, now that nothing follows.
    #[must_use]
    pub fn finish(mut self) -> String {
        let mut text = String::new();
        self.joiner.finish(&mut text);
        text
    }
}
