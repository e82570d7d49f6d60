//! The bytes of tokens in one buffer, and a sorted index to look them up.

use super::TokenizerError;
use super::work::Work;

/// The bytes of tokens by id. Takes little more memory than the bytes themselves.
#[derive(Debug, Default)]
pub(super) struct TokenBytes {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl TokenBytes {
    /// Adds the token with the next id.
    pub(super) fn push(&mut self, token: &[u8]) {
        self.bytes.extend_from_slice(token);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// All ids. A file with more tokens than 32 bits can count has been rejected.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        0..u32::try_from(self.ends.len()).unwrap_or(u32::MAX)
    }

    /// The bytes of a token.
    pub(super) fn get(&self, id: u32) -> Option<&[u8]> {
        let index = usize::try_from(id).ok()?;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..end)
    }

    fn slice(&self, id: u32) -> &[u8] {
        self.get(id).unwrap_or_default()
    }
}

/// Ids of tokens, sorted by the tokens' bytes.
#[derive(Debug, Default)]
pub(super) struct TokenIndex {
    sorted: Vec<u32>,
}

impl TokenIndex {
    /// An order over these tokens.
    ///
    /// # Errors
    /// Two ids with the same bytes.
    pub(super) fn new(tokens: &TokenBytes, ids: impl Iterator<Item = u32>) -> Result<Self, (u32, u32)> {
        let mut sorted: Vec<u32> = ids.collect();
        sorted.sort_unstable_by(|&a, &b| tokens.slice(a).cmp(tokens.slice(b)).then(a.cmp(&b)));
        match sorted.windows(2).find(|pair| tokens.slice(pair[0]) == tokens.slice(pair[1])) {
            Some(pair) => Err((pair[0], pair[1])),
            None => Ok(Self { sorted }),
        }
    }

    /// The token that is exactly these bytes.
    pub(super) fn find(&self, tokens: &TokenBytes, bytes: &[u8]) -> Option<u32> {
        let at = self.sorted.binary_search_by(|&id| tokens.slice(id).cmp(bytes)).ok()?;
        self.sorted.get(at).copied()
    }

    /// The tokens that the text starts with, as length and id, shortest first.
    pub(super) fn prefixes<'a>(&'a self, tokens: &'a TokenBytes, text: &'a [u8]) -> Prefixes<'a> {
        Prefixes { tokens, text, depth: 0, range: &self.sorted }
    }

    /// The longest token that the text starts with, as length and id. Each byte that is looked at is a step.
    pub(super) fn longest(
        &self,
        tokens: &TokenBytes,
        text: &[u8],
        work: &mut Work,
    ) -> Result<Option<(usize, u32)>, TokenizerError> {
        let mut prefixes = self.prefixes(tokens, text);
        let longest = prefixes.by_ref().last();
        work.step(prefixes.depth())?;
        Ok(longest)
    }
}

/// An iterator over the tokens that a text starts with.
pub(super) struct Prefixes<'a> {
    tokens: &'a TokenBytes,
    text: &'a [u8],
    depth: usize,
    /// The tokens that start with the first `depth` bytes of the text.
    range: &'a [u32],
}

impl Prefixes<'_> {
    /// How many bytes of the text have been looked at.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }
}

impl Iterator for Prefixes<'_> {
    type Item = (usize, u32);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let byte = *self.text.get(self.depth)?;
            let at = |id: &u32| self.tokens.slice(*id).get(self.depth).copied();
            let from = self.range.partition_point(|id| at(id) < Some(byte));
            let to = self.range.partition_point(|id| at(id) <= Some(byte));
            self.range = self.range.get(from..to)?;
            self.depth += 1;
            // Of tokens with a common prefix, the prefix itself comes first.
            let first = *self.range.first()?;
            if self.tokens.slice(first).len() == self.depth {
                return Some((self.depth, first));
            }
        }
    }
}

/// Special tokens, found in a text by their names.
#[derive(Debug, Default)]
pub(super) struct SpecialTokens {
    names: TokenBytes,
    index: TokenIndex,
    ids: Vec<u32>,
}

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Special(u32),
}

impl SpecialTokens {
    /// # Errors
    /// Two tokens with the same name; they are given by their ids.
    pub(super) fn new<'a>(named: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, (u32, u32)> {
        let mut names = TokenBytes::default();
        let mut ids = Vec::new();
        for (name, id) in named {
            names.push(name.as_bytes());
            ids.push(id);
        }
        let id = |index: u32| usize::try_from(index).ok().and_then(|index| ids.get(index).copied()).unwrap_or(index);
        let index = TokenIndex::new(&names, names.ids()).map_err(|(a, b)| (id(a), id(b)))?;
        Ok(Self { names, index, ids })
    }

    /// The special token of this name.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.id(self.index.find(&self.names, name.as_bytes())?)
    }

    /// All of them, by id as they were given.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.ids.iter().zip(self.names.ids()).map(|(&id, index)| {
            let name = std::str::from_utf8(self.names.slice(index)).unwrap_or_default();
            (id, name)
        })
    }

    fn id(&self, index: u32) -> Option<u32> {
        self.ids.get(usize::try_from(index).ok()?).copied()
    }

    /// Splits a text at special tokens, leftmost-longest.
    pub(super) fn split<'a>(&self, text: &'a str, work: &mut Work) -> Result<Vec<Part<'a>>, TokenizerError> {
        let bytes = text.as_bytes();
        let mut parts = Vec::new();
        let (mut done, mut at) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let longest = self.index.longest(&self.names, rest, work)?;
            let found = longest.and_then(|(len, index)| Some((len, self.id(index)?)));
            let Some((len, id)) = found else {
                at += 1;
                continue;
            };
            parts.extend(text.get(done..at).filter(|text| !text.is_empty()).map(Part::Text));
            parts.push(Part::Special(id));
            at += len;
            done = at;
        }
        parts.extend(text.get(done..).filter(|text| !text.is_empty()).map(Part::Text));
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(words: &[&str]) -> TokenBytes {
        let mut tokens = TokenBytes::default();
        words.iter().for_each(|word| tokens.push(word.as_bytes()));
        tokens
    }

    #[test]
    fn finds_exact_tokens_and_prefixes() {
        let tokens = tokens(&["b", "abc", "a", "ab", "abd", "é"]);
        let index = TokenIndex::new(&tokens, tokens.ids()).unwrap();
        assert_eq!(index.find(&tokens, b"ab"), Some(3));
        assert_eq!(index.find(&tokens, b"abcd"), None);
        assert_eq!(index.prefixes(&tokens, b"abcx").collect::<Vec<_>>(), [(1, 2), (2, 3), (3, 1)]);
        assert_eq!(index.longest(&tokens, b"abx", &mut Work::new(3).unwrap()).unwrap(), Some((2, 3)));
        assert_eq!(index.prefixes(&tokens, b"xyz").next(), None);
        assert_eq!(index.prefixes(&tokens, b"").next(), None);
        assert_eq!((tokens.get(4), tokens.get(6)), (Some(b"abd".as_slice()), None));
    }

    #[test]
    fn the_same_token_twice_is_an_error() {
        let tokens = tokens(&["x", "y", "x"]);
        assert_eq!(TokenIndex::new(&tokens, tokens.ids()).unwrap_err(), (0, 2));
        assert!(TokenIndex::new(&tokens, 1..3).is_ok());
    }

    #[test]
    fn specials_cut_a_text_leftmost_and_longest() {
        let specials = SpecialTokens::new([("<a>", 7), ("<a>b", 8), ("é", 9)]).unwrap();
        let split = |text: &'static str| specials.split(text, &mut Work::new(text.len()).unwrap()).unwrap();
        let parts = split("x<a>y<a>bé");
        let expected = [Part::Text("x"), Part::Special(7), Part::Text("y"), Part::Special(8), Part::Special(9)];
        assert_eq!(parts, expected);
        assert_eq!(split("plain"), [Part::Text("plain")]);
        assert_eq!(split(""), []);
        assert_eq!(specials.find("<a>"), Some(7));
        assert_eq!(specials.iter().collect::<Vec<_>>(), [(7, "<a>"), (8, "<a>b"), (9, "é")]);
    }
}
