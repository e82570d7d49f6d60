//! Where compiled kernels, and what was found by tuning, are kept between runs.

use std::ffi::OsString;
use std::path::PathBuf;

/// The user's folder for kernels; `None` where the environment names no place for it.
pub(crate) fn folder() -> Option<PathBuf> {
    Some(place(|name| std::env::var_os(name))?.join("pipelines"))
}

/// The user's file of tunings, if there can be one.
pub(crate) fn tuning_file() -> Option<PathBuf> {
    Some(place(|name| std::env::var_os(name))?.join("tuning.json"))
}

/// Where caches of programs belong, as the XDG base directory specification, macOS and Windows have it.
fn place(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = match () {
        () if cfg!(windows) => folder("LOCALAPPDATA"),
        () if cfg!(target_vendor = "apple") => Some(folder("HOME")?.join("Library").join("Caches")),
        () => folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache"))),
    };
    Some(cache?.join("pteron"))
}

#[cfg(all(test, unix, not(target_vendor = "apple")))]
mod tests {
    use super::*;

    #[test]
    fn its_place_follows_the_environment() {
        let found = |variables: &[(&str, &str)]| {
            place(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
        };
        let (xdg, home) = (("XDG_CACHE_HOME", "/cache"), ("HOME", "/home/me"));
        assert_eq!(found(&[xdg, home]), Some("/cache/pteron".into()));
        assert_eq!(found(&[home]), Some("/home/me/.cache/pteron".into()));
        assert_eq!(found(&[("XDG_CACHE_HOME", "cache"), home]), found(&[home]), "a relative one counts as none");
        assert_eq!(found(&[]), None);
    }
}
