//! A server on this machine that behaves as a Hugging Face endpoint does, and misbehaves as tests ask.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use sha1::{Digest, Sha1};
use sha2::Sha256;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What a server has and does. Tests change it while it runs.
#[derive(Clone, Default)]
pub(crate) struct Site {
    pub(crate) commit: String,
    /// Files of `o/m`.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Paths that the listing has in addition.
    pub(crate) listed: Vec<String>,
    /// Where large files (`.pte`, `.ptd`) are, instead of here.
    pub(crate) redirect: Option<String>,
    /// The listing states neither sizes nor checksums.
    pub(crate) bare_listing: bool,
    /// Connections end after so many bytes of a body, so many times.
    pub(crate) cut: Option<(usize, u32)>,
    /// Requests are answered with a status and headers, so many times.
    pub(crate) refuse: Option<(String, u32)>,
    /// Ranges are ignored.
    pub(crate) no_ranges: bool,
    /// The bytes of `.pte` files are not those of their checksums.
    pub(crate) damaged: bool,
    /// The listing is this text.
    pub(crate) listing: Option<Vec<u8>>,
    /// The token that is needed.
    pub(crate) token: Option<String>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
}

pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) site: Arc<Mutex<Site>>,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    pub(crate) fn start(mut site: Site) -> Self {
        if site.commit.is_empty() {
            COMMIT.clone_into(&mut site.commit);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(Mutex::new(site));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (shared, log) = (Arc::clone(&site), Arc::clone(&requests));
        // The thread ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (site, log) = (Arc::clone(&shared), Arc::clone(&log));
                thread::spawn(move || serve(stream.unwrap(), &site, &log));
            }
        });
        Self { address, site, requests }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Site)) {
        change(&mut self.site.lock().unwrap());
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn git_id(bytes: &[u8]) -> String {
    let mut hash = Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
    hash.update(bytes);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_large(path: &str) -> bool {
    path.ends_with(".pte") || path.ends_with(".ptd")
}

fn serve(mut stream: TcpStream, site: &Mutex<Site>, log: &Mutex<Vec<Request>>) {
    let Some(request) = read(&stream) else { return };
    log.lock().unwrap().push(request.clone());
    let mut site = site.lock().unwrap();
    let (head, body, cut) = answer(&mut site, &request);
    drop(site);
    let body = if request.method == "HEAD" { Vec::new() } else { body };
    let end = cut.map_or(body.len(), |cut| cut.min(body.len()));
    let _ = stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes());
    let _ = stream.write_all(&body[..end]);
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { method, path, headers })
}

/// The status line with headers, the body, and after how many of its bytes the connection ends.
fn answer(site: &mut Site, request: &Request) -> (String, Vec<u8>, Option<usize>) {
    if let Some((status, times)) = site.refuse.take() {
        if times > 1 {
            site.refuse = Some((status.clone(), times - 1));
        }
        return (format!("{status}\r\nContent-Length: 0"), Vec::new(), None);
    }
    if let Some(token) = &site.token
        && request.headers.get("authorization") != Some(&format!("Bearer {token}"))
    {
        return ("401 Unauthorized\r\nX-Error-Code: RepoNotFound\r\nContent-Length: 0".to_owned(), Vec::new(), None);
    }
    if request.path.starts_with("/api/models/o/m/revision/") {
        let json = site.listing.clone().unwrap_or_else(|| listing(site));
        return (format!("200 OK\r\nContent-Length: {}", json.len()), json, None);
    }
    let prefix = format!("/o/m/resolve/{}/", site.commit);
    let path = request.path.strip_prefix(&prefix).or_else(|| request.path.strip_prefix("/cdn/"));
    let Some((path, bytes)) = path.and_then(|path| Some((path.to_owned(), site.files.get(path)?.clone()))) else {
        let code = if request.path.starts_with("/api") { "RepoNotFound" } else { "EntryNotFound" };
        return (format!("404 Not Found\r\nX-Error-Code: {code}\r\nContent-Length: 0"), Vec::new(), None);
    };
    if let Some(host) = site.redirect.as_ref().filter(|_| is_large(&path)) {
        let facts = format!("X-Linked-ETag: \"{}\"\r\nX-Linked-Size: {}", sha256(&bytes), bytes.len());
        return (format!("302 Found\r\nLocation: {host}/cdn/{path}\r\n{facts}\r\nContent-Length: 0"), Vec::new(), None);
    }
    file(site, request, &path, bytes)
}

fn file(site: &mut Site, request: &Request, path: &str, mut bytes: Vec<u8>) -> (String, Vec<u8>, Option<usize>) {
    let tag = if is_large(path) { sha256(&bytes) } else { git_id(&bytes) };
    if site.damaged && is_large(path) {
        bytes[0] ^= 1;
    }
    let cut = site.cut.take();
    if let Some((len, times)) = cut.filter(|(_, times)| *times > 1) {
        site.cut = Some((len, times - 1));
    }
    let from = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let size = bytes.len();
    let (status, body) = match from.filter(|_| !site.no_ranges) {
        Some(from) => {
            (format!("206 Partial Content\r\nContent-Range: bytes {from}-{}/{size}", size - 1), bytes[from..].to_vec())
        }
        None => ("200 OK".to_owned(), bytes),
    };
    (format!("{status}\r\nETag: \"{tag}\"\r\nContent-Length: {}", body.len()), body, cut.map(|(len, _)| len))
}

fn listing(site: &Site) -> Vec<u8> {
    let mut siblings: Vec<String> = site.listed.iter().map(|path| format!("{{\"rfilename\": {path:?}}}")).collect();
    for (path, bytes) in &site.files {
        let (size, git, sha) = (bytes.len(), git_id(bytes), sha256(bytes));
        let facts = match () {
            () if site.bare_listing => String::new(),
            () if is_large(path) => format!(
                ", \"size\": {size}, \"blobId\": \"{}\", \"lfs\": {{\"sha256\": \"{sha}\", \"size\": {size}}}",
                "e".repeat(40)
            ),
            () => format!(", \"size\": {size}, \"blobId\": \"{git}\""),
        };
        siblings.push(format!("{{\"rfilename\": {path:?}{facts}}}"));
    }
    format!("{{\"id\": \"o/m\", \"sha\": \"{}\", \"siblings\": [{}]}}", site.commit, siblings.join(", ")).into_bytes()
}
