//! Folders that outlive a run: where they are, whether they can be written to, and the state of the tuning file.

use std::path::{Path, PathBuf};

use pteron::AdapterSummary;
use pteron_files::{AtomicFile, WriteOptions};
use serde::Serialize;

use crate::folders;
use crate::tune::Store;

/// A folder, and whether a file can be created in it.
#[derive(Serialize)]
pub(super) struct Folder {
    /// `compiled kernels`, `tuning`, `models` or `chat history`.
    pub(super) purpose: &'static str,
    /// Null where the environment names no such folder.
    pub(super) path: Option<PathBuf>,
    pub(super) writable: bool,
    /// Why it is not writable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl Folder {
    pub(super) fn all() -> Vec<Self> {
        let parent = |file: Option<PathBuf>| file.and_then(|file| Some(file.parent()?.to_owned()));
        [
            ("compiled kernels", folders::pipeline_cache()),
            ("tuning", parent(folders::tuning_file())),
            ("models", folders::models()),
            ("chat history", parent(folders::chat_history())),
        ]
        .map(|(purpose, path)| Self::probe(purpose, path))
        .into()
    }

    /// Creates the folder, as the commands that use it do, and begins a file in it that never gets its name.
    fn probe(purpose: &'static str, path: Option<PathBuf>) -> Self {
        let error = match &path {
            None => Some("neither HOME nor an XDG directory (LOCALAPPDATA on Windows) is set".to_owned()),
            Some(folder) => write_into(folder).err().map(|error| error.to_string()),
        };
        Self { purpose, path, writable: error.is_none(), error }
    }
}

fn write_into(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    AtomicFile::create(&folder.join("doctor"), WriteOptions::default()).map(drop)
}

/// The state of the tuning file.
#[derive(Serialize)]
pub(super) struct Tuning {
    pub(super) file: Option<PathBuf>,
    /// Entries that this version understands, for any adapter, and whether some are for the checked one.
    pub(super) entries: usize,
    pub(super) knows_adapter: bool,
    /// Why the file, or a part of it, is ignored.
    pub(super) warning: Option<String>,
}

impl Tuning {
    pub(super) fn read(adapter: Option<&AdapterSummary>) -> Self {
        let file = folders::tuning_file();
        let store = file.as_deref().map(Store::read).unwrap_or_default();
        let knows_adapter = adapter.is_some_and(|adapter| store.knows(adapter));
        Self { file, entries: store.len(), knows_adapter, warning: store.warning }
    }
}

#[cfg(test)]
mod tests {
    use pteron_files::TemporaryFolder;

    use super::*;

    #[test]
    fn a_folder_is_probed_without_leaving_a_file() {
        let scratch = TemporaryFolder::new("pteron-doctor-").unwrap();
        let folder = Folder::probe("tuning", Some(scratch.path().join("new").join("pteron")));
        assert!(folder.writable && folder.error.is_none());
        assert_eq!(std::fs::read_dir(folder.path.unwrap()).unwrap().count(), 0);
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        let blocked = Folder::probe("tuning", Some(file.join("pteron")));
        assert!(!blocked.writable && blocked.error.is_some());
        assert!(!Folder::probe("tuning", None).writable);
    }
}
