//! `tokenizer.json`: encoding by the `tokenizers` crate, reading and decoding by us.

mod decoder;
mod file;
mod parts;
#[cfg(test)]
mod tests;

use decoder::Decoder;
use file::{File, MAX_ID};
use parts::Around;
use tokenizers::{
    AddedVocabulary, Model, ModelWrapper, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizer,
    PreTokenizerWrapper,
};

use super::join::Joiner;
use super::{Format, Kind, ParseSpecial, ShowSpecial, TokenizerError};

pub(super) struct HuggingFace {
    model: ModelWrapper,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    /// Tokens beside the model's, all of which are found in a text.
    added: AddedVocabulary,
    /// The same, but special tokens are not found.
    added_plain: AddedVocabulary,
    around: Around,
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
        let around = parts::around(file.post_processor.as_ref())?;
        let normalizer = parts::normalizer(file.normalizer)?;
        let pre_tokenizer = parts::pre_tokenizer(file.pre_tokenizer)?;
        let mut vocab_size = file.model.id_bound()?;
        let model = file.model.build()?;
        let mut added = AddedVocabulary::new();
        let tokens = file.added_tokens.iter().map(|added| added.token.clone());
        added.add_tokens(tokens, &model, normalizer.as_ref()).map_err(|error| format!("its added tokens: {error}"))?;
        for token in &file.added_tokens {
            // The crate numbers them by itself, in the order of the file.
            let (id, name) = (token.id, &token.token.content);
            let found = added.token_to_id(name, &model);
            if !name.is_empty() && (found != Some(id) || id >= MAX_ID) {
                let due = found.map_or_else(|| "none".to_owned(), |id| id.to_string());
                return Err(format!("its added token {name:?} has the id {id}, but by its place in the file that is {due}"));
            }
            vocab_size = vocab_size.max(id.saturating_add(1));
        }
        let mut added_plain = added.clone();
        added_plain.set_encode_special_tokens(true);
        Ok(Self { model, normalizer, pre_tokenizer, added, added_plain, around, decoder, vocab_size })
    }

    fn token(&self, id: u32) -> Option<String> {
        self.added.simple_id_to_token(id).or_else(|| self.model.id_to_token(id))
    }
}

impl Kind for HuggingFace {
    fn format(&self) -> Format {
        Format::HuggingFace
    }

    fn encode(&self, text: &str, parse: ParseSpecial) -> Result<Vec<u32>, TokenizerError> {
        let added = if parse == ParseSpecial::Yes { &self.added } else { &self.added_plain };
        let mut splits = added.extract_and_normalize(self.normalizer.as_ref(), text);
        let result = match &self.pre_tokenizer {
            Some(pre_tokenizer) => pre_tokenizer.pre_tokenize(&mut splits),
            None => Ok(()),
        };
        let result = result.and_then(|()| splits.tokenize(|split| self.model.tokenize(split.get())));
        result.map_err(|error| TokenizerError::Encode(error.to_string()))?;
        let splits = splits.get_splits(OffsetReferential::Normalized, OffsetType::None);
        let tokens = splits.into_iter().filter_map(|(_, _, tokens)| tokens.as_deref()).flatten();
        Ok(tokens.map(|token| token.id).collect())
    }

    fn around(&self) -> Option<(&[u32], &[u32])> {
        Some((&self.around.before, &self.around.after))
    }

    fn joiner(&self) -> Joiner {
        self.decoder.joiner()
    }

    fn join(&self, id: u32, show: ShowSpecial, joiner: &mut Joiner, out: &mut String) {
        if let Some(token) = self.token(id).filter(|token| show == ShowSpecial::Yes || !self.added.is_special_token(token)) {
            self.decoder.join(&token, joiner, out);
        }
    }

    fn token_bytes(&self, id: u32) -> Option<Vec<u8>> {
        self.token(id).map(|token| self.decoder.bytes(&token))
    }

    fn is_special(&self, id: u32) -> bool {
        self.added.get_added_tokens_decoder().get(&id).is_some_and(|token| token.special)
    }

    fn specials(&self) -> Vec<(u32, String)> {
        let tokens = self.added.get_added_tokens_decoder().iter().filter(|(_, token)| token.special);
        let mut specials: Vec<_> = tokens.map(|(&id, token)| (id, token.content.clone())).collect();
        specials.sort_unstable();
        specials
    }

    fn find(&self, text: &str) -> Option<u32> {
        self.added.token_to_id(text, &self.model)
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

impl std::fmt::Debug for HuggingFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HuggingFace")
            .field("vocab_size", &self.vocab_size)
            .field("decoder", &self.decoder)
            .finish_non_exhaustive()
    }
}
