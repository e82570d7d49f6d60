//! Regular expressions with a limit on the number of steps.
//!
//! Tokenizers split texts with patterns from their files. A pattern can take exponential time, so matching charges each step to
//! the [`Work`] of the call and fails after too many. The syntax is that of the `regex-syntax` crate with look-ahead, look-behind
//! of a fixed length, atomic groups and possessive repetition in addition. Backreferences are rejected.
//!
//! Files are written for Oniguruma with the syntax of Ruby, and patterns have its meaning: `^` and `$` match the start and the end
//! of a line, `{1,3}+` repeats a repetition, `\w` and `[[:punct:]]` are its classes, `\h` is a hexadecimal digit.

mod compile;
mod matcher;
mod rewrite;
#[cfg(test)]
mod tests;

use std::ops::Range;

use compile::Program;
use matcher::Matcher;
pub(super) use matcher::is_word;

use super::TokenizerError;
use super::work::Work;

/// The longest pattern in bytes; those in use have less than a thousand.
const MAX_PATTERN: usize = 8 << 10;
/// The deepest nesting of groups.
const MAX_DEPTH: u32 = 48;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    program: Program,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The reason, if the pattern is malformed.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN {
            return Err(format!("a pattern has {} bytes; at most {MAX_PATTERN} work", pattern.len()));
        }
        let plain = rewrite::to_plain(pattern);
        let mut parser = regex_syntax::ParserBuilder::new().nest_limit(MAX_DEPTH).multi_line(true).build();
        // The text of its errors is several lines long and shows all of the pattern.
        let hir = parser.parse(&plain).map_err(|error| format!("a pattern cannot be read: {}", kind(&error)))?;
        Ok(Self { program: Program::new(&hir)? })
    }

    /// Splits a text into matches, for which the flag is true, and the parts between them.
    pub(super) fn cut(&self, text: &str, work: &mut Work) -> Result<Vec<(Range<usize>, bool)>, TokenizerError> {
        let mut machine = Matcher::new(&self.program, text);
        let (mut parts, mut done, mut from) = (Vec::new(), 0, 0);
        let mut last = None;
        while let Some(found) = machine.find(from, work)? {
            from = found.end;
            if found.is_empty() {
                let next = text.get(found.end..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8);
                from += next;
                // Nothing is not found once more where the last match has ended.
                if last == Some(found.end) {
                    continue;
                }
            }
            last = Some(found.end);
            if done < found.start {
                parts.push((done..found.start, false));
            }
            done = found.end;
            parts.push((found, true));
        }
        if done < text.len() {
            parts.push((done..text.len(), false));
        }
        Ok(parts)
    }
}

fn kind(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        _ => "its syntax is not known".to_owned(),
    }
}
