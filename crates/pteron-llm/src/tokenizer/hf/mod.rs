//! `tokenizer.json`: encodes and decodes as the `tokenizers` library does, with limits on time and memory. Tests compare with it.

mod added;
mod decoder;
mod fields;
mod file;
mod model;
mod normalizer;
mod pre_tokenizer;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod unicode_tables;

use added::{Added, Part};
use decoder::Decoder;
use fields::PostProcessor;
use file::File;
use model::{Encoder, Model, Vocabulary};
use normalizer::Normalizer;
use pre_tokenizer::PreTokenizer;

use super::detokenize::Detokenizer;
use super::work::Work;
use super::{Format, ParseSpecial, ShowSpecial, TokenizerError, TokenizerKind};

#[derive(Debug)]
pub(super) struct HuggingFace {
    vocabulary: Vocabulary,
    model: Model,
    normalizer: Normalizer,
    pre_tokenizer: PreTokenizer,
    added: Added,
    around: PostProcessor,
    decoder: Decoder,
    vocab_size: u32,
}

/// Whether the bytes look like such a file.
pub(super) fn detect(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"{")
}

impl HuggingFace {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_file(File::read(bytes).map_err(TokenizerError::HuggingFace)?).map_err(TokenizerError::HuggingFace)
    }

    fn from_file(file: File) -> Result<Self, String> {
        let decoder = Decoder::new(file.decoder.as_ref())?;
        let around = fields::around(file.post_processor.as_ref())?;
        let normalizer = Normalizer::new(file.normalizer.as_ref())?;
        let pre_tokenizer = PreTokenizer::new(file.pre_tokenizer.as_ref())?;
        let (vocabulary, model) = file.model.build()?;
        let added = Added::new(file.added_tokens, &vocabulary, &normalizer)?;
        let vocab_size = added.iter().map(|token| token.id.saturating_add(1)).fold(vocabulary.bound(), u32::max);
        Ok(Self { vocabulary, model, normalizer, pre_tokenizer, added, around, decoder, vocab_size })
    }

    fn token(&self, id: u32) -> Option<&str> {
        self.added.spelling(id).or_else(|| self.vocabulary.token(id))
    }

    /// Appends the tokens of a text between added tokens.
    fn encode_text(
        &self,
        text: &str,
        at_start: bool,
        encoder: &Encoder<'_>,
        ids: &mut Vec<u32>,
        work: &mut Work,
    ) -> Result<(), TokenizerError> {
        let pieces = self.pre_tokenizer.apply(text, at_start, work)?;
        pieces.iter().try_for_each(|piece| encoder.encode(piece, ids, work))
    }
}

impl TokenizerKind for HuggingFace {
    fn format(&self) -> Format {
        Format::HuggingFace
    }

    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<u32>, TokenizerError> {
        let mut work = Work::new(text.len())?;
        let encoder = Encoder::new(&self.model, &self.vocabulary);
        let mut ids = Vec::new();
        for part in self.added.split_plain(text, parse, &mut work)? {
            let (text, at_start) = match part {
                Part::Token(id) => {
                    ids.push(id);
                    continue;
                }
                Part::Text { text, at_start } => (text, at_start),
            };
            let (text, same_start) = self.normalizer.apply(text, &mut work)?;
            for part in self.added.split_normalized(&text, parse, at_start && same_start, &mut work)? {
                match part {
                    Part::Token(id) => ids.push(id),
                    Part::Text { text, at_start } => self.encode_text(text, at_start, &encoder, &mut ids, &mut work)?,
                }
            }
        }
        Ok(ids)
    }

    fn around(&self) -> Option<(&[u32], &[u32])> {
        Some((&self.around.before, &self.around.after))
    }

    fn detokenizer(&self) -> Detokenizer {
        self.decoder.detokenizer()
    }

    fn push_token(&self, id: u32, show: ShowSpecial, detokenizer: &mut Detokenizer, out: &mut String) {
        if let Some(token) = self.token(id).filter(|_| show == ShowSpecial::Yes || !self.is_special(id)) {
            self.decoder.join(token, detokenizer, out);
        }
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.token(id).map(|token| self.decoder.bytes(token))
    }

    fn is_special(&self, id: u32) -> bool {
        self.added.get(id).is_some_and(|token| token.special)
    }

    fn specials(&self) -> Vec<(u32, String)> {
        let tokens = self.added.iter().filter(|token| token.special);
        let mut specials: Vec<_> = tokens.map(|token| (token.id, token.content.clone())).collect();
        specials.sort_unstable();
        specials
    }

    fn find(&self, text: &str) -> Option<u32> {
        self.added.id(text).or_else(|| self.vocabulary.id(text))
    }

    fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// The token that starts a text, if one does.
    fn bos(&self) -> Option<u32> {
        match self.around.before[..] {
            [bos] => Some(bos),
            _ => None,
        }
    }

    /// The file does not say.
    fn eos(&self) -> Option<u32> {
        None
    }
}
