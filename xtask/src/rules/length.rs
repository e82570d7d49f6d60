//! A file that one cannot read in one sitting is split, or says here why not.

use super::{File, Violation, has_extension};

const MAX_LINES: usize = 500;

/// Longer files, each with the reason.
static LONG_FILES: &[(&str, &str)] = &[];

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    check_with(files, LONG_FILES)
}

fn check_with(files: &[File], long_files: &[(&str, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut excused = Vec::new();
    for file in files.iter().filter(|file| has_extension(&file.path, &["rs", "wgsl", "py", "ts", "mjs", "css"])) {
        let lines = file.text.as_deref().unwrap_or_default().lines().count();
        if lines <= MAX_LINES {
            continue;
        }
        match long_files.iter().find(|(path, _)| *path == file.path) {
            Some((path, _)) => excused.push(*path),
            None => {
                let message = format!("{lines} lines, more than {MAX_LINES}: split it by what its parts do");
                violations.push(Violation::new(&file.path, None, message));
            }
        }
    }
    for (path, reason) in long_files {
        if reason.is_empty() {
            violations.push(Violation::new(path, None, "listed as a long file without a reason"));
        }
        if !excused.contains(path) {
            violations.push(Violation::new(path, None, "listed as a long file but is none: drop the entry"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, lines: usize) -> File {
        File::with_text(path, "line\n".repeat(lines))
    }

    #[test]
    fn the_limit_itself_is_allowed() {
        assert_eq!(check_with(&[file("a.rs", MAX_LINES), file("b.wgsl", 3)], &[]), []);
        let violations = check_with(&[file("a.rs", MAX_LINES + 1), file("b.py", MAX_LINES + 1)], &[]);
        assert_eq!(violations.len(), 2);
        assert!(violations[0].to_string().starts_with("a.rs: 501 lines"));
    }

    #[test]
    fn other_kinds_of_files_may_be_long() {
        assert_eq!(check_with(&[file("README.md", 2 * MAX_LINES)], &[]), []);
    }

    #[test]
    fn an_exception_needs_a_reason_and_a_long_file() {
        let files = [file("long.rs", MAX_LINES + 1), file("short.rs", 1)];
        assert_eq!(check_with(&files, &[("long.rs", "one table")]), []);
        assert_eq!(check_with(&files, &[("long.rs", "")]).len(), 1);
        assert_eq!(check_with(&files, &[("long.rs", "one table"), ("short.rs", "once long")]).len(), 1);
        assert_eq!(check_with(&files, &[("long.rs", "one table"), ("gone.rs", "deleted")]).len(), 1);
    }
}
