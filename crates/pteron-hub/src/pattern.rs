//! Patterns of file names, as Hugging Face's tools have them: `*` also matches `/`.

/// Whether a pattern of `*`, `?` and other characters matches a whole text. The work is at most the product of their lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut from) = (0, 0);
    // The last star, and the text after what it has taken so far.
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(character) if *character == '?' || *character == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, from) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|character| *character == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks_match() {
        for (pattern, text) in [
            ("*.pte", "a/b.pte"),
            ("*", ""),
            ("a?c", "abc"),
            ("*q4*", "x/model-q4.pte"),
            ("**a", "ba"),
            ("a*b*c", "axbxbc"),
            ("ä?", "äß"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("*.pte", "a.ptd"), ("a", "ab"), ("", "a"), ("?", ""), ("a*b", "ac")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn hostile_patterns_take_little_work() {
        assert!(!matches(&"*a".repeat(500), &"a".repeat(400)));
        assert!(!matches(&format!("{}b", "*a".repeat(300)), &"a".repeat(20_000)));
    }
}
