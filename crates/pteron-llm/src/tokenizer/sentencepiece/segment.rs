//! Splits a text into pieces: the most likely segmentation (unigram), or by merging pairs (BPE).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;

use super::model::{Model, Use};
use crate::tokenizer::TokenizerError;
use crate::tokenizer::merge::{Symbol, merge};
use crate::tokenizer::work::Work;

/// Places in a text and the pieces that are there.
type Pieces = Vec<(Range<usize>, u32)>;

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The best way from the start of a text to some place in it.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    start: usize,
    id: u32,
}

/// The most likely pieces of a normalised text, with their places.
///
/// Scores are added in the precision that `SentencePiece` uses, so that ties fall the same way.
pub(super) fn unigram(model: &Model, text: &str, work: &mut Work) -> Result<Pieces, TokenizerError> {
    let mut best: Vec<Option<Best>> = vec![None; text.len() + 1];
    for (start, character) in text.char_indices() {
        let here = best[start].map_or(0.0, |best| best.score);
        let mut offer = |len: usize, score: f64, id: u32| {
            let slot = &mut best[start + len];
            if slot.is_none_or(|best| score > f64::from(best.score)) {
                *slot = Some(Best { score: to_f32(score), start, id });
            }
        };
        let mut single = false;
        let mut prefixes = model.pieces.prefixes(&model.tokens, &text.as_bytes()[start..]);
        for (len, id) in prefixes.by_ref() {
            let score = match model.purpose(id) {
                Some(Use::Unused) => continue,
                // Always better than any other way to write the same.
                Some(Use::UserDefined) => f64::from(small(len) * model.best_score) - 0.1,
                _ => f64::from(model.score(id)),
            };
            offer(len, score + f64::from(here), id);
            single |= len == character.len_utf8();
        }
        work.step(prefixes.depth())?;
        if !single {
            let score = model.worst_score - UNKNOWN_PENALTY + here;
            offer(character.len_utf8(), f64::from(score), model.unknown);
        }
    }
    Ok(walk_back(&best))
}

fn walk_back(best: &[Option<Best>]) -> Pieces {
    let mut pieces = Vec::new();
    let mut end = best.len() - 1;
    while let Some(Best { start, id, .. }) = best[end].filter(|best| best.start < end) {
        pieces.push((start..end, id));
        end = start;
    }
    pieces.reverse();
    pieces
}

#[expect(clippy::cast_possible_truncation, reason = "rounding to single precision is what is wanted")]
fn to_f32(score: f64) -> f32 {
    score as f32
}

/// The length of a piece, which is at most some thousand, as a float.
fn small(len: usize) -> f32 {
    u16::try_from(len).map_or(f32::from(u16::MAX), f32::from)
}

/// The pieces of a normalised text after all merges, with their places.
pub(super) fn bpe(model: &Model, text: &str, work: &mut Work) -> Result<Pieces, TokenizerError> {
    let bytes = text.as_bytes();
    // Where the halves of pieces met that are only steps on the way to longer ones.
    let mut halves = HashMap::new();
    let ranges = merge(symbols(model, text, work)?, |range, middle| {
        let piece = bytes.get(range.clone())?;
        let id = model.pieces.find(&model.tokens, piece)?;
        if model.purpose(id) == Some(Use::Unused) {
            halves.insert(piece, middle - range.start);
        }
        Some(Reverse(Score(model.score(id))))
    });
    let mut pieces = Vec::new();
    let mut open: Vec<Range<usize>> = ranges.into_iter().rev().collect();
    while let Some(range) = open.pop() {
        let piece = &bytes[range.clone()];
        let id = model.id(piece);
        match halves.get(piece).filter(|_| model.purpose(id) == Some(Use::Unused)) {
            Some(&half) => open.extend([range.start + half..range.end, range.start..range.start + half]),
            None => pieces.push((range, id)),
        }
    }
    Ok(pieces)
}

/// Characters, and symbols of the user as a whole.
fn symbols(model: &Model, text: &str, work: &mut Work) -> Result<Vec<Symbol>, TokenizerError> {
    let mut symbols = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let symbol = model.symbols.longest(&model.tokens, rest.as_bytes(), work)?.map(|(len, _)| len);
        let len = symbol.or_else(|| rest.chars().next().map(char::len_utf8)).unwrap_or(rest.len());
        at += len;
        symbols.push(Symbol { end: at, frozen: symbol.is_some() });
    }
    Ok(symbols)
}

/// A finite score.
struct Score(f32);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Both zeros are the same score.
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}
