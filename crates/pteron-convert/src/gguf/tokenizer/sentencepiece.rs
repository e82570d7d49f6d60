//! `SentencePiece`'s tokens as Hugging Face has them. One joins two neighbours if the result has a better score than all other
//! results; the other follows a list of merges. The list is made from the scores, the best first.

use std::cmp::Reverse;

use super::super::cursor::shown;
use super::vocabulary::{Token, TokenType, Vocabulary};

/// The longest token that is taken apart. Real ones have some dozen bytes; the limit bounds the time that this takes.
const LONGEST: usize = 512;
/// How many merges there may be for each token. Real tokens have two or three; the limit bounds what hostile ones lead to.
const MOST_MERGES: usize = 32;

/// Every way to make a token from two others, the first to be followed first.
pub(super) fn merges<'a>(vocabulary: &Vocabulary<'a>) -> Result<Vec<(&'a str, &'a str)>, String> {
    let normal = |token: &Token<'_>| token.token_type == TokenType::Normal;
    let find = |text| vocabulary.find(text).filter(normal);
    let mut merges: Vec<(Token<'a>, Token<'a>, f64)> = Vec::new();
    for token in vocabulary.tokens.iter().filter(|&token| normal(token)) {
        let text = token.text;
        if text.len() > LONGEST {
            return Err(format!("token {} ({}) has {} bytes, more than {LONGEST}", token.id, shown(text), text.len()));
        }
        let first = merges.len();
        for (end, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(end);
            if let (Some(left), Some(right)) = (find(left), find(right)) {
                merges.push((left, right, token.score));
            }
        }
        merges[first..].sort_by_key(|(left, right, _)| (left.id, right.id));
        if merges.len() > MOST_MERGES * vocabulary.tokens.len() {
            return Err(format!("its {} tokens can be merged in too many ways", vocabulary.tokens.len()));
        }
    }
    // Stable: where scores and lengths are equal, the earlier token comes first.
    let length = |token: &Token<'_>| Reverse(token.text.chars().count());
    merges.sort_by(|(left, right, score), (other_left, other_right, other_score)| {
        let lengths = (length(left), length(right)).cmp(&(length(other_left), length(other_right)));
        other_score.total_cmp(score).then(lengths)
    });
    Ok(merges.into_iter().map(|(left, right, _)| (left.text, right.text)).collect())
}
