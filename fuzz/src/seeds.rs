//! Inputs to start from.

use std::path::{Path, PathBuf};

use crate::target::Target;

/// An input with the name of where it comes from.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where it comes from.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Input {
    /// An input.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }
}

/// The seeds of a target and the findings kept below `fuzz/corpus/`, in an order that depends on the files alone. At least one.
///
/// # Errors
/// A kept finding that cannot be read.
pub fn all(target: &Target, root: &Path) -> Result<Vec<Input>, String> {
    let mut inputs = (target.seeds)(root);
    inputs.extend(kept(target, root)?);
    inputs.retain(|input| input.bytes.len() <= 4 * target.max_len.max(64 << 10));
    if inputs.is_empty() {
        inputs.push(Input::new("nothing", Vec::new()));
    }
    Ok(inputs)
}

/// The findings of a target that are kept.
///
/// # Errors
/// A file that cannot be read.
pub fn kept(target: &Target, root: &Path) -> Result<Vec<Input>, String> {
    files(&root.join("fuzz/corpus").join(target.name))?.iter().map(|path| read(root, path)).collect()
}

/// Byte strings that a generator turns into something: each with some structure of its own.
#[must_use]
pub fn entropy(_root: &Path) -> Vec<Input> {
    let mut rng = fastrand::Rng::with_seed(1);
    let bytes = |rng: &mut fastrand::Rng, len: usize| std::iter::repeat_with(|| rng.u8(..)).take(len).collect::<Vec<u8>>();
    (0..48).map(|index| Input::new(format!("entropy {index}"), bytes(&mut rng, 8 << (index % 7)))).collect()
}

/// The files below some folders of the repository that have one of these extensions and at most `most` bytes.
#[must_use]
pub fn with_extension(root: &Path, folders: &[&str], extensions: &[&str], most: usize) -> Vec<Input> {
    let paths = folders.iter().flat_map(|folder| files(&root.join(folder)).unwrap_or_default());
    let wanted = paths.filter(|path| path.extension().is_some_and(|found| extensions.iter().any(|wanted| found == *wanted)));
    wanted.filter_map(|path| read(root, &path).ok()).filter(|input| input.bytes.len() <= most).collect()
}

fn read(root: &Path, path: &Path) -> Result<Input, String> {
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let bytes = std::fs::read(path).map_err(|error| format!("{name}: {error}"))?;
    Ok(Input { name, bytes })
}

/// Every file below `directory`, sorted; none if there is no such directory.
///
/// # Errors
/// A directory that cannot be read.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        if !directory.exists() {
            continue;
        }
        let entries = std::fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", directory.display()))?.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    Ok(found)
}
