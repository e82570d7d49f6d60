//! The tuning file in the user's cache folder.

use std::io::Write;
use std::path::Path;

use pteron::{AdapterSummary, Fill, Tuning};
use pteron_files::WriteOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, Reason};
use crate::files;

/// The largest file accepted, in bytes.
const LARGEST: u64 = 1 << 20;
const OPTIONS: WriteOptions = WriteOptions { private: false, sync: false };

/// The version of the file's format. A file of another version is ignored with a warning and replaced by the next `pteron tune`.
const VERSION: u32 = 2;

/// Identifies what a tuning was measured for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) adapter: String,
    pub(super) driver: String,
    pub(super) backend: String,
    /// The order of magnitude of the program's constants.
    pub(super) shape_class: String,
}

impl Key {
    pub(super) fn new(adapter: &AdapterSummary, constant_bytes: u64) -> Self {
        let AdapterSummary { name, driver, backend, .. } = adapter;
        let shape_class = shape_class(constant_bytes);
        Self { adapter: name.clone(), driver: driver.clone(), backend: backend.clone(), shape_class }
    }
}

/// Programs of one class share a tuning.
fn shape_class(constant_bytes: u64) -> String {
    format!("2^{} bytes", constant_bytes.max(1).ilog2())
}

/// A tuning in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Values {
    subgroups: bool,
    cooperative_matrix: bool,
    fill_percent: u32,
    // Entries of earlier releases end here.
    #[serde(default = "used")]
    int8_dot: bool,
    #[serde(default = "whole")]
    gemv_percent: u32,
    #[serde(default = "whole")]
    tiles_percent: u32,
    #[serde(default = "whole")]
    split_k_percent: u32,
    #[serde(default = "whole")]
    split_kv_percent: u32,
}

fn used() -> bool {
    Tuning::default().int8_dot
}

fn whole() -> u32 {
    Fill::default().percent()
}

impl From<Tuning> for Values {
    fn from(tuning: Tuning) -> Self {
        let Tuning { subgroups, cooperative_matrix, int8_dot, fill, gemv, tiles, split_k, split_kv } = tuning;
        Self {
            subgroups,
            cooperative_matrix,
            fill_percent: fill.percent(),
            int8_dot,
            gemv_percent: gemv.percent(),
            tiles_percent: tiles.percent(),
            split_k_percent: split_k.percent(),
            split_kv_percent: split_kv.percent(),
        }
    }
}

impl Values {
    fn tuning(self) -> Option<Tuning> {
        let Self { subgroups, cooperative_matrix, int8_dot, .. } = self;
        Some(Tuning {
            subgroups,
            cooperative_matrix,
            int8_dot,
            fill: Fill::from_percent(self.fill_percent)?,
            gemv: Fill::from_percent(self.gemv_percent)?,
            tiles: Fill::from_percent(self.tiles_percent)?,
            split_k: Fill::from_percent(self.split_k_percent)?,
            split_kv: Fill::from_percent(self.split_kv_percent)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    values: Values,
}

/// The file. Entries are parsed one by one, so that one of an unknown form does not cost the others.
#[derive(Serialize, Deserialize)]
struct File {
    tuning_version: u32,
    entries: Vec<Value>,
}

/// The one field that files of every version have.
#[derive(Deserialize)]
struct Version {
    tuning_version: u32,
}

/// The stored tunings.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Store {
    entries: Vec<(Key, Tuning)>,
    /// Which part of the file was ignored, and why.
    pub(crate) warning: Option<String>,
    /// Whether reading failed, so that the file may hold entries and must not be replaced.
    pub(super) is_unread: bool,
}

impl Store {
    /// Reads the file. A file that is missing, damaged or of another version has no entries; the latter two have a warning.
    pub(crate) fn read(path: &Path) -> Self {
        let store = match pteron_files::read(path, LARGEST) {
            Ok(bytes) => Self::parse(&bytes),
            Err(error) if error.is_not_found() => Self::default(),
            Err(error) => Self { is_unread: true, ..Self::ignored(format!("{error}, so no tuning is used")) },
        };
        let warning = store.warning.map(|warning| format!("{}: {warning}", path.display()));
        Self { warning, ..store }
    }

    fn ignored(warning: String) -> Self {
        Self { warning: Some(warning), ..Self::default() }
    }

    /// Reads a file's content.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let version = serde_json::from_slice::<Version>(bytes).map(|version| version.tuning_version);
        if let Ok(found) = version
            && found != VERSION
        {
            let text = format!("it has format version {found}, this build reads {VERSION}, so no tuning is used");
            return Self::ignored(format!("{text}; `pteron tune` replaces it"));
        }
        let Ok(file) = serde_json::from_slice::<File>(bytes) else {
            return Self::ignored("it is damaged, so no tuning is used; `pteron tune` replaces it".to_owned());
        };
        let known = |value: &Value| {
            let Entry { key, values } = Entry::deserialize(value).ok()?;
            Some((key, values.tuning()?))
        };
        let entries: Vec<_> = file.entries.iter().filter_map(known).collect();
        let missing = file.entries.len() - entries.len();
        let warning = (missing > 0).then(|| format!("{missing} of its entries have an unknown form and are ignored"));
        Self { entries, warning, is_unread: false }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether an adapter has an entry.
    pub(crate) fn knows(&self, adapter: &AdapterSummary) -> bool {
        let same =
            |key: &Key| (&key.adapter, &key.driver, &key.backend) == (&adapter.name, &adapter.driver, &adapter.backend);
        self.entries.iter().any(|(key, _)| same(key))
    }

    pub(super) fn get(&self, key: &Key) -> Option<Tuning> {
        self.entries.iter().find(|(known, _)| known == key).map(|&(_, tuning)| tuning)
    }

    /// Replaces the entry of a key, or removes it, and returns whether that changed anything.
    pub(super) fn set(&mut self, key: &Key, tuning: Option<Tuning>) -> bool {
        let before = self.get(key);
        self.entries.retain(|(known, _)| known != key);
        self.entries.extend(tuning.map(|tuning| (key.clone(), tuning)));
        before != tuning
    }

    /// Writes the file whole or not at all.
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

    const OTHER: Tuning = Tuning {
        subgroups: false,
        cooperative_matrix: true,
        int8_dot: true,
        fill: Fill::Fourfold,
        gemv: Fill::Same,
        tiles: Fill::Quarter,
        split_k: Fill::Same,
        split_kv: Fill::Quarter,
    };

    #[test]
    fn entries_of_earlier_releases_are_read() {
        let entry = r#"{"adapter": "Wing", "driver": "feather 1.2", "backend": "vulkan", "shape_class": "2^20 bytes", "subgroups": false, "cooperative_matrix": true, "fill_percent": 400}"#;
        let store = Store::parse(format!(r#"{{"tuning_version": 2, "entries": [{entry}]}}"#).as_bytes());
        let expected = Tuning { subgroups: false, fill: Fill::Fourfold, ..Tuning::default() };
        assert_eq!((store.get(&key("Wing", "2^20 bytes")), store.warning), (Some(expected), None));
        let unknown = entry.replace("400}", r#"400, "split_kv_percent": 30}"#);
        assert_eq!(Store::parse(format!(r#"{{"tuning_version": 2, "entries": [{unknown}]}}"#).as_bytes()).len(), 0);
    }

    #[test]
    fn a_written_file_is_read_back() {
        let place = Place::new("written");
        let mut store = Store::read(&place.file());
        assert_eq!(store, Store::default(), "no file, no entries, no warning");
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
    fn damaged_files_other_versions_and_unknown_entries_are_ignored_with_a_warning() {
        let place = Place::new("ignored");
        let mut store = Store::default();
        store.set(&key("Wing", "2^20 bytes"), Some(OTHER));
        store.write(&place.file()).unwrap();
        let text = std::fs::read_to_string(place.file()).unwrap();
        for (from, to) in [(&text[..], ""), (&text[..9], "[]"), ("\"tuning_version\": 2", "\"tuning_version\": 1")] {
            std::fs::write(place.file(), text.replace(from, to)).unwrap();
            let read = Store::read(&place.file());
            assert!(
                read.entries.is_empty()
                    && !read.is_unread
                    && read.warning.unwrap().contains(", so no tuning is used; `pteron tune` replaces it")
            );
        }
        for (from, to) in [("400", "50"), ("\"backend\"", "\"front\""), ("false", "\"perhaps\"")] {
            std::fs::write(place.file(), text.replace(from, to)).unwrap();
            let read = Store::read(&place.file());
            assert!(
                read.entries.is_empty()
                    && read.warning.unwrap().ends_with("1 of its entries have an unknown form and are ignored")
            );
        }
    }

    #[test]
    fn a_failing_disk_leaves_the_old_file() {
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
        assert!(read.is_unread && read.warning.unwrap().ends_with("it is not a regular file, so no tuning is used"));
        std::fs::remove_file(place.file()).unwrap();
        std::fs::File::create(place.file()).unwrap().set_len(100 << 30).unwrap();
        let read = Store::read(&place.file());
        assert!(read.warning.unwrap().contains("it has 107374182400 bytes, and at most 1048576 are read"));
    }

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [0, 1, (1 << 29) - 1, 1 << 29].map(shape_class);
        assert_eq!(classes, ["2^0 bytes", "2^0 bytes", "2^28 bytes", "2^29 bytes"]);
    }
}
