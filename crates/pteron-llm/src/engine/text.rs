//! The text of one request: sampled tokens to pieces of text, up to where it ends.

use crate::decode_stream::DecodeStream;
use crate::error::Result;
use crate::generation::{FinishReason, GeneratedToken};
use crate::options::GenerationOptions;
use crate::prompt::PromptEncoder;
use crate::sampling::SampledToken;
use crate::stop::{StopConditions, StopFilter};
use crate::tokenizer::{ShowSpecial, TokenId};

/// Decodes the tokens of a request and looks for stop strings.
#[derive(Debug)]
pub(super) struct Text {
    decoder: DecodeStream,
    filter: StopFilter,
}

impl Text {
    /// Creates an empty text. Returns also the tokens that end it.
    pub(super) fn new(encoder: &PromptEncoder, options: &GenerationOptions) -> Result<(Self, Vec<TokenId>)> {
        let mut stop_tokens = options.stop_tokens.clone();
        if !options.ignore_eos {
            stop_tokens.extend(&encoder.metadata.eos_ids);
        }
        let stop = StopConditions::new(options.stop_strings.clone(), stop_tokens)?;
        let show = if options.show_special { ShowSpecial::Yes } else { ShowSpecial::No };
        let text = Self { decoder: encoder.tokenizer.decode_stream(show), filter: stop.filter() };
        Ok((text, stop.tokens().to_vec()))
    }

    /// Adds a token. It has a finish reason if a stop string is complete.
    pub(super) fn push(&mut self, sampled: SampledToken) -> GeneratedToken {
        let text = self.filter.push(&self.decoder.push(sampled.token));
        let finish = self.filter.matched().map(FinishReason::StopString);
        GeneratedToken { text, finish, ..without_text(sampled) }
    }

    /// Ends the text after a token that was pushed, and releases what was held back.
    pub(super) fn finish(self, last: &mut GeneratedToken, reason: FinishReason) {
        last.finish = Some(reason);
        last.text += &self.tail();
    }

    /// Ends the text with a token that is not part of it.
    pub(super) fn finish_with(self, sampled: SampledToken, reason: FinishReason) -> GeneratedToken {
        GeneratedToken { text: self.tail(), finish: Some(reason), ..without_text(sampled) }
    }

    fn tail(self) -> String {
        let Self { decoder, mut filter } = self;
        let mut tail = filter.push(&decoder.finish());
        if filter.matched().is_none() {
            tail += &filter.finish();
        }
        tail
    }
}

fn without_text(sampled: SampledToken) -> GeneratedToken {
    let SampledToken { token, logprob, top_logprobs } = sampled;
    GeneratedToken { token, text: String::new(), logprob, top_logprobs, finish: None }
}
