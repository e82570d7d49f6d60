//! Rules about external data, and about a program's references to it.

use std::time::{Duration, Instant};

use pteron_format::external::{Entry, ExternalData, TensorLayout, write};
use pteron_format::program::SegmentId;
use pteron_format::vulkan::{Constant, ConstantSource, write_blob};
use pteron_format::{Problem, Ptd, Pte, ScalarType, fuzzing};

use crate::common::{check, sample};
use crate::{Fault, assert_fault, fault};

type Rule = (&'static str, fn(&mut ExternalData<Vec<u8>>), Fault);

fn layout(data: &mut ExternalData<Vec<u8>>) -> &mut TensorLayout {
    data.entries[0].layout.as_mut().unwrap()
}

#[test]
fn names_and_layouts() {
    let place = "external data, named data 0";
    let length = |found, expected| Problem::Size { what: "the tensor's length in bytes", found, expected };
    let rules: [Rule; 8] = [
        (
            "the version",
            |d| d.version = 7,
            fault("external data", Problem::Version { what: "the data's version", found: 7, supported: "version 0" }),
        ),
        (
            "the segment",
            |d| d.entries[0].segment.0 = 2,
            fault(place, Problem::Index { what: "its segment", index: 2, len: 2 }),
        ),
        (
            "a name twice",
            |d| d.entries[1].key = "outside".to_owned(),
            fault("external data", Problem::Duplicate { what: "the data key", name: "outside".to_owned() }),
        ),
        ("a shorter blob", |d| d.segments[0].truncate(7), fault(place, length(7, 8))),
        ("another type", |d| layout(d).scalar_type = ScalarType::Half, fault(place, length(8, 4))),
        (
            "the rank",
            |d| {
                layout(d).sizes = vec![1; 17];
                layout(d).dim_order = (0..17).collect();
            },
            fault(place, Problem::TooMany { what: "the tensor's rank", found: 17, limit: 16 }),
        ),
        (
            "the order of dimensions",
            |d| layout(d).dim_order = vec![1],
            fault(place, Problem::Permutation { what: "the order of dimensions", found: vec![1], rank: 1 }),
        ),
        (
            "the product of the dimensions",
            |d| {
                layout(d).sizes = vec![i32::MAX.unsigned_abs(); 3];
                layout(d).dim_order = vec![0, 1, 2];
            },
            fault(place, Problem::Overflow { what: "the tensor's size" }),
        ),
    ];
    for (rule, change, expected) in &rules {
        let mut data = sample::external();
        change(&mut data);
        let file = fuzzing::write_external(&data).unwrap();
        let (ptd, _) = check::reading(file.len(), || Ptd::read(file.as_slice()));
        assert!(ptd.is_none(), "{rule}: accepted");
        assert_fault(&Ptd::read(file.as_slice()).unwrap_err(), expected, rule);
        assert_fault(&write(&data).unwrap_err(), expected, rule);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a reading for each byte")]
fn fixed_fields() {
    let file = write(&sample::external()).unwrap();
    let len = file.len() as u64;
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let (tables_end, base) = (number(16) + number(24), number(32));
    let magic = |what, expected| Problem::Magic { what, found: "????".to_owned(), expected };
    let rules: [(usize, &[u8], Fault); 7] = [
        (4, b"????", fault("external data, byte 4", magic("the file identifier", "FT01"))),
        (8, b"????", fault("external data, byte 8", magic("the header's magic", "FH01"))),
        (
            12,
            &[39, 0, 0, 0],
            fault("external data, byte 12", Problem::Size { what: "the header's length", found: 39, expected: 40 }),
        ),
        (
            24,
            &[0xff; 8],
            fault("external data, byte 0", Problem::Truncated { what: "the tables", need: u64::MAX, have: len }),
        ),
        (
            32,
            &[16, 0, 0, 0, 0, 0, 0, 0],
            fault("external data", Problem::Order { what: "the segment data", start: 16, previous_end: tables_end }),
        ),
        (
            32,
            &(base + 1).to_le_bytes(),
            fault("external data", Problem::Alignment { what: "the segment data", offset: base + 1, alignment: 16 }),
        ),
        (40, &[0xff; 8], fault("external data", Problem::Truncated { what: "the segment data", need: u64::MAX, have: len })),
    ];
    for (at, bytes, expected) in rules {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        assert_fault(&Ptd::read(file.as_slice()).unwrap_err(), &expected, &format!("bytes at {at}"));
    }
    for len in 0..file.len() {
        check::error_text(&Ptd::read(&file[..len]).unwrap_err());
    }
}

/// A program without its named data needs it from outside.
#[test]
fn missing_external_data_is_rejected() {
    let mut program = sample::program();
    program.named_data = None;
    let file = pteron_format::write(&program).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.external_keys(), [("outside", 8), ("weight", 24)]);

    let ptd = |data: &ExternalData<Vec<u8>>| Ptd::read(write(data).unwrap()).unwrap();
    let missing = |key: &str| fault("external data", Problem::NoData { key: key.to_owned() });
    let error = pte.verify_external::<Vec<u8>>(&[]).unwrap_err();
    assert_fault(&error, &missing("outside"), "no file");
    let error = pte.verify_external(&[ptd(&sample::external())]).unwrap_err();
    assert_fault(&error, &missing("weight"), "one key of two");

    let mut weights = sample::external();
    weights.entries[0].key = "weight".to_owned();
    let error = pte.verify_external(&[ptd(&sample::external()), ptd(&weights)]).unwrap_err();
    let length = Problem::Size { what: "the length of an external constant", found: 8, expected: 24 };
    assert_fault(&error, &fault("external data", length), "another length");

    weights.segments[0] = vec![0; 24];
    weights.entries[0].layout = None;
    pte.verify_external(&[ptd(&sample::external()), ptd(&weights)]).unwrap();
}

/// Finding a key among many is not a walk over all of them.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn many_keys_are_found_quickly() {
    let keys: Vec<String> = (0..50_000).map(|index| format!("a key of some length {index}")).collect();
    let mut program = sample::program();
    let mut graph = sample::graph();
    graph.constants.extend(keys.iter().map(|key| Constant { len: 8, source: ConstantSource::Named(key.clone()) }));
    program.segments[1] = write_blob(&graph, &sample::STORED).unwrap();
    let pte = Pte::read(pteron_format::write(&program).unwrap()).unwrap();

    let mut data = sample::external();
    let entry = |key| Entry { key, segment: SegmentId(0), layout: None };
    data.entries.extend(keys.into_iter().map(entry));
    let ptd = Ptd::read(write(&data).unwrap()).unwrap();
    let start = Instant::now();
    pte.verify_external(&[ptd]).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
