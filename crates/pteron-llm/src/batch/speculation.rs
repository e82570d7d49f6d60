//! Prompt lookup: drafts the next tokens from an earlier occurrence of the last ones.
//!
//! A draft costs rows and never changes the text: the model samples after every draft token, and drafts count only as far as they
//! equal the samples. Noise depends on seed, position and token alone, so a sample is the same in a verified row as in a decode step.
//!
//! While nothing repeats, the lookup still compares what it would have drafted with the tokens that come, at no cost on the GPU. It
//! drafts once that record is good, and longer the better it is. After drafts of which nothing was right, the record must be better
//! before the next one.

use std::collections::HashMap;

use crate::tokenizer::TokenId;

/// The most draft tokens of a step.
pub const MAX_DRAFT: usize = 8;

/// The number of tokens that must occur earlier.
const NGRAM: usize = 3;

/// The number of right predictions in a row before the first draft, and the most that failed drafts raise it to.
const CONFIDENT: std::ops::RangeInclusive<u32> = 2..=32;

/// Drafts tokens of one sequence.
#[derive(Clone, Debug)]
pub struct PromptLookup {
    /// For each n-gram the position after its last occurrence; the one that ends the history is not among them yet.
    index: HashMap<[TokenId; NGRAM], usize>,
    /// How many tokens of the history the index and the record have seen.
    seen: usize,
    /// The position in the history that predicts the next token.
    source: Option<usize>,
    /// Right predictions in a row.
    streak: u32,
    /// The length of the next draft.
    length: usize,
    /// The right predictions in a row that the next draft needs.
    needed: u32,
}

impl Default for PromptLookup {
    fn default() -> Self {
        Self { index: HashMap::new(), seen: 0, source: None, streak: 0, length: 2, needed: *CONFIDENT.start() }
    }
}

impl PromptLookup {
    /// Creates a lookup that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the tokens that were appended to the history since the last call. After tokens were removed, start anew.
    pub fn observe(&mut self, history: &[TokenId]) {
        while self.seen < history.len() {
            let position = self.seen;
            self.seen += 1;
            let right = self.source.map(|source| history[source] == history[position]);
            self.streak = if right == Some(true) { self.streak + 1 } else { 0 };
            let following = self.seen.checked_sub(NGRAM).and_then(|start| history[start..self.seen].try_into().ok());
            let earlier: Option<usize> = following.and_then(|ngram: [TokenId; NGRAM]| self.index.insert(ngram, self.seen));
            // A source that was right goes on: a later occurrence of the n-gram may end sooner.
            self.source = if right == Some(true) { self.source.map(|source| source + 1) } else { earlier };
        }
    }

    /// Whether drafts are likely to be right, so that waiting for the last token's value pays.
    #[must_use]
    pub fn is_confident(&self) -> bool {
        self.source.is_some() && self.streak >= self.needed
    }

    /// Proposes up to `limit` tokens that follow the history, none if the record is bad.
    #[must_use]
    pub fn propose(&self, history: &[TokenId], limit: usize) -> Vec<TokenId> {
        let Some(source) = self.source.filter(|_| self.is_confident() && self.seen == history.len()) else {
            return Vec::new();
        };
        let length = self.length.min(limit).min(MAX_DRAFT);
        // The draft may run into itself: a history that repeats one token predicts that token on and on.
        let period = history.len() - source;
        (0..length).map(|offset| history[source + offset % period]).collect()
    }

    /// Records how many tokens of a draft were right: the next one is longer if all were, and shorter if not. If none was, it needs
    /// twice as many right predictions before it.
    pub fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        self.needed = match accepted {
            0 => (self.needed * 2).min(*CONFIDENT.end()),
            _ if accepted >= drafted => *CONFIDENT.start(),
            _ => self.needed,
        };
        self.length =
            if accepted >= drafted { (self.length * 2).min(MAX_DRAFT) } else { (accepted + 1).min(self.length).max(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(history: &[TokenId]) -> PromptLookup {
        let mut lookup = PromptLookup::new();
        lookup.observe(history);
        lookup
    }

    #[test]
    fn repeated_text_is_drafted_from_its_first_occurrence() {
        let history = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5];
        let mut lookup = observed(&history);
        assert_eq!(lookup.propose(&history, 8), [6, 7]);
        lookup.record(2, 2);
        assert_eq!(lookup.propose(&history, 8), [6, 7, 8, 9]);
        assert_eq!(lookup.propose(&history, 1), [6]);
        lookup.record(4, 4);
        // After the ninth token the history repeats again.
        assert_eq!(lookup.propose(&history, 8), [6, 7, 8, 9, 1, 2, 3, 4]);
    }

    #[test]
    fn free_text_is_not_drafted() {
        let history: Vec<TokenId> = (0..100).collect();
        assert!(observed(&history).propose(&history, 8).is_empty());
        // One right prediction is not yet a record.
        let history = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4];
        assert!(observed(&history).propose(&history, 8).is_empty());
        assert!(observed(&[]).propose(&[], 8).is_empty());
    }

    #[test]
    fn the_length_follows_the_acceptance_record() {
        let mut lookup = PromptLookup::new();
        let lengths: Vec<usize> = [(2, 2), (4, 4), (8, 8), (8, 3), (4, 0), (1, 1), (0, 0)]
            .into_iter()
            .map(|(drafted, accepted)| {
                lookup.record(drafted, accepted);
                lookup.length
            })
            .collect();
        assert_eq!(lengths, [4, 8, 8, 4, 1, 2, 2]);
    }

    #[test]
    fn drafts_that_fail_need_a_better_record() {
        let history = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5];
        let mut lookup = observed(&history);
        assert!(lookup.is_confident(), "4 and 5 were as before");
        lookup.record(2, 0);
        assert!(!lookup.is_confident());
        let longer = [&history[..], &[6, 7]].concat();
        lookup.observe(&longer);
        assert!(lookup.is_confident(), "so were 6 and 7");
        (0..9).for_each(|_| lookup.record(2, 0));
        assert_eq!(lookup.needed, 32);
        lookup.record(2, 1);
        assert_eq!(lookup.needed, 32);
        lookup.record(1, 1);
        assert_eq!(lookup.needed, 2);
    }

    #[test]
    fn a_repeated_token_is_drafted_on_and_on() {
        let history = [7; 9];
        let mut lookup = observed(&history);
        lookup.record(2, 2);
        lookup.record(4, 4);
        assert_eq!(lookup.propose(&history, 8), [7; 8]);
    }

    #[test]
    fn tokens_may_be_observed_in_any_portions() {
        let history: Vec<TokenId> = (0..200u32).map(|index| index * index % 13).collect();
        let mut lookup = PromptLookup::new();
        for end in [1, 2, 3, 50, 51, 120, 200] {
            lookup.observe(&history[..end]);
            assert_eq!(lookup.propose(&history[..end], 8), observed(&history[..end]).propose(&history[..end], 8));
        }
    }
}
