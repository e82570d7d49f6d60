//! Dictionaries in libFuzzer's format.

use std::fmt::Write as _;

/// The words, one quoted word per line.
pub(super) fn text(words: &[&str]) -> String {
    let mut text = String::new();
    for word in words {
        text.push('"');
        for byte in word.bytes() {
            match byte {
                b'"' | b'\\' => {
                    text.push('\\');
                    text.push(char::from(byte));
                }
                b' '..=b'~' => text.push(char::from(byte)),
                _ => {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            }
        }
        text.push_str("\"\n");
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn quotes_and_bytes_are_escaped() {
        assert_eq!(super::text(&["a b", "\"x\\", "é\n"]), "\"a b\"\n\"\\\"x\\\\\"\n\"\\xc3\\xa9\\x0a\"\n");
    }
}
