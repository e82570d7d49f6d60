//! SHA256SUMS, as `sha256sum --check` reads it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

pub(crate) const FILE: &str = "SHA256SUMS";

/// Writes the checksums of all files in a folder.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let files = files(folder)?;
    let lines = files.iter().filter(|path| !path.ends_with(FILE)).map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(format!("{}  {name}\n", of(path)?))
    });
    let text = lines.collect::<Result<String>>()?;
    fs::write(folder.join(FILE), text).with_context(|| format!("{FILE} could not be written"))
}

/// The files in a folder by name.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} could not be read", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_file());
    paths.sort();
    Ok(paths)
}

fn of(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("{} could not be read", path.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn every_file_but_the_list_itself_is_in_it() {
        let scratch = Scratch::new("checksums").unwrap();
        fs::write(scratch.path().join("b"), "abc").unwrap();
        fs::write(scratch.path().join("a"), "").unwrap();
        for _ in 0..2 {
            write(scratch.path()).unwrap();
        }
        assert_eq!(
            fs::read_to_string(scratch.path().join(FILE)).unwrap(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n"
        );
    }
}
