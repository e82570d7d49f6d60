//! Lines typed in earlier conversations, in a file that only the user can read.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pteron_files::WriteOptions;

use crate::failure::{Failure, Reason};
use crate::{files, folders};

/// Lines that are kept.
pub(super) const KEPT: usize = 1000;
/// Longer lines, in bytes, are pasted texts, and are not kept.
const LONGEST: usize = 4096;
/// The most bytes the file can have, with room for escapes.
const LARGEST: u64 = 2 * (KEPT * (LONGEST + 1)) as u64;
const OPTIONS: WriteOptions = WriteOptions { private: true, sync: false };

/// A file with one entry per line, the oldest first.
#[derive(Debug)]
pub(super) struct History {
    path: PathBuf,
}

impl History {
    /// The user's history; `None` where the environment names no folder for it.
    pub(super) fn of_user() -> Option<Self> {
        folders::chat_history().map(|path| Self { path })
    }

    /// Reads every entry; none where there is no file.
    pub(super) fn read(&self) -> Result<Vec<String>, Failure> {
        let bytes = match pteron_files::read(&self.path, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(Failure::file(&self.path, error)),
        };
        Ok(String::from_utf8_lossy(&bytes).lines().map(decode).collect())
    }

    /// Adds an entry. The file is replaced whole or not at all.
    pub(super) fn add(&self, entry: &str) -> Result<(), Failure> {
        if entry.len() > LONGEST {
            return Ok(());
        }
        // Read anew: another conversation may have added to it.
        let mut entries = self.read()?;
        if entries.last().is_some_and(|last| last == entry) {
            return Ok(());
        }
        entries.push(entry.to_owned());
        let kept = &entries[entries.len().saturating_sub(KEPT)..];
        if let Some(folder) = self.path.parent() {
            make_private_folder(folder).map_err(|error| Failure::file(folder, Reason::Unwritten(error)))?;
        }
        files::write_with(&self.path, OPTIONS, |out| kept.iter().try_for_each(|entry| writeln!(out, "{}", encode(entry))))
    }
}

/// Escapes an entry of several lines, such as pasted text, to one line.
fn encode(entry: &str) -> String {
    entry.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn decode(line: &str) -> String {
    let mut entry = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        entry.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    entry
}

/// Creates a folder that only the user can read: conversations are private.
#[cfg(unix)]
fn make_private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The folder for local application data is the user's alone.
#[cfg(not(unix))]
fn make_private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of one test, removed when it ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pteron-history-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn history(&self) -> History {
            History { path: self.0.join("state").join("pteron").join("chat_history") }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn entries_are_read_back() {
        let folder = Folder::new("entries");
        let history = folder.history();
        assert_eq!(history.read().unwrap(), Vec::<String>::new(), "before there is a file");
        let entries = ["What is a trait?", "two\nlines \\n and \\", "größer 🪽", "C:\\new"];
        for entry in entries {
            history.add(entry).unwrap();
            history.add(entry).unwrap();
        }
        assert_eq!(history.read().unwrap(), entries, "each once, though it was typed twice in a row");
        assert_eq!(fs::read_dir(history.path.parent().unwrap()).unwrap().count(), 1, "nothing unfinished lies about");
    }

    #[test]
    fn the_oldest_and_the_longest_lines_are_dropped() {
        let folder = Folder::new("many");
        let history = folder.history();
        history.add("first").unwrap();
        fs::write(&history.path, (0..KEPT).map(|number| format!("{number}\n")).collect::<String>()).unwrap();
        history.add("last").unwrap();
        history.add(&"x".repeat(LONGEST + 1)).unwrap();
        let entries = history.read().unwrap();
        assert_eq!((entries.len(), entries[0].as_str(), entries[KEPT - 1].as_str()), (KEPT, "1", "last"));
    }

    #[test]
    fn a_failing_disk_loses_only_the_new_entry() {
        let folder = Folder::new("failing");
        let history = folder.history();
        history.add("first").unwrap();
        let operations = files::tests::fail_each(&folder.0, || history.add("second"));
        assert!(operations >= 6, "{operations}: opening, reading, creating, writing, naming");
        assert_eq!(history.read().unwrap(), ["first", "second"]);
        // A file that is too large for a history is rejected.
        fs::File::create(&history.path).unwrap().set_len(1 << 40).unwrap();
        assert!(history.read().unwrap_err().to_string().contains("more than the "));
    }

    #[test]
    fn an_unreadable_history_is_not_overwritten() {
        let folder = Folder::new("unreadable");
        let history = folder.history();
        fs::create_dir_all(&history.path).unwrap();
        assert!(history.read().is_err() && history.add("line").is_err());
        assert!(history.path.is_dir());
        // Bytes that are no text cost the characters they stand for, no more.
        let history = History { path: folder.0.join("damaged") };
        fs::write(&history.path, b"good\n\xff\xfe\nline\\").unwrap();
        history.add("new").unwrap();
        assert_eq!(history.read().unwrap(), ["good", "\u{fffd}\u{fffd}", "line\\", "new"]);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_can_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("private");
        let history = folder.history();
        history.add("a secret").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&history.path), mode(history.path.parent().unwrap())), (0o600, 0o700));
    }
}
