//! Files on disk, for the tools that read and write them.
//!
//! **Internal to Pteron**: the API may change in any release.
//!
//! [`read()`] and [`open()`] take regular files alone, never wait for a pipe's other end, and read at most as many bytes as the
//! caller allows. [`write()`] and [`AtomicFile`] put a whole file in the place of what was there, or leave that as it was. A file
//! that is not finished has no name where the system can do that (Linux), and elsewhere a random one that is created new, so that
//! nobody can plant a link there; [`abandon`] removes those for a process that is about to end.

#[cfg(feature = "faults")]
pub mod faults;
mod pending;
mod read;
#[cfg(feature = "testing")]
pub mod testing;
mod write;

pub use pending::{TemporaryFolder, abandon};
pub use read::{ReadError, open, read, read_if};
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
