//! Prompts: a text, or as much of a conversation as fits the context.

use crate::chat::{ChatRequest, Message};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::model::Model;
#[cfg(feature = "templates")]
use crate::template::ChatTemplate;
use crate::tokenizer::{ParseSpecial, TokenId, Tokenizer};

/// The most tokens of the context that are reserved for a reply. More would drop messages that fit.
const MAX_RESERVE: usize = 64;

/// The tokens of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// All tokens, including those that a session has cached.
    pub tokens: Vec<TokenId>,
    /// The number of messages left out because the context has no room for them, oldest first. System messages stay.
    pub dropped_messages: usize,
}

impl From<Vec<TokenId>> for Prompt {
    fn from(tokens: Vec<TokenId>) -> Self {
        Self { tokens, dropped_messages: 0 }
    }
}

/// The parts of a model that turn text into tokens.
#[derive(Debug)]
pub(crate) struct PromptEncoder {
    pub(crate) tokenizer: Tokenizer,
    #[cfg(feature = "templates")]
    pub(crate) chat_template: Option<ChatTemplate>,
    pub(crate) metadata: Metadata,
}

impl Model {
    /// Encodes a text as a prompt, preceded by the model's start token, unless the tokenizer's configuration has none.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    pub fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>> {
        self.encoder().text_prompt(text)
    }

    /// Encodes a conversation with the model's chat template; without one the messages are joined by blank lines.
    ///
    /// If the context has no room for the conversation and a reply, the oldest turns are left out. A system message at the start and
    /// the last message stay.
    ///
    /// # Errors
    /// The template rejects the conversation, the tokenizer cannot encode the text, or the request needs a template that the model
    /// does not have.
    pub fn chat_prompt(&self, request: &ChatRequest) -> Result<Prompt> {
        self.encoder().chat_prompt(request)
    }
}

impl PromptEncoder {
    pub(crate) fn text_prompt(&self, text: &str) -> Result<Vec<TokenId>> {
        let tokens = self.tokenizer.encode_prompt(text, ParseSpecial::No)?;
        let first = self.metadata.bos_id.filter(|bos| self.tokenizer.adds_bos() && tokens.first() != Some(bos));
        Ok(first.into_iter().chain(tokens).collect())
    }

    pub(crate) fn chat_prompt(&self, request: &ChatRequest) -> Result<Prompt> {
        let messages = request.messages.as_slice();
        let context = self.metadata.context_length as usize;
        let reserve = request.generation.max_tokens.unwrap_or(usize::MAX).min(MAX_RESERVE);
        let room = context.saturating_sub(reserve).max(1);
        let first = usize::from(messages.first().is_some_and(|message| message.role == "system"));
        let without = |dropped: usize| {
            let kept = [&messages[..first], &messages[first + dropped..]].concat();
            self.encode_chat(&kept, request)
        };
        let whole = without(0)?;
        if whole.len() <= room {
            return Ok(Prompt { tokens: whole, dropped_messages: 0 });
        }
        // A question and its reply are dropped as one turn, and the last message stays. Fewer turns are shorter, so a binary search
        // finds the least number to drop.
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
        Ok(Prompt { tokens, dropped_messages: (2 * enough).min(most) })
    }

    #[cfg(feature = "templates")]
    fn encode_chat(&self, messages: &[Message], request: &ChatRequest) -> Result<Vec<TokenId>> {
        let Some(template) = &self.chat_template else { return self.encode_without_template(messages, request) };
        let render = crate::chat::RenderOptions { now: request.render.now.or_else(system_time), ..request.render.clone() };
        let text = template.render(messages, &render)? + &request.reply_prefix;
        Ok(self.tokenizer.encode(&text, ParseSpecial::Yes)?)
    }

    #[cfg(not(feature = "templates"))]
    fn encode_chat(&self, messages: &[Message], request: &ChatRequest) -> Result<Vec<TokenId>> {
        self.encode_without_template(messages, request)
    }

    fn encode_without_template(&self, messages: &[Message], request: &ChatRequest) -> Result<Vec<TokenId>> {
        if !request.render.variables.is_empty() || request.render.template.is_some() {
            return Err(Error::NoChatTemplate);
        }
        let texts: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
        self.text_prompt(&(texts.join("\n\n") + &request.reply_prefix))
    }
}

/// The system's time in seconds since 1970, where there is a clock.
#[cfg(feature = "templates")]
fn system_time() -> Option<i64> {
    #[cfg(target_arch = "wasm32")]
    return None;
    #[cfg(not(target_arch = "wasm32"))]
    {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    }
}
