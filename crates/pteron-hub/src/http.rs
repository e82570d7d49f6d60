//! Requests, redirects, and who gets the token.

use std::io::Read;
use std::time::Duration;

use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode, Uri, header};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use crate::checksum::Checksum;
use crate::endpoint::Token;
use crate::error::{Error, Result};

/// The most redirects of a request: a renamed repository, then a host of large files, and some more.
const MOST_REDIRECTS: usize = 6;
/// A server that is silent for so long is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);

/// Scheme, host and port of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    is_https: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of an http or https address.
    pub(crate) fn of(uri: &Uri) -> Option<Self> {
        let (is_https, usual) = match uri.scheme_str()? {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?.to_ascii_lowercase();
        Some(Self { is_https, host, port: uri.port_u16().unwrap_or(usual) })
    }

    /// Whether nobody between us and the host can read what is sent: it is encrypted, or stays on this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.is_https || self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// An HTTP client that sends the token to one origin only. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    agent: Agent,
    origin: Origin,
    token: Option<Token>,
}

/// A response with a body, from wherever the redirects led to.
pub(crate) struct Response {
    pub(crate) head: Head,
    pub(crate) body: Box<dyn Read + Send>,
}

/// The facts of a response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// Whether it is a part of the file: status 206.
    pub(crate) is_partial: bool,
    /// The first byte and the size of the whole, of a part.
    pub(crate) range: Option<(u64, Option<u64>)>,
    /// The size that the endpoint states for the file.
    pub(crate) size: Option<u64>,
    /// The checksum that the endpoint states for the file.
    pub(crate) checksum: Option<Checksum>,
    /// The host that sent the body.
    pub(crate) host: String,
}

/// A response that is no success.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    /// What Hugging Face says about it.
    pub(crate) error_code: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) host: String,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server refuses.
    Refused(Refused),
    /// The connection fails; another attempt may help.
    Network { host: String, problem: String },
    /// Nothing helps.
    Final(Error),
}

impl Client {
    pub(crate) fn new(origin: Origin, token: Option<Token>, certificates: Option<&[u8]>) -> Result<Self> {
        let mut tls = TlsConfig::builder();
        if let Some(pem) = certificates {
            tls = tls.root_certs(roots(pem)?);
        }
        let mut config = Agent::config_builder()
            .user_agent(concat!("pteron/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .tls_config(tls.build());
        if origin.is_loopback() {
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().new_agent(), origin, token })
    }

    /// Gets an address, from byte `from` on if that is not 0, and follows redirects.
    pub(crate) fn get(&self, address: &str, from: u64) -> Result<Response, RequestError> {
        self.follow(address, from, false)
    }

    /// Asks the endpoint for the size and checksum of a file, without its bytes.
    pub(crate) fn head(&self, address: &str) -> Result<Head, RequestError> {
        self.follow(address, 0, true).map(|response| response.head)
    }

    fn follow(&self, address: &str, from: u64, head_only: bool) -> Result<Response, RequestError> {
        let mut uri: Uri = address.parse().map_err(|_| self.bad_redirect("an address", "is none"))?;
        // What the endpoint itself says about the file; a host it redirects to does not count.
        let mut facts = (None, None);
        for _ in 0..=MOST_REDIRECTS {
            let origin = Origin::of(&uri).ok_or_else(|| self.bad_redirect("a redirect", "leads to no http address"))?;
            let response = self.send(&uri, &origin, from, head_only)?;
            let (status, headers) = (response.status(), response.headers());
            if origin == self.origin {
                let is_redirect = status.is_redirection();
                facts.0 = facts.0.or_else(|| checksum(headers));
                facts.1 = facts.1.or_else(|| size(headers, is_redirect));
            }
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return finish(response, &origin, facts);
            }
            if head_only && facts.0.is_some() && facts.1.is_some() {
                return finish_head(&origin, facts);
            }
            let location = text(headers, header::LOCATION.as_str()).unwrap_or_default();
            let next = joined(&uri, &location).ok_or_else(|| self.bad_redirect("a redirect", "leads to no http address"))?;
            if origin.is_https && next.scheme_str() != Some("https") {
                return Err(self.bad_redirect("a redirect", "leads from https to http"));
            }
            uri = next;
        }
        Err(self.bad_redirect("too many redirects:", "the last one still is one"))
    }

    fn send(
        &self,
        uri: &Uri,
        origin: &Origin,
        from: u64,
        head_only: bool,
    ) -> Result<ureq::http::Response<ureq::Body>, RequestError> {
        let mut request = if head_only { self.agent.head(uri) } else { self.agent.get(uri) };
        // The bytes as they are: ranges and checksums count them.
        request = request.header(header::ACCEPT_ENCODING, "identity");
        if let Some(token) = self.token.as_ref().filter(|_| *origin == self.origin) {
            request = request.header(header::AUTHORIZATION, token.header());
        }
        if from > 0 {
            request = request.header(header::RANGE, format!("bytes={from}-"));
        }
        request.call().map_err(|error| RequestError::Network { host: origin.host.clone(), problem: sentence(&error) })
    }

    fn bad_redirect(&self, what: &str, problem: &str) -> RequestError {
        let host = self.origin.host.clone();
        RequestError::Final(Error::Response { host, what: what.to_owned(), problem: problem.to_owned() })
    }
}

/// The checksum and the size that the endpoint states.
type Facts = (Option<Checksum>, Option<u64>);

fn finish(response: ureq::http::Response<ureq::Body>, origin: &Origin, facts: Facts) -> Result<Response, RequestError> {
    let (parts, body) = response.into_parts();
    if !matches!(parts.status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) {
        return Err(RequestError::Refused(Refused {
            status: parts.status.as_u16(),
            error_code: text(&parts.headers, "x-error-code"),
            retry_after: number(&parts.headers, "retry-after").map(Duration::from_secs),
            host: origin.host.clone(),
        }));
    }
    let head = Head {
        is_partial: parts.status == StatusCode::PARTIAL_CONTENT,
        range: text(&parts.headers, "content-range").and_then(|range| parse_range(&range)),
        size: facts.1,
        checksum: facts.0,
        host: origin.host.clone(),
    };
    Ok(Response { head, body: Box::new(body.into_reader()) })
}

fn finish_head(origin: &Origin, facts: Facts) -> Result<Response, RequestError> {
    let head = Head { is_partial: false, range: None, size: facts.1, checksum: facts.0, host: origin.host.clone() };
    Ok(Response { head, body: Box::new(std::io::empty()) })
}

/// Reads `bytes FIRST-LAST/SIZE`.
fn parse_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, size.trim().parse().ok()))
}

/// Resolves the target of a redirect.
fn joined(from: &Uri, location: &str) -> Option<Uri> {
    let scheme = from.scheme_str()?;
    let address = match location {
        _ if location.starts_with("//") => format!("{scheme}:{location}"),
        _ if location.starts_with('/') => format!("{scheme}://{}{location}", from.authority()?),
        _ => location.to_owned(),
    };
    address.parse().ok().filter(|uri: &Uri| Origin::of(uri).is_some())
}

/// Hugging Face names the file of a redirect in headers of its own: the usual ones are those of the redirect.
fn checksum(headers: &HeaderMap) -> Option<Checksum> {
    let tag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
    tag.and_then(|tag| Checksum::from_etag(&tag))
}

fn size(headers: &HeaderMap, is_redirect: bool) -> Option<u64> {
    let own = || if is_redirect { None } else { number(headers, "content-length") };
    number(headers, "x-linked-size").or_else(own)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    text(headers, name)?.trim().parse().ok()
}

/// What is wrong with a connection, as a part of a sentence.
fn sentence(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "there is no such host, or no network".to_owned(),
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        ureq::Error::ConnectionFailed => "it accepts no connection".to_owned(),
        other => other.to_string(),
    }
}

fn roots(pem: &[u8]) -> Result<RootCerts> {
    let wrong = |problem: String| Error::Setting { source_of: "SSL_CERT_FILE".to_owned(), problem };
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| wrong(format!("has a malformed certificate: {error}")))?
        {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(wrong("has no certificate in PEM form".to_owned()));
    }
    Ok(certificates.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    #[test]
    fn origins_differ_by_scheme_host_and_port() {
        let origin = |text: &str| Origin::of(&uri(text));
        assert_eq!(origin("https://Example.com/a?b"), origin("https://example.com:443/c"));
        for other in
            ["http://example.com", "https://example.com:8443", "https://example.com.evil", "https://cdn.example.com"]
        {
            assert_ne!(origin("https://example.com"), origin(other));
        }
        assert!(origin("ftp://x").is_none() && origin("/path").is_none());
        assert!(origin("http://[::1]:80").unwrap().is_private() && !origin("http://10.0.0.1").unwrap().is_private());
    }

    #[test]
    fn redirects_are_resolved_against_their_origin() {
        let next = |location: &str| joined(&uri("https://a.b:1/x/y?z"), location).map(|uri| uri.to_string());
        assert_eq!(next("/c?d").as_deref(), Some("https://a.b:1/c?d"));
        assert_eq!(next("//cdn/c").as_deref(), Some("https://cdn/c"));
        assert_eq!(next("https://cdn/c").as_deref(), Some("https://cdn/c"));
        for wrong in ["", "c", "file:///etc/passwd", "javascript:1"] {
            assert_eq!(next(wrong), None, "{wrong}");
        }
        assert_eq!(parse_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(parse_range("bytes 5-9/*"), Some((5, None)));
        assert_eq!(parse_range("bytes */10"), None);
    }
}
