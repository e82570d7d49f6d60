//! Normalises text as `SentencePiece` does before it segments it.

use super::SPACE;
use crate::tokenizer::TokenizerError;
use crate::tokenizer::charsmap::CharsMap;
use crate::tokenizer::vocabulary::{TokenBytes, TokenIndex};
use crate::tokenizer::work::Work;

/// How a text is rewritten, as the model file says.
#[derive(Debug)]
pub(super) struct Normalizer {
    pub(super) map: Option<CharsMap>,
    /// A space is put before the text (or after it, see `space_after_word`), so that its first word looks like every other.
    pub(super) dummy_space: bool,
    /// Spaces at the ends are dropped, and several become one.
    pub(super) single_spaces: bool,
    /// Spaces become U+2581.
    pub(super) visible_spaces: bool,
    /// A word's space follows it instead of preceding it.
    pub(super) space_after_word: bool,
}

impl Default for Normalizer {
    fn default() -> Self {
        Self { map: None, dummy_space: true, single_spaces: true, visible_spaces: true, space_after_word: false }
    }
}

impl Normalizer {
    /// The text as the model sees it. Symbols of the user stay as they are.
    pub(super) fn normalize(
        &self,
        text: &str,
        tokens: &TokenBytes,
        symbols: &TokenIndex,
        work: &mut Work,
    ) -> Result<String, TokenizerError> {
        let mut rest = text;
        while let Some((" ", len)) = self.replace(rest, tokens, symbols, work)?.filter(|_| self.single_spaces) {
            rest = rest.get(len..).unwrap_or_default();
        }
        let mut out = String::new();
        if rest.is_empty() {
            return Ok(out);
        }
        let space = if self.visible_spaces { SPACE } else { ' ' };
        if self.dummy_space && !self.space_after_word {
            out.push(space);
        }
        let mut after_space = self.single_spaces;
        while let Some((piece, len)) = self.replace(rest, tokens, symbols, work)? {
            let piece = if after_space { piece.trim_start_matches(' ') } else { piece };
            work.write(piece.len())?;
            out.extend(piece.chars().map(|c| if c == ' ' { space } else { c }));
            if !piece.is_empty() {
                after_space = self.single_spaces && piece.ends_with(' ');
            }
            rest = rest.get(len..).unwrap_or_default();
        }
        if self.single_spaces {
            out.truncate(out.trim_end_matches(space).len());
        }
        if self.dummy_space && self.space_after_word {
            out.push(space);
        }
        Ok(out)
    }

    /// The replacement of the next characters, and their length in bytes.
    fn replace<'a>(
        &'a self,
        text: &'a str,
        tokens: &TokenBytes,
        symbols: &TokenIndex,
        work: &mut Work,
    ) -> Result<Option<(&'a str, usize)>, TokenizerError> {
        if let Some((len, _)) = symbols.longest(tokens, text.as_bytes(), work)? {
            return Ok(text.get(..len).map(|symbol| (symbol, len)));
        }
        // An entry of the table can end inside a character only in a broken table; then the character stays.
        let entry = self.map.as_ref().and_then(|map| map.longest(text.as_bytes()));
        if let Some((len, replacement)) = entry.filter(|(len, _)| text.is_char_boundary(*len)) {
            return Ok(Some((replacement, len)));
        }
        let Some(len) = text.chars().next().map(char::len_utf8) else { return Ok(None) };
        Ok(text.get(..len).map(|character| (character, len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::charsmap::tests::table;

    fn normalized(normalizer: &Normalizer, text: &str) -> String {
        normalizer
            .normalize(text, &TokenBytes::default(), &TokenIndex::default(), &mut Work::new(text.len()).unwrap())
            .unwrap()
    }

    #[test]
    fn spaces_follow_the_flags() {
        let all = Normalizer::default();
        assert_eq!(normalized(&all, "  a   b "), "▁a▁b");
        assert_eq!(normalized(&all, "   "), "");
        assert_eq!(normalized(&all, ""), "");
        let suffix = Normalizer { space_after_word: true, ..Normalizer::default() };
        assert_eq!(normalized(&suffix, " a  b "), "a▁b▁");
        let kept = Normalizer { single_spaces: false, ..Normalizer::default() };
        assert_eq!(normalized(&kept, "  a  b "), "▁▁▁a▁▁b▁");
        let plain = Normalizer { dummy_space: false, visible_spaces: false, ..Normalizer::default() };
        assert_eq!(normalized(&plain, " a  b"), "a b");
    }

    #[test]
    fn characters_are_replaced_but_not_in_symbols_of_the_user() {
        let map = CharsMap::read(&table(&[(b'A', 0), (b'\t', 2)], "a\0 \0")).unwrap();
        let normalizer = Normalizer { map: Some(map), ..Normalizer::default() };
        assert_eq!(normalized(&normalizer, "AB\t\tA"), "▁aB▁a");
        let mut tokens = TokenBytes::default();
        tokens.push(b"<A>");
        let symbols = TokenIndex::new(&tokens, tokens.ids()).unwrap();
        assert_eq!(normalizer.normalize("A<A>A", &tokens, &symbols, &mut Work::new(5).unwrap()).unwrap(), "▁a<A>a");
    }
}
