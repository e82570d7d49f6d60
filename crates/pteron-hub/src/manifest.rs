//! The manifest of a pulled model: which commit it is, and which files of it are there.

use std::io::Write;
use std::path::Path;

use pteron_files::WriteOptions;
use serde::{Deserialize, Serialize};

use crate::checksum::Checksum;
use crate::error::{Error, Result};
use crate::name::{is_commit, is_revision};
use crate::path::is_portable;

/// The version of the format. A file of another version is not read.
const VERSION: u32 = 1;
/// The most bytes of a manifest.
const MOST_BYTES: u64 = 16 << 20;

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    version: u32,
    /// Where it was fetched.
    pub(crate) endpoint: String,
    pub(crate) commit: String,
    /// The branches and tags that were this commit when they were last pulled.
    pub(crate) revisions: Vec<String>,
    pub(crate) files: Vec<ManifestFile>,
}

/// A file of a pulled model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ManifestFile {
    pub(crate) path: String,
    pub(crate) size: u64,
    pub(crate) checksum: Checksum,
}

impl Manifest {
    #[cfg(feature = "download")]
    pub(crate) fn new(endpoint: &str, commit: &str) -> Self {
        Self {
            version: VERSION,
            endpoint: endpoint.to_owned(),
            commit: commit.to_owned(),
            revisions: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Reads a manifest. The file may have been edited, so its paths are checked again.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = pteron_files::read(path, MOST_BYTES).map_err(|error| Error::read(path)(error.into()))?;
        let broken = |problem: String| Error::Manifest { path: path.to_owned(), problem };
        let manifest: Self = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(broken(format!("it has the version {}", manifest.version)));
        }
        if !is_commit(&manifest.commit) || !manifest.revisions.iter().all(|revision| is_revision(revision)) {
            return Err(broken("it has no commit, or a wrong revision".to_owned()));
        }
        if let Some(file) = manifest.files.iter().find(|file| !is_portable(&file.path)) {
            return Err(broken(format!("it has the unsafe path {:?}", pteron_format::EscapedText::name(&file.path))));
        }
        Ok(manifest)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self).map_err(|error| Error::write(path)(error.into()))?;
        let options = WriteOptions { private: false, sync: true };
        pteron_files::write(path, options, |out| out.write_all(&json)).map_err(Error::write(path))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }
}
