//! Hashes and writes items as they arrive, storing equal ones once.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Read as _, SeekFrom};
use std::sync::mpsc::Receiver;

use pteron_format::segment_start;
use sha2::{Digest, Sha256};

use super::storage::Storage;

/// A chunk of an item. Items arrive one after the other.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Whether the item ends here.
    pub(super) last: bool,
}

/// A named segment, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub(super) key: String,
    pub(super) start: u64,
    pub(super) len: u64,
}

/// The segments written.
#[derive(Debug)]
pub(super) struct Stored<S> {
    pub(super) storage: S,
    /// The distinct segments, in file order.
    pub(super) segments: Vec<Segment>,
    /// For each item, its segment.
    pub(super) items: Vec<usize>,
}

/// Receives and writes items.
#[derive(Debug)]
pub(super) struct Sink<S> {
    stored: Stored<S>,
    /// Where the last segment ends.
    end: u64,
    segment_of: HashMap<[u8; 32], usize>,
}

/// An item that has begun.
struct Item {
    start: u64,
    len: u64,
    hash: Sha256,
}

impl<S: Storage> Sink<S> {
    /// Creates a sink that writes after `end`.
    pub(super) fn new(storage: S, end: u64) -> Self {
        let stored = Stored { storage, segments: Vec::new(), items: Vec::new() };
        Self { stored, end, segment_of: HashMap::new() }
    }

    /// Writes all items until the channel closes.
    pub(super) fn run(mut self, chunks: Receiver<Chunk>) -> io::Result<Stored<S>> {
        let mut item = None;
        for chunk in chunks {
            let mut current = match item.take() {
                Some(current) => current,
                None => self.begin()?,
            };
            current.hash.update(&chunk.bytes);
            current.len += chunk.bytes.len() as u64;
            self.stored.storage.write_all(&chunk.bytes)?;
            if chunk.last {
                self.end(current);
            } else {
                item = Some(current);
            }
        }
        Ok(self.stored)
    }

    fn begin(&mut self) -> io::Result<Item> {
        let start = segment_start(self.end).ok_or(io::ErrorKind::FileTooLarge)?;
        // A duplicate item may have been written here: overwrite the gap with zeros.
        self.stored.storage.seek(SeekFrom::Start(self.end))?;
        io::copy(&mut io::repeat(0).take(start - self.end), &mut self.stored.storage)?;
        Ok(Item { start, len: 0, hash: Sha256::new() })
    }

    /// Keeps an item if it is new. Otherwise the next one overwrites it.
    fn end(&mut self, item: Item) {
        let digest: [u8; 32] = item.hash.finalize().into();
        let segments = &mut self.stored.segments;
        let segment = *self.segment_of.entry(digest).or_insert_with(|| {
            segments.push(Segment { key: hexadecimal(&digest), start: item.start, len: item.len });
            self.end = item.start + item.len;
            segments.len() - 1
        });
        self.stored.items.push(segment);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
