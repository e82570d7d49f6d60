//! The endpoint: its address, the token, and what the environment says about them.

use std::fmt;
use std::path::{Path, PathBuf};

use ureq::http::Uri;

use crate::error::{Error, Result, TokenState};
use crate::http::{Client, Origin};
use crate::name::ModelRef;
use crate::retry::Retries;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
/// The most bytes of a token's file, and of a file of certificates.
const MOST_TOKEN: u64 = 4096;
const MOST_CERTIFICATES: u64 = 16 << 20;

/// How a [`Hub`] is reached.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct HubOptions {
    /// The address of the endpoint; that of Hugging Face where there is none.
    pub endpoint: Option<String>,
    /// The token, and where it comes from, for errors.
    token: Option<(Token, String)>,
    /// Root certificates in PEM form, in place of the compiled-in ones.
    certificates: Option<Vec<u8>>,
    /// Whether nothing may be fetched.
    pub offline: bool,
    /// How often requests are tried again.
    pub retries: Retries,
}

impl HubOptions {
    /// Reads the environment: `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HOME`, `HF_HUB_OFFLINE`, `HF_HUB_DISABLE_IMPLICIT_TOKEN` and
    /// `SSL_CERT_FILE`. Proxies are those of `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    ///
    /// # Errors
    /// A token that cannot be sent, and files that cannot be read.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let is_set = |name: &str| {
            variable(name)
                .is_some_and(|value| matches!(value.trim().to_ascii_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
        };
        let certificates = variable("SSL_CERT_FILE").map(|path| {
            let bytes = pteron_files::read(Path::new(&path), MOST_CERTIFICATES);
            bytes
                .map_err(|error| Error::Setting { source_of: format!("SSL_CERT_FILE, {path}:"), problem: error.to_string() })
        });
        Ok(Self {
            endpoint: variable("HF_ENDPOINT"),
            token: if is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN") { None } else { token(&variable)? },
            certificates: certificates.transpose()?,
            offline: is_set("HF_HUB_OFFLINE"),
            retries: Retries::default(),
        })
    }

    /// Sets the endpoint's address.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = Some(endpoint.into());
        self
    }

    /// Sets the token.
    ///
    /// # Errors
    /// A text that can be no token.
    pub fn with_token(mut self, token: &str) -> Result<Self> {
        self.token = Some((Token::new(token, "the token")?, "the caller".to_owned()));
        Ok(self)
    }

    /// Sets how often requests are tried again.
    #[must_use]
    pub fn with_retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }
}

/// A Hugging Face endpoint.
#[derive(Clone, Debug)]
pub struct Hub {
    pub(crate) client: Client,
    /// Its address, without a slash at the end.
    pub(crate) address: String,
    token_source: Option<String>,
    token_state: TokenState,
    pub(crate) offline: bool,
    pub(crate) retries: Retries,
}

impl Hub {
    /// Uses the endpoint and the token that the environment names. See [`HubOptions::from_env`].
    ///
    /// # Errors
    /// Wrong settings.
    pub fn from_env() -> Result<Self> {
        Self::new(HubOptions::from_env()?)
    }

    /// Uses an endpoint. Connects to nothing yet.
    ///
    /// # Errors
    /// Wrong settings.
    pub fn new(options: HubOptions) -> Result<Self> {
        let endpoint = options.endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let wrong = |problem| Error::Endpoint { endpoint: endpoint.clone(), problem };
        let address = endpoint.trim().trim_end_matches('/').to_owned();
        let uri: Uri = address.parse().map_err(|_| wrong("is not an address"))?;
        let origin = Origin::of(&uri).ok_or_else(|| wrong("is not an http or https address"))?;
        if uri.query().is_some() || address.contains(['@', '#']) {
            return Err(wrong("has more than a host and a path"));
        }
        let withheld = !origin.is_private();
        let (token, token_source) = options.token.unzip();
        let token_state = match (&token, withheld) {
            (None, _) => TokenState::None,
            (Some(_), true) => TokenState::Withheld,
            (Some(_), false) => TokenState::Sent,
        };
        let client = Client::new(origin, token.filter(|_| !withheld), options.certificates.as_deref())?;
        Ok(Self { client, address, token_source, token_state, offline: options.offline, retries: options.retries })
    }

    /// The endpoint's address.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.address
    }

    /// The address of the listing of a model.
    pub(crate) fn listing_address(&self, model: &ModelRef, revision: &str) -> String {
        format!("{}/api/models/{}/revision/{}?blobs=true", self.address, model.name(), encoded(revision, false))
    }

    /// The address of a file.
    pub(crate) fn file_address(&self, model: &ModelRef, commit: &str, path: &str) -> String {
        format!("{}/{}/resolve/{commit}/{}", self.address, model.name(), encoded(path, true))
    }

    /// Turns a status into an error about the model.
    pub(crate) fn refusal(&self, refused: &crate::http::Refused, model: &ModelRef, revision: &str, what: &str) -> Error {
        let (name, endpoint, token) = (model.name().to_owned(), self.address.clone(), self.token_state.clone());
        let code = refused.error_code.as_deref().unwrap_or_default();
        match (refused.status, code) {
            (_, "GatedRepo") => Error::Gated { model: name, endpoint, token },
            (404, "RevisionNotFound") => Error::NoRevision { model: name, revision: revision.to_owned() },
            (401, code) if code != "RepoNotFound" && self.token_state == TokenState::Sent => {
                Error::Unauthorised { endpoint, token_source: self.token_source.clone().unwrap_or_default() }
            }
            (401 | 403, _) | (404, "RepoNotFound") => Error::NoModel { model: name, endpoint, token },
            (404, code) if code != "EntryNotFound" && what == crate::listing::WHAT => {
                Error::NoModel { model: name, endpoint, token }
            }
            (429, _) => Error::TooManyRequests { host: refused.host.clone(), wait: refused.retry_after },
            (status, _) => Error::Status { host: refused.host.clone(), what: what.to_owned(), status },
        }
    }
}

/// A token. Its text appears in no message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    fn new(text: &str, source: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "is no token: it must be one word of letters, digits and signs".to_owned();
            return Err(Error::Setting { source_of: source.to_owned(), problem });
        }
        Ok(Self(text.to_owned()))
    }

    /// The value of the header that carries it.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Finds the token as Hugging Face's tools do: in the environment, else in a file.
fn token(variable: impl Fn(&str) -> Option<String>) -> Result<Option<(Token, String)>> {
    if let Some(text) = variable("HF_TOKEN") {
        return Ok(Some((Token::new(&text, "HF_TOKEN")?, "HF_TOKEN".to_owned())));
    }
    let folder =
        |name: &str, below: &[&str]| Some(below.iter().fold(PathBuf::from(variable(name)?), |path, part| path.join(part)));
    let home = folder("HF_HOME", &[])
        .or_else(|| folder("XDG_CACHE_HOME", &["huggingface"]))
        .or_else(|| folder(if cfg!(windows) { "USERPROFILE" } else { "HOME" }, &[".cache", "huggingface"]));
    let Some(path) = folder("HF_TOKEN_PATH", &[]).or_else(|| Some(home?.join("token"))) else { return Ok(None) };
    match pteron_files::read(&path, MOST_TOKEN) {
        Ok(bytes) if bytes.trim_ascii().is_empty() => Ok(None),
        Ok(bytes) => {
            let source = path.display().to_string();
            Ok(Some((Token::new(&String::from_utf8_lossy(&bytes), &source)?, source)))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(Error::read(&path)(error.into())),
    }
}

/// Percent-encodes a text for the path of an address; keeps slashes if it is a path of several parts.
fn encoded(text: &str, is_path: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            b'/' if is_path => out.push('/'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded() {
        let hub = Hub::new(HubOptions::default().with_endpoint("http://127.0.0.1:1/mirror/")).unwrap();
        let model: ModelRef = "a/b".parse().unwrap();
        assert_eq!(
            hub.listing_address(&model, "refs/pr/1"),
            "http://127.0.0.1:1/mirror/api/models/a/b/revision/refs%2Fpr%2F1?blobs=true"
        );
        assert_eq!(
            hub.file_address(&model, "c", "x/ä #?%.pte"),
            "http://127.0.0.1:1/mirror/a/b/resolve/c/x/%C3%A4%20%23%3F%25.pte"
        );
        assert_eq!(Hub::new(HubOptions::default()).unwrap().endpoint(), DEFAULT_ENDPOINT);
        for wrong in ["", "huggingface.co", "ftp://x", "https://user:password@x", "https://x?y", "https://"] {
            assert!(Hub::new(HubOptions::default().with_endpoint(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tokens_come_from_the_environment_or_a_file_and_are_not_shown() {
        let folder = pteron_files::TemporaryFolder::new("pteron-hub-").unwrap();
        let home = folder.path().display().to_string();
        let found = |variables: &[(&str, &str)]| {
            HubOptions::from_variables(|name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(found(&[("HF_HOME", &home)]).unwrap().token.is_none());
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        let options = found(&[("HF_HOME", &home)]).unwrap();
        assert_eq!(options.token.as_ref().unwrap().0, Token("hf_file".to_owned()));
        assert!(!format!("{options:?}").contains("hf_file"));
        assert_eq!(found(&[("HF_HOME", &home), ("HF_TOKEN", " hf_x ")]).unwrap().token.unwrap().0.header(), "Bearer hf_x");
        assert!(found(&[("HF_TOKEN", "x"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap().token.is_none());
        let error = found(&[("HF_TOKEN", "secret\nX-Evil: 1")]).unwrap_err().to_string();
        assert!(error.starts_with("HF_TOKEN is no token") && !error.contains("secret"), "{error}");
        assert!(found(&[("HF_HUB_OFFLINE", "true")]).unwrap().offline);
        assert!(found(&[("SSL_CERT_FILE", "/nowhere")]).unwrap_err().to_string().starts_with("SSL_CERT_FILE, /nowhere:"));
    }

    #[test]
    fn a_token_is_not_sent_in_the_clear() {
        let state = |endpoint: &str| {
            Hub::new(HubOptions::default().with_endpoint(endpoint).with_token("x").unwrap()).unwrap().token_state
        };
        assert_eq!(state("http://mirror.example"), TokenState::Withheld);
        for endpoint in ["https://mirror.example", "http://127.0.0.1:8000", "http://localhost"] {
            assert_eq!(state(endpoint), TokenState::Sent);
        }
    }
}
