//! A file that others may change is read once, into a copy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::cell::RefCell;

use common::{fixture, fixtures_with};
use pteron_format::{ByteRange, Bytes, BytesError, Ptd, Pte};

/// A file that must not be read but by copying, and which of its bytes were copied.
#[derive(Debug)]
struct Shared {
    file: Vec<u8>,
    reads: RefCell<Vec<u8>>,
    /// The number of reads after which the file is shorter.
    cut_after: usize,
}

impl Shared {
    fn new(file: Vec<u8>) -> Self {
        Self { reads: RefCell::new(vec![0; file.len()]), file, cut_after: usize::MAX }
    }
}

impl Bytes for Shared {
    fn file_len(&self) -> u64 {
        self.file.len() as u64
    }

    fn get(&self, part: ByteRange) -> Option<&[u8]> {
        panic!("{part:?} is read where it may change");
    }

    fn may_change(&self) -> bool {
        true
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
        let start = usize::try_from(start).unwrap();
        let mut reads = self.reads.borrow_mut();
        if reads.iter().map(|&reads| usize::from(reads > 0)).sum::<usize>() >= self.cut_after {
            return Err(BytesError::Failed("it is shorter\u{1b}[2J".to_owned()));
        }
        let part = ByteRange { start: start as u64, len: out.len() as u64 };
        out.copy_from_slice(Bytes::get(&self.file, part).ok_or(BytesError::NotLoaded)?);
        reads[start..start + out.len()].iter_mut().for_each(|reads| *reads += 1);
        Ok(())
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_real_file_reads_the_same_from_a_copy() {
    for path in fixtures_with("pte") {
        let file = std::fs::read(&path).unwrap();
        let plain = Pte::read(file.as_slice()).unwrap();
        let shared = Pte::read(Shared::new(file.clone())).unwrap();
        assert!(shared.program() == plain.program() && shared.graphs().eq(plain.graphs()), "{}", path.display());
        // The magic and the header are looked at on their own, and again with the tables they stand in.
        let most = shared.file().reads.borrow().iter().skip(48).max().copied();
        assert!(most <= Some(3), "{}: a byte was read {most:?} times", path.display());
    }
    for path in fixtures_with("ptd") {
        let file = std::fs::read(&path).unwrap();
        let plain = Ptd::read(file.as_slice()).unwrap();
        assert!(Ptd::read(Shared::new(file.clone())).unwrap().data() == plain.data(), "{}", path.display());
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let file = fixture("llama/tiny_4w/program.pte");
    for cut_after in [0, 4, 8, 40, 41] {
        let error = Pte::read(Shared { cut_after, ..Shared::new(file.clone()) }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("must not change while it is open") && !text.contains(char::is_control), "{text}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn a_copy_stays_within_the_reading_budget() {
    let file = fixture("llama/tiny_4w/program.pte");
    let shared = Shared::new(file);
    let info = allocation_counter::measure(|| drop(Pte::read(&shared).unwrap()));
    assert!(info.bytes_max <= common::check::heap_limit(shared.file.len()), "{} bytes", info.bytes_max);
    assert_eq!(info.bytes_current, 0, "nothing is left");
}

impl Bytes for &Shared {
    fn file_len(&self) -> u64 {
        (**self).file_len()
    }
    fn get(&self, part: ByteRange) -> Option<&[u8]> {
        (**self).get(part)
    }
    fn may_change(&self) -> bool {
        true
    }
    fn read_at(&self, start: u64, out: &mut [u8]) -> Result<(), BytesError> {
        (**self).read_at(start, out)
    }
}
