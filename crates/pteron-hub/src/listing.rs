//! The listing of a repository.

use serde::Deserialize;

use crate::checksum::Checksum;
use crate::error::{Error, Result};
use crate::name::{ModelRef, is_commit};
use crate::path::is_repo_path;

/// What it is, in errors.
pub(crate) const WHAT: &str = "a listing";
/// The most bytes of a listing, and the most files.
pub(crate) const MOST_BYTES: usize = 16 << 20;
const MOST_FILES: usize = 100_000;

/// The files of a commit.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) commit: String,
    pub(crate) files: Vec<ListedFile>,
}

/// A file as the endpoint lists it. Mirrors may leave out what a file's own headers state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) path: String,
    pub(crate) size: Option<u64>,
    pub(crate) checksum: Option<Checksum>,
}

#[derive(Deserialize)]
struct Answer {
    sha: Option<String>,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: Option<String>,
    size: Option<u64>,
}

impl Listing {
    /// Parses a listing and rejects one with a path that leads out of the repository.
    pub(crate) fn parse(json: &[u8], model: &ModelRef, host: &str) -> Result<Self> {
        let broken = |problem: String| Error::Response { host: host.to_owned(), what: WHAT.to_owned(), problem };
        let answer: Answer = serde_json::from_slice(json).map_err(|error| broken(format!("is not understood: {error}")))?;
        let commit = answer.sha.filter(|commit| is_commit(commit)).ok_or_else(|| broken("names no commit".to_owned()))?;
        if answer.siblings.len() > MOST_FILES {
            return Err(broken(format!("has {} files; {MOST_FILES} are the most", answer.siblings.len())));
        }
        if let Some(unsafe_file) = answer.siblings.iter().find(|file| !is_repo_path(&file.rfilename)) {
            return Err(Error::UnsafePath { model: model.name().to_owned(), path: unsafe_file.rfilename.clone() });
        }
        Ok(Self { commit, files: answer.siblings.into_iter().map(ListedFile::from).collect() })
    }
}

impl From<Sibling> for ListedFile {
    fn from(file: Sibling) -> Self {
        // The object of a large file in Git is a pointer, so its id is not that of the file.
        let (checksum, size) = match file.lfs {
            Some(lfs) => (lfs.sha256, lfs.size.or(file.size)),
            None => (file.blob_id, file.size),
        };
        Self { path: file.rfilename, size, checksum: checksum.and_then(|hex| Checksum::from_hex(&hex)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Listing> {
        Listing::parse(json.as_bytes(), &"o/m".parse().unwrap(), "host")
    }

    #[test]
    fn large_and_small_files_have_their_own_checksums() {
        let (commit, git, sha) = ("c".repeat(40), "a".repeat(40), "b".repeat(64));
        let json = format!(
            r#"{{"id": "o/m", "sha": "{commit}", "gated": false, "siblings": [
                {{"rfilename": "m.pte", "size": 9, "blobId": "{git}", "lfs": {{"sha256": "{sha}", "size": 9, "pointerSize": 130}}}},
                {{"rfilename": "config.json", "size": 2, "blobId": "{git}"}}, {{"rfilename": "x"}}]}}"#
        );
        let listing = parse(&json).unwrap();
        let file =
            |path: &str, size, hex: &str| ListedFile { path: path.to_owned(), size, checksum: Checksum::from_hex(hex) };
        assert_eq!(listing.files, [file("m.pte", Some(9), &sha), file("config.json", Some(2), &git), file("x", None, "")]);
        assert_eq!(listing.commit, commit);
    }

    #[test]
    fn hostile_listings_are_rejected() {
        let commit = "c".repeat(40);
        for path in ["../x.pte", "/etc/passwd", "a/../../b", "C:/x", "a\\\\b", "", "a\\u0000b", "a//b"] {
            let error = parse(&format!(r#"{{"sha": "{commit}", "siblings": [{{"rfilename": "{path}"}}]}}"#)).unwrap_err();
            assert!(matches!(error, Error::UnsafePath { .. }), "{path}: {error}");
        }
        for json in ["", "[]", "{}", r#"{"sha": "main"}"#, r#"{"sha": "../../x"}"#, r#"{"siblings": 1}"#, r#"{"sha": 1}"#] {
            assert!(matches!(parse(json), Err(Error::Response { .. })), "{json}");
        }
        let many = r#"{"rfilename": "a"},"#.repeat(MOST_FILES) + r#"{"rfilename": "a"}"#;
        assert!(parse(&format!(r#"{{"sha": "{commit}", "siblings": [{many}]}}"#)).is_err());
        assert!(parse(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err(), "deep nesting");
        assert!(parse(&format!(r#"{{"sha": "{commit}", "siblings": [{{"rfilename": "a", "size": -1}}]}}"#)).is_err());
    }
}
