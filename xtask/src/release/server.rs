//! A web server of a folder, for an installer that is to fetch from one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

/// Serves until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(folder: PathBuf) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !flag.load(Ordering::Relaxed)) {
                // A client that goes away is no concern of others.
                let _ = stream.and_then(|stream| answer(stream, &folder));
            }
        });
        Ok(Self { address, ended, thread: Some(thread) })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Answers one request: with a file of the folder, by its name, or 404.
fn answer(mut stream: TcpStream, folder: &std::path::Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head says nothing that matters here.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = request.split(' ').nth(1).and_then(|path| path.strip_prefix('/')).unwrap_or_default();
    let body = if name.contains('/') || name.starts_with('.') { None } else { fs::read(folder.join(name)).ok() };
    let (status, body) = body.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::super::scratch::Scratch;
    use super::*;

    fn get(server: &Server, path: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn files_of_the_folder_are_served_and_no_others() {
        let scratch = Scratch::new("server").unwrap();
        fs::write(scratch.path().join("file"), "content").unwrap();
        let server = Server::start(scratch.path().to_owned()).unwrap();
        assert!(get(&server, "/file").ends_with("\r\n\r\ncontent"));
        for path in ["/gone", "/../file", "/", "/.hidden"] {
            assert!(get(&server, path).starts_with("HTTP/1.1 404"), "{path}");
        }
    }
}
