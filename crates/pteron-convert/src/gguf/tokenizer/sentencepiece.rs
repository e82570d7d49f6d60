//! Converts `SentencePiece` BPE scores to a list of merges. `SentencePiece` joins the adjacent pair with the best score;
//! `tokenizer.json` follows a list of merges, ordered here by score.

use std::cmp::Reverse;

use super::super::cursor::shown;
use super::vocabulary::{Token, TokenType, Vocabulary};

/// The longest token to split, in bytes. Real tokens are far shorter; the limit bounds the time.
const LONGEST: usize = 512;
/// The most merges per token. Real tokens have two or three; the limit bounds the memory of hostile files.
const MOST_MERGES: usize = 32;

/// Returns every split of a token into two others, in order of priority.
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
