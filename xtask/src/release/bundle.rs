//! Archives: one folder of files, packed so that the same files give the same bytes, and unpacked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::CommitTime;
use super::progress::run;

/// Packs a folder into `DIR/NAME.tgz`, or `.zip` on Windows, and returns the archive. Names in it begin with the folder's.
pub(super) fn pack(folder: &Path, into: &Path, time: &CommitTime) -> Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = folder.parent().unwrap_or(Path::new("."));
    if cfg!(windows) {
        let archive = into.join(format!("{name}.zip"));
        run(Command::new("7z").args(["a", "-bso0"]).arg(&archive).arg(&name).current_dir(parent))?;
        return Ok(archive);
    }
    let archive = into.join(format!("{name}.tgz"));
    let mut tar = Command::new("tar");
    if cfg!(target_os = "linux") {
        // GNU's tar. gzip adds no time of its own to what it reads from a pipe.
        let time = format!("--mtime=@{}", time.seconds);
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar", &time]);
    }
    run(tar.arg("-czf").arg(&archive).arg(&name).current_dir(parent))?;
    Ok(archive)
}

/// Unpacks an archive of tar.
pub(super) fn unpack(archive: &Path, into: &Path) -> Result<()> {
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(into))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn the_same_files_give_the_same_archive() {
        let time = CommitTime { seconds: "1700000000".to_owned(), iso: String::new() };
        let archives = [1, 2].map(|_| {
            let scratch = Scratch::new("bundle").unwrap();
            let folder = scratch.path().join("pteron-x");
            fs::create_dir_all(folder.join("man")).unwrap();
            fs::write(folder.join("man/a.1"), "page").unwrap();
            let archive = pack(&folder, scratch.path(), &time).unwrap();
            fs::remove_dir_all(&folder).unwrap();
            unpack(&archive, scratch.path()).unwrap();
            assert_eq!(fs::read_to_string(folder.join("man/a.1")).unwrap(), "page");
            fs::read(archive).unwrap()
        });
        assert_eq!(archives[0], archives[1]);
    }
}
