//! Constants of delegate graphs, whatever the backend.

use std::fmt;

use crate::error::{Error, Item, Location, Problem, Result, Section};
use crate::program::{ByteRange, ids, within};

ids! {
    /// A constant of a graph.
    ConstantId,
}

/// A constant of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Its length in bytes.
    pub len: u64,
    /// The location of its bytes.
    pub source: ConstantSource,
}

/// The location of a constant's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstantSource {
    /// Named data, in the program or in external data. Tensors that share a key have the same initial bytes and are otherwise
    /// independent.
    Named(String),
    /// In the delegate's own bytes, at this offset of its blob's `stored` range.
    Stored(u64),
}

impl Constant {
    /// Checks that stored bytes lie within the delegate's own `stored` bytes, or that there is a key.
    pub(crate) fn verify(&self, item: Item, stored: u64) -> Result<()> {
        let problem = match self.source {
            ConstantSource::Named(ref key) if key.is_empty() => Problem::Missing { what: "its key" },
            ConstantSource::Named(_) => return Ok(()),
            ConstantSource::Stored(start) => match within(start, self.len, stored) {
                Ok(()) => return Ok(()),
                Err(end) => Problem::Range { what: "its data", start, end, limit: stored },
            },
        };
        Err(Error::new(Location { section: Section::Graph, item }, problem))
    }

    /// The range of its bytes in a blob whose own constants lie at `stored`, if they are there.
    pub(crate) fn place_within(&self, stored: ByteRange) -> Option<ByteRange> {
        let ConstantSource::Stored(offset) = self.source else { return None };
        within(offset, self.len, stored.len).ok()?;
        Some(ByteRange { start: stored.start.checked_add(offset)?, len: self.len })
    }
}
