//! Models split into several files, `model-00001-of-00003.gguf` and so on. The first has the metadata; each has some of the tensors.

use std::path::{Path, PathBuf};

use super::file::File;
use crate::error::{Error, Result};

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
/// File names have five digits.
const MOST: u32 = 99_999;

/// Returns the other files of a split model, in order.
pub(super) fn others(path: &Path, first: &File<'_>) -> Result<Vec<PathBuf>> {
    let count = first.metadata.number(COUNT)?.unwrap_or(1);
    if count <= 1 {
        return Ok(Vec::new());
    }
    if count > MOST {
        return Err(first.metadata.fault(COUNT, format!("{count} parts are more than {MOST}")));
    }
    let ending = |number: u32| format!("-{number:05}-of-{count:05}.gguf");
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(&ending(1)) else {
        let problem = format!("it is one of {count} parts; name the first, which ends in {}", ending(1));
        return Err(Error::Malformed { file: path.display().to_string(), problem });
    };
    Ok((2..=count).map(|number| path.with_file_name(format!("{stem}{}", ending(number)))).collect())
}

/// Checks that the files are the shards of one model, in order.
pub(super) fn check(names: &[String], files: &[File<'_>]) -> Result<()> {
    for (index, (name, file)) in names.iter().zip(files).enumerate() {
        let number = file.metadata.number(NUMBER)?.unwrap_or(0);
        let count = file.metadata.number(COUNT)?.unwrap_or(1).max(1);
        if number as usize != index || count as usize != files.len() {
            let (part, expected) = (u64::from(number) + 1, index + 1);
            let problem =
                format!("it says that it is part {part} of {count}, and it is used as {expected} of {}", files.len());
            return Err(Error::Malformed { file: name.clone(), problem });
        }
    }
    Ok(())
}
