//! What is remembered between runs: a small file in the user's cache folder.

use std::io::Write;
use std::path::Path;

use pteron::{AdapterSummary, Fill, Tuning};
use pteron_files::WriteOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, Reason};
use crate::files;

/// Larger files, in bytes, are not ours.
const LARGEST: u64 = 1 << 20;
const OPTIONS: WriteOptions = WriteOptions { private: false, sync: false };

/// Changes when a field changes its meaning.
const VERSION: u32 = 2;

/// What a tuning holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) adapter: String,
    pub(super) driver: String,
    pub(super) backend: String,
    /// How large the constants of a program are, coarsely.
    pub(super) shape_class: String,
}

impl Key {
    pub(super) fn new(adapter: &AdapterSummary, constant_bytes: u64) -> Self {
        let AdapterSummary { name, driver, backend, .. } = adapter;
        let shape_class = shape_class(constant_bytes);
        Self { adapter: name.clone(), driver: driver.clone(), backend: backend.clone(), shape_class }
    }
}

/// Programs of one class are like enough to be tuned together.
fn shape_class(constant_bytes: u64) -> String {
    format!("2^{} bytes", constant_bytes.max(1).ilog2())
}

/// A tuning as JSON has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Values {
    subgroups: bool,
    cooperative_matrix: bool,
    fill_percent: u32,
}

impl From<Tuning> for Values {
    fn from(Tuning { subgroups, cooperative_matrix, fill }: Tuning) -> Self {
        Self { subgroups, cooperative_matrix, fill_percent: fill.percent() }
    }
}

impl Values {
    fn tuning(self) -> Option<Tuning> {
        let Self { subgroups, cooperative_matrix, fill_percent } = self;
        Some(Tuning { subgroups, cooperative_matrix, fill: Fill::from_percent(fill_percent)? })
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    values: Values,
}

/// The file. Entries are taken one by one, so that one that is not understood costs no other.
#[derive(Serialize, Deserialize)]
struct File {
    tuning_version: u32,
    entries: Vec<Value>,
}

/// All that is remembered.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Store {
    entries: Vec<(Key, Tuning)>,
    /// What of the file is ignored, if anything is.
    pub(crate) complaint: Option<String>,
    /// Whether the file may hold more than could be read, so that it must not be replaced.
    pub(super) is_unread: bool,
}

impl Store {
    /// Reads the file; one that is not there remembers nothing, and neither does one that is not understood.
    pub(super) fn read(path: &Path) -> Self {
        let store = match pteron_files::read(path, LARGEST) {
            Ok(bytes) => Self::parse(&bytes),
            Err(error) if error.is_not_found() => Self::default(),
            Err(error) => Self { is_unread: true, ..Self::ignored(format!("{error}, so no tuning is used")) },
        };
        let complaint = store.complaint.map(|complaint| format!("{}: {complaint}", path.display()));
        Self { complaint, ..store }
    }

    fn ignored(complaint: String) -> Self {
        Self { complaint: Some(complaint), ..Self::default() }
    }

    /// Reads a file's content.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let file = match serde_json::from_slice::<File>(bytes) {
            Ok(file) if file.tuning_version == VERSION => file,
            _ => return Self::ignored("it is damaged or of another version, so no tuning is used".to_owned()),
        };
        let known = |value: &Value| {
            let Entry { key, values } = Entry::deserialize(value).ok()?;
            Some((key, values.tuning()?))
        };
        let entries: Vec<_> = file.entries.iter().filter_map(known).collect();
        let missing = file.entries.len() - entries.len();
        let complaint = (missing > 0).then(|| format!("{missing} of its entries are not understood"));
        Self { entries, complaint, is_unread: false }
    }

    /// How many tunings are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is anything for an adapter.
    pub(super) fn knows(&self, adapter: &AdapterSummary) -> bool {
        let same =
            |key: &Key| (&key.adapter, &key.driver, &key.backend) == (&adapter.name, &adapter.driver, &adapter.backend);
        self.entries.iter().any(|(key, _)| same(key))
    }

    pub(super) fn get(&self, key: &Key) -> Option<Tuning> {
        self.entries.iter().find(|(known, _)| known == key).map(|&(_, tuning)| tuning)
    }

    /// Remembers a tuning instead of what there was, or nothing, and says whether that changed anything.
    pub(super) fn set(&mut self, key: &Key, tuning: Option<Tuning>) -> bool {
        let before = self.get(key);
        self.entries.retain(|(known, _)| known != key);
        self.entries.extend(tuning.map(|tuning| (key.clone(), tuning)));
        before != tuning
    }

    /// Writes the file, all or nothing.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| Failure::file(folder, Reason::Unwritten(error)))?;
        }
        files::write_with(path, OPTIONS, |out| {
            let entry = |(key, tuning): &(Key, Tuning)| {
                serde_json::to_value(Entry { key: key.clone(), values: Values::from(*tuning) })
            };
            let entries = self.entries.iter().map(entry).collect::<serde_json::Result<_>>()?;
            serde_json::to_writer_pretty(&mut *out, &File { tuning_version: VERSION, entries })?;
            out.write_all(b"\n")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn key(adapter: &str, shape_class: &str) -> Key {
        let [adapter, driver, backend, shape_class] = [adapter, "feather 1.2", "vulkan", shape_class].map(str::to_owned);
        Key { adapter, driver, backend, shape_class }
    }

    /// A path in a folder that does not exist yet, removed in the end.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Self {
            Self(std::env::temp_dir().join(format!("pteron-tuning-{test}-{}", std::process::id())))
        }

        fn file(&self) -> PathBuf {
            self.0.join("pteron").join("tuning.json")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const OTHER: Tuning = Tuning { subgroups: false, cooperative_matrix: true, fill: Fill::Fourfold };

    #[test]
    fn what_is_written_is_read() {
        let place = Place::new("written");
        let mut store = Store::read(&place.file());
        assert_eq!(store, Store::default(), "no file, nothing remembered, nothing to complain about");
        let [small, large, foreign] = [key("Wing", "2^20 bytes"), key("Wing", "2^29 bytes"), key("Fin", "2^20 bytes")];
        assert!(store.set(&small, Some(OTHER)) && store.set(&large, Some(Tuning::default())));
        store.write(&place.file()).unwrap();
        let mut again = Store::read(&place.file());
        assert_eq!(again, store);
        assert_eq!(
            (again.get(&small), again.get(&large), again.get(&foreign)),
            (Some(OTHER), Some(Tuning::default()), None)
        );
        assert!(!again.set(&small, Some(OTHER)) && again.set(&small, None) && !again.set(&small, None));
        assert_eq!((again.get(&small), again.get(&large)), (None, Some(Tuning::default())));
        assert_eq!(std::fs::read_dir(place.0.join("pteron")).unwrap().count(), 1, "nothing half-written is left");
    }

    #[test]
    fn what_is_not_understood_is_ignored_with_a_word() {
        let place = Place::new("ignored");
        let mut store = Store::default();
        store.set(&key("Wing", "2^20 bytes"), Some(OTHER));
        store.write(&place.file()).unwrap();
        let text = std::fs::read_to_string(place.file()).unwrap();
        for (from, to) in [(&text[..], ""), (&text[..9], "[]"), ("\"tuning_version\": 2", "\"tuning_version\": 1")] {
            std::fs::write(place.file(), text.replace(from, to)).unwrap();
            let read = Store::read(&place.file());
            assert!(read.entries.is_empty() && read.complaint.unwrap().contains("damaged or of another version"));
        }
        for (from, to) in [("400", "50"), ("\"backend\"", "\"front\""), ("false", "\"perhaps\"")] {
            std::fs::write(place.file(), text.replace(from, to)).unwrap();
            let read = Store::read(&place.file());
            assert!(read.entries.is_empty() && read.complaint.unwrap().ends_with("1 of its entries are not understood"));
        }
    }

    #[test]
    fn a_disk_that_fails_leaves_what_was_remembered() {
        let place = Place::new("failing");
        let mut store = Store::default();
        store.set(&key("Wing", "2^20 bytes"), Some(OTHER));
        store.write(&place.file()).unwrap();
        store.set(&key("Fin", "2^20 bytes"), Some(OTHER));
        assert_eq!(files::tests::fail_each(&place.0, || store.write(&place.file())), 4);
        assert_eq!(Store::read(&place.file()), store);
        // What could not be read must not be replaced.
        let fault = pteron_files::faults::fail_after(&place.0, 1, std::io::ErrorKind::Other);
        let unread = Store::read(&place.file());
        assert!(fault.reached() && unread.is_unread && unread.entries.is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_not_waited_for() {
        let place = Place::new("pipe");
        std::fs::create_dir_all(place.file().parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(place.file()).status().unwrap().success());
        let read = Store::read(&place.file());
        assert!(read.is_unread && read.complaint.unwrap().ends_with("it is not a regular file, so no tuning is used"));
        std::fs::remove_file(place.file()).unwrap();
        std::fs::File::create(place.file()).unwrap().set_len(100 << 30).unwrap();
        let read = Store::read(&place.file());
        assert!(read.complaint.unwrap().contains("it has 107374182400 bytes, and at most 1048576 are read"));
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [0, 1, (1 << 29) - 1, 1 << 29].map(shape_class);
        assert_eq!(classes, ["2^0 bytes", "2^0 bytes", "2^28 bytes", "2^29 bytes"]);
    }
}
