//! The tokenizer of programs that bring their own: it has no vocabulary.

use super::detokenize::{Broken, Detokenizer, Trim};
use super::{Format, ParseSpecial, ShowSpecial, TokenId, TokenizerError, TokenizerKind};

#[derive(Debug)]
pub(super) struct IdsOnly;

impl TokenizerKind for IdsOnly {
    fn format(&self) -> Format {
        Format::IdsOnly
    }

    fn encode(&self, _: &str, _: ParseSpecial) -> Result<Vec<TokenId>, TokenizerError> {
        Err(TokenizerError::Encode("the model was opened without a tokenizer; pass token ids instead".to_owned()))
    }

    fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Broken::default(), Trim::default())
    }

    fn push_token(&self, _: TokenId, _: ShowSpecial, _: &mut Detokenizer, _: &mut String) {}

    fn token_bytes(&self, _: TokenId) -> Option<Vec<u8>> {
        None
    }

    fn find(&self, _: &str) -> Option<TokenId> {
        None
    }

    fn vocab_size(&self) -> u32 {
        0
    }

    fn is_special(&self, _: TokenId) -> bool {
        false
    }

    fn specials(&self) -> Vec<(TokenId, String)> {
        Vec::new()
    }

    fn bos(&self) -> Option<TokenId> {
        None
    }

    fn eos(&self) -> Option<TokenId> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn ids_only_decodes_to_nothing_and_encodes_nothing() {
        let tokenizer = Tokenizer::ids_only();
        assert_eq!((tokenizer.format(), tokenizer.vocab_size()), (Format::IdsOnly, 0));
        assert_eq!(tokenizer.decode(&[1, 2, u32::MAX], ShowSpecial::Yes), "");
        assert!(matches!(tokenizer.encode("a", ParseSpecial::No), Err(TokenizerError::Encode(_))));
    }
}
