//! Candidate tokens, and the filters top-k, top-p and min-p.

use std::cmp::Ordering;

use crate::tokenizer::TokenId;

/// A candidate token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: TokenId,
    /// The logit after penalties, bias and temperature.
    pub(super) logit: f64,
    /// Proportional to its probability; 1 for the most likely token.
    pub(super) weight: f64,
}

/// Most likely first; of equal ones the smallest id.
pub(super) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token))
}

/// Keeps the `count` most likely tokens, in order.
pub(super) fn keep_top_k(candidates: &mut Vec<Candidate>, count: usize) {
    sort_best(candidates, count);
    candidates.truncate(count);
}

/// Keeps the fewest most likely tokens whose weights sum to at least this fraction of the total, in order.
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

/// Keeps tokens whose weight is at least this fraction of the largest.
pub(super) fn keep_min_p(candidates: &mut Vec<Candidate>, part: f64) {
    candidates.retain(|candidate| candidate.weight >= part);
}

/// The sum of the weights, always taken in the same order.
pub(super) fn total(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(|candidate| candidate.weight).sum()
}

/// The candidate at this fraction, from 0 to less than 1, of the total weight.
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

/// Moves the `count` most likely tokens to the front, in order.
fn sort_best(candidates: &mut [Candidate], count: usize) {
    let best = if count < candidates.len() {
        candidates.select_nth_unstable_by(count, by_rank);
        candidates.get_mut(..count).unwrap_or_default()
    } else {
        candidates
    };
    best.sort_unstable_by(by_rank);
}
