//! What a model is given: a text, or a conversation as far as it fits.

use crate::error::Result;
use crate::model::Model;
use crate::template::{ChatTemplate, Message, RenderOptions};
use crate::tokenizer::{ParseSpecial, TokenId};

/// So many tokens at most are kept free for an answer: more would push out what was said.
const LARGEST_RESERVE: usize = 64;

/// The tokens of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// All of them, not only what is new.
    pub tokens: Vec<TokenId>,
    /// How many messages had no room, counted from the oldest that is not the system's.
    pub dropped: usize,
}

impl Model {
    /// A text as a prompt, begun as the model was taught that texts begin.
    ///
    /// # Errors
    /// A text the tokenizer has no tokens for.
    pub fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>> {
        let tokens = self.tokenizer().encode_prompt(text, ParseSpecial::No)?;
        let first = self.metadata().bos_id.filter(|bos| tokens.first() != Some(bos));
        Ok(first.into_iter().chain(tokens).collect())
    }

    /// A conversation as a prompt; `partial` is the beginning of the answer, where one is to be gone on with. Without a template the messages stand one behind the other, a blank line between them. Where
    /// there is no room for it and an answer of `reserve` tokens, the oldest turns are left out; a message of the system stays.
    ///
    /// # Errors
    /// A template that refuses, or a text the tokenizer has no tokens for.
    pub fn chat_prompt(
        &self,
        template: Option<&ChatTemplate>,
        messages: &[Message],
        partial: &str,
        options: &RenderOptions,
        reserve: usize,
    ) -> Result<Prompt> {
        let context = self.metadata().context_length as usize;
        let room = context.saturating_sub(reserve.min(LARGEST_RESERVE)).max(1);
        let first = usize::from(messages.first().is_some_and(|message| message.role == "system"));
        let without = |dropped: usize| {
            let kept = [&messages[..first], &messages[first + dropped..]].concat();
            self.conversation(template, &kept, partial, options)
        };
        let whole = without(0)?;
        if whole.len() <= room {
            return Ok(Prompt { tokens: whole, dropped: 0 });
        }
        // A question and its answer go together, and the last message stays. Each turn less is shorter, so the fewest that must go
        // are found by halving.
        let most = messages.len().saturating_sub(first + 1);
        let (mut too_few, mut enough) = (0, most.div_ceil(2));
        let mut tokens = without(most)?;
        while enough - too_few > 1 {
            let turns = usize::midpoint(too_few, enough);
            let shorter = without(2 * turns)?;
            if shorter.len() <= room {
                (enough, tokens) = (turns, shorter);
            } else {
                too_few = turns;
            }
        }
        Ok(Prompt { tokens, dropped: (2 * enough).min(most) })
    }

    fn conversation(
        &self,
        template: Option<&ChatTemplate>,
        messages: &[Message],
        partial: &str,
        options: &RenderOptions,
    ) -> Result<Vec<TokenId>> {
        let Some(template) = template else {
            let texts: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
            return self.text_prompt(&(texts.join("\n\n") + partial));
        };
        let text = template.render(messages, options)? + partial;
        Ok(self.tokenizer().encode(&text, ParseSpecial::Yes)?)
    }
}
