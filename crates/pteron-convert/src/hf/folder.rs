//! The files of a checkpoint's folder.

use std::collections::BTreeMap;
use std::path::Path;

use pteron_format::EscapedText;

use super::fields::Fields;
use crate::error::{Error, Result};
use crate::map::Mapped;
use crate::open::{LFS_ADVICE, LFS_POINTER};

/// Files by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A folder as Hugging Face lays it out.
pub(super) enum Folder<'a> {
    Disk(&'a Path),
    /// Files in memory, for fuzzers.
    Memory(&'a Files),
}

/// Returns the size limit of a file that is read whole; weights have none.
fn largest(name: &str) -> Option<usize> {
    const VOCABULARY: usize = 256 << 20;
    const OTHERS: usize = 16 << 20;
    match name {
        "tokenizer.json" | "tokenizer.model" => Some(VOCABULARY),
        name if Path::new(name).extension().is_some_and(|extension| extension == "json" || extension == "jinja") => {
            Some(OTHERS)
        }
        _ => None,
    }
}

impl Folder<'_> {
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Disk(path) => path.join(name).is_file(),
            Self::Memory(files) => files.contains_key(name),
        }
    }

    /// Returns its path, for messages.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Disk(path) => path,
            Self::Memory(_) => Path::new("the folder"),
        }
    }

    /// Maps a file.
    pub(super) fn map(&self, name: &str) -> Result<Mapped> {
        let mapped = match self {
            Self::Disk(path) => Mapped::open(&path.join(name))?,
            Self::Memory(files) => Mapped::from(files.get(name).cloned().unwrap_or_default()),
        };
        let malformed = |problem| Err(Error::Malformed { file: EscapedText::name(name).to_string(), problem });
        if mapped.as_ref().starts_with(LFS_POINTER) {
            return malformed(LFS_ADVICE.to_owned());
        }
        match (mapped.as_ref().len(), largest(name)) {
            (len, Some(most)) if len > most => malformed(format!("it has {len} bytes, more than {most}")),
            _ => Ok(mapped),
        }
    }

    /// Maps a file if it exists.
    pub(super) fn map_optional(&self, name: &str) -> Result<Option<Mapped>> {
        self.has(name).then(|| self.map(name)).transpose()
    }

    /// Reads the fields of a JSON file if it exists.
    pub(super) fn optional_fields(&self, name: &'static str) -> Result<Option<Fields>> {
        self.map_optional(name)?.map(|mapped| Fields::parse(name, mapped.as_ref())).transpose()
    }
}
