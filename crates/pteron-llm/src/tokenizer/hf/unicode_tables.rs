//! Characters that are newer than the tables by which the `tokenizers` library normalizes texts (Unicode 9).

use unicode_normalization::char::is_combining_mark;

/// Characters that those tables lack and newer ones normalise or classify as marks. Both leave the characters between unchanged.
const NEWER: [(char, char); 48] = [
    ('\u{558}', '\u{558}'),
    ('\u{58B}', '\u{58C}'),
    ('\u{5C8}', '\u{5C9}'),
    ('\u{7FD}', '\u{7FD}'),
    ('\u{897}', '\u{8D3}'),
    ('\u{9FE}', '\u{9FE}'),
    ('\u{AFA}', '\u{AFF}'),
    ('\u{B53}', '\u{B55}'),
    ('\u{C04}', '\u{C3C}'),
    ('\u{CF3}', '\u{D00}'),
    ('\u{D3B}', '\u{D3C}'),
    ('\u{D81}', '\u{D81}'),
    ('\u{EBA}', '\u{EBA}'),
    ('\u{ECE}', '\u{ECE}'),
    ('\u{1715}', '\u{1715}'),
    ('\u{180F}', '\u{180F}'),
    ('\u{1ABF}', '\u{1AF0}'),
    ('\u{1CF7}', '\u{1CF7}'),
    ('\u{1DF6}', '\u{1DFA}'),
    ('\u{209D}', '\u{209F}'),
    ('\u{32FF}', '\u{32FF}'),
    ('\u{A7F1}', '\u{A7F4}'),
    ('\u{A82C}', '\u{A82C}'),
    ('\u{A8FF}', '\u{A8FF}'),
    ('\u{AB69}', '\u{AB69}'),
    ('\u{105C9}', '\u{107BF}'),
    ('\u{10D24}', '\u{10F85}'),
    ('\u{11070}', '\u{11074}'),
    ('\u{110C2}', '\u{110C2}'),
    ('\u{11145}', '\u{11146}'),
    ('\u{111C9}', '\u{111C9}'),
    ('\u{111CE}', '\u{111CF}'),
    ('\u{11241}', '\u{11241}'),
    ('\u{1133B}', '\u{1133B}'),
    ('\u{11382}', '\u{113E2}'),
    ('\u{1145E}', '\u{1145E}'),
    ('\u{1182C}', '\u{11B67}'),
    ('\u{11D31}', '\u{1612F}'),
    ('\u{16D63}', '\u{16F4F}'),
    ('\u{16F7F}', '\u{16F87}'),
    ('\u{16FE4}', '\u{1B126}'),
    ('\u{1CCD6}', '\u{1D128}'),
    ('\u{1D250}', '\u{1D281}'),
    ('\u{1D6A6}', '\u{1D6A6}'),
    ('\u{1DF95}', '\u{1DFFF}'),
    ('\u{1E030}', '\u{1E6F5}'),
    ('\u{1F16C}', '\u{1F16C}'),
    ('\u{1FBF0}', '\u{1FBF9}'),
];

fn is_newer(character: char) -> bool {
    let after = NEWER.partition_point(|(_, high)| *high < character);
    NEWER.get(after).is_some_and(|(low, _)| *low <= character)
}

/// Whether the library calls a character a mark. Two have stopped to be marks since.
pub(super) fn is_mark(character: char) -> bool {
    matches!(character, '\u{1CF2}' | '\u{1CF3}') || is_combining_mark(character) && !is_newer(character)
}

/// A part of a text: one that is normalized by itself, or a character that stays as it is.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Known(&'a str),
    Newer(char),
}

/// The text cut at newer characters. Old tables take them for unassigned ones, which nothing moves across or combines with.
pub(super) fn cut(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let next = rest.chars().next()?;
        if is_newer(next) {
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
            return Some(Part::Newer(next));
        }
        let (known, after) = rest.split_at(rest.find(is_newer).unwrap_or(rest.len()));
        rest = after;
        Some(Part::Known(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_newer_characters() {
        let parts: Vec<_> = cut("aé\u{32FF}\u{A7F4}b").collect();
        let expected = [Part::Known("aé"), Part::Newer('\u{32FF}'), Part::Newer('\u{A7F4}'), Part::Known("b")];
        assert_eq!(parts, expected);
        assert_eq!(cut("").next(), None);
        assert!(NEWER.iter().zip(&NEWER[1..]).all(|(a, b)| a.0 <= a.1 && a.1 < b.0));
    }

    #[test]
    fn every_character_is_normalized_as_the_library_does() {
        use tokenizers::{NormalizedString, Normalizer as _, NormalizerWrapper};
        for kind in ["NFC", "NFD", "NFKC", "NFKD", "StripAccents"] {
            let part = serde_json::json!({"type": kind});
            let theirs: NormalizerWrapper = serde_json::from_value(part.clone()).unwrap();
            let ours = super::super::normalizer::Normalizer::new(Some(&part)).unwrap();
            let all: Vec<char> = ('\0'..=char::MAX).collect();
            for some in all.chunks(1 << 10) {
                // Between marks of two classes, and alone.
                let text: String =
                    some.iter().flat_map(|character| ['a', '\u{301}', *character, '\u{316}', *character]).collect();
                let mut normalized = NormalizedString::from(text.as_str());
                theirs.normalize(&mut normalized).unwrap();
                let mut work = crate::tokenizer::work::Work::new(text.len()).unwrap();
                assert_eq!(ours.apply(&text, &mut work).unwrap().0, normalized.get(), "{kind} {:?}", some[0]);
            }
        }
    }
}
