//! A file whose bytes are used only if this user wrote all of them, for the same purpose.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pteron_files::WriteOptions;
use sha2::{Digest, Sha256};

/// The magic bytes at the start; the seal and the data follow.
const MAGIC: &[u8; 16] = b"pteron pipelines";
/// Larger files are not read. A file of that size holds mostly stale pipelines.
const LARGEST: u64 = 256 << 20;

/// A file that is damaged by a system crash is written again.
const OPTIONS: WriteOptions = WriteOptions { private: true, sync: false };

/// A hash of a file's bytes and their purpose.
pub(super) type Fingerprint = [u8; 32];

#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    identity: String,
}

impl CacheFile {
    /// A file in a folder, for bytes of exactly this identity.
    pub(super) fn new(folder: &Path, name: &str, identity: &str) -> Self {
        Self { path: folder.join(format!("{name}.bin")), identity: identity.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The seal of these bytes in this file.
    pub(super) fn fingerprint(&self, data: &[u8]) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update((self.identity.len() as u64).to_le_bytes());
        hash.update(&self.identity);
        hash.update(data);
        hash.finalize().into()
    }

    /// Reads the file's content; `None` if there is no file.
    pub(super) fn read(&self) -> io::Result<Option<(Fingerprint, Vec<u8>)>> {
        // The path must not be a link, and the opened file must belong to this user.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => check(&other?)?,
        }
        let bytes = pteron_files::read_if(&self.path, LARGEST, |metadata| Ok(check(metadata)?))?;
        let found = self.parse(bytes).ok_or_else(|| io::Error::other("it is damaged, or of another driver or version"))?;
        Ok(Some(found))
    }

    /// The seal and the data of a file's content; `None` if the seal does not match.
    pub(super) fn parse(&self, mut bytes: Vec<u8>) -> Option<(Fingerprint, Vec<u8>)> {
        let (fingerprint, _) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
        let fingerprint: Fingerprint = *fingerprint;
        let data = bytes.split_off(MAGIC.len() + fingerprint.len());
        (fingerprint == self.fingerprint(&data)).then_some((fingerprint, data))
    }

    /// The content of a file with this data.
    pub(super) fn content(&self, data: &[u8]) -> Vec<u8> {
        [&MAGIC[..], &self.fingerprint(data), data].concat()
    }

    /// Whether a file with this data would be read again.
    pub(super) fn holds(data: &[u8]) -> bool {
        (MAGIC.len() + size_of::<Fingerprint>() + data.len()) as u64 <= LARGEST
    }

    /// Replaces the file atomically: readers see the old file or the new one, also with several writers.
    pub(super) fn write(&self, fingerprint: &Fingerprint, data: &[u8]) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            private_folder(folder)?;
        }
        pteron_files::write(&self.path, OPTIONS, |file| {
            file.write_all(MAGIC)?;
            file.write_all(fingerprint)?;
            file.write_all(data)
        })
    }
}

/// Checks that nobody but this user can have written a file.
fn check(metadata: &fs::Metadata) -> io::Result<()> {
    let fault = match () {
        () if !metadata.is_file() => "it is not a file",
        () if metadata.len() > LARGEST => "it is too large",
        () if !is_own(metadata) => "others may have written it",
        () => return Ok(()),
    };
    Err(io::Error::other(fault))
}

#[cfg(unix)]
fn is_own(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(unix)]
fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Elsewhere the folder decides who may write, and a user's folders belong to the user.
#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use pteron_files::{TemporaryFolder, faults};

    use super::*;

    fn cache() -> (TemporaryFolder, CacheFile) {
        let folder = TemporaryFolder::new("pteron-pipelines-").unwrap();
        let file = CacheFile::new(folder.path(), "name", "identity");
        (folder, file)
    }

    fn write(file: &CacheFile, data: &[u8]) -> io::Result<()> {
        file.write(&file.fingerprint(data), data)
    }

    fn data(file: &CacheFile) -> io::Result<Option<Vec<u8>>> {
        Ok(file.read()?.map(|(_, data)| data))
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn only_content_with_its_seal_is_taken() {
        let (_, file) = cache();
        let content = file.content(b"pipelines");
        assert_eq!(file.parse(content.clone()).unwrap().1, b"pipelines");
        assert_eq!(file.parse(file.content(b"")).unwrap().1, b"");
        for end in 0..content.len() {
            assert_eq!(file.parse(content[..end].to_vec()), None, "cut at {end}");
            let mut damaged = content.clone();
            damaged[end] ^= 1;
            assert_eq!(file.parse(damaged), None, "damaged at {end}");
        }
        assert_eq!(CacheFile::new(Path::new(""), "name", "another").parse(content), None);
    }

    #[test]
    fn a_disk_that_fails_leaves_the_old_file_and_the_next_call_works() {
        let (folder, file) = cache();
        write(&file, b"old").unwrap();
        let new = [7; 10_000];
        for operations in 0.. {
            let fault = faults::fail_after(folder.path(), operations, io::ErrorKind::StorageFull);
            let result = write(&file, &new);
            let reached = fault.reached();
            drop(fault);
            if !reached {
                result.unwrap();
                assert!(operations >= 4, "creating, writing, synchronising, naming");
                break;
            }
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
            assert_eq!((data(&file).unwrap().unwrap(), names(folder.path()).len()), (b"old".to_vec(), 1));
        }
        assert_eq!(data(&file).unwrap().unwrap(), new);
        for operations in 0.. {
            let fault = faults::fail_after(folder.path(), operations, io::ErrorKind::UnexpectedEof);
            let result = data(&file);
            if !fault.reached() {
                break;
            }
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        let _short = faults::short(folder.path(), 5);
        write(&file, &new).unwrap();
        assert_eq!(data(&file).unwrap().unwrap(), new);
    }

    #[cfg(unix)]
    #[test]
    fn fifos_folders_links_and_huge_files_are_rejected() {
        let (folder, file) = cache();
        let refused = |why: &str| assert_eq!(data(&file).unwrap_err().to_string(), why);
        assert!(std::process::Command::new("mkfifo").arg(file.path()).status().unwrap().success());
        refused("it is not a file");
        fs::remove_file(file.path()).unwrap();
        fs::create_dir(file.path()).unwrap();
        refused("it is not a file");
        fs::remove_dir(file.path()).unwrap();
        let target = folder.path().join("target");
        fs::write(&target, file.content(b"pipelines")).unwrap();
        std::os::unix::fs::symlink(&target, file.path()).unwrap();
        refused("it is not a file");
        // A link is replaced, and its target stays.
        write(&file, b"new").unwrap();
        assert_eq!(
            (data(&file).unwrap().unwrap(), fs::read(&target).unwrap()),
            (b"new".to_vec(), file.content(b"pipelines"))
        );
        // 8 TiB, sparse.
        if fs::File::options().write(true).open(file.path()).and_then(|file| file.set_len(8 << 40)).is_ok() {
            refused("it is too large");
        }
    }

    /// An attacker who guesses the name of the temporary file could place a link there.
    #[cfg(unix)]
    #[test]
    fn links_that_were_planted_are_not_followed() {
        let (folder, file) = cache();
        let victim = folder.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        for count in 0..100 {
            let planted = folder.path().join(format!("name.{}-{count}.partial", std::process::id()));
            std::os::unix::fs::symlink(&victim, planted).unwrap();
        }
        write(&file, b"new").unwrap();
        assert_eq!((data(&file).unwrap().unwrap(), fs::read(&victim).unwrap()), (b"new".to_vec(), b"precious".to_vec()));
    }
}
