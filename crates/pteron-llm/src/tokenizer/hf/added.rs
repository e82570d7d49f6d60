//! Added tokens, which are matched in a text before anything else.

use std::collections::HashMap;

use super::model::Vocabulary;
use super::normalizer::Normalizer;
use crate::tokenizer::pattern::is_word;
use crate::tokenizer::vocabulary::{TokenBytes, TokenIndex};
use crate::tokenizer::work::Work;
use crate::tokenizer::{ParseSpecial, TokenizerError};

/// An added token as the file declares it.
#[derive(Clone, Debug, serde::Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    /// Whether it matches as a whole word only.
    single_word: bool,
    /// Whether spaces before it belong to it.
    lstrip: bool,
    /// Whether spaces after it belong to it.
    rstrip: bool,
    /// Whether it matches in the normalised text.
    normalized: bool,
    pub(super) special: bool,
}

/// The tokens by id, and how they are found.
#[derive(Debug, Default)]
pub(super) struct Added {
    tokens: Vec<AddedToken>,
    by_id: HashMap<u32, usize>,
    by_name: HashMap<String, u32>,
    /// The token's spelling in normalised text, if it differs from its name.
    rewritten: HashMap<u32, String>,
    /// The tokens that match in the original text, and those that match in the normalised text.
    plain: Finder,
    normalized: Finder,
}

/// A part of a text, and whether the text starts with it.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text { text: &'a str, at_start: bool },
    Token(u32),
}

/// Names of tokens, matched leftmost-longest.
#[derive(Debug, Default)]
struct Finder {
    names: TokenBytes,
    index: TokenIndex,
    /// For each name, the index of its token.
    tokens: Vec<usize>,
    /// Whether any name starts with this byte.
    starts: Vec<bool>,
}

impl Finder {
    fn new(named: &[(&str, usize)]) -> Result<Self, String> {
        let mut finder = Self { starts: vec![false; 256], ..Self::default() };
        // A token that normalises to nothing never matches.
        for (name, token) in named.iter().filter(|(name, _)| !name.is_empty()) {
            finder.names.push(name.as_bytes());
            finder.tokens.push(*token);
            if let Some(start) = name.bytes().next().and_then(|byte| finder.starts.get_mut(usize::from(byte))) {
                *start = true;
            }
        }
        finder.index = TokenIndex::new(&finder.names, finder.names.ids())
            .map_err(|_| "two added tokens are the same once they are normalized")?;
        Ok(finder)
    }

    /// The longest name that a text starts with: its length and the index of its token.
    fn find(&self, text: &[u8], work: &mut Work) -> Result<Option<(usize, usize)>, TokenizerError> {
        let first = text.first().and_then(|byte| self.starts.get(usize::from(*byte)));
        if first != Some(&true) {
            return Ok(None);
        }
        let longest = self.index.longest(&self.names, text, work)?;
        let index = longest.and_then(|(len, name)| Some((len, usize::try_from(name).ok()?)));
        Ok(index.and_then(|(len, name)| Some((len, *self.tokens.get(name)?))))
    }
}

impl Added {
    /// # Errors
    /// A token whose id is not the one that is due, or that cannot be told from another.
    pub(super) fn new(file: Vec<AddedToken>, vocabulary: &Vocabulary, normalizer: &Normalizer) -> Result<Self, String> {
        let mut added = Self::default();
        let length = file.iter().map(|token| token.content.len()).sum();
        let mut work = Work::new(length).map_err(|_| "its added tokens are too long")?;
        let mut next = u32::try_from(vocabulary.len()).unwrap_or(u32::MAX);
        for token in file.into_iter().filter(|token| !token.content.is_empty()) {
            let known = added.by_name.get(&token.content).copied().or_else(|| vocabulary.id(&token.content));
            let due = known.unwrap_or(next);
            next = next.saturating_add(u32::from(known.is_none()));
            if due != token.id {
                let (id, name) = (token.id, &token.content);
                return Err(format!("its added token {name:?} has the id {id}, but by its place in the file that is {due}"));
            }
            let rewritten = if token.normalized {
                let text = normalizer.apply(&token.content, &mut work);
                let text = text.map_err(|_| "its normalizer makes its added tokens too long")?.0.into_owned();
                Some(text).filter(|text| *text != token.content)
            } else {
                None
            };
            match rewritten {
                Some(text) => added.rewritten.insert(due, text),
                None => added.rewritten.remove(&due),
            };
            added.by_name.insert(token.content.clone(), due);
            // A repeated token replaces the first one.
            match added.by_id.get(&due).and_then(|index| added.tokens.get_mut(*index)) {
                Some(place) => *place = token,
                None => {
                    added.by_id.insert(due, added.tokens.len());
                    added.tokens.push(token);
                }
            }
        }
        added.index()?;
        Ok(added)
    }

    fn index(&mut self) -> Result<(), String> {
        let (mut plain, mut normalized) = (Vec::new(), Vec::new());
        for (index, token) in self.tokens.iter().enumerate() {
            let name = self.rewritten.get(&token.id).unwrap_or(&token.content).as_str();
            if token.normalized { &mut normalized } else { &mut plain }.push((name, index));
        }
        (self.plain, self.normalized) = (Finder::new(&plain)?, Finder::new(&normalized)?);
        Ok(())
    }

    pub(super) fn get(&self, id: u32) -> Option<&AddedToken> {
        self.tokens.get(*self.by_id.get(&id)?)
    }

    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The token's spelling in normalised text, which decoders undo.
    pub(super) fn spelling(&self, id: u32) -> Option<&str> {
        let token = self.get(id)?;
        Some(self.rewritten.get(&id).unwrap_or(&token.content))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AddedToken> {
        self.tokens.iter()
    }

    /// Splits a text at the tokens that match before normalisation.
    pub(super) fn split_plain<'a>(
        &self,
        text: &'a str,
        parse: ParseSpecial,
        work: &mut Work,
    ) -> Result<Vec<Part<'a>>, TokenizerError> {
        self.split(&self.plain, text, parse, true, work)
    }

    /// Splits a normalised text at the tokens that match after normalisation.
    pub(super) fn split_normalized<'a>(
        &self,
        text: &'a str,
        parse: ParseSpecial,
        at_start: bool,
        work: &mut Work,
    ) -> Result<Vec<Part<'a>>, TokenizerError> {
        self.split(&self.normalized, text, parse, at_start, work)
    }

    fn split<'a>(
        &self,
        finder: &Finder,
        text: &'a str,
        parse: ParseSpecial,
        at_start: bool,
        work: &mut Work,
    ) -> Result<Vec<Part<'a>>, TokenizerError> {
        let (mut parts, mut done, mut at) = (Vec::new(), 0, 0);
        let until = |to: usize, from: usize, parts: &mut Vec<Part<'a>>| {
            let before = text.get(from..to).filter(|before| !before.is_empty());
            parts.extend(before.map(|text| Part::Text { text, at_start: at_start && from == 0 }));
        };
        work.step(text.len())?;
        while at < text.len() {
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let Some((len, index)) = finder.find(rest, work)? else {
                at += 1;
                continue;
            };
            let (start, end) = (at, at + len);
            at = end;
            let Some(token) = self.tokens.get(index) else { continue };
            if token.special && parse == ParseSpecial::No || token.single_word && !is_single(text, start, end) {
                continue;
            }
            // What a token before it has taken does not come back.
            let spaces =
                text.get(done..start).filter(|_| token.lstrip).map_or(0, |before| before.len() - before.trim_end().len());
            let start = start - spaces;
            let end = if token.rstrip { trimmed(text, end) } else { end };
            until(start, done, &mut parts);
            parts.push(Part::Token(token.id));
            // Spaces that it has taken can still be a token of their own, as the library has it.
            done = end;
        }
        until(text.len(), done, &mut parts);
        Ok(parts)
    }
}

/// Whether no word touches this part of a text.
fn is_single(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).and_then(|text| text.chars().next_back());
    let after = text.get(end..).and_then(|text| text.chars().next());
    !before.is_some_and(is_word) && !after.is_some_and(is_word)
}

/// The first place from here on that is no space.
fn trimmed(text: &str, from: usize) -> usize {
    text.get(from..).map_or(from, |rest| from + (rest.len() - rest.trim_start().len()))
}
