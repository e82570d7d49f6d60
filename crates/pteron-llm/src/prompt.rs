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

    /// A conversation as a prompt. Without a template the messages stand one behind the other, a blank line between them. Where
    /// there is no room for it and an answer of `reserve` tokens, the oldest turns are left out; a message of the system stays.
    ///
    /// # Errors
    /// A template that refuses, or a text the tokenizer has no tokens for.
    pub fn chat_prompt(
        &self,
        template: Option<&ChatTemplate>,
        messages: &[Message],
        options: &RenderOptions,
        reserve: usize,
    ) -> Result<Prompt> {
        let context = self.metadata().context_length as usize;
        let room = context.saturating_sub(reserve.min(LARGEST_RESERVE)).max(1);
        let first = usize::from(messages.first().is_some_and(|message| message.role == "system"));
        let mut dropped = 0;
        loop {
            let kept = [&messages[..first], &messages[first + dropped..]].concat();
            let tokens = self.conversation(template, &kept, options)?;
            if tokens.len() <= room || kept.len() <= first + 1 {
                return Ok(Prompt { tokens, dropped });
            }
            // A question and its answer go together.
            dropped += 2.min(kept.len() - first - 1);
        }
    }

    fn conversation(
        &self,
        template: Option<&ChatTemplate>,
        messages: &[Message],
        options: &RenderOptions,
    ) -> Result<Vec<TokenId>> {
        let Some(template) = template else {
            let texts: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
            return self.text_prompt(&texts.join("\n\n"));
        };
        let text = template.render(messages, options)?;
        Ok(self.tokenizer().encode(&text, ParseSpecial::Yes)?)
    }
}
