//! Rules about the fixed fields of a `.pte` file, and about where its segments lie.

use pteron_format::{Problem, Pte, write};

use crate::common::{check, sample};
use crate::{assert_refused, fault};

/// Where the extended header's fields are.
const HEADER_LEN: usize = 12;
const TABLES_LEN: usize = 16;
const BASE: usize = 24;
const DATA_LEN: usize = 32;

fn with(file: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

fn u64_at(file: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(file[at..at + 8].try_into().unwrap())
}

#[test]
fn fixed_fields() {
    let file = write(&sample::program()).unwrap();
    let (len, tables_len, base) = (file.len() as u64, u64_at(&file, TABLES_LEN), u64_at(&file, BASE));
    let magic = Problem::Magic { what: "the file identifier", found: r"\xff\x00a\n".to_owned(), expected: "ET12" };
    assert_refused(&with(&file, 4, b"\xff\0a\n"), &fault("header, byte 4", magic), "the identifier");

    let problem = Problem::Size { what: "the extended header's length", found: 23, expected: 32 };
    assert_refused(&with(&file, HEADER_LEN, &[23, 0, 0, 0]), &fault("header, byte 12", problem), "the header's length");

    for tables_len in [len + 1, u64::MAX] {
        let problem = Problem::Truncated { what: "the program's tables", need: tables_len, have: len };
        let file = with(&file, TABLES_LEN, &tables_len.to_le_bytes());
        assert_refused(&file, &fault("header, byte 0", problem), "the length of the tables");
    }

    for base in [1, tables_len - 1] {
        let problem = Problem::Order { what: "the segment data", start: base, previous_end: tables_len };
        let file = with(&file, BASE, &base.to_le_bytes());
        assert_refused(&file, &fault("header", problem), "data inside the tables");
    }
    let problem = Problem::Alignment { what: "the segment data", offset: base + 8, alignment: 16 };
    let moved = with(&file, BASE, &(base + 8).to_le_bytes());
    assert_refused(&moved, &fault("header", problem), "data that is not aligned");

    for (data_len, need) in [(len - base + 1, len + 1), (u64::MAX, u64::MAX)] {
        let problem = Problem::Truncated { what: "the segment data", need, have: len };
        let file = with(&file, DATA_LEN, &data_len.to_le_bytes());
        assert_refused(&file, &fault("header", problem), "the length of the data");
    }
}

#[test]
#[cfg_attr(miri, ignore = "a reading for each byte")]
fn a_file_cut_anywhere_is_refused() {
    let file = write(&sample::program()).unwrap();
    for len in 0..file.len() {
        let error = Pte::read(&file[..len]).unwrap_err();
        check::error_text(&error);
    }
    let problem = Problem::Truncated { what: "the file identifier", need: 8, have: 0 };
    assert_refused(&[], &fault("header, byte 4", problem), "nothing");
}

/// A header that says there is no data, and a program that has some.
#[test]
fn segments_lie_in_the_data() {
    let file = write(&sample::program()).unwrap();
    let problem = Problem::Range { what: "the segment", start: 0, end: 64, limit: 0 };
    let none = with(&file, BASE, &0u64.to_le_bytes());
    assert_refused(&none, &fault("program, segment 0", problem), "no data");

    let problem = Problem::Range { what: "the segment", start: 0, end: 64, limit: 63 };
    let less = with(&file, DATA_LEN, &63u64.to_le_bytes());
    assert_refused(&less, &fault("program, segment 0", problem), "less data");
}
