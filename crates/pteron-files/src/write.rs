//! Atomic writes.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::pending::{RANDOM, Registered};
use crate::{at_once, fault};

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Makes the file readable by this user only. Otherwise the umask decides.
    pub private: bool,
    /// Synchronises the file to disk before renaming it. Otherwise a system crash may leave an empty file.
    pub sync: bool,
}

/// A file that appears under its name when it is committed. Dropping it before that removes it.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// The temporary name, where one is needed.
    name: Option<Name>,
    path: PathBuf,
    options: WriteOptions,
}

/// A temporary name, removed when this is dropped. The order matters: it is forgotten after that.
#[derive(Debug)]
struct Name {
    path: TempPath,
    _registered: Registered,
}

impl AtomicFile {
    /// Creates a file that [`commit`](Self::commit) will move to `path`.
    ///
    /// # Errors
    /// A folder that nothing can be written to, and a path that is a directory.
    pub fn create(path: &Path, options: WriteOptions) -> io::Result<Self> {
        fault(path)?;
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = folder(path);
        if let Some(file) = unnamed(folder, options) {
            return Ok(Self { file, name: None, path: path.to_owned(), options });
        }
        let (name, file) = named(path, |name| create_new(name, options))?;
        Ok(Self { file, name: Some(name), path: path.to_owned(), options })
    }

    /// Truncates the file to `len` bytes or extends it with zeros.
    ///
    /// # Errors
    /// I/O errors.
    pub fn set_len(&mut self, len: u64) -> io::Result<()> {
        fault(&self.path)?;
        self.file.set_len(len)
    }

    /// Moves the file to its path, replacing what was there.
    ///
    /// # Errors
    /// I/O errors; the old file is then unchanged.
    pub fn commit(self) -> io::Result<()> {
        let Self { file, name, path, options } = self;
        fault(&path)?;
        if options.sync {
            file.sync_all()?;
        }
        fault(&path)?;
        match name {
            Some(name) => {
                close(file);
                name.path.persist(&path).map_err(|error| error.error)?;
            }
            None => link(&file, &path)?,
        }
        if options.sync {
            sync_folder(&path);
        }
        Ok(())
    }
}

/// Closes a file: some systems rename no open one.
fn close(_: File) {}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fault(&self.path)?;
        self.file.write(&bytes[..at_once(&self.path, bytes.len())])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Writes a file atomically; `content` writes its bytes.
///
/// # Errors
/// Errors of `content` and I/O errors; the old file is then unchanged.
pub fn write(
    path: &Path,
    options: WriteOptions,
    content: impl FnOnce(&mut BufWriter<AtomicFile>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(AtomicFile::create(path, options)?);
    content(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
}

/// The folder of `path`, which also holds the temporary file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates something under a random name in the folder of `path`.
fn named<T>(path: &Path, mut make: impl FnMut(&Path) -> io::Result<T>) -> io::Result<(Name, T)> {
    let mut prefix = std::ffi::OsString::from(".");
    // A long name would leave no room for the suffix.
    prefix.push(path.file_name().filter(|name| name.len() <= 200).unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp").rand_bytes(RANDOM);
    let made = builder.make_in(folder(path), |name| {
        let registered = Registered::new(name);
        Ok((registered, make(name)?))
    })?;
    let ((registered, made), path) = made.into_parts();
    Ok((Name { path, _registered: registered }, made))
}

#[cfg(unix)]
fn mode(options: WriteOptions) -> u32 {
    if options.private { 0o600 } else { 0o666 }
}

/// Creates a file at a path where nothing exists, not even a link.
fn create_new(path: &Path, options: WriteOptions) -> io::Result<File> {
    let mut open = File::options();
    open.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut open, mode(options));
    #[cfg(not(unix))]
    let _ = options;
    open.open(path)
}

/// Creates a file without a name, which disappears when this process ends; `None` where the system does not support that.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path, options: WriteOptions) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    if crate::names_are_forced() {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(mode(options))).ok()?);
    // The file is linked to its name through this path.
    std::fs::symlink_metadata(handle(&file)).is_ok().then_some(file)
}

#[cfg(target_os = "linux")]
fn handle(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Links a file without a name to a path.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    let link = |name: &Path| rustix::fs::linkat(CWD, handle(file), CWD, name, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Err(rustix::io::Errno::EXIST) => {
            // Linking replaces nothing; renaming does.
            let (name, ()) = named(path, |name| Ok(link(name)?))?;
            name.path.persist(path).map_err(|error| error.error)
        }
        linked => Ok(linked?),
    }
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path, _: WriteOptions) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Synchronises the folder, where the system can.
#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) {
    let _ = File::open(folder(path)).and_then(|folder| folder.sync_all());
}

#[cfg(not(unix))]
pub(crate) fn sync_folder(_: &Path) {}
