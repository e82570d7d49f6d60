//! Tokens that may be chosen, and the rules that leave some of them.

use std::cmp::Ordering;

use crate::tokenizer::TokenId;

/// A token that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: TokenId,
    /// After penalties, bias and temperature.
    pub(super) logit: f64,
    /// In proportion to its probability; the most likely has 1.
    pub(super) weight: f64,
}

/// Most likely first; of equal ones the smallest id.
pub(super) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Keeps the `count` best, in order.
pub(super) fn keep_top_k(candidates: &mut Vec<Candidate>, count: usize) {
    sort_best(candidates, count);
    candidates.truncate(count);
}

/// Keeps the fewest of the best whose weights are at least this part of all, in order.
pub(super) fn keep_top_p(candidates: &mut Vec<Candidate>, part: f64) {
    if part >= 1.0 {
        return;
    }
    let goal = part * total(candidates);
    // Mostly a few tokens are enough; sorting all would take most of the time.
    let mut sorted = 64;
    loop {
        sort_best(candidates, sorted);
        let mut sum = 0.0;
        let enough = candidates.iter().take(sorted).position(|candidate| {
            sum += candidate.weight;
            sum >= goal
        });
        match enough {
            Some(last) => return candidates.truncate(last + 1),
            None if sorted >= candidates.len() => return,
            None => sorted *= 8,
        }
    }
}

/// Keeps those that are at least this part of the most likely one.
pub(super) fn keep_min_p(candidates: &mut Vec<Candidate>, part: f64) {
    candidates.retain(|candidate| candidate.weight >= part);
}

/// The sum of the weights, always taken in the same order.
pub(super) fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|candidate| candidate.weight).sum()
}

/// The candidate at this part, from 0 to less than 1, of all weights.
pub(super) fn pick(candidates: &[Candidate], part: f64) -> Option<Candidate> {
    let mut left = part * total(candidates);
    let mut last = None;
    for candidate in candidates.iter().filter(|candidate| candidate.weight > 0.0) {
        last = Some(*candidate);
        if left < candidate.weight {
            break;
        }
        left -= candidate.weight;
    }
    last
}

/// Moves the `count` best to the front, in order.
fn sort_best(candidates: &mut [Candidate], count: usize) {
    let best = if count < candidates.len() {
        candidates.select_nth_unstable_by(count, by_rank);
        candidates.get_mut(..count).unwrap_or_default()
    } else {
        candidates
    };
    best.sort_unstable_by(by_rank);
}
