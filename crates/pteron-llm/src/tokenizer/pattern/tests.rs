use super::*;

fn work(text: &str) -> Work {
    Work::new(text.len()).unwrap()
}

fn matches<'a>(pattern: &str, text: &'a str) -> Vec<&'a str> {
    let parts = Pattern::new(pattern).unwrap().cut(text, &mut work(text)).unwrap();
    assert_eq!(parts.iter().map(|(range, _)| range.len()).sum::<usize>(), text.len());
    parts.into_iter().filter(|(_, found)| *found).map(|(range, _)| &text[range]).collect()
}

#[test]
fn alternatives_are_tried_in_order_and_repetitions_backtrack() {
    assert_eq!(matches("a|ab|b", "abab"), ["a", "b", "a", "b"]);
    assert_eq!(matches("a+ab", "aaab"), ["aaab"]);
    assert_eq!(matches("a+?b?", "aab"), ["a", "ab"]);
    assert_eq!(matches("(?:ab){2,3}", "abababab"), ["ababab"]);
    assert_eq!(matches("(?:a*)*b", "aab"), ["aab"]);
    assert_eq!(matches("x*", "axxb"), ["", "xx", ""]);
    assert_eq!(matches("(?i)Straße", "STRASSE straßE"), ["straßE"]);
    assert_eq!(matches(r"[^\s[.,]]+", "a, b.c"), ["a", "b", "c"]);
    assert_eq!(matches(r"\p{Lu}\p{Ll}*", "HiThere Éa"), ["Hi", "There", "Éa"]);
    assert_eq!(matches(r"\p{Han}+", "a翼展b"), ["翼展"]);
    assert_eq!(matches(r"^a|b$|\bc", "aab c b"), ["a", "c", "b"]);
}

#[test]
fn look_around_and_atomic_groups() {
    assert_eq!(matches(r"\s+(?!\S)|\s+", "a   b  "), ["  ", " ", "  "]);
    assert_eq!(matches(r"\d{1,3}(?=(?:\d{3})*\b)", "1234567 89"), ["1", "234", "567", "89"]);
    assert_eq!(matches(r"(?<=a)b|(?<!a)c", "abacc"), ["b", "c"]);
    assert_eq!(matches(r"(?<=ab|cd)x", "abx cdx ex"), ["x", "x"]);
    assert_eq!(matches(r"(?>a+)ab|b", "aaab"), ["b"]);
    assert_eq!(matches(r"a++a|b", "aab"), ["b"]);
    assert_eq!(matches(r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}", "ab 12345 c"), ["ab", "123", "45", " c"]);
    assert_eq!(matches(r"(?:(?!b)\w)+", "aab c"), ["aa", "c"]);
    assert_eq!(matches(r"[](?=]+", "a](?=b"), ["](?="]);
    assert_eq!(matches(r"\((?=a)", "(a(b"), ["("]);
}

/// The results are Oniguruma's.
#[test]
fn classes_and_escapes_match_oniguruma() {
    assert_eq!(matches(r"^a|b$", "ab\nab"), ["a", "b", "a", "b"]);
    assert_eq!(matches(r"\s+$|\S+", "a \n b"), ["a", " ", "b"]);
    assert_eq!(matches(r"\d{1,3}+", "12345 6"), ["12345", "6"]);
    assert_eq!(matches(r"\d{2}?", "123"), ["12", ""]);
    assert_eq!(matches(r"\d{1,2}?", "123"), ["1", "2", "3"]);
    assert_eq!(matches(r"\w+", "a½²\u{200D}b_Ⓐ"), ["a½²", "b_Ⓐ"]);
    assert_eq!(matches(r"[^\w\s]+|\W", "a\u{200D}! ½"), ["\u{200D}!", " "]);
    assert_eq!(matches(r"\bb", "½b b"), ["b"]);
    assert_eq!(matches(r"\h+|\H", "afg9"), ["af", "g", "9"]);
    assert_eq!(matches(r"[[:punct:]]+", "a+«€-b"), ["+«€-"]);
    assert_eq!(matches(r"[[:alpha:][:digit:]]+|[[:^alpha:]]", "é٣!"), ["é٣", "!"]);
    assert_eq!(matches(r"[[:space:]]+|[[:upper:]]", "a\u{3000}É"), ["\u{3000}", "É"]);
    assert_eq!(matches(r"[[:xdigit:]:]+", "g:a"), [":a"]);
}

#[test]
fn malformed_and_oversized_patterns_are_rejected() {
    let deep = format!("{}a{}", "(".repeat(5000), ")".repeat(5000));
    let long = "a".repeat(MAX_PATTERN + 1);
    for pattern in [
        "(",
        "[",
        r"(a)\1",
        "(?<=a+)b",
        "(?<=a{999})b",
        r"(?:(?:\w\d){99}){99}",
        "(?:ab?){9999}",
        "*",
        r"\",
        "(?",
        &deep,
        &long,
    ] {
        let error = Pattern::new(pattern).map(|_| ()).unwrap_err();
        assert!(error.starts_with("a pattern ") && error.len() < 200, "{error}");
    }
}

/// Patterns on which engines that go back take time that grows with the power of the text.
#[test]
fn catastrophic_patterns_end_with_an_error() {
    let text = "a".repeat(20_000);
    for pattern in ["(?:a|a)*(?!a)b", "(?:a*)*b", "a*a*a*a*b", "(?:a+)+(?!a)b", "(?:(?=a*b)a)*"] {
        let result = Pattern::new(pattern).unwrap().cut(&text, &mut work(&text));
        assert!(matches!(result, Err(TokenizerError::Steps { .. })), "{pattern}: {result:?}");
    }
    // Where what fails can be remembered, they end.
    for (pattern, found) in [("(?:a|a)*b", 0), ("(?:a|aa)*b", 0), ("(?:a?){100}a{100}", 10)] {
        assert_eq!(matches(pattern, &text[..2000]).len(), found, "{pattern}");
    }
    assert_eq!(matches("(?:a?){500}a{500}", &text[..200]).len(), 0);
    // Those of real tokenizers do not come near the limit, whatever the text.
    for text in ["a".repeat(100_000), " ".repeat(100_000), "a \n".repeat(30_000), "1".repeat(100_000), "'".repeat(100_000)] {
        let pattern = concat!(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        );
        let mut left = work(&text);
        Pattern::new(pattern).unwrap().cut(&text, &mut left).unwrap();
        assert!(left.step(900 * text.len()).is_ok(), "{text:.5}");
    }
}
