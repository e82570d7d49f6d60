//! The normalizers of `tokenizer.json`, which rewrite a text before it is split.

use std::borrow::Cow;

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use super::fields::{find_pattern, flag, flatten, kind, known, text};
use super::unicode_tables::{self, is_mark};
use crate::tokenizer::TokenizerError;
use crate::tokenizer::base64;
use crate::tokenizer::charsmap::CharsMap;
use crate::tokenizer::pattern::Pattern;
use crate::tokenizer::work::Work;

const NAMES: &[&str] = &[
    "ByteLevel",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Prepend",
    "Replace",
    "Strip",
    "StripAccents",
];

/// The text or pattern that is replaced.
#[derive(Debug)]
pub(super) enum Wanted {
    Text(String),
    Pattern(Pattern),
}

impl Wanted {
    /// Splits a text into matches, for which the flag is true, and the parts between them.
    pub(super) fn cut(&self, text: &str, work: &mut Work) -> Result<Vec<(std::ops::Range<usize>, bool)>, TokenizerError> {
        let wanted = match self {
            Self::Pattern(pattern) => return pattern.cut(text, work),
            Self::Text(wanted) => wanted,
        };
        work.step(text.len())?;
        let (mut parts, mut done) = (Vec::new(), 0);
        for (start, found) in text.match_indices(wanted.as_str()) {
            if done < start {
                parts.push((done..start, false));
            }
            done = start + found.len();
            parts.push((start..done, true));
        }
        if done < text.len() {
            parts.push((done..text.len(), false));
        }
        Ok(parts)
    }
}

#[derive(Debug)]
enum Step {
    ByteLevel,
    Lowercase,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Nmt,
    Precompiled(CharsMap),
    Prepend(String),
    Replace { wanted: Wanted, content: String },
    Strip { left: bool, right: bool },
    StripAccents,
}

/// The steps by which a text is rewritten.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    steps: Vec<Step>,
}

impl Normalizer {
    pub(super) fn new(part: Option<&Value>) -> Result<Self, String> {
        let parts = flatten("normalizer", part, "normalizers")?;
        Ok(Self { steps: parts.into_iter().map(step).collect::<Result<_, _>>()? })
    }

    /// The normalised text, and whether its start is unchanged.
    pub(super) fn apply<'a>(&self, text: &'a str, work: &mut Work) -> Result<(Cow<'a, str>, bool), TokenizerError> {
        let (mut text, mut same_start) = (Cow::Borrowed(text), true);
        for step in &self.steps {
            work.step(text.len())?;
            same_start &= !text.chars().next().is_some_and(|first| step.drops(first));
            if let Some(new) = step.apply(&text, work)? {
                text = Cow::Owned(new);
            }
        }
        Ok((text, same_start))
    }
}

fn step(part: &Value) -> Result<Step, String> {
    known("normalizer", part, NAMES)?;
    Ok(match kind(part) {
        "ByteLevel" => Step::ByteLevel,
        "Lowercase" => Step::Lowercase,
        "NFC" => Step::Nfc,
        "NFD" => Step::Nfd,
        "NFKC" => Step::Nfkc,
        "NFKD" => Step::Nfkd,
        "Nmt" => Step::Nmt,
        "Precompiled" => {
            let table = base64::decode(text(part, "precompiled_charsmap")?.as_bytes());
            Step::Precompiled(CharsMap::read(&table.ok_or("its normalizer's table is not base64")?)?)
        }
        "Prepend" => Step::Prepend(text(part, "prepend")?.to_owned()),
        "Replace" => {
            let wanted = find_pattern("normalizer", part)?;
            Step::Replace { wanted, content: text(part, "content")?.to_owned() }
        }
        "Strip" => Step::Strip { left: flag(part, "strip_left")?, right: flag(part, "strip_right")? },
        _ => Step::StripAccents,
    })
}

impl Step {
    /// Whether this character is left out where a text starts with it.
    fn drops(&self, first: char) -> bool {
        match self {
            Self::Strip { left, .. } => *left && first.is_whitespace(),
            Self::StripAccents => is_mark(first),
            Self::Nmt => nmt(first).is_none(),
            _ => false,
        }
    }

    /// The text after this step; `None` if it stays as it is.
    fn apply(&self, text: &str, work: &mut Work) -> Result<Option<String>, TokenizerError> {
        if text.is_empty() {
            return Ok(None);
        }
        let mut out = Out { text: String::new(), work };
        match self {
            Self::ByteLevel => out.characters(text.bytes().map(byte_character))?,
            Self::Lowercase => out.characters(text.chars().flat_map(char::to_lowercase))?,
            Self::Nfc | Self::Nfd | Self::Nfkc | Self::Nfkd if text.is_ascii() => return Ok(None),
            Self::Nfc => normalized(text, UnicodeNormalization::nfc, &mut out)?,
            Self::Nfd => normalized(text, UnicodeNormalization::nfd, &mut out)?,
            Self::Nfkc => normalized(text, UnicodeNormalization::nfkc, &mut out)?,
            Self::Nfkd => normalized(text, UnicodeNormalization::nfkd, &mut out)?,
            Self::Nmt => out.characters(text.chars().filter_map(nmt))?,
            Self::Precompiled(map) => precompiled(map, text, &mut out)?,
            Self::Prepend(prepend) => {
                out.text(prepend)?;
                out.text(text)?;
            }
            Self::Replace { wanted, content } => {
                for (range, found) in wanted.cut(text, out.work)? {
                    out.text(if found { content } else { text.get(range).unwrap_or_default() })?;
                }
            }
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                out.text(if *right { text.trim_end() } else { text })?;
            }
            Self::StripAccents => out.characters(text.chars().filter(|character| !is_mark(*character)))?,
        }
        Ok(Some(out.text))
    }
}

/// A text that is written as long as the budget lasts.
struct Out<'a> {
    text: String,
    work: &'a mut Work,
}

impl Out<'_> {
    fn text(&mut self, text: &str) -> Result<(), TokenizerError> {
        self.work.write(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    fn characters(&mut self, characters: impl Iterator<Item = char>) -> Result<(), TokenizerError> {
        for character in characters {
            self.work.write(character.len_utf8())?;
            self.text.push(character);
        }
        Ok(())
    }
}

/// Writes a text in a normal form of Unicode.
fn normalized<'a, I: Iterator<Item = char>>(
    text: &'a str,
    form: fn(&'a str) -> I,
    out: &mut Out<'_>,
) -> Result<(), TokenizerError> {
    unicode_tables::cut(text).try_for_each(|part| match part {
        unicode_tables::Part::Known(text) => out.characters(form(text)),
        unicode_tables::Part::Newer(character) => out.characters(std::iter::once(character)),
    })
}

/// The character that represents a byte in byte-level tokens: itself if it is printable in Latin-1; all others are numbered in
/// order from U+0100.
pub(super) fn byte_character(byte: u8) -> char {
    let moved = match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => return byte.into(),
        0..=0x20 => u32::from(byte),
        0x7F..=0xA0 => u32::from(byte) - 0x7F + 0x21,
        _ => 0x43,
    };
    char::from_u32(0x100 + moved).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Normalises control characters and spaces as NMT preprocessing does.
fn nmt(character: char) -> Option<char> {
    match character {
        '\u{1}'..='\u{8}' | '\u{B}' | '\u{E}'..='\u{1F}' | '\u{7F}' | '\u{8F}' | '\u{9F}' => None,
        '\t' | '\n' | '\u{C}' | '\r' | '\u{1680}' | '\u{200B}'..='\u{200F}' | '\u{2028}' | '\u{2029}' => Some(' '),
        '\u{2581}' | '\u{FEFF}' | '\u{FFFD}' => Some(' '),
        _ => Some(character),
    }
}

/// Rewrites by a table of `SentencePiece` as the `tokenizers` crate does: short graphemes as a whole, others by characters.
fn precompiled(map: &CharsMap, text: &str, out: &mut Out<'_>) -> Result<(), TokenizerError> {
    for grapheme in text.graphemes(true) {
        if let Some(new) = map.shortest(grapheme.as_bytes()).filter(|_| grapheme.len() < 6) {
            out.text(new)?;
            continue;
        }
        for (at, character) in grapheme.char_indices() {
            let part = grapheme.get(at..at + character.len_utf8()).unwrap_or_default();
            out.text(map.shortest(part.as_bytes()).unwrap_or(part))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bytes_have_the_characters_that_decoders_know() {
        let mut characters: Vec<char> = (0..=255).map(byte_character).collect();
        characters.sort_unstable();
        let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
        alphabet.sort_unstable();
        assert_eq!(characters, alphabet);
        assert_eq!((byte_character(b' '), byte_character(b'\n'), byte_character(b'a')), ('Ġ', 'Ċ', 'a'));
    }

    #[test]
    fn malformed_normalizers_are_rejected() {
        for broken in [
            json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            json!({"type": "Precompiled", "precompiled_charsmap": "?"}),
            json!({"type": "Replace", "pattern": {"String": ""}, "content": "x"}),
            json!({"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}),
            json!({"type": "Replace", "pattern": {}, "content": "x"}),
            json!({"type": "Prepend"}),
            json!({"type": "Strip"}),
            json!({"type": "Unheard"}),
            json!({}),
            json!([]),
        ] {
            assert!(Normalizer::new(Some(&broken)).is_err(), "{broken}");
        }
    }
}
