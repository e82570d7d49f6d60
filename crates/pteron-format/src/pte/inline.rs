//! Takes a program's tables from its file. Where other processes may change the file, the tables are copied.
//!
//! Older exporters wrote constants and delegates into the tables, gigabytes of them. The copy leaves those bytes out and has zeros
//! in their place. They are located before anything is verified, so their position is a guess. A wrong guess yields tables that are
//! rejected or differ, and nothing worse, because the copy is what is verified.

use std::borrow::Cow;

use crate::alloc;
use crate::bytes::{Bytes, BytesError, take};
use crate::error::{Error, Item, Location, Problem, Result, Section};
use crate::program::{ByteRange, within};

/// Tables up to this many bytes are copied whole.
const WHOLE: u64 = 1 << 20;
/// The fewest bytes inside the tables that are left out of the copy.
const LARGE: u64 = 64 << 10;
/// The most entries of a list that are searched for bytes to leave out.
const MOST_ENTRIES: u64 = 1 << 16;
/// The fields of a program that list tables with bytes: `constant_buffer` and `backend_delegate_data`.
const LISTS: [u64; 2] = [2, 3];

/// The tables, which are the first `len` bytes of a file.
pub(super) fn take_tables<B: Bytes>(file: &B, len: u64) -> Result<Cow<'_, [u8]>> {
    const WHAT: &str = "the program's tables";
    if !file.may_change() || len <= WHOLE || within(0, len, file.file_len()).is_err() {
        return take(Section::Header, WHAT, file, 0, len);
    }
    copy_around(file, len, &inline_bytes(file, len)).map(Cow::Owned).map_err(|error| {
        let location = Location { section: Section::Header, item: Item::Byte(0) };
        Error::new(location, Problem::from_bytes_error(error, 0, len))
    })
}

/// Copies the first `len` bytes of a file, with zeros for the given parts.
fn copy_around<B: Bytes>(file: &B, len: u64, left_out: &[ByteRange]) -> Result<Vec<u8>, BytesError> {
    let len = usize::try_from(len).map_err(|_| alloc::OutOfMemory { bytes: len })?;
    let mut copy = alloc::zeroed(len)?;
    let position = |at: u64| usize::try_from(at).unwrap_or(len).min(len);
    let mut done = 0;
    let ends = left_out.iter().map(|part| (part.start, part.start + part.len)).chain([(len as u64, len as u64)]);
    for (start, end) in ends {
        if let Some(out) = copy.get_mut(position(done)..position(start)) {
            file.read_at(done, out)?;
        }
        done = done.max(end);
    }
    Ok(copy)
}

/// The ranges of large constants and delegates inside the tables, by start.
fn inline_bytes<B: Bytes>(file: &B, len: u64) -> Vec<ByteRange> {
    let mut peek = Peek { file, len, window: Vec::new(), at: 0 };
    let mut found = Vec::new();
    for list in LISTS {
        let _ = peek.list(list, &mut found);
    }
    found.sort_unstable();
    found
}

/// Reads numbers of unverified tables, one window at a time.
struct Peek<'a, B> {
    file: &'a B,
    len: u64,
    window: Vec<u8>,
    at: u64,
}

impl<B: Bytes> Peek<'_, B> {
    /// Adds the ranges of the entries of one of the root's lists.
    fn list(&mut self, field: u64, found: &mut Vec<ByteRange>) -> Option<()> {
        let root = self.number(0, 4)?;
        let list = self.field(root, field)?;
        let entries = self.follow(list)?;
        let count = self.number(entries, 4)?.min(MOST_ENTRIES);
        for entry in 0..count {
            let table = self.follow(entries + 4 + 4 * entry)?;
            let Some(bytes) = self.field(table, 0) else { continue };
            let bytes = self.follow(bytes)?;
            let part = ByteRange { start: bytes + 4, len: self.number(bytes, 4)? };
            if part.len >= LARGE && within(part.start, part.len, self.len).is_ok() {
                found.push(part);
            }
        }
        Some(())
    }

    /// The offset of a table's field.
    fn field(&mut self, table: u64, field: u64) -> Option<u64> {
        // The distance is signed; a vtable may lie on either side of its table.
        let back = u32::try_from(self.number(table, 4)?).ok()?.cast_signed();
        let vtable = table.checked_add_signed(-i64::from(back))?;
        let place = 4 + 2 * field;
        let size = self.number(vtable, 2)?;
        let offset = if place < size { self.number(vtable + place, 2)? } else { 0 };
        (offset > 0).then_some(table + offset)
    }

    /// The target of an offset.
    fn follow(&mut self, at: u64) -> Option<u64> {
        Some(at + self.number(at, 4)?)
    }

    /// A little-endian number.
    fn number(&mut self, at: u64, len: usize) -> Option<u64> {
        const WINDOW: u64 = 4096;
        within(at, len as u64, self.len).ok()?;
        if at < self.at || at + len as u64 > self.at + self.window.len() as u64 {
            self.window.resize(usize::try_from(WINDOW.min(self.len - at)).ok()?, 0);
            self.at = at;
            self.file.read_at(at, &mut self.window).ok()?;
        }
        let from = usize::try_from(at - self.at).ok()?;
        Some(crate::header::read_uint(&self.window, from, len))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::program::{Data, Program};

    /// A file that others may change, and how many bytes of it were read.
    struct Shared<'a>(&'a [u8], Cell<u64>);

    impl Bytes for Shared<'_> {
        fn file_len(&self) -> u64 {
            self.0.len() as u64
        }
        fn get(&self, part: ByteRange) -> Option<&[u8]> {
            Bytes::get(self.0, part)
        }
        fn may_change(&self) -> bool {
            true
        }
        fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
            self.1.set(self.1.get() + out.len() as u64);
            out.copy_from_slice(self.get(ByteRange { start, len: out.len() as u64 }).ok_or(BytesError::NotLoaded)?);
            Ok(())
        }
    }

    fn program(constants: Vec<Vec<u8>>) -> Program<Vec<u8>> {
        Program {
            version: 0,
            plans: Vec::new(),
            segments: Vec::new(),
            inline_constants: constants,
            inline_delegates: Vec::new(),
            constants: None,
            mutable_data: None,
            named_data: None,
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes of constants")]
    fn large_constants_inside_the_tables_are_not_copied() {
        let constants = vec![vec![], vec![7; 3 << 20], vec![1, 2, 3], vec![9; 100_000]];
        let file = crate::write(&program(constants.clone())).unwrap();
        let shared = Shared(&file, Cell::new(0));
        let pte = super::super::Pte::read(shared).unwrap();
        assert!(pte.file().1.get() < 64 << 10, "{} bytes of {} were read", pte.file().1.get(), file.len());
        for (constant, place) in constants.iter().zip(&pte.program().inline_constants) {
            assert_eq!(pte.bytes(*place), constant.as_slice());
            assert_eq!(place.byte_len(), constant.len() as u64);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes of constants")]
    fn small_tables_are_copied_whole_and_once() {
        let file = crate::write(&program(vec![vec![], vec![7; 100_000]])).unwrap();
        let shared = Shared(&file, Cell::new(0));
        let pte = super::super::Pte::read(shared).unwrap();
        assert!(pte.file().1.get() < file.len() as u64 + 64);
        assert_eq!(pte.bytes(pte.program().inline_constants[1]), [7; 100_000]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "megabytes of constants")]
    fn damaged_tables_are_an_error_wherever_the_damage_is() {
        let file = crate::write(&program(vec![vec![], vec![7; 2 << 20], vec![8; 2 << 20]])).unwrap();
        // Everything but the constants themselves: offsets, vtables, lengths.
        for at in (0..2048).chain(file.len() - 2048..file.len()) {
            let mut damaged = file.clone();
            damaged[at] ^= 0xa5;
            let shared = Shared(&damaged, Cell::new(0));
            if let Ok(pte) = super::super::Pte::read(shared) {
                assert!(pte.program().inline_constants.iter().all(|&place| pte.bytes(place).len() as u64 == place.len));
            }
        }
    }

    #[test]
    fn a_copy_reads_like_the_file() {
        let constants = vec![vec![], vec![1, 2, 3], vec![7; 200]];
        let file = crate::write(&program(constants)).unwrap();
        let shared = super::super::Pte::read(Shared(&file, Cell::new(0))).unwrap();
        assert!(shared.program() == super::super::Pte::read(file.as_slice()).unwrap().program());
        for end in 0..file.len() {
            assert!(super::super::Pte::read(Shared(&file[..end], Cell::new(0))).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn bytes_that_are_left_out_may_overlap_and_reach_the_end() {
        let file: Vec<u8> = (0..100).collect();
        let part = |start, len| ByteRange { start, len };
        let copy = copy_around(&file, 100, &[part(10, 30), part(20, 5), part(35, 20), part(90, 10)]).unwrap();
        let expected = |at: u8| if (10..55).contains(&at) || at >= 90 { 0 } else { at };
        assert!(copy.iter().zip(0..).all(|(&byte, at)| byte == expected(at)), "{copy:?}");
        assert_eq!(copy_around(&file, 100, &[]).unwrap(), file);
    }
}
