//! Paths in a repository. A server sends them, so they are hostile until checked.

use std::path::{Path, PathBuf};

/// Limits of a path, well above what repositories have.
const MOST_BYTES: usize = 1024;
const MOST_PART_BYTES: usize = 240;
const MOST_PARTS: usize = 16;

/// Whether a path stays below the folder it is joined to, on every system: relative, without `.`, `..`, backslashes, drives and control
/// characters.
pub(crate) fn is_repo_path(path: &str) -> bool {
    path.len() <= MOST_BYTES
        && path.split('/').count() <= MOST_PARTS
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != ".." && part.len() <= MOST_PART_BYTES)
        && !path.contains(|character: char| character.is_control() || matches!(character, '\\' | ':'))
}

/// Whether every part can be the name of a file on every system: Windows reserves characters, devices, and names that end with a dot or a
/// space.
pub(crate) fn is_portable(path: &str) -> bool {
    let reserved = |character: char| matches!(character, '<' | '>' | '"' | '|' | '?' | '*');
    is_repo_path(path)
        && !path.contains(reserved)
        && path.split('/').all(|part| !part.ends_with(['.', ' ']) && !is_device(part))
}

/// Whether Windows takes a name for a device, whatever its extension.
pub(crate) fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_uppercase();
    match stem.as_str() {
        "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$" => true,
        numbered => {
            let number = numbered.strip_prefix("COM").or_else(|| numbered.strip_prefix("LPT"));
            number.is_some_and(|number| {
                matches!(number, "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9" | "¹" | "²" | "³")
            })
        }
    }
}

/// The path of a file of the repository below a folder.
pub(crate) fn below(folder: &Path, path: &str) -> PathBuf {
    path.split('/').fold(folder.to_owned(), |folder, part| folder.join(part))
}

/// The folder of a file, and its name. The folder of a file at the top is empty.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The folder of a file and the folders above it, the nearest first. The top of the repository is empty.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let path = next.take()?;
        let folder = split(path).0;
        next = (path != folder && !folder.is_empty()).then_some(folder);
        Some(folder)
    })
}

/// Whether a file has an extension.
pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    split(path).1.rsplit_once('.').is_some_and(|(stem, found)| !stem.is_empty() && found.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_leave_the_folder_are_rejected() {
        for path in ["a", "a/b.pte", "größe/x y.json", ".gitattributes", "a/.b", "a..b/c"] {
            assert!(is_repo_path(path) && is_portable(path), "{path}");
        }
        for path in
            ["", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "C:/a", "a:b", "a\nb", "\u{1b}a", "\0"]
        {
            assert!(!is_repo_path(path), "{path:?}");
        }
        assert!(!is_repo_path(&"a/".repeat(16)) && !is_repo_path(&"a".repeat(241)));
    }

    #[test]
    fn names_that_windows_reserves_are_rejected() {
        for path in ["con", "a/NUL.json", "Com1.pte", "lpt9", "aux .x", "a/b.", "a /b", "a?", "a*b", "a|b"] {
            assert!(is_repo_path(path) && !is_portable(path), "{path:?}");
        }
        for path in ["console", "com10", "nullable.json"] {
            assert!(is_portable(path), "{path:?}");
        }
    }

    #[test]
    fn folders_are_walked_upwards() {
        assert_eq!(ancestors("a/b/c.pte").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(ancestors("c.pte").collect::<Vec<_>>(), [""]);
        assert!(has_extension("a/b.PTE", "pte") && !has_extension("a.pte/b", "pte") && !has_extension(".pte", "pte"));
    }
}
