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
    /// What fuzzers make up.
    Memory(&'a Files),
}

/// The most bytes that a file may have which is read as a whole. Weights are not.
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

    /// Its place, for messages.
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

    /// Maps a file that need not be there.
    pub(super) fn map_if_there(&self, name: &str) -> Result<Option<Mapped>> {
        self.has(name).then(|| self.map(name)).transpose()
    }

    /// The fields of a JSON file that need not be there.
    pub(super) fn fields_if_there(&self, name: &'static str) -> Result<Option<Fields>> {
        self.map_if_there(name)?.map(|mapped| Fields::parse(name, mapped.as_ref())).transpose()
    }
}
