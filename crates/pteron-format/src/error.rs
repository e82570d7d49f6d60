//! Errors: a location in a file and a problem.

use std::fmt;

use pteron_schema::{ErrorTraceDetail, InvalidFlatbuffer};

use crate::alloc::OutOfMemory;
use crate::escape::EscapedText;

/// The result of reading, verifying or writing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error in a file, or in a program about to be written.
///
/// `Display` is one sentence: the location, the problem, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct Error {
    /// The location.
    pub location: Location,
    /// The problem.
    pub problem: Problem,
}

impl Error {
    pub(crate) fn new(location: Location, problem: Problem) -> Self {
        Self { location, problem }
    }

    /// Moves the error into a delegate of a method.
    pub(crate) fn within_delegate(mut self, plan: &str, index: usize, at: u64) -> Self {
        self.location.section = Section::Delegate { method: clip(plan), index };
        // Callers load this range, so its offset is relative to the file.
        if let Problem::NotLoaded { start, .. } = &mut self.problem {
            *start = start.saturating_add(at);
        }
        self
    }
}

/// A location: a section of the file, and an item in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The section of the file.
    pub section: Section,
    /// The item in that section.
    pub item: Item,
}

/// A section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Section {
    /// The fixed fields at the start.
    Header,
    /// The program's tables.
    Program,
    /// One method of the program.
    Method(String),
    /// The graph of one delegate.
    Delegate {
        /// The method it belongs to.
        method: String,
        /// Its index among the method's delegates.
        index: usize,
    },
    /// A delegate's graph that is read on its own.
    Graph,
    /// External data.
    External,
}

/// An item in a section of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The whole section.
    Whole,
    /// A byte offset in the section.
    Byte(u64),
    /// A value by id.
    Value(usize),
    /// An instruction of a chain.
    Instruction {
        /// The chain's index.
        chain: usize,
        /// The instruction's index in the chain.
        index: usize,
    },
    /// An operator call of a delegate's graph.
    Call {
        /// The call's index in the chain.
        index: usize,
        /// The operator's name.
        name: String,
    },
    /// A node of an XNNPACK delegate's graph.
    Node {
        /// The node's index.
        index: usize,
        /// The name of its kind.
        kind: &'static str,
    },
    /// An entry of a list: a segment, a constant, a delegate.
    Entry {
        /// The kind of entry.
        kind: &'static str,
        /// Its index.
        index: usize,
    },
}

/// The problem of an [`Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end too early.
    #[error("{what} needs {need} bytes, but the file has only {have}; it may be cut off")]
    Truncated {
        /// The part that does not fit.
        what: &'static str,
        /// Bytes needed.
        need: u64,
        /// Bytes available.
        have: u64,
    },
    /// Bytes of a [`PartialFile`](crate::PartialFile) that are needed and not loaded.
    #[error("bytes {start} to {} of the file are not loaded", start.saturating_add(*len))]
    NotLoaded {
        /// The first byte, from the start of the file.
        start: u64,
        /// The number of bytes.
        len: u64,
    },
    /// The file changed or became unreadable after it was opened.
    #[error("the file cannot be read: {}; it must not change while it is open", EscapedText::sentence(.reason))]
    Unreadable {
        /// The system's message.
        reason: String,
    },
    /// Fixed bytes that name the format are different.
    #[error("{what} is {found:?}, expected {expected:?}; this is not such a file, or it is damaged")]
    Magic {
        /// Which bytes.
        what: &'static str,
        /// The bytes found, printable.
        found: String,
        /// The bytes expected.
        expected: &'static str,
    },
    /// The flatbuffer itself is broken.
    #[error("the flatbuffer is damaged: {reason}")]
    Flatbuffer {
        /// The verifier's message.
        reason: String,
    },
    /// The tables unpack to far more than the file's size, which only a hostile file does.
    #[error("the tables would unpack to more than {limit} bytes, which {input} bytes of file do not justify")]
    TablesTooLarge {
        /// The limit.
        limit: u64,
        /// The length of the input.
        input: u64,
    },
    /// The host has no memory for what the file needs.
    #[error("{0}; close other programs, or open a smaller file")]
    OutOfMemory(OutOfMemory),
    /// A required item is missing.
    #[error("{what} is missing")]
    Missing {
        /// The missing item.
        what: &'static str,
    },
    /// An index points past the end of its list.
    #[error("{what} is {index}, but there are only {len}")]
    Index {
        /// Which index.
        what: &'static str,
        /// The index.
        index: i64,
        /// The length of the list.
        len: u64,
    },
    /// An enumeration has a value that is not known.
    #[error("{what} has the value {value}, which is not known; a newer exporter may have written it")]
    Unknown {
        /// Which enumeration.
        what: &'static str,
        /// The value found.
        value: i64,
    },
    /// A number that counts or measures something is negative.
    #[error("{what} is {value}; it cannot be negative")]
    Negative {
        /// Which number.
        what: &'static str,
        /// The value found.
        value: i64,
    },
    /// A product or sum does not fit 64 bits.
    #[error("{what} is too large to count in 64 bits")]
    Overflow {
        /// Which size.
        what: &'static str,
    },
    /// A size does not match the rest of the file.
    #[error("{what} is {found}, expected {expected}")]
    Size {
        /// Which size.
        what: &'static str,
        /// The size found.
        found: u64,
        /// The size that was expected.
        expected: u64,
    },
    /// A range ends past the end of its container.
    #[error("{what} covers bytes {start}..{end}, past the end at {limit}")]
    Range {
        /// Which range.
        what: &'static str,
        /// Its first byte.
        start: u64,
        /// One past its last byte.
        end: u64,
        /// The end of the container.
        limit: u64,
    },
    /// Two ranges overlap or are out of order.
    #[error("{what} starts at {start}, inside or before what ends at {previous_end}")]
    Order {
        /// Which range.
        what: &'static str,
        /// Where it starts.
        start: u64,
        /// Where the one before ends.
        previous_end: u64,
    },
    /// A position is not aligned.
    #[error("{what} starts at {offset}, which is not a multiple of {alignment}")]
    Alignment {
        /// Which position.
        what: &'static str,
        /// The position.
        offset: u64,
        /// The required alignment.
        alignment: u64,
    },
    /// A list or a rank exceeds its limit.
    #[error("{what} is {found}, more than the {limit} that are possible")]
    TooMany {
        /// Which count.
        what: &'static str,
        /// The count found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A value has the wrong kind.
    #[error("{what} is {found}, expected {expected}")]
    Kind {
        /// Which value.
        what: &'static str,
        /// The kind found.
        found: &'static str,
        /// The kind expected.
        expected: &'static str,
    },
    /// A number is not finite, or not positive where it must be.
    #[error("{what} is {found}, expected {expected}")]
    Number {
        /// Which number.
        what: &'static str,
        /// The number found, as text.
        found: Box<str>,
        /// The numbers that are possible.
        expected: &'static str,
    },
    /// A value is read before anything has written it.
    #[error("{what} is value {id}, which no constant, argument or earlier node defines")]
    Undefined {
        /// Which operand.
        what: &'static str,
        /// The id of the value.
        id: u32,
    },
    /// A known item that no runtime supports.
    #[error("{what} {name} is not supported, nor does ExecuTorch run it; export the program again with a newer exporter")]
    Unsupported {
        /// The kind of item.
        what: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// A name is used twice.
    #[error("{what} {name:?} appears twice")]
    Duplicate {
        /// The kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An order of dimensions that is not a permutation.
    #[error("{what} {found:?} is not a permutation of 0..{rank}")]
    Permutation {
        /// Which order.
        what: &'static str,
        /// The order found.
        found: Vec<u8>,
        /// The number of dimensions.
        rank: usize,
    },
    /// An unsupported version.
    #[error("{what} is {found}, but only {supported} is supported")]
    Version {
        /// Which version.
        what: &'static str,
        /// The version found.
        found: u64,
        /// The supported values.
        supported: &'static str,
    },
    /// Data that is neither in the program nor in the external data.
    #[error("no data has the key {key:?}; pass the .ptd file that was exported with this program")]
    NoData {
        /// The key.
        key: String,
    },
    /// Bytes are needed to write, but only their length is known.
    #[error("{what} has no bytes to write")]
    NoBytes {
        /// The item that has no bytes.
        what: &'static str,
    },
}

impl OutOfMemory {
    pub(crate) fn in_section(self, section: &Section) -> Error {
        Error::new(Location { section: section.clone(), item: Item::Whole }, Problem::OutOfMemory(self))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.section {
            Section::Header => write!(f, "header")?,
            Section::Program => write!(f, "program")?,
            Section::Method(name) => write!(f, "method {name:?}")?,
            Section::Delegate { method, index } => write!(f, "method {method:?}, graph of delegate {index}")?,
            Section::Graph => write!(f, "graph")?,
            Section::External => write!(f, "external data")?,
        }
        match &self.item {
            Item::Whole => Ok(()),
            Item::Byte(offset) => write!(f, ", byte {offset}"),
            Item::Value(id) => write!(f, ", value {id}"),
            Item::Instruction { chain, index } => write!(f, ", chain {chain}, instruction {index}"),
            Item::Call { index, name } => write!(f, ", call {index} ({})", name.escape_debug()),
            Item::Node { index, kind } => write!(f, ", node {index} ({kind})"),
            Item::Entry { kind, index } => write!(f, ", {kind} {index}"),
        }
    }
}

/// Truncates a name for an error, by its escaped length: a hostile file may hold megabytes.
pub(crate) fn clip(name: &str) -> String {
    const LIMIT: usize = 80;
    let mut shown = 0;
    let cut = name.char_indices().find(|(_, c)| {
        shown += c.escape_debug().count();
        shown > LIMIT
    });
    match cut {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

/// Converts an error of the flatbuffer verifier.
pub(crate) fn flatbuffer(section: Section, bytes: &[u8], fault: &InvalidFlatbuffer) -> Error {
    use InvalidFlatbuffer as F;
    let (offset, reason, trace) = match fault {
        F::MissingRequiredField { required, error_trace } => {
            (None, format!("field `{required}` is missing"), Some(error_trace))
        }
        F::InconsistentUnion { field, error_trace, .. } => {
            (None, format!("union `{field}` has a tag without a value, or a value without a tag"), Some(error_trace))
        }
        F::Utf8Error { range, error_trace, .. } => {
            (Some(range.start), "a string is not valid UTF-8".to_owned(), Some(error_trace))
        }
        F::MissingNullTerminator { range, error_trace } => {
            (Some(range.start), "a string does not end in a zero byte".to_owned(), Some(error_trace))
        }
        F::Unaligned { position, error_trace, .. } => {
            (Some(*position), "a number is not aligned".to_owned(), Some(error_trace))
        }
        F::RangeOutOfBounds { range, error_trace } => (
            Some(range.start),
            format!("it points to bytes {}..{}, past its end at {}", range.start, range.end, bytes.len()),
            Some(error_trace),
        ),
        F::SignedOffsetOutOfBounds { position, error_trace, .. } => {
            (Some(*position), "a table points outside for its layout".to_owned(), Some(error_trace))
        }
        F::TooManyTables | F::ApparentSizeTooLarge => {
            (None, "its tables, unpacked, are far larger than its bytes".to_owned(), None)
        }
        F::DepthLimitReached => (None, "its tables are nested too deeply".to_owned(), None),
    };
    let trace = trace.map_or(&[][..], AsRef::as_ref);
    let field = trace.iter().find_map(|detail| match detail {
        ErrorTraceDetail::TableField { field_name, .. } => Some(field_name),
        _ => None,
    });
    let offset = offset.or_else(|| {
        trace.first().map(|detail| match detail {
            ErrorTraceDetail::VectorElement { position, .. }
            | ErrorTraceDetail::TableField { position, .. }
            | ErrorTraceDetail::UnionVariant { position, .. } => *position,
        })
    });
    let reason = match field {
        Some(field) => format!("{reason} (in field `{field}`)"),
        None => reason,
    };
    let item = offset.map_or(Item::Whole, |offset| Item::Byte(offset as u64));
    Error::new(Location { section, item }, Problem::Flatbuffer { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_truncated_by_their_escaped_length() {
        assert_eq!(clip("forward"), "forward");
        assert_eq!(clip(&"a".repeat(80)), "a".repeat(80));
        assert_eq!(clip(&"ä".repeat(81)), "ä".repeat(80) + "…");
        assert_eq!(clip(&"\u{10ffff}".repeat(50)).chars().count(), 9);
    }

    #[test]
    fn an_error_is_one_line_whatever_a_name_holds() {
        let name = clip(&"\u{1b}[2J\n".repeat(100));
        let location = Location { section: Section::Method(name.clone()), item: Item::Call { index: 0, name } };
        let text = Error::new(location, Problem::Missing { what: "it" }).to_string();
        assert!(!text.contains(char::is_control) && text.len() < 300, "{text:?}");
    }
}
