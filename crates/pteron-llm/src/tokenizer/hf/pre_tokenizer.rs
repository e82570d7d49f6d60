//! The pre-tokenizers of `tokenizer.json`, which split a text into pieces before tokens are looked up.

use std::ops::Range;

use serde_json::Value;

use super::fields::{character, find_pattern, flag, flatten, kind, known};
use super::normalizer::{Wanted, byte_character};
use crate::tokenizer::TokenizerError;
use crate::tokenizer::pattern::Pattern;
use crate::tokenizer::work::Work;

const NAMES: &[&str] = &["ByteLevel", "Digits", "Metaspace", "Punctuation", "Split", "Whitespace", "WhitespaceSplit"];

/// The pattern by which GPT-2 splits texts, the default of byte-level tokenizers.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Words, and what stands between words and spaces, by the sets of the `regex` crate.
const WORDS: &str = concat!(
    r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+",
    r"|[^\s\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+",
);

/// The handling of a delimiter.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum PrependSpace {
    Never,
    First,
    Always,
}

#[derive(Debug)]
enum Step {
    /// Bytes become characters, after a cut by the pattern where there is one.
    ByteLevel {
        prefix_space: bool,
        pattern: Option<Pattern>,
    },
    Metaspace {
        space: char,
        prepend: PrependSpace,
        split: bool,
    },
    Split {
        at: Wanted,
        behavior: Behavior,
        invert: bool,
    },
    SplitAt(fn(char) -> bool, Behavior),
}

/// The steps by which a text is cut.
#[derive(Debug, Default)]
pub(super) struct PreTokenizer {
    steps: Vec<Step>,
}

/// A text and where its pieces end. None is empty, and there is nothing between them.
#[derive(Debug, PartialEq)]
pub(super) struct Pieces {
    text: String,
    ends: Vec<usize>,
    /// Whether the first piece is where the whole text started.
    at_start: bool,
}

impl Pieces {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).filter_map(|(start, end)| self.text.get(*start..*end))
    }

    fn push(&mut self, piece: &str, work: &mut Work) -> Result<(), TokenizerError> {
        if !piece.is_empty() {
            // The end of a piece takes memory, too.
            work.write(piece.len().saturating_add(size_of::<usize>()))?;
            self.text.push_str(piece);
            self.ends.push(self.text.len());
        }
        Ok(())
    }
}

impl PreTokenizer {
    pub(super) fn new(part: Option<&Value>) -> Result<Self, String> {
        let parts = flatten("pre-tokenizer", part, "pretokenizers")?;
        Ok(Self { steps: parts.into_iter().map(step).collect::<Result<_, _>>()? })
    }

    /// The pieces of a text, which stands at the start of the whole text or not.
    pub(super) fn apply(&self, text: &str, at_start: bool, work: &mut Work) -> Result<Pieces, TokenizerError> {
        let mut pieces = Pieces { text: String::new(), ends: Vec::new(), at_start };
        pieces.push(text, work)?;
        for step in &self.steps {
            work.step(pieces.text.len())?;
            pieces = step.apply(&pieces, work)?;
        }
        Ok(pieces)
    }
}

fn step(part: &Value) -> Result<Step, String> {
    known("pre-tokenizer", part, NAMES)?;
    Ok(match kind(part) {
        "ByteLevel" => {
            let use_regex = part.get("use_regex").and_then(Value::as_bool).unwrap_or(true);
            let pattern = use_regex.then(|| Pattern::new(GPT_2)).transpose()?;
            Step::ByteLevel { prefix_space: flag(part, "add_prefix_space")?, pattern }
        }
        "Digits" => {
            let each = flag(part, "individual_digits")?;
            Step::SplitAt(char::is_numeric, if each { Behavior::Isolated } else { Behavior::Contiguous })
        }
        "Metaspace" => metaspace(part)?,
        "Punctuation" => {
            let behavior = part.get("behavior").map_or(Ok(Behavior::Isolated), behavior)?;
            let pattern = Pattern::new(r"[\p{P}$+<=>^`|~]")?;
            Step::Split { at: Wanted::Pattern(pattern), behavior, invert: false }
        }
        "Split" => Step::Split {
            at: find_pattern("pre-tokenizer", part)?,
            behavior: behavior(part.get("behavior").unwrap_or(&Value::Null))?,
            invert: flag(part, "invert")?,
        },
        "Whitespace" => {
            let at = Wanted::Pattern(Pattern::new(WORDS)?);
            Step::Split { at, behavior: Behavior::Removed, invert: true }
        }
        _ => Step::SplitAt(char::is_whitespace, Behavior::Removed),
    })
}

fn metaspace(part: &Value) -> Result<Step, String> {
    let space = character(part, "replacement").ok_or("its Metaspace pre-tokenizer has no replacement character")?;
    let scheme = part.get("prepend_scheme").and_then(Value::as_str);
    let prefix = part.get("add_prefix_space").and_then(Value::as_bool);
    let prepend = match (scheme, prefix) {
        (Some("never"), _) => PrependSpace::Never,
        (_, Some(false)) => return Err("its Metaspace pre-tokenizer contradicts itself about spaces in front".to_owned()),
        (Some("first"), _) => PrependSpace::First,
        (Some("always") | None, _) => PrependSpace::Always,
        (Some(_), _) => return Err("its Metaspace pre-tokenizer has a prepend_scheme that is not known".to_owned()),
    };
    Ok(Step::Metaspace { space, prepend, split: part.get("split").and_then(Value::as_bool).unwrap_or(true) })
}

fn behavior(value: &Value) -> Result<Behavior, String> {
    Ok(match value.as_str() {
        Some("Removed") => Behavior::Removed,
        Some("Isolated") => Behavior::Isolated,
        Some("MergedWithPrevious") => Behavior::MergedWithPrevious,
        Some("MergedWithNext") => Behavior::MergedWithNext,
        Some("Contiguous") => Behavior::Contiguous,
        _ => return Err("its pre-tokenizer has a behavior that is not known".to_owned()),
    })
}

impl Step {
    fn apply(&self, pieces: &Pieces, work: &mut Work) -> Result<Pieces, TokenizerError> {
        let mut out = Pieces { text: String::new(), ends: Vec::new(), at_start: pieces.at_start };
        let mut first = pieces.at_start;
        for piece in pieces.iter() {
            match self {
                Self::ByteLevel { prefix_space, pattern } => {
                    byte_level(piece, *prefix_space, pattern.as_ref(), &mut out, work)?;
                }
                Self::Metaspace { space, prepend, split } => {
                    let wanted = *prepend == PrependSpace::Always || *prepend == PrependSpace::First && first;
                    metaspaced(piece, *space, wanted, *split, &mut out, work)?;
                }
                Self::Split { at, behavior, invert } => {
                    let mut parts = at.cut(piece, work)?;
                    parts.iter_mut().for_each(|(_, found)| *found ^= invert);
                    split(piece, parts, *behavior, &mut out, work)?;
                }
                Self::SplitAt(wanted, behavior) => split(piece, cut_at(piece, wanted), *behavior, &mut out, work)?,
            }
            first = false;
        }
        Ok(out)
    }
}

fn byte_level(
    piece: &str,
    prefix_space: bool,
    pattern: Option<&Pattern>,
    out: &mut Pieces,
    work: &mut Work,
) -> Result<(), TokenizerError> {
    let spaced = if prefix_space && !piece.starts_with(' ') { Some(format!(" {piece}")) } else { None };
    let piece = spaced.as_deref().unwrap_or(piece);
    let parts = match pattern {
        Some(pattern) => pattern.cut(piece, work)?,
        None => vec![(0..piece.len(), true)],
    };
    for (range, _) in parts {
        let part = piece.as_bytes().get(range).unwrap_or_default();
        work.write(2 * part.len() + size_of::<usize>())?;
        out.text.extend(part.iter().map(|byte| byte_character(*byte)));
        out.ends.extend(Some(out.text.len()).filter(|_| !part.is_empty()));
    }
    Ok(())
}

fn metaspaced(
    piece: &str,
    space: char,
    prepend: bool,
    split_words: bool,
    out: &mut Pieces,
    work: &mut Work,
) -> Result<(), TokenizerError> {
    work.write(piece.len().saturating_mul(space.len_utf8()))?;
    let mut text: String = piece.chars().map(|character| if character == ' ' { space } else { character }).collect();
    if prepend && !text.starts_with(space) {
        text.insert(0, space);
    }
    if !split_words {
        return out.push(&text, work);
    }
    split(&text, cut_at(&text, |character| character == space), Behavior::MergedWithNext, out, work)
}

/// The text cut into characters that are wanted, for which the flag is true, and what lies between.
fn cut_at(text: &str, wanted: impl Fn(char) -> bool) -> Vec<(Range<usize>, bool)> {
    let (mut parts, mut done) = (Vec::new(), 0);
    for (start, character) in text.char_indices().filter(|(_, character)| wanted(*character)) {
        if done < start {
            parts.push((done..start, false));
        }
        done = start + character.len_utf8();
        parts.push((start..done, true));
    }
    if done < text.len() {
        parts.push((done..text.len(), false));
    }
    parts
}

/// Puts the parts of a piece together as the behavior says. A part whose flag is true is where the text was cut.
fn split(
    piece: &str,
    parts: Vec<(Range<usize>, bool)>,
    behavior: Behavior,
    out: &mut Pieces,
    work: &mut Work,
) -> Result<(), TokenizerError> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    let mut before = false;
    let mut join = |range: Range<usize>, found: bool, with_last: fn(bool, bool) -> bool, backwards: bool| {
        let last = joined.last_mut().filter(|_| with_last(found, before));
        match last {
            Some(last) if backwards => last.start = range.start,
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
        before = found;
    };
    match behavior {
        Behavior::Removed => joined.extend(parts.into_iter().filter(|(_, found)| !found).map(|(range, _)| range)),
        Behavior::Isolated => joined.extend(parts.into_iter().map(|(range, _)| range)),
        Behavior::Contiguous => {
            parts.into_iter().for_each(|(range, found)| join(range, found, |now, then| now == then, false));
        }
        Behavior::MergedWithPrevious => {
            parts.into_iter().for_each(|(range, found)| join(range, found, |now, then| now && !then, false));
        }
        Behavior::MergedWithNext => {
            parts.into_iter().rev().for_each(|(range, found)| join(range, found, |now, then| now && !then, true));
            joined.reverse();
        }
    }
    if out.ends.is_empty() {
        out.at_start &= joined.first().is_some_and(|range| range.start == 0);
    }
    joined.into_iter().try_for_each(|range| out.push(piece.get(range).unwrap_or_default(), work))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_pre_tokenizers_are_rejected() {
        let split = json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated", "invert": false});
        let many = |count| json!({"type": "Sequence", "pretokenizers": vec![split.clone(); count]});
        assert!(PreTokenizer::new(Some(&many(8))).is_ok());
        assert!(PreTokenizer::new(Some(&many(9))).unwrap_err().contains("9 regular expressions"));
        let error = PreTokenizer::new(Some(&json!({"type": "FixedLength", "length": 0}))).unwrap_err();
        assert!(error.contains("those that work are ByteLevel"), "{error}");
        for broken in [
            json!({"type": "Split", "pattern": {"Regex": "["}, "behavior": "Isolated", "invert": false}),
            json!({"type": "Split", "pattern": {"String": "a"}, "behavior": "Other", "invert": false}),
            json!({"type": "Metaspace", "replacement": "ab"}),
            json!({"type": "Metaspace", "replacement": "a", "prepend_scheme": "always", "add_prefix_space": false}),
            json!({"type": "Digits"}),
        ] {
            assert!(PreTokenizer::new(Some(&broken)).is_err(), "{broken}");
        }
    }
}
