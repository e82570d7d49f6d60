//! Names of models: `OWNER/NAME`, and with them a revision and a file.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::path::{is_device, is_repo_path};

/// The revision where none is named.
pub const DEFAULT_REVISION: &str = "main";

/// The most characters of an owner, a name, and a revision.
const MOST_NAME: usize = 96;
const MOST_REVISION: usize = 200;

/// A model on a Hugging Face endpoint: `OWNER/NAME`, `OWNER/NAME@REVISION`, `OWNER/NAME:FILE.pte`, or all of it.
///
/// ```
/// use pteron_hub::ModelRef;
///
/// let model: ModelRef = "owner/llama@v1.0:q4/model.pte".parse()?;
/// assert_eq!((model.name(), model.revision()), ("owner/llama", Some("v1.0")));
/// assert_eq!(model.file(), Some("q4/model.pte"));
/// assert!("../llama".parse::<ModelRef>().is_err());
/// # Ok::<(), pteron_hub::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelRef {
    /// `OWNER/NAME`.
    name: String,
    revision: Option<String>,
    file: Option<String>,
}

impl ModelRef {
    /// `OWNER/NAME`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The branch, tag or commit, where one is named.
    #[must_use]
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// The program's path in the repository, where one is named.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The owner and the name, which are names of folders.
    pub(crate) fn parts(&self) -> (&str, &str) {
        self.name.split_once('/').unwrap_or((&self.name, ""))
    }

    /// Names another revision.
    ///
    /// # Errors
    /// A text that can be no revision.
    pub fn with_revision(mut self, revision: &str) -> Result<Self> {
        if !is_revision(revision) {
            return Err(Error::name(revision, "it is no branch, tag or commit"));
        }
        self.revision = Some(revision.to_owned());
        Ok(self)
    }

    /// Names a program of the repository.
    ///
    /// # Errors
    /// A path that is not relative, or leads out of the repository.
    pub fn with_file(mut self, file: &str) -> Result<Self> {
        if !is_repo_path(file) {
            return Err(Error::name(file, "it is no path of a file in a repository"));
        }
        self.file = Some(file.to_owned());
        Ok(self)
    }

    /// The model alone, without revision and file.
    #[must_use]
    pub fn without_details(&self) -> Self {
        Self { name: self.name.clone(), revision: None, file: None }
    }
}

impl FromStr for ModelRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (rest, file) = text.split_once(':').map_or((text, None), |(rest, file)| (rest, Some(file)));
        let (name, revision) = rest.split_once('@').map_or((rest, None), |(name, revision)| (name, Some(revision)));
        let parts: Vec<&str> = name.split('/').collect();
        let [owner, model] = parts[..] else {
            return Err(Error::name(text, "it is not OWNER/NAME"));
        };
        if !is_name(owner) || !is_name(model) {
            return Err(Error::name(text, "an owner and a name have letters, digits, '-', '_' and '.'"));
        }
        let mut parsed = Self { name: name.to_owned(), revision: None, file: None };
        if let Some(revision) = revision {
            parsed = parsed.with_revision(revision)?;
        }
        if let Some(file) = file {
            parsed = parsed.with_file(file)?;
        }
        Ok(parsed)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

/// Whether a text is an owner or a name: characters that are safe in paths and addresses.
fn is_name(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty()
        && text.len() <= MOST_NAME
        && text.bytes().all(known)
        && !text.starts_with(['.', '-'])
        && !text.ends_with(['.', '-'])
        && !text.contains("..")
        && !is_device(text)
}

/// Whether a text may be a branch, a tag or a commit, by the rules of Git.
pub(crate) fn is_revision(text: &str) -> bool {
    let known =
        |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\' | b'@');
    !text.is_empty()
        && text.len() <= MOST_REVISION
        && text.bytes().all(known)
        && text.split('/').all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with('.'))
        && !text.contains("..")
}

/// Whether a text is the hash of a Git commit.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed_and_printed() {
        for text in ["a/b", "meta-llama/Llama-3.2_1B", "a/b@refs/pr/3", "a/b:x/y.pte", "a/b@main:y.pte"] {
            assert_eq!(text.parse::<ModelRef>().unwrap().to_string(), text);
        }
        let model: ModelRef = "a/b@v1:m.pte".parse().unwrap();
        assert_eq!(model.without_details().to_string(), "a/b");
    }

    #[test]
    fn names_that_are_unsafe_in_paths_are_rejected() {
        for text in [
            "",
            "a",
            "a/",
            "/b",
            "a/b/c",
            "../b",
            "a/..",
            "a/.b",
            "a/b.",
            "a/b c",
            "a/é",
            "a/con",
            "NUL/x",
            "a\\b/c",
            "a/b@",
            "a/b@x..y",
            "a/b@/x",
            "a/b@.x",
            "a/b:",
            "a/b:../x.pte",
            "a/b:/x.pte",
            "a/b:x\\y.pte",
            "C:/x",
            "a/b?x=1",
            "a/b#c",
            "a/%2e%2e",
        ] {
            assert!(text.parse::<ModelRef>().is_err(), "{text}");
        }
        assert!(format!("a/{}", "b".repeat(97)).parse::<ModelRef>().is_err());
    }
}
