//! CHANGELOG.md has the form of Keep a Changelog.

use super::{File, Violation};
use crate::changelog::{FILE, problems};

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let Some(text) = files.iter().find(|file| file.path == FILE).and_then(|file| file.text.as_deref()) else {
        return vec![Violation::new(FILE, None, "is missing")];
    };
    problems(text).into_iter().map(|(line, sentence)| Violation::new(FILE, line, sentence)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_departure_names_file_and_line() {
        let found = |text: &str| check(&[File::with_text(FILE, text)]).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("# Changelog\n\n## Unreleased\n"), [""; 0]);
        assert_eq!(found("## Unreleased\n## 0.1.0\n- A.\n"), ["CHANGELOG.md:2: 0.1.0 has no date: `## 0.1.0 - YYYY-MM-DD`"]);
        assert_eq!(check(&[])[0].to_string(), "CHANGELOG.md: is missing");
    }
}
