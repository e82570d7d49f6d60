//! `cargo xtask roundtrip`: every file is read, written and read again, and both readings are compared.
//!
//! The written files stay, so that ExecuTorch's own deserialiser can be asked about them too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use pteron_format::program::DataRef;
use pteron_format::{Program, Ptd, Pte, external, vulkan};

/// Counts of the run so far.
#[derive(Default)]
struct Counts {
    programs: usize,
    graphs: usize,
    external: usize,
    bytes_read: usize,
    bytes_written: usize,
}

/// Takes every `.pte` and `.ptd` below `dirs` through the writer and leaves the results below `out`, in the same tree.
pub(crate) fn run(dirs: &[PathBuf], out: &Path) -> Result<()> {
    let mut files = Vec::new();
    for dir in dirs {
        let before = files.len();
        collect(dir, Path::new(""), &mut files)?;
        ensure!(files.len() > before, "there is no .pte and no .ptd below {}", dir.display());
    }
    let mut counts = Counts::default();
    let mut failed = 0;
    for (file, relative) in &files {
        if let Err(error) = one_file(file, &out.join(relative), &mut counts) {
            println!("{}: {error:#}", file.display());
            failed += 1;
        }
    }
    let Counts { programs, graphs, external, bytes_read, bytes_written } = counts;
    println!(
        "{programs} programs with {graphs} graphs and {external} files of external data written and read back as equal"
    );
    println!("{bytes_read} bytes read, {bytes_written} bytes written to {}", out.display());
    ensure!(failed == 0, "{failed} of {} files did not come back as they were", files.len());
    Ok(())
}

/// All files of ours below `dir`, sorted, each with its path from there.
fn collect(dir: &Path, relative: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> Result<()> {
    let listing = fs::read_dir(dir).with_context(|| format!("{} cannot be listed", dir.display()))?;
    let mut entries = listing.collect::<std::io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, relative) = (entry.path(), relative.join(entry.file_name()));
        if path.is_dir() {
            collect(&path, &relative, files)?;
        } else if is_external(&path) || has_extension(&path, "pte") {
            ensure!(files.iter().all(|(_, other)| *other != relative), "{} is below two of the folders", relative.display());
            files.push((path, relative));
        }
    }
    Ok(())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn is_external(path: &Path) -> bool {
    has_extension(path, "ptd")
}

fn one_file(file: &Path, out: &Path, counts: &mut Counts) -> Result<()> {
    let theirs = fs::read(file)?;
    counts.bytes_read += theirs.len();
    let ours = if is_external(file) { external_data(&theirs)? } else { program(&theirs, counts)? };
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(out, &ours).with_context(|| format!("{} cannot be written", out.display()))?;
    counts.bytes_written += ours.len();
    if is_external(file) {
        counts.external += 1;
    } else {
        counts.programs += 1;
    }
    Ok(())
}

fn external_data(theirs: &[u8]) -> Result<Vec<u8>> {
    let first = Ptd::read(theirs)?;
    let ours = external::write(&first.with_data())?;
    let second = Ptd::read(ours.as_slice()).context("what was written cannot be read")?;
    ensure!(second.with_data() == first.with_data(), "the second reading differs from the first");
    Ok(ours)
}

/// Writes a program anew, its Vulkan graphs included.
fn program(theirs: &[u8], counts: &mut Counts) -> Result<Vec<u8>> {
    let first = Pte::read(theirs)?;
    let mut rebuilt: Program<Vec<u8>> = first.with_data().map_data(|bytes| bytes.to_vec());
    let mut graphs = 0;
    for (place, blob) in first.graphs() {
        let bytes = vulkan::write_blob(&blob.graph, stored(&first, place)?)?;
        *slot(&mut rebuilt, place)? = bytes;
        graphs += 1;
    }
    let ours = pteron_format::write(&rebuilt)?;

    let second = Pte::read(ours.as_slice()).context("what was written cannot be read")?;
    ensure!(second.with_data() == rebuilt.map_data(Vec::as_slice), "the second reading's tables or bytes differ");
    ensure!(second.graphs().count() == graphs, "the second reading has another number of graphs");
    for (place, blob) in first.graphs() {
        let again = second.graph(place).context("a graph is gone")?;
        ensure!(again.graph == blob.graph, "the graph at {place:?} differs");
        ensure!(stored(&second, place)? == stored(&first, place)?, "the constants of the graph at {place:?} differ");
    }
    let mut unchanged = second.with_data().map_data(|bytes| bytes.to_vec());
    for (place, _) in first.graphs() {
        let bytes = first.program().delegate_data(place).map(|&extent| first.bytes(extent).to_vec());
        *slot(&mut unchanged, place)? = bytes.context("a delegate has no bytes")?;
    }
    ensure!(unchanged.map_data(Vec::as_slice) == first.with_data(), "something besides the graphs' bytes differs");
    ensure!(pteron_format::write(&second.with_data())? == ours, "writing the second reading gives other bytes");
    counts.graphs += graphs;
    Ok(ours)
}

/// The bytes of constants inside a graph's blob.
fn stored<'a>(pte: &'a Pte<&[u8]>, place: DataRef) -> Result<&'a [u8]> {
    let blob = pte.program().delegate_data(place).map(|&extent| pte.bytes(extent)).context("a delegate has no bytes")?;
    let range = pte.graph(place).context("a graph is gone")?.stored;
    let start = usize::try_from(range.start)?;
    blob.get(start..start + usize::try_from(range.len)?).context("a graph's constants are outside its blob")
}

/// Where a program keeps the bytes of a delegate.
fn slot(program: &mut Program<Vec<u8>>, place: DataRef) -> Result<&mut Vec<u8>> {
    let slot = match place {
        DataRef::Inline(index) => program.inline_delegates.get_mut(usize::try_from(index)?),
        DataRef::Segment(segment) => program.segments.get_mut(segment.index()),
    };
    match slot {
        Some(bytes) => Ok(bytes),
        None => bail!("the program has no place {place:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own that goes when this value goes.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pteron-xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn program_with_data() -> Vec<u8> {
        let program = Program { segments: vec![b"weights".as_slice()], ..Program::default() };
        pteron_format::write(&program).unwrap()
    }

    #[test]
    fn files_come_back_in_the_same_tree() {
        let folder = Folder::new("tree");
        let (from, to) = (folder.0.join("from"), folder.0.join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/model.pte"), program_with_data()).unwrap();
        fs::write(from.join("a/notes.txt"), "not ours").unwrap();
        run(std::slice::from_ref(&from), &to).unwrap();
        assert_eq!(fs::read(to.join("a/b/model.pte")).unwrap(), program_with_data());
        assert!(!to.join("a/notes.txt").exists());
    }

    #[test]
    fn a_folder_without_programs_and_a_bad_program_are_errors() {
        let folder = Folder::new("bad");
        let (from, to) = (folder.0.join("from"), folder.0.join("to"));
        fs::create_dir_all(&from).unwrap();
        let empty = run(std::slice::from_ref(&from), &to).unwrap_err();
        assert!(empty.to_string().starts_with("there is no .pte"), "{empty}");
        fs::write(from.join("model.pte"), b"not a program").unwrap();
        let bad = run(std::slice::from_ref(&from), &to).unwrap_err();
        assert_eq!(bad.to_string(), "1 of 1 files did not come back as they were");
    }

    #[test]
    fn the_same_name_below_two_folders_is_an_error() {
        let folder = Folder::new("twice");
        fs::write(folder.0.join("model.pte"), program_with_data()).unwrap();
        let twice = [folder.0.clone(), folder.0.clone()];
        let error = run(&twice, &folder.0.join("to")).unwrap_err();
        assert_eq!(error.to_string(), "model.pte is below two of the folders");
    }
}
