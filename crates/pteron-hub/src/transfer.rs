//! A request on a thread of its own, so that the caller can stop between two blocks and while nothing arrives.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::http::{Client, Head, RequestError};

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// Blocks that wait for the caller.
const AHEAD: usize = 4;
/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(100);

/// A part of a response.
pub(crate) enum Part {
    Head(Head),
    Bytes(Vec<u8>),
    /// The end of the body.
    End,
}

/// A request whose response arrives in parts.
pub(crate) struct Transfer {
    parts: Receiver<Result<Part, RequestError>>,
}

impl Transfer {
    /// Starts a request. Dropping the transfer ends it.
    pub(crate) fn start(client: &Client, address: String, from: u64) -> Self {
        let (sender, parts) = sync_channel(AHEAD);
        let client = client.clone();
        let failed = sender.clone();
        let run = move || {
            if let Err(error) = send(&client, &address, from, &sender) {
                // Nobody listens if the caller has stopped.
                let _ = sender.send(Err(error));
            }
        };
        if let Err(error) = thread::Builder::new().name("transfer".to_owned()).spawn(run) {
            let problem = format!("no thread could be started: {error}");
            let _ = failed.send(Err(RequestError::Network { host: "this machine".to_owned(), problem }));
        }
        Self { parts }
    }

    /// Waits for the next part; `None` if `go_on` breaks.
    pub(crate) fn next(&self, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Option<Result<Part, RequestError>> {
        loop {
            match self.parts.recv_timeout(TICK) {
                Ok(part) => return Some(part),
                Err(RecvTimeoutError::Timeout) if go_on().is_break() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Some(Ok(Part::End)),
            }
        }
    }
}

fn send(
    client: &Client,
    address: &str,
    from: u64,
    parts: &SyncSender<Result<Part, RequestError>>,
) -> Result<(), RequestError> {
    let mut response = client.get(address, from)?;
    let host = response.head.host.clone();
    if parts.send(Ok(Part::Head(response.head))).is_err() {
        return Ok(());
    }
    loop {
        let mut block = vec![0; BLOCK];
        let read = response.body.read(&mut block);
        let read = read.map_err(|error| RequestError::Network {
            host: host.clone(),
            problem: format!("the connection was lost: {error}"),
        })?;
        block.truncate(read);
        let part = if read == 0 { Part::End } else { Part::Bytes(block) };
        if parts.send(Ok(part)).is_err() || read == 0 {
            return Ok(());
        }
    }
}
