//! No placeholders in code, and no ignored test without a reason.

use super::{File, Violation, has_extension};

/// Patterns that Rust code must not contain, in two parts so that this file does not contain them.
static FORBIDDEN: &[(&str, &str)] = &[
    (concat!("todo", "!("), "a placeholder is not finished code"),
    (concat!("unimplemented", "!("), "a placeholder is not finished code; return an error that says what is missing"),
    (concat!("#[ig", "nore]"), "an ignored test gives its reason: `= \"...\"`"),
];

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let sources = files.iter().filter(|file| has_extension(&file.path, &["rs"]));
    sources.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in file.text.as_deref().unwrap_or_default().lines().enumerate() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        let dense: String = line.split_whitespace().collect();
        for (pattern, message) in FORBIDDEN {
            if dense.contains(pattern) {
                violations.push(Violation::new(&file.path, Some(index + 1), *message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> Vec<Option<usize>> {
        check(&[File::with_text("a.rs", text)]).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn placeholders_are_found_where_they_stand() {
        for (pattern, _) in FORBIDDEN {
            assert_eq!(lines_of(&format!("fn f() {{\n    {pattern}\n}}\n")), [Some(2)], "{pattern}");
        }
        assert_eq!(lines_of(concat!("# [ ig", "nore ]")), [Some(1)]);
    }

    #[test]
    fn an_ignored_test_with_a_reason_and_a_comment_are_fine() {
        assert_eq!(lines_of("#[ignore = \"needs a discrete GPU\"]\nfn f() {}\n"), []);
        assert_eq!(lines_of(concat!("    // once a todo", "!() stood here\n")), []);
    }

    #[test]
    fn only_rust_is_read() {
        let notes = File::with_text("notes.md", concat!("todo", "!()"));
        assert_eq!(check(&[notes]), []);
    }
}
