//! Files on disk, for the tools that read and write them.
//!
//! **Internal to Pteron**: the API may change in any release.
//!
//! [`read()`] and [`open()`] accept regular files only, never block on a pipe, and read at most as many bytes as the caller
//! allows. [`write()`] and [`AtomicFile`] replace a file completely or leave the old one unchanged. On Linux an unfinished file has
//! no name. Elsewhere it has a random name that must not exist yet, so that nobody can plant a link there; [`abandon`] removes such
//! files for a process that is about to exit. A [`ResumableFile`] is the exception: its bytes stay under a name of their own, for a later
//! process to continue. A [`FileLock`] keeps two processes from doing that at the same time.

#[cfg(feature = "faults")]
pub mod faults;
mod lock;
mod pending;
mod read;
mod resumable;
#[cfg(feature = "testing")]
pub mod testing;
mod write;

pub use lock::FileLock;
pub use pending::{TemporaryFolder, abandon};
pub use read::{ReadError, open, read, read_if};
pub use resumable::ResumableFile;
pub use write::{AtomicFile, WriteOptions, write};

/// Fails if a test has injected a fault.
#[cfg(feature = "faults")]
fn fault(path: &std::path::Path) -> std::io::Result<()> {
    faults::check(path)
}

#[cfg(not(feature = "faults"))]
#[allow(clippy::unnecessary_wraps, reason = "the same signature as with faults")]
fn fault(_: &std::path::Path) -> std::io::Result<()> {
    Ok(())
}

/// Returns how many of `len` bytes an operation may move.
#[cfg(feature = "faults")]
fn at_once(path: &std::path::Path, len: usize) -> usize {
    faults::at_once(path, len)
}

#[cfg(not(feature = "faults"))]
fn at_once(_: &std::path::Path, len: usize) -> usize {
    len
}

/// Whether a test forces names for unfinished files.
#[cfg(all(feature = "faults", target_os = "linux"))]
fn names_are_forced() -> bool {
    std::env::var_os("PTERON_NAMED_FILES").is_some()
}

#[cfg(all(not(feature = "faults"), target_os = "linux"))]
fn names_are_forced() -> bool {
    false
}
