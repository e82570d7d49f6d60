//! A file whose bytes are used only if this user wrote them, all of them, and for the same purpose.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// What a file starts with; the seal and the bytes follow.
const MAGIC: &[u8; 16] = b"pteron pipelines";
/// Larger files are not read. What grew so large holds much that nobody uses any more.
const LARGEST: u64 = 256 << 20;

/// A hash of a file's bytes and of what they are for.
pub(super) type Seal = [u8; 32];

#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    identity: String,
}

impl CacheFile {
    /// The file of a name in a folder, for bytes of just this identity.
    pub(super) fn new(folder: &Path, name: &str, identity: &str) -> Self {
        Self { path: folder.join(format!("{name}.bin")), identity: identity.to_owned() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The seal that these bytes have in this file.
    pub(super) fn seal(&self, data: &[u8]) -> Seal {
        let mut hash = Sha256::new();
        hash.update((self.identity.len() as u64).to_le_bytes());
        hash.update(&self.identity);
        hash.update(data);
        hash.finalize().into()
    }

    /// What is in the file; `None` where there is none.
    pub(super) fn read(&self) -> io::Result<Option<(Seal, Vec<u8>)>> {
        // Asked before opening: opening a pipe would wait for somebody to write to it.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => check(&other?)?,
        }
        let file = File::open(&self.path)?;
        check(&file.metadata()?)?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes)?;
        let found = self.parse(bytes).ok_or_else(|| io::Error::other("it is damaged, or of another driver or version"))?;
        Ok(Some(found))
    }

    /// The seal and the data of a file's content; `None` if the seal does not fit.
    pub(super) fn parse(&self, mut bytes: Vec<u8>) -> Option<(Seal, Vec<u8>)> {
        let (seal, _) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
        let seal: Seal = *seal;
        let data = bytes.split_off(MAGIC.len() + seal.len());
        (seal == self.seal(&data)).then_some((seal, data))
    }

    /// What a file with these bytes holds.
    pub(super) fn content(&self, data: &[u8]) -> Vec<u8> {
        [&MAGIC[..], &self.seal(data), data].concat()
    }

    /// Whether a file with these bytes would be read again.
    pub(super) fn holds(data: &[u8]) -> bool {
        (MAGIC.len() + size_of::<Seal>() + data.len()) as u64 <= LARGEST
    }

    /// Puts bytes in the place of what was there. Whoever reads finds the old file or the new one, also where several write.
    pub(super) fn write(&self, seal: &Seal, data: &[u8]) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        if let Some(folder) = self.path.parent() {
            private_folder(folder)?;
        }
        let own = format!("{}-{}.partial", std::process::id(), WRITTEN.fetch_add(1, Ordering::Relaxed));
        let partial = self.path.with_extension(own);
        let whole = || {
            let mut file = private_file(&partial)?;
            file.write_all(MAGIC)?;
            file.write_all(seal)?;
            file.write_all(data)?;
            drop(file);
            fs::rename(&partial, &self.path)
        };
        whole().inspect_err(|_| {
            // It may not exist; what failed first is what is worth saying.
            let _ = fs::remove_file(&partial);
        })
    }
}

/// Whether nobody but this user can have written a file.
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

#[cfg(unix)]
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Elsewhere the folder decides who may write, and a user's folders are the user's.
#[cfg(not(unix))]
fn is_own(_: &fs::Metadata) -> bool {
    true
}

#[cfg(not(unix))]
fn private_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(not(unix))]
fn private_file(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}
