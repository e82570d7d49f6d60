//! CHANGELOG.md in the form of Keep a Changelog: its sections, and whether they have that form.

/// The file, from the repository's root.
pub(crate) const FILE: &str = "CHANGELOG.md";
/// The section of what no release has yet.
const UNRELEASED: &str = "Unreleased";
/// The kinds of changes that Keep a Changelog has.
const KINDS: [&str; 6] = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"];

/// A section of second level: one release, or what is not released.
#[derive(Debug, PartialEq)]
pub(crate) struct Section<'a> {
    pub(crate) line: usize,
    /// `Unreleased`, or a version.
    pub(crate) title: &'a str,
    /// As `2026-11-19`; empty where there is none.
    pub(crate) date: &'a str,
    /// Its headings of third level, by line.
    kinds: Vec<(usize, &'a str)>,
    /// Whether it lists a change.
    pub(crate) has_entries: bool,
}

/// Returns the sections in the order of the file.
pub(crate) fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            let (title, date) = heading.split_once(" - ").unwrap_or((heading, ""));
            // `[1.0.0]` is a link to the comparison of two releases.
            let title = title.trim().trim_start_matches('[').trim_end_matches(']');
            sections.push(Section { line: index + 1, title, date: date.trim(), kinds: Vec::new(), has_entries: false });
        } else if let Some(section) = sections.last_mut() {
            if let Some(kind) = line.strip_prefix("### ") {
                section.kinds.push((index + 1, kind.trim()));
            }
            section.has_entries |= line.starts_with("- ");
        }
    }
    sections
}

/// Returns line and sentence of everything that departs from the form.
pub(crate) fn problems(text: &str) -> Vec<(Option<usize>, String)> {
    let sections = sections(text);
    let mut problems = Vec::new();
    if sections.first().is_none_or(|first| first.title != UNRELEASED) {
        let line = sections.first().map(|first| first.line);
        problems.push((line, format!("the first section is called {UNRELEASED:?}, empty or not")));
    }
    for section in &sections {
        let mut say = |line, sentence| problems.push((Some(line), sentence));
        for (line, kind) in section.kinds.iter().filter(|(_, kind)| !KINDS.contains(kind)) {
            say(*line, format!("{kind:?} is none of {}", KINDS.join(", ")));
        }
        if section.title == UNRELEASED {
            continue;
        }
        if version(section.title).is_none() {
            say(section.line, format!("{:?} is neither {UNRELEASED} nor a version such as 0.2.0", section.title));
        }
        if !is_date(section.date) {
            say(section.line, format!("{} has no date: `## {} - YYYY-MM-DD`", section.title, section.title));
        }
        if !section.has_entries {
            say(section.line, format!("{} lists no change", section.title));
        }
    }
    let released = sections.iter().filter_map(|section| Some((section.line, version(section.title)?))).collect::<Vec<_>>();
    for pair in released.windows(2).filter(|pair| pair[0].1 <= pair[1].1) {
        problems.push((Some(pair[1].0), "releases are listed newest first, each once".to_owned()));
    }
    problems
}

/// Why this version cannot be released with this changelog, if so.
pub(crate) fn unreleasable(text: &str, version: &str) -> Option<String> {
    let sections = sections(text);
    if sections.iter().all(|section| section.title != version) {
        return Some(format!("{FILE} has no section `## {version} - YYYY-MM-DD`: rename Unreleased and begin a new one"));
    }
    let first = sections.iter().find(|section| section.title != UNRELEASED)?;
    if first.title != version {
        return Some(format!("the newest release in {FILE} is {}, but the workspace has version {version}", first.title));
    }
    let unreleased = sections.iter().any(|section| section.title == UNRELEASED && section.has_entries);
    unreleased
        .then(|| format!("{FILE} lists changes under Unreleased that {version} would contain: move them to its section"))
}

/// The parts of `1.2.3`, or of `1.2.3-rc.1`, which comes before.
fn version(title: &str) -> Option<(u64, u64, u64, bool, &str)> {
    let (numbers, before) = title.split_once('-').unwrap_or((title, ""));
    let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
    let version = (parts.next()??, parts.next()??, parts.next()??, before.is_empty(), before);
    parts.next().is_none().then_some(version)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |index: usize, digits: usize| {
        let part = parts.get(index).filter(|part| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        part.parse::<u32>().ok()
    };
    let (year, month, day) = (number(0, 4), number(1, 2), number(2, 2));
    parts.len() == 3
        && year.is_some()
        && month.is_some_and(|month| (1..=12).contains(&month))
        && day.is_some_and(|day| (1..=31).contains(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-19\n\n### Added\n- A.\n\n## 0.1.0 - 2026-01-02\n### Fixed\n- B.\n";

    fn sentences(text: &str) -> Vec<String> {
        problems(text).into_iter().map(|(_, sentence)| sentence).collect()
    }

    #[test]
    fn the_form_of_keep_a_changelog_is_accepted() {
        assert_eq!(sentences(GOOD), [""; 0]);
        let sections = sections(GOOD);
        let titles: Vec<_> = sections.iter().map(|section| (section.title, section.date, section.line)).collect();
        assert_eq!(titles, [("Unreleased", "", 3), ("0.2.0", "2026-11-19", 5), ("0.1.0", "2026-01-02", 10)]);
        assert_eq!(sections.iter().map(|section| section.has_entries).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn departures_are_named_with_their_lines() {
        assert_eq!(sentences("# Changelog\n").len(), 1, "no section");
        assert_eq!(sentences("## 0.1.0 - 2026-01-02\n- A.\n").len(), 1, "no Unreleased");
        for (section, part) in [
            ("## 0.1.0\n- A.\n", "has no date"),
            ("## 0.1.0 - 2026-13-01\n- A.\n", "has no date"),
            ("## 0.1.0 - 2026-01-02\n", "lists no change"),
            ("## Soon - 2026-01-02\n- A.\n", "neither Unreleased nor a version"),
            ("## 0.1.0 - 2026-01-02\n### New\n- A.\n", "\"New\" is none of Added"),
        ] {
            let text = format!("## Unreleased\n{section}");
            let found = problems(&text);
            assert_eq!(found.len(), 1, "{section}: {found:?}");
            assert!(found[0].1.contains(part) && found[0].0.is_some_and(|line| line > 1), "{found:?}");
        }
    }

    #[test]
    fn releases_are_in_descending_order_and_candidates_before_their_release() {
        let two = |newer: &str, older: &str| {
            sentences(&format!("## Unreleased\n## {newer} - 2026-01-02\n- A.\n## {older} - 2026-01-01\n- B.\n"))
        };
        assert_eq!(two("0.10.0", "0.9.0"), [""; 0]);
        assert_eq!(two("1.0.0", "1.0.0-rc.1"), [""; 0]);
        for (newer, older) in [("0.9.0", "0.10.0"), ("1.0.0", "1.0.0"), ("1.0.0-rc.1", "1.0.0")] {
            assert_eq!(two(newer, older), ["releases are listed newest first, each once"], "{newer} before {older}");
        }
    }

    #[test]
    fn a_release_needs_its_dated_section_and_nothing_left_unreleased() {
        assert_eq!(unreleasable(GOOD, "0.2.0"), None);
        assert!(unreleasable(GOOD, "0.3.0").unwrap().contains("## 0.3.0 - YYYY-MM-DD"));
        assert!(unreleasable(GOOD, "0.1.0").unwrap().contains("newest release"));
        let left = GOOD.replace("[Unreleased]\n", "[Unreleased]\n- C.\n");
        assert!(unreleasable(&left, "0.2.0").unwrap().contains("under Unreleased"));
    }
}
