//! The user's folders for caches and state. Every path that outlives a run comes from here.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of compiled kernels; `None` where the environment names no cache folder.
pub(crate) fn pipeline_cache() -> Option<PathBuf> {
    Some(Kind::Cache.folder(environment)?.join("pipelines"))
}

/// The file of tunings; `None` where the environment names no cache folder.
pub(crate) fn tuning_file() -> Option<PathBuf> {
    Some(Kind::Cache.folder(environment)?.join("tuning.json"))
}

/// The folder of pulled models: the one that `PTERON_MODELS` names, else one of the cache folder; `None` where the environment names neither.
pub(crate) fn models() -> Option<PathBuf> {
    let named = environment("PTERON_MODELS").map(PathBuf::from).filter(|path| path.is_absolute());
    named.or_else(|| Some(Kind::Cache.folder(environment)?.join("models")))
}

/// The file of lines typed in `pteron chat`; `None` where the environment names no state folder.
pub(crate) fn chat_history() -> Option<PathBuf> {
    Some(Kind::State.folder(environment)?.join("chat_history"))
}

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Kinds of files, which systems keep in different folders.
#[derive(Clone, Copy)]
enum Kind {
    /// Can be removed at any time and is created again.
    Cache,
    /// Is lost when it is removed.
    State,
}

impl Kind {
    /// The folder `pteron` of this kind, as the XDG base directory specification, macOS and Windows define it. Relative paths in the
    /// environment are ignored.
    fn folder(self, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = |below: &[&str]| Some(below.iter().fold(folder("HOME")?, |path, part| path.join(part)));
        let parent = match self {
            _ if cfg!(windows) => folder("LOCALAPPDATA"),
            Self::Cache if cfg!(target_vendor = "apple") => home(&["Library", "Caches"]),
            Self::Cache => folder("XDG_CACHE_HOME").or_else(|| home(&[".cache"])),
            Self::State => folder("XDG_STATE_HOME").or_else(|| home(&[".local", "state"])),
        };
        Some(parent?.join("pteron"))
    }
}

#[cfg(all(test, unix, not(target_vendor = "apple")))]
mod tests {
    use super::*;

    #[test]
    fn folders_follow_the_environment() {
        for (kind, variable, default) in [
            (Kind::Cache, "XDG_CACHE_HOME", "/home/me/.cache/pteron"),
            (Kind::State, "XDG_STATE_HOME", "/home/me/.local/state/pteron"),
        ] {
            let found = |variables: &[(&str, &str)]| {
                kind.folder(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
            };
            let home = ("HOME", "/home/me");
            assert_eq!(found(&[(variable, "/elsewhere"), home]), Some("/elsewhere/pteron".into()));
            assert_eq!(found(&[home]), Some(default.into()));
            assert_eq!(found(&[(variable, "relative"), home]), Some(default.into()), "relative paths are ignored");
            assert_eq!(found(&[]), None);
        }
    }
}
