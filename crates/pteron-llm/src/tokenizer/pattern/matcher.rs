//! Runs a program on a text by backtracking, and counts its steps.

use std::ops::Range;

use regex_syntax::hir::Look;

use super::compile::{Operation, Program};
use crate::tokenizer::TokenizerError;
use crate::tokenizer::work::{MAX_STEPS, Work};

/// An alternative to backtrack to.
#[derive(Clone, Copy, Debug)]
enum Retry {
    /// This operation at this place of the text.
    At(usize, usize),
    /// This operation, with less and less of a run of characters: from the end of the run down to its least.
    Shorter { next: usize, least: usize, end: usize },
    /// The earlier value of a counter.
    Counter(usize, usize),
}

/// The number of pending alternatives allowed for any text, however short.
const FLOOR_RETRIES: usize = 1 << 14;

/// The number of steps without a match after which failures are remembered.
const PATIENCE: usize = 4096;
/// The most bits of memory for failures.
const MAX_FAILED: usize = 1 << 26;

/// A program that is matching a text.
pub(super) struct Matcher<'a> {
    program: &'a Program,
    text: &'a str,
    retries: Vec<Retry>,
    /// Alternatives to backtrack to. They take memory, so their number is bounded.
    most_retries: usize,
    counters: Vec<usize>,
    /// Steps since the last match.
    steps: usize,
    /// One bit per operation and position in the text: set if tried since the last match. Allocated once that is worth it.
    failed: Vec<u64>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(program: &'a Program, text: &'a str) -> Self {
        Self {
            program,
            text,
            retries: Vec::new(),
            most_retries: FLOOR_RETRIES + 4 * text.len(),
            counters: vec![usize::MAX; program.counters],
            steps: 0,
            failed: Vec::new(),
        }
    }

    /// The leftmost match from this place on.
    pub(super) fn find(&mut self, from: usize, work: &mut Work) -> Result<Option<Range<usize>>, TokenizerError> {
        let mut start = from;
        while let Some(rest) = self.text.get(start..) {
            if let Some(end) = self.run(0, start, work)? {
                self.steps = 0;
                self.failed.clear();
                return Ok(Some(start..end));
            }
            start += rest.chars().next().map_or(1, char::len_utf8);
        }
        Ok(None)
    }

    /// Where a match of the operations from `operation` on ends that starts at this place.
    fn run(&mut self, operation: usize, start: usize, work: &mut Work) -> Result<Option<usize>, TokenizerError> {
        let bottom = self.retries.len();
        let (mut operation, mut at) = (operation, start);
        let mut steps = 0;
        let result = loop {
            steps += 1;
            // Charged in parts, so that most steps cost nothing more.
            if steps >= 256 {
                self.steps += steps;
                work.step(std::mem::take(&mut steps))?;
                self.remember();
                if self.retries.len() > self.most_retries {
                    return Err(TokenizerError::Steps { most: MAX_STEPS });
                }
            }
            let program = self.program;
            let next = match program.operations.get(operation) {
                _ if !self.failed.is_empty() && self.has_failed(operation, at) => None,
                None | Some(Operation::Match) => break Some(at),
                Some(Operation::One(set)) => {
                    let character =
                        self.character(at).filter(|c| program.sets.get(*set).is_some_and(|set| set.contains(*c)));
                    character.map(|character| (operation + 1, at + character.len_utf8()))
                }
                Some(Operation::Run { set, least, most }) => self.take(operation + 1, at, *set, (*least, *most), &mut steps),
                Some(Operation::Text(text)) => {
                    steps += text.len() / 32;
                    let here = self.text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
                    here.then(|| (operation + 1, at + text.len()))
                }
                Some(&Operation::Either(first, second)) => {
                    self.retries.push(Retry::At(second, at));
                    Some((first, at))
                }
                Some(&Operation::Jump(to)) => Some((to, at)),
                Some(&Operation::Start { counter }) => {
                    let before = std::mem::replace(self.counters.get_mut(counter).unwrap_or(&mut 0), at);
                    self.retries.push(Retry::Counter(counter, before));
                    Some((operation + 1, at))
                }
                Some(&Operation::Again { counter, to, greedy }) => match self.counters.get(counter) {
                    Some(&from) if from == at => Some((operation + 1, at)),
                    _ => {
                        let (first, second) = if greedy { (to, operation + 1) } else { (operation + 1, to) };
                        self.retries.push(Retry::At(second, at));
                        Some((first, at))
                    }
                },
                Some(&Operation::Assert(look)) => self.holds(look, at).then_some((operation + 1, at)),
                Some(&Operation::Around { back, negative, end }) => {
                    steps += back.unwrap_or(0);
                    let from = self.before(at, back);
                    let found = match from {
                        Some(from) => self.run(operation + 1, from, work)?,
                        None => None,
                    };
                    (found.is_some() != negative).then_some((end, at))
                }
                Some(&Operation::Atomic { end }) => self.run(operation + 1, at, work)?.map(|at| (end, at)),
            };
            match next.or_else(|| self.retry(bottom)) {
                Some(next) => (operation, at) = next,
                None => break None,
            }
        };
        self.retries.truncate(bottom);
        self.steps += steps;
        work.step(steps)?;
        Ok(result)
    }

    /// Begins to remember what has failed, where nothing else has a say in that.
    fn remember(&mut self) {
        let bits = self.program.operations.len().saturating_mul(self.text.len() + 1);
        if self.failed.is_empty() && self.steps >= PATIENCE && self.program.is_plain && bits <= MAX_FAILED {
            self.failed = vec![0; bits.div_ceil(64)];
        }
    }

    /// Whether an operation has been tried at this place before, and has failed; from now on it has.
    fn has_failed(&mut self, operation: usize, at: usize) -> bool {
        let bit = operation * (self.text.len() + 1) + at;
        let Some(word) = self.failed.get_mut(bit / 64) else { return false };
        let mask = 1 << (bit % 64);
        let tried = *word & mask != 0;
        *word |= mask;
        tried
    }

    /// Takes a run of characters of a set; how often it can be and must be repeated is given as `(least, most)`.
    fn take(
        &mut self,
        next: usize,
        at: usize,
        set: usize,
        (least, most): (u32, u32),
        steps: &mut usize,
    ) -> Option<(usize, usize)> {
        let set = self.program.sets.get(set)?;
        let (mut end, mut count, mut shortest) = (at, 0u32, at);
        for character in self.text.get(at..)?.chars() {
            if count == most || !set.contains(character) {
                break;
            }
            end += character.len_utf8();
            count += 1;
            if count == least {
                shortest = end;
            }
        }
        *steps += usize::try_from(count).unwrap_or(usize::MAX);
        if count < least {
            return None;
        }
        if end > shortest {
            self.retries.push(Retry::Shorter { next, least: shortest, end });
        }
        Some((next, end))
    }

    /// The last alternative that is left above the bottom.
    fn retry(&mut self, bottom: usize) -> Option<(usize, usize)> {
        while self.retries.len() > bottom {
            match self.retries.pop()? {
                Retry::At(operation, at) => return Some((operation, at)),
                Retry::Counter(counter, before) => {
                    if let Some(place) = self.counters.get_mut(counter) {
                        *place = before;
                    }
                }
                Retry::Shorter { next, least, end } => {
                    let shorter = end - self.text.get(..end)?.chars().next_back()?.len_utf8();
                    if shorter > least {
                        self.retries.push(Retry::Shorter { next, least, end: shorter });
                    }
                    return Some((next, shorter));
                }
            }
        }
        None
    }

    fn character(&self, at: usize) -> Option<char> {
        self.text.get(at..)?.chars().next()
    }

    /// The position a number of characters before this one.
    fn before(&self, at: usize, back: Option<usize>) -> Option<usize> {
        let Some(back) = back.filter(|back| *back > 0) else { return Some(at) };
        self.text.get(..at)?.char_indices().rev().nth(back - 1).map(|(at, _)| at)
    }

    fn holds(&self, look: Look, at: usize) -> bool {
        let before = || self.text.get(..at).and_then(|text| text.chars().next_back());
        let after = || self.character(at);
        let word = |character: Option<char>, ascii: bool| {
            character.is_some_and(|c| if ascii { c.is_ascii_alphanumeric() || c == '_' } else { is_word_here(c) })
        };
        let sides = |ascii| (word(before(), ascii), word(after(), ascii));
        match look {
            Look::Start => at == 0,
            Look::End => at == self.text.len(),
            Look::StartLF => before().is_none_or(|c| c == '\n'),
            Look::EndLF => after().is_none_or(|c| c == '\n'),
            Look::StartCRLF => before().is_none_or(|c| c == '\n' || c == '\r' && after() != Some('\n')),
            Look::EndCRLF => after().is_none_or(|c| c == '\r' || c == '\n' && before() != Some('\r')),
            Look::WordAscii => sides(true).0 != sides(true).1,
            Look::WordAsciiNegate => sides(true).0 == sides(true).1,
            Look::WordUnicode => sides(false).0 != sides(false).1,
            Look::WordUnicodeNegate => sides(false).0 == sides(false).1,
            Look::WordStartAscii => sides(true) == (false, true),
            Look::WordEndAscii => sides(true) == (true, false),
            Look::WordStartUnicode => sides(false) == (false, true),
            Look::WordEndUnicode => sides(false) == (true, false),
            Look::WordStartHalfAscii => !sides(true).0,
            Look::WordEndHalfAscii => !sides(true).1,
            Look::WordStartHalfUnicode => !sides(false).0,
            Look::WordEndHalfUnicode => !sides(false).1,
        }
    }
}

/// Whether a character belongs to a word for a pattern; see [`super::rewrite::WORD`].
fn is_word_here(character: char) -> bool {
    match character {
        '²' | '³' | '¹' | '¼' | '½' | '¾' => true,
        '\u{200C}' | '\u{200D}' => false,
        _ => is_word(character),
    }
}

/// Whether a character belongs to a word, as `\w` of the `regex` crate says.
pub(in crate::tokenizer) fn is_word(character: char) -> bool {
    regex_syntax::try_is_word_character(character).unwrap_or(false)
}
