//! Stop conditions: strings and tokens that end a generation.

use crate::tokenizer::TokenId;

/// Strings and tokens that end a generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StopConditions {
    strings: Vec<String>,
    tokens: Vec<TokenId>,
}

/// An invalid stop string.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// An empty string, which matches everywhere.
    #[error("stop string {index} is empty: leave it out, or give at least one character")]
    Empty {
        /// Its index, counted from 0.
        index: usize,
    },
    /// Too many bytes of stop strings: each token is compared with all of them.
    #[error("the stop strings have {bytes} bytes together, but may have {most}: give fewer or shorter ones")]
    TooLong {
        /// The number of bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

/// The most bytes that all stop strings of a generation may have together.
pub const MAX_STOP: usize = 64 << 10;

impl StopConditions {
    /// Creates stop conditions from strings and tokens.
    ///
    /// # Errors
    /// An empty string, or more than [`MAX_STOP`] bytes of strings.
    pub fn new(strings: Vec<String>, mut tokens: Vec<TokenId>) -> Result<Self, StopError> {
        if let Some(index) = strings.iter().position(String::is_empty) {
            return Err(StopError::Empty { index });
        }
        let bytes = strings.iter().map(String::len).fold(0, usize::saturating_add);
        if bytes > MAX_STOP {
            return Err(StopError::TooLong { bytes, most: MAX_STOP });
        }
        tokens.sort_unstable();
        tokens.dedup();
        Ok(Self { strings, tokens })
    }

    /// Whether this token ends the generation. Its text is not shown.
    #[must_use]
    pub fn is_stop_token(&self, id: TokenId) -> bool {
        self.tokens.binary_search(&id).is_ok()
    }

    /// The strings, in the order given.
    #[must_use]
    pub fn strings(&self) -> &[String] {
        &self.strings
    }

    /// The tokens, in ascending order.
    #[must_use]
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Creates a filter for the text of one generation.
    #[must_use]
    pub fn filter(&self) -> StopFilter {
        StopFilter { strings: self.strings.clone(), held: String::new(), matched: None }
    }
}

/// Passes text through until a stop string is complete.
///
/// Text is held back only while it could still be the start of a stop string. The stop string that ends first counts, and of
/// those that end at the same byte the longest, so the result does not depend on how the text is split.
#[derive(Clone, Debug)]
pub struct StopFilter {
    strings: Vec<String>,
    held: String,
    matched: Option<usize>,
}

impl StopFilter {
    /// Adds text and returns the text that may be shown now: none after a match.
    pub fn push(&mut self, text: &str) -> String {
        if self.matched.is_some() {
            return String::new();
        }
        let checked = self.held.len();
        self.held.push_str(text);
        if let Some((start, index)) = self.first_match(checked) {
            self.matched = Some(index);
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let kept = self.held.split_off(self.partial_match_start());
        std::mem::replace(&mut self.held, kept)
    }

    /// The index of the stop string that matched.
    #[must_use]
    pub fn matched(&self) -> Option<usize> {
        self.matched
    }

    /// Returns the text that was held back. No text follows, so it is not a stop string.
    #[must_use]
    pub fn finish(self) -> String {
        self.held
    }

    /// The start and index of the first stop string to end. The first bytes have been searched before.
    fn first_match(&self, checked: usize) -> Option<(usize, usize)> {
        let text = self.held.as_bytes();
        (checked + 1..=text.len()).find_map(|end| {
            let ending = self.strings.iter().enumerate().filter(|(_, stop)| text[..end].ends_with(stop.as_bytes()));
            let (index, stop) = ending.max_by_key(|(index, stop)| (stop.len(), std::cmp::Reverse(*index)))?;
            Some((end - stop.len(), index))
        })
    }

    /// The start of the longest suffix of the text that is a prefix of a stop string.
    fn partial_match_start(&self) -> usize {
        let longest = self.strings.iter().map(|stop| stop.len() - 1).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let candidate =
            |at: &usize| self.held.get(*at..).is_some_and(|end| self.strings.iter().any(|stop| stop.starts_with(end)));
        (from..self.held.len()).find(candidate).unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stop(strings: &[&str]) -> StopConditions {
        StopConditions::new(strings.iter().map(|&text| text.to_owned()).collect(), Vec::new()).unwrap()
    }

    /// The text shown for each piece and for the end, and the string that was hit.
    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<usize>) {
        let mut filter = stop(strings).filter();
        let mut shown: Vec<_> = pieces.iter().map(|piece| filter.push(piece)).collect();
        let matched = filter.matched();
        shown.push(filter.finish());
        (shown, matched)
    }

    #[test]
    fn a_stop_string_over_three_tokens_is_never_shown() {
        let (shown, hit) = run(&["<end>"], &["hello <", "en", "d> more", "after"]);
        assert_eq!((shown.concat().as_str(), hit), ("hello ", Some(0)));
        assert_eq!(shown, ["hello ", "", "", "", ""]);
    }

    #[test]
    fn text_that_cannot_become_a_stop_string_is_released_at_once() {
        let (shown, hit) = run(&["<end>"], &["a<", "en", "x", "<e"]);
        assert_eq!((shown, hit), (vec!["a".into(), "".into(), "<enx".into(), "".into(), "<e".into()], None));
    }

    #[test]
    fn an_overlapping_start_is_not_lost() {
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]).0.concat(), "a");
        assert_eq!(run(&["ababc"], &["abab", "abc!"]), (vec!["".into(), "ab".into(), "".into()], Some(0)));
    }

    #[test]
    fn the_string_that_ends_first_counts_and_the_longest_of_those() {
        assert_eq!(run(&["abc", "b"], &["xabc"]), (vec!["xa".into(), "".into()], Some(1)));
        assert_eq!(run(&["b", "ab", "ab"], &["xab"]), (vec!["x".into(), "".into()], Some(1)));
    }

    #[test]
    fn characters_stay_whole() {
        assert_eq!(run(&["日本"], &["x日", "月"]), (vec!["x".into(), "日月".into(), "".into()], None));
    }

    #[test]
    fn without_stop_strings_all_passes() {
        assert_eq!(run(&[], &["a", "b"]).0, ["a", "b", ""]);
    }

    #[test]
    fn stop_tokens_are_sorted_and_empty_strings_rejected() {
        let stop = StopConditions::new(Vec::new(), vec![7, 2, 7]).unwrap();
        assert!(stop.is_stop_token(2) && stop.is_stop_token(7) && !stop.is_stop_token(3));
        assert_eq!(stop.tokens(), [2, 7]);
        let error = StopConditions::new(vec!["x".into(), String::new()], Vec::new()).unwrap_err();
        assert_eq!(error, StopError::Empty { index: 1 });
        assert!(error.to_string().contains("stop string 1 is empty"));
    }

    #[test]
    fn oversized_stop_strings_are_rejected() {
        let error = StopConditions::new(vec!["a".repeat(MAX_STOP), "b".to_owned()], Vec::new()).unwrap_err();
        assert_eq!(error, StopError::TooLong { bytes: MAX_STOP + 1, most: MAX_STOP });
        // At the limit, a text that could always become the stop string takes no more than it must.
        let mut filter = stop(&[&("a".repeat(MAX_STOP - 1) + "b")]).filter();
        for _ in 0..64 {
            filter.push(&"a".repeat(2000));
        }
        assert_eq!((filter.matched(), filter.finish().len()), (None, MAX_STOP - 1));
    }

    proptest! {
        #[test]
        fn chunk_borders_do_not_matter(
            strings in prop::collection::vec("[abé]{1,4}", 0..4),
            pieces in prop::collection::vec("[abcé]{0,3}", 0..12),
        ) {
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            let (shown, hit) = run(&strings, &pieces);
            let shown = shown.concat();
            let (at_once, same_hit) = run(&strings, &[&whole]);
            prop_assert_eq!((at_once.concat(), same_hit), (shown.clone(), hit));
            prop_assert!(strings.iter().all(|stop| !shown.contains(stop)));
            match hit {
                None => prop_assert_eq!(shown, whole),
                Some(index) => prop_assert!(whole[shown.len()..].starts_with(strings[index])),
            }
        }

        #[test]
        fn no_more_is_held_back_than_a_start_of_a_stop_string(
            strings in prop::collection::vec("[ab]{1,4}", 1..4),
            text in "[abc]{0,12}",
        ) {
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let mut filter = stop(&strings).filter();
            filter.push(&text);
            let held = filter.finish();
            prop_assert!(held.is_empty() || strings.iter().any(|stop| stop.starts_with(&held) && *stop != held));
        }
    }
}
