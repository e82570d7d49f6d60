//! Checksums: SHA-256 of large files, and the ids of Git objects for the others.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The checksum of a file. As text it is `sha256:…` or `git:…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Checksum {
    /// Of its bytes. Git LFS identifies files by it.
    Sha256([u8; 32]),
    /// The SHA-1 of a Git object: of a short header and its bytes.
    GitBlob([u8; 20]),
}

impl Checksum {
    /// Reads the hexadecimal digits of an entity tag or of a listing; their number tells which checksum it is.
    pub(crate) fn from_hex(text: &str) -> Option<Self> {
        digits(text).map(Self::Sha256).or_else(|| digits(text).map(Self::GitBlob))
    }

    /// Reads an entity tag, in quotes and perhaps weak.
    #[cfg(feature = "download")]
    pub(crate) fn from_etag(text: &str) -> Option<Self> {
        Self::from_hex(text.trim().trim_start_matches("W/").trim_matches('"'))
    }

    /// Its digits.
    pub(crate) fn hex(&self) -> String {
        let bytes: &[u8] = match self {
            Self::Sha256(bytes) => bytes,
            Self::GitBlob(bytes) => bytes,
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::GitBlob(_) => "git",
        }
    }

    /// Starts to compute such a checksum of a file of `size` bytes.
    #[cfg(feature = "download")]
    pub(crate) fn hasher(&self, size: u64) -> Hasher {
        use sha1::Digest;
        match self {
            Self::Sha256(_) => Hasher::Sha256(sha2::Sha256::new()),
            Self::GitBlob(_) => Hasher::GitBlob(sha1::Sha1::new_with_prefix(format!("blob {size}\0"))),
        }
    }
}

fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.hex())
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

impl TryFrom<String> for Checksum {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let known = text.split_once(':').and_then(|(kind, hex)| Some((kind, Self::from_hex(hex)?)));
        known
            .filter(|(kind, checksum)| *kind == checksum.kind())
            .map(|(_, checksum)| checksum)
            .ok_or_else(|| "no checksum".to_owned())
    }
}

/// A checksum that is being computed.
#[cfg(feature = "download")]
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    GitBlob(sha1::Sha1),
}

#[cfg(feature = "download")]
impl Hasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        use sha1::Digest;
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::GitBlob(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Checksum {
        use sha1::Digest;
        match self {
            Self::Sha256(hasher) => Checksum::Sha256(hasher.finalize().into()),
            Self::GitBlob(hasher) => Checksum::GitBlob(hasher.finalize().into()),
        }
    }
}

#[cfg(all(test, feature = "download"))]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_git_and_sha256sum() {
        let known =
            ["ce013625030ba8dba906f756967f9e9ca394464a", "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"];
        for hex in known {
            let expected = Checksum::from_hex(hex).unwrap();
            let mut hasher = expected.hasher(6);
            hasher.update(b"hel");
            hasher.update(b"lo\n");
            assert_eq!(hasher.finish(), expected);
            assert_eq!(Checksum::from_etag(&format!("W/\"{hex}\"")), Some(expected));
            assert_eq!(Checksum::try_from(expected.to_string()), Ok(expected));
        }
    }

    #[test]
    fn other_texts_are_no_checksums() {
        for text in ["", "abc", &"g".repeat(64), &"é".repeat(20), &"a".repeat(63), "+1"] {
            assert_eq!(Checksum::from_hex(text), None, "{text}");
        }
        assert!(Checksum::try_from(format!("git:{}", "a".repeat(64))).is_err());
    }
}
