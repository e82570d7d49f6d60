//! What a Linux program or library needs of the system it runs on, as `readelf` shows it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::progress::read;

/// The oldest glibc that the artefacts run with: `manylinux_2_28`, that is every distribution since 2019.
pub(crate) const GLIBC: Version = Version(2, 28);

/// Libraries of glibc, which every system has. Vulkan and others are opened when they are used.
const SYSTEM: [&str; 8] = [
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// The first two numbers of a version of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Checks that a file needs no newer symbol and no other library, and returns the newest version of glibc that it needs.
pub(crate) fn check(file: &Path) -> Result<Version> {
    let readelf = |option: &str| read(Command::new("readelf").args([option, "--wide"]).arg(file).env("LC_ALL", "C"));
    newest(&readelf("--dyn-syms")?, &readelf("--dynamic")?).with_context(|| file.display().to_string())
}

fn newest(symbols: &str, dynamic: &str) -> Result<Version> {
    let strange: Vec<&str> = needed(dynamic).filter(|library| !SYSTEM.contains(library)).collect();
    if !strange.is_empty() {
        bail!("needs libraries that not every system has: {}", strange.join(", "));
    }
    let versions: Vec<(Version, &str)> = symbols.lines().filter_map(glibc).collect();
    let newer: Vec<&str> = versions.iter().filter(|(version, _)| *version > GLIBC).map(|(_, symbol)| *symbol).collect();
    if !newer.is_empty() {
        bail!("needs a newer glibc than {GLIBC} for {}", newer.join(", "));
    }
    versions.iter().map(|(version, _)| *version).max().context("needs no symbol of glibc, so it is no Linux program")
}

/// Version and name of an undefined symbol of glibc: `… UND fcntl64@GLIBC_2.28 (5)`.
fn glibc(line: &str) -> Option<(Version, &str)> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "UND");
    let symbol = words.nth(1)?;
    let (_, version) = symbol.split_once("@GLIBC_")?;
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((Version(major, minor), symbol)),
        // Symbols of glibc's own use have no number, and change with every version.
        _ => Some((Version(u32::MAX, 0), symbol)),
    }
}

/// The libraries that are loaded with the file.
fn needed(dynamic: &str) -> impl Iterator<Item = &str> {
    dynamic
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n 0x000000000000000e (SONAME)             Library soname: [lib_native.so]\n";

    fn symbols(names: &[&str]) -> String {
        let line = |name: &&str| format!("    70: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND {name} (2)\n");
        names.iter().map(line).collect()
    }

    #[test]
    fn the_newest_needed_version_is_found() {
        let needed = symbols(&["snprintf@GLIBC_2.2.5", "fcntl64@GLIBC_2.28", "_Unwind_Resume@GCC_3.0", "PyList_New"]);
        let own = "     9: 0000000000012340    20 FUNC    GLOBAL DEFAULT   14 mine@@GLIBC_2.99\n";
        assert_eq!(newest(&(needed + own), DYNAMIC).unwrap(), Version(2, 28));
        assert!(Version(2, 3) < Version(2, 28) && GLIBC.to_string() == "2.28");
    }

    #[test]
    fn a_newer_or_private_symbol_is_named() {
        for symbol in ["__libc_start_main@GLIBC_2.34", "__libc_x@GLIBC_PRIVATE"] {
            let error = newest(&symbols(&["puts@GLIBC_2.2.5", symbol]), DYNAMIC).unwrap_err().to_string();
            assert_eq!(error, format!("needs a newer glibc than 2.28 for {symbol}"));
        }
    }

    #[test]
    fn another_library_is_named() {
        let dynamic = format!("{DYNAMIC} 0x0000000000000001 (NEEDED)  Shared library: [libvulkan.so.1]\n");
        let error = newest(&symbols(&["puts@GLIBC_2.2.5"]), &dynamic).unwrap_err().to_string();
        assert_eq!(error, "needs libraries that not every system has: libvulkan.so.1");
        assert!(newest("", DYNAMIC).is_err(), "a file without symbols");
    }
}
