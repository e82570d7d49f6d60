//! The files of a checkpoint's folder.

use std::path::{Path, PathBuf};

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::open::{LFS_ADVICE, LFS_POINTER};

/// A folder as Hugging Face lays it out.
pub(super) struct Folder<'a>(pub(super) &'a Path);

impl Folder<'_> {
    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).is_file()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Maps a file.
    pub(super) fn map(&self, name: &str) -> Result<Mapped> {
        let mapped = Mapped::open(&self.path(name))?;
        if mapped.as_ref().starts_with(LFS_POINTER) {
            return Err(Error::Malformed { file: name.to_owned(), problem: LFS_ADVICE.to_owned() });
        }
        Ok(mapped)
    }

    /// Maps a file that need not be there.
    pub(super) fn map_if_there(&self, name: &str) -> Result<Option<Mapped>> {
        self.has(name).then(|| self.map(name)).transpose()
    }

    /// The fields of a JSON file that need not be there.
    pub(super) fn fields_if_there(&self, name: &'static str) -> Result<Option<Fields>> {
        self.map_if_there(name)?.map(|mapped| Fields::parse(name, mapped.as_ref())).transpose()
    }
}
