//! Files written to the program's folder: tokenizer and chat template.

use std::io::Write;
use std::path::{Path, PathBuf};

use pteron_convert::source::Sidecar;
use pteron_files::ReadError;

use crate::failure::{Failure, Reason};
use crate::files;

/// Files to write, and those that exist with the same content.
pub(super) struct Sidecars {
    new: Vec<(PathBuf, Vec<u8>)>,
    kept: Vec<PathBuf>,
}

/// Plans where the files go. An existing file with other content may be another model's: it is not overwritten, and nothing is
/// converted.
pub(super) fn plan(program: &Path, sidecars: Vec<Sidecar>) -> Result<Sidecars, Failure> {
    let mut plan = Sidecars { new: Vec::new(), kept: Vec::new() };
    for Sidecar { name, bytes } in sidecars {
        let path = program.with_file_name(&name);
        match pteron_files::read(&path, bytes.len() as u64) {
            Ok(there) if there == bytes => plan.kept.push(path),
            Err(error) if error.is_not_found() => plan.new.push((path, bytes)),
            Ok(_) | Err(ReadError::TooLarge { .. }) => {
                return Err(Failure::file(&path, Reason::Another { program: program.to_owned() }));
            }
            Err(error) => return Err(Failure::file(&path, error)),
        }
    }
    Ok(plan)
}

impl Sidecars {
    /// Writes each file whole or not at all.
    pub(super) fn write(&self) -> Result<(), Failure> {
        for (path, bytes) in &self.new {
            files::write(path, |out| out.write_all(bytes))?;
        }
        Ok(())
    }

    /// The names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let paths = self.new.iter().map(|(path, _)| path).chain(&self.kept);
        paths.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
    }
}
