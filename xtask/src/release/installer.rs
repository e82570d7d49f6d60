//! `install.sh`: fetches the archive from a web server, and refuses a damaged one.

use std::fs;
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, bail};

use super::progress::{both, output, run};
use super::scratch::Scratch;
use super::server::Server;
use super::{Release, binary, checksums};

const SCRIPT: &str = "deploy/install.sh";
const NAME: &str = "install.sh";

pub(super) fn build(release: &Release<'_>) -> Result<()> {
    fs::copy(release.root().join(SCRIPT), release.out.join(NAME)).context(SCRIPT)?;
    run(release.tools()?.command("shellcheck")?.arg(release.out.join(NAME)))
}

pub(super) fn check(release: &Release<'_>) -> Result<Vec<String>> {
    let archive = format!("{}.tgz", binary::archive_name(release));
    if !release.out.join(&archive).is_file() {
        bail!("there is no {archive} to install: build the part binary as well");
    }
    let scratch = Scratch::new("installer")?;
    let server = Server::start(release.out.clone())?;
    let prefix = scratch.path().join("prefix");
    let installed = install(&scratch, &release.out.join(NAME), &prefix, &server.url())?;
    if !installed.status.success() {
        bail!("install.sh failed:\n{}", both(&installed));
    }
    let command = binary::check_program(release, &scratch, &prefix.join("bin/pteron"), true)?;
    let expected =
        ["share/man/man1/pteron.1", "share/bash-completion/completions/pteron", "share/zsh/site-functions/_pteron"];
    if let Some(missing) = expected.iter().find(|path| !prefix.join(path).is_file()) {
        bail!("install.sh did not install {missing}");
    }
    refuse_damaged(release, &scratch, &archive)?;
    Ok(vec![format!("over HTTP into an empty folder: {command}"), "a damaged archive is refused".to_owned()])
}

/// The same archive with one byte changed.
fn refuse_damaged(release: &Release<'_>, scratch: &Scratch, archive: &str) -> Result<()> {
    let folder = scratch.path().join("damaged");
    fs::create_dir_all(&folder)?;
    let mut bytes = fs::read(release.out.join(archive))?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(folder.join(archive), bytes)?;
    fs::copy(release.out.join(checksums::FILE), folder.join(checksums::FILE))?;
    let server = Server::start(folder)?;
    let prefix = scratch.path().join("unused");
    let refused = install(scratch, &release.out.join(NAME), &prefix, &server.url())?;
    if refused.status.success() || prefix.exists() || !both(&refused).contains("is damaged") {
        bail!("install.sh does not refuse a damaged archive:\n{}", both(&refused));
    }
    Ok(())
}

/// Runs the script as a user would who has fetched it.
fn install(scratch: &Scratch, script: &Path, prefix: &Path, url: &str) -> Result<Output> {
    output(scratch.command("sh").arg(script).arg("--prefix").arg(prefix).args(["--base-url", url]))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    /// A release whose program is a shell script.
    fn fake(scratch: &Scratch, program: &str) -> Server {
        let folder = scratch.path().join("release");
        let name = format!("pteron-{}-unknown-linux-gnu", std::env::consts::ARCH);
        let inner = folder.join(&name);
        for (path, text) in [
            ("pteron", program),
            ("man/pteron.1", ".TH pteron 1\n"),
            ("completions/pteron.bash", ""),
            ("completions/pteron.fish", ""),
            ("completions/_pteron", ""),
        ] {
            let path = inner.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        run(Command::new("chmod").arg("+x").arg(inner.join("pteron"))).unwrap();
        let archive = folder.join(format!("{name}.tgz"));
        run(Command::new("tar").arg("-czf").arg(archive).arg(&name).current_dir(&folder)).unwrap();
        checksums::write(&folder).unwrap();
        Server::start(folder).unwrap()
    }

    fn script() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCRIPT)
    }

    #[test]
    fn a_release_is_installed_and_replaced() {
        let scratch = Scratch::new("install-test").unwrap();
        let server = fake(&scratch, "#!/bin/sh\necho pteron 9.9.9\n");
        let prefix = scratch.path().join("a prefix");
        for _ in 0..2 {
            let installed = install(&scratch, &script(), &prefix, &server.url()).unwrap();
            assert!(installed.status.success(), "{}", both(&installed));
            assert!(both(&installed).contains("installed pteron 9.9.9") && both(&installed).contains("to your PATH"));
        }
        assert!(prefix.join("bin/pteron").is_file() && prefix.join("share/man/man1/pteron.1").is_file());
        assert_eq!(fs::read_dir(prefix.join("bin")).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn nothing_is_installed_from_a_damaged_unlisted_or_broken_release() {
        let prefix = |scratch: &Scratch| scratch.path().join("prefix");
        let refused = |scratch: &Scratch, server: &Server, reason: &str| {
            let refused = install(scratch, &script(), &prefix(scratch), &server.url()).unwrap();
            assert!(!refused.status.success() && both(&refused).contains(reason), "{}", both(&refused));
            assert!(!prefix(scratch).exists(), "{reason}");
        };
        let scratch = Scratch::new("install-broken").unwrap();
        let server = fake(&scratch, "#!/bin/sh\nexit 1\n");
        refused(&scratch, &server, "does not start");
        let sums = scratch.path().join("release").join(checksums::FILE);
        let text = fs::read_to_string(&sums).unwrap();
        fs::write(&sums, text.replace(['1', '2'], "3")).unwrap();
        refused(&scratch, &server, "is damaged");
        fs::write(&sums, "").unwrap();
        refused(&scratch, &server, "does not list");
        fs::remove_file(&sums).unwrap();
        refused(&scratch, &server, "could not be fetched");
    }

    #[test]
    fn a_wrong_option_is_named() {
        let wrong = output(Command::new("sh").arg(script()).arg("--prefx")).unwrap();
        assert!(!wrong.status.success() && both(&wrong).contains("unknown option --prefx"), "{}", both(&wrong));
        let help = output(Command::new("sh").arg(script()).arg("--help")).unwrap();
        assert!(help.status.success() && both(&help).contains("--base-url URL"), "{}", both(&help));
    }
}
