//! Tests of bounded reads and atomic writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use pteron_files::{
    AtomicFile, FileLock, ReadError, ResumableFile, TemporaryFolder, WriteOptions, faults, open, read, write,
};

const USUAL: WriteOptions = WriteOptions { private: false, sync: false };
const PRIVATE: WriteOptions = WriteOptions { private: true, sync: true };

fn folder() -> TemporaryFolder {
    TemporaryFolder::new("pteron-files-").unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_resumable_file_is_continued_and_then_moved() {
    let folder = folder();
    let [partial, whole] = ["partial", "whole"].map(|name| folder.path().join(name));
    ResumableFile::open(&partial).unwrap().write_all(b"first, ").unwrap();
    let _short = faults::short(folder.path(), 3);
    let mut file = ResumableFile::open(&partial).unwrap();
    assert_eq!((file.len(), file.is_empty()), (7, false));
    let mut found = Vec::new();
    file.read_back(|bytes| {
        found.extend_from_slice(bytes);
        io::Result::Ok(())
    })
    .unwrap();
    assert_eq!(found, b"first, ");
    file.write_all(b"second").unwrap();
    assert_eq!(names(folder.path()), ["partial"]);
    file.commit(&whole).unwrap();
    assert_eq!((names(folder.path()), read(&whole, 100).unwrap()), (vec!["whole".to_owned()], b"first, second".to_vec()));
    let mut other = ResumableFile::open(&partial).unwrap();
    other.write_all(b"wrong").unwrap();
    other.clear().unwrap();
    other.write_all(b"right").unwrap();
    assert_eq!(fs::read(&partial).unwrap(), b"right");
    other.remove().unwrap();
    assert_eq!(names(folder.path()), ["whole"]);
}

#[test]
fn a_resumable_file_keeps_its_bytes_when_the_disk_fails() {
    let folder = folder();
    let [partial, whole] = ["partial", "whole"].map(|name| folder.path().join(name));
    let fault = faults::fail_after(folder.path(), 2, io::ErrorKind::StorageFull);
    let mut file = ResumableFile::open(&partial).unwrap();
    file.write_all(b"kept").unwrap();
    assert_eq!(file.write_all(b"lost").unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(file.commit(&whole).is_err());
    drop(fault);
    assert_eq!((names(folder.path()), fs::read(&partial).unwrap()), (vec!["partial".to_owned()], b"kept".to_vec()));
}

#[test]
fn one_holder_has_a_lock() {
    let folder = folder();
    let path = folder.path().join("lock");
    let first = FileLock::try_acquire(&path).unwrap();
    assert!(first.is_some() && FileLock::try_acquire(&path).unwrap().is_none());
    drop(first);
    assert!(FileLock::try_acquire(&path).unwrap().is_some());
}

#[test]
fn a_file_is_replaced_when_it_is_whole() {
    let folder = folder();
    let path = folder.path().join("file");
    for (round, options) in [USUAL, PRIVATE, USUAL].into_iter().enumerate() {
        let text = format!("round {round}");
        let before = fs::read(&path).ok();
        write(&path, options, |out| {
            out.write_all(text.as_bytes())?;
            out.flush()?;
            assert_eq!(fs::read(&path).ok(), before, "nothing is seen of it before it is whole");
            Ok(())
        })
        .unwrap();
        assert_eq!(read(&path, 100).unwrap(), text.as_bytes());
        assert_eq!(names(folder.path()), ["file"]);
    }
}

#[test]
fn content_that_fails_or_panics_leaves_the_old_file_and_nothing_else() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let error = write(&path, USUAL, |out| {
        out.write_all(&[1; 100_000])?;
        Err(io::Error::other("no more"))
    });
    assert_eq!(error.unwrap_err().to_string(), "no more");
    let panicking = || write(&path, USUAL, |_| panic!("an accident"));
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    drop(AtomicFile::create(&path, USUAL).unwrap());
    assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["file".to_owned()]));
}

/// Every operation fails in turn, until there are no more.
#[test]
fn a_disk_that_fails_at_any_operation_leaves_the_old_file() {
    let folder = folder();
    let path = folder.path().join("file");
    fs::write(&path, "old").unwrap();
    let attempt = || {
        let mut file = AtomicFile::create(&path, PRIVATE)?;
        file.write_all(b"four")?;
        file.seek(SeekFrom::Start(2))?;
        file.write_all(b"new")?;
        file.set_len(5)?;
        file.commit()
    };
    let mut operations = 0;
    loop {
        let guard = faults::fail_after(folder.path(), operations, io::ErrorKind::StorageFull);
        let result = attempt();
        let reached = guard.reached();
        drop(guard);
        if !reached {
            result.unwrap();
            break;
        }
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull, "after {operations} operations");
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"old".to_vec(), vec!["file".to_owned()]));
        operations += 1;
    }
    assert_eq!(operations, 6, "create, two writes, a length, a synchronisation, a name");
    assert_eq!(fs::read(&path).unwrap(), b"fonew");
}

#[test]
fn reads_that_fail_are_errors_and_short_ones_go_on() {
    let folder = folder();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..=255).cycle().take(1000).collect();
    {
        let _short = faults::short(folder.path(), 7);
        write(&path, USUAL, |out| out.write_all(&bytes)).unwrap();
        assert_eq!(read(&path, 1000).unwrap(), bytes);
    }
    for successes in 0.. {
        let guard = faults::fail_after(folder.path(), successes, io::ErrorKind::UnexpectedEof);
        let result = read(&path, 1000);
        if !guard.reached() {
            assert!(successes >= 2, "opening and reading can fail");
            assert_eq!(result.unwrap(), bytes);
            break;
        }
        assert!(matches!(result, Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof));
    }
}

#[test]
fn a_file_that_is_too_large_is_refused_by_its_size() {
    let folder = folder();
    let path = folder.path().join("sparse");
    // 8 TiB that take no place: to read them would take hours and more memory than there is.
    let len = 8 << 40;
    if fs::File::create(&path).and_then(|file| file.set_len(len)).is_ok() {
        assert!(matches!(read(&path, 1 << 20), Err(ReadError::TooLarge { len: found, limit: 1_048_576 }) if found == len));
    }
    fs::write(&path, [0; 11]).unwrap();
    assert_eq!(read(&path, 10).unwrap_err().to_string(), "it has 11 bytes, and at most 10 are read");
    assert_eq!(read(&path, 11).unwrap().len(), 11);
    assert!(read(&folder.path().join("none"), 1).unwrap_err().is_not_found());
    assert!(matches!(read(folder.path(), 1), Err(ReadError::Directory)));
}

#[test]
fn folders_for_a_while_are_removed() {
    let folder = folder();
    let path = folder.path().to_owned();
    fs::write(path.join("file"), "").unwrap();
    drop(folder);
    assert!(!path.exists());
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn private_files_are_private_and_others_follow_the_umask() {
        let folder = folder();
        let [usual, private, plain] = ["usual", "private", "plain"].map(|name| folder.path().join(name));
        write(&usual, USUAL, |_| Ok(())).unwrap();
        write(&private, PRIVATE, |_| Ok(())).unwrap();
        fs::write(&plain, "").unwrap();
        assert_eq!((mode(&usual), mode(&private)), (mode(&plain), 0o600));
    }

    /// A link at the path is replaced, never written through.
    #[test]
    fn links_are_replaced_and_not_followed() {
        let folder = folder();
        let [path, victim] = ["link", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        for target in [&victim, &folder.path().join("nothing")] {
            symlink(target, &path).unwrap();
            write(&path, USUAL, |out| out.write_all(b"new")).unwrap();
            assert!(fs::symlink_metadata(&path).unwrap().is_file());
            assert_eq!((fs::read(&victim).unwrap(), fs::read(&path).unwrap()), (b"precious".to_vec(), b"new".to_vec()));
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(names(folder.path()), ["victim"]);
    }

    #[test]
    fn links_are_no_resumable_files_and_no_locks() {
        let folder = folder();
        let [link, victim] = ["link", "victim"].map(|name| folder.path().join(name));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        assert!(ResumableFile::open(&link).is_err() && FileLock::try_acquire(&link).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn pipes_and_devices_are_refused_and_not_waited_for() {
        let folder = folder();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert!(matches!(read(path, 100), Err(ReadError::Special)), "{}", path.display());
            assert!(matches!(open(path), Err(ReadError::Special)), "{}", path.display());
        }
        let link = folder.path().join("link");
        symlink(&pipe, &link).unwrap();
        assert!(matches!(read(&link, 100), Err(ReadError::Special)));
    }
}
