//! Fault injection for tests: operations on files below a folder fail after a number of successes, or transfer few bytes per call.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static INJECTED: Mutex<Vec<Injected>> = Mutex::new(Vec::new());

/// A fault below a folder.
struct Injected {
    folder: PathBuf,
    kind: Kind,
}

enum Kind {
    /// Operations that still succeed, and the error of those that follow.
    Error { left: u64, kind: io::ErrorKind, reached: bool },
    /// The most bytes that one operation moves.
    Short(usize),
}

/// Keeps a fault in place until it is dropped.
#[derive(Debug)]
pub struct Guard(PathBuf);

/// Lets `successes` operations on files below `folder` succeed and fails all that follow.
#[must_use]
pub fn fail_after(folder: &Path, successes: u64, kind: io::ErrorKind) -> Guard {
    inject(folder, Kind::Error { left: successes, kind, reached: false })
}

/// Moves at most `bytes` bytes in every operation on files below `folder`.
#[must_use]
pub fn short(folder: &Path, bytes: usize) -> Guard {
    inject(folder, Kind::Short(bytes))
}

fn inject(folder: &Path, kind: Kind) -> Guard {
    lock().push(Injected { folder: folder.to_owned(), kind });
    Guard(folder.to_owned())
}

impl Guard {
    /// Whether an operation has failed.
    #[must_use]
    pub fn reached(&self) -> bool {
        let is_reached = |injected: &Injected| matches!(injected.kind, Kind::Error { reached: true, .. });
        lock().iter().any(|injected| injected.folder == self.0 && is_reached(injected))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        lock().retain(|injected| injected.folder != self.0);
    }
}

pub(crate) fn check(path: &Path) -> io::Result<()> {
    for injected in lock().iter_mut().filter(|injected| path.starts_with(&injected.folder)) {
        let Kind::Error { left, kind, reached } = &mut injected.kind else { continue };
        if *left == 0 {
            *reached = true;
            return Err((*kind).into());
        }
        *left -= 1;
    }
    Ok(())
}

pub(crate) fn at_once(path: &Path, len: usize) -> usize {
    let injected = lock();
    let short = injected.iter().filter(|injected| path.starts_with(&injected.folder)).filter_map(|injected| {
        let Kind::Short(bytes) = injected.kind else { return None };
        Some(bytes)
    });
    short.min().map_or(len, |most| len.min(most))
}

fn lock() -> MutexGuard<'static, Vec<Injected>> {
    INJECTED.lock().unwrap_or_else(PoisonError::into_inner)
}
