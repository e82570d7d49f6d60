//! Escaped text from files, for messages.

use std::fmt::{self, Write};

/// The most characters of a name.
const NAME: usize = 80;
/// The most characters of a sentence that may contain several names.
const SENTENCE: usize = 320;

/// Text from a file, formatted as one line: truncated, and with control characters escaped. `{:?}` adds quotes.
///
/// ```
/// use pteron_format::EscapedText;
///
/// assert_eq!(format!("{:?}", EscapedText::name("forward")), "\"forward\"");
/// assert_eq!(format!("{}", EscapedText::name("\u{1b}[2J")), "\\u{1b}[2J");
/// assert!(format!("{}", EscapedText::name(&"a".repeat(1 << 20))).ends_with("aaa… (1048576 bytes)"));
/// ```
#[derive(Clone, Copy)]
pub struct EscapedText<'a> {
    text: &'a str,
    most: usize,
}

impl<'a> EscapedText<'a> {
    /// A name: of a method, an operator, a key.
    #[must_use]
    pub fn name(text: &'a str) -> Self {
        Self { text, most: NAME }
    }

    /// A sentence, or a part of one, in which names may occur.
    #[must_use]
    pub fn sentence(text: &'a str) -> Self {
        Self { text, most: SENTENCE }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, quoted: bool) -> fmt::Result {
        let mut shown = 0;
        for (at, c) in self.text.char_indices() {
            let plain = matches!(c, '\'') || (!quoted && matches!(c, '"' | '\\'));
            shown += if plain { 1 } else { c.escape_debug().count() };
            // Saying that text is omitted takes a few characters, too.
            if shown > self.most && self.text.len() - at > 4 {
                return write!(f, "… ({} bytes)", self.text.len());
            }
            if plain { f.write_char(c)? } else { c.escape_debug().try_for_each(|c| f.write_char(c))? }
        }
        Ok(())
    }
}

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl fmt::Debug for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.write(f, true)?;
        f.write_char('"')
    }
}

/// Formats the first few names as a list.
#[must_use]
pub fn escaped_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const MOST: usize = 3;
    let more = names.len().saturating_sub(MOST);
    let mut list: Vec<String> = names.take(MOST).map(|name| EscapedText::name(name).to_string()).collect();
    if more > 0 {
        list.push(format!("{more} more"));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_unchanged() {
        let text = "it's a \"wing\" \\ ä";
        assert_eq!(EscapedText::sentence(text).to_string(), text);
        assert_eq!(format!("{:?}", EscapedText::name(text)), "\"it's a \\\"wing\\\" \\\\ ä\"");
    }

    #[test]
    fn long_text_is_truncated_by_its_escaped_length() {
        assert_eq!(EscapedText::name(&"ä".repeat(80)).to_string(), "ä".repeat(80));
        assert_eq!(EscapedText::name(&"ä".repeat(100)).to_string(), "ä".repeat(80) + "… (200 bytes)");
        let odd = "\u{10ffff}".repeat(50);
        assert_eq!(EscapedText::name(&odd).to_string().matches("\\u{10ffff}").count(), 8);
    }

    #[test]
    fn nothing_shown_drives_a_terminal() {
        for hostile in ["\u{1b}[2J", "\n", "\r", "\u{7}", "\u{9b}1m", "\u{202e}", "\u{2028}", "\0"] {
            let text = EscapedText::sentence(hostile).to_string();
            assert!(text.chars().all(|c| c.is_ascii_graphic()), "{hostile:?}: {text:?}");
        }
    }

    #[test]
    fn many_names_are_the_first_and_a_count() {
        assert_eq!(escaped_names(["a", "b"].into_iter()), "a, b");
        assert_eq!(escaped_names(["a", "b", "c", "d", "e"].into_iter()), "a, b, c, 2 more");
    }
}
