//! Joins the bytes of tokens to text in whole characters.

/// The number of replacement characters for invalid UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Broken {
    /// One per sequence that could have become a character, as `String::from_utf8_lossy` does.
    #[default]
    EachSequence,
    /// One per byte, as `SentencePiece` does.
    EachByte,
}

/// Characters trimmed at the ends of the whole text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Trim {
    /// The character that is trimmed.
    pub(crate) content: char,
    /// The most at the start.
    pub(crate) start: usize,
    /// The most at the end.
    pub(crate) end: usize,
}

/// Joins pieces of text and of bytes. Holds back an unfinished character, and trailing characters that will be trimmed if nothing
/// follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detokenizer {
    broken: Broken,
    trim: Trim,
    /// The start of a character, at most three bytes.
    pending: Vec<u8>,
    /// How many of the trimmed character are held back.
    held: usize,
    /// Whether a token has been joined; which ones count, their kind decides.
    pub(crate) started: bool,
    /// Whether the space that stands for the start of a text has been dropped or cannot come any more.
    pub(crate) past_prefix: bool,
}

impl Detokenizer {
    /// A detokenizer for a new text.
    pub(crate) fn new(broken: Broken, trim: Trim) -> Self {
        Self { broken, trim, ..Self::default() }
    }

    /// Joins bytes that need not be whole characters.
    pub(crate) fn bytes(&mut self, bytes: &[u8], out: &mut String) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let mut rest = pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => return self.emit(text, out),
                Err(error) => {
                    let (valid, broken) = rest.split_at(error.valid_up_to());
                    self.emit(std::str::from_utf8(valid).unwrap_or_default(), out);
                    let Some(len) = error.error_len() else {
                        self.pending = broken.to_vec();
                        return;
                    };
                    self.replace(len, out);
                    rest = broken.get(len..).unwrap_or_default();
                }
            }
        }
    }

    /// Joins text. An unfinished character before it will never be finished.
    pub(crate) fn text(&mut self, text: &str, out: &mut String) {
        if !text.is_empty() {
            self.flush(out);
            self.emit(text, out);
        }
    }

    /// Says that nothing follows.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.flush(out);
        let held = std::mem::take(&mut self.held);
        out.extend(std::iter::repeat_n(self.trim.content, held.saturating_sub(self.trim.end)));
    }

    /// Whether bytes wait for the rest of their character.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Says that an unfinished character will never be finished.
    pub(crate) fn flush(&mut self, out: &mut String) {
        if self.is_pending() {
            let len = std::mem::take(&mut self.pending).len();
            self.replace(len, out);
        }
    }

    fn replace(&mut self, len: usize, out: &mut String) {
        let count = if self.broken == Broken::EachByte { len } else { 1 };
        for _ in 0..count {
            self.emit("\u{FFFD}", out);
        }
    }

    fn emit(&mut self, mut text: &str, out: &mut String) {
        let Trim { content, start, end } = self.trim;
        if text.is_empty() {
            return;
        }
        if start > 0 {
            let after = text.chars().take(start).take_while(|&c| c == content).count();
            text = text.get(after * content.len_utf8()..).unwrap_or_default();
            self.trim.start = if text.is_empty() { start - after } else { 0 };
        }
        if end == 0 {
            out.push_str(text);
            return;
        }
        let kept = text.trim_end_matches(content);
        if !kept.is_empty() {
            out.extend(std::iter::repeat_n(content, std::mem::take(&mut self.held)));
            out.push_str(kept);
        }
        self.held += (text.len() - kept.len()) / content.len_utf8();
        // More than will be trimmed can be shown at once.
        let surplus = self.held.saturating_sub(end);
        out.extend(std::iter::repeat_n(content, surplus));
        self.held -= surplus;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn joined(mut detokenizer: Detokenizer, parts: &[Vec<u8>]) -> String {
        let mut out = String::new();
        for part in parts {
            detokenizer.bytes(part, &mut out);
        }
        detokenizer.finish(&mut out);
        out
    }

    #[test]
    fn a_character_appears_when_its_last_byte_does() {
        let (mut detokenizer, mut out) = (Detokenizer::default(), String::new());
        for (byte, expected) in "aé🪽".bytes().zip(["a", "a", "aé", "aé", "aé", "aé", "aé🪽"]) {
            detokenizer.bytes(&[byte], &mut out);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn malformed_sequences_are_replaced_per_sequence_or_byte() {
        let broken = [vec![0xE6, 0x97], b"a".to_vec(), vec![0xFF, 0xF0, 0x9F]];
        assert_eq!(joined(Detokenizer::default(), &broken), "\u{FFFD}a\u{FFFD}\u{FFFD}");
        let each = Detokenizer::new(Broken::EachByte, Trim::default());
        assert_eq!(joined(each, &broken), "\u{FFFD}\u{FFFD}a\u{FFFD}\u{FFFD}\u{FFFD}");
    }

    #[test]
    fn text_ends_an_unfinished_character() {
        let (mut detokenizer, mut out) = (Detokenizer::default(), String::new());
        detokenizer.bytes(&[0xE6, 0x97], &mut out);
        detokenizer.text("", &mut out);
        assert_eq!(out, "");
        detokenizer.text("b", &mut out);
        assert_eq!(out, "\u{FFFD}b");
    }

    #[test]
    fn trimming_does_not_depend_on_chunk_borders() {
        let trim = Trim { content: ' ', start: 2, end: 2 };
        let whole = |parts: &[&str]| {
            let parts: Vec<_> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
            joined(Detokenizer::new(Broken::default(), trim), &parts)
        };
        assert_eq!(whole(&["   a b   "]), " a b ");
        assert_eq!(whole(&[" ", " ", " ", "a", " ", "b", " ", " ", " "]), " a b ");
        assert_eq!(whole(&["a", " "]), "a");
        assert_eq!(whole(&[" ", "  "]), "");
    }

    proptest! {
        #[test]
        fn any_cut_of_any_bytes_is_the_lossy_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..5), 0..20)) {
            let whole = parts.concat();
            prop_assert_eq!(joined(Detokenizer::default(), &parts), String::from_utf8_lossy(&whole));
        }

        #[test]
        fn any_cut_of_a_text_is_the_text(text in ".*", at in any::<prop::sample::Index>()) {
            let (head, tail) = text.as_bytes().split_at(at.index(text.len() + 1));
            prop_assert_eq!(joined(Detokenizer::default(), &[head.to_vec(), tail.to_vec()]), text);
        }
    }
}
