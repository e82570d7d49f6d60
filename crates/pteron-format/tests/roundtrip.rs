//! Round trips: a file that was read can be written, and reads back as equal. Covers real files, older versions and any valid
//! program.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{arbitrary, check, fixtures_with, sample};
use proptest::prelude::*;
use pteron_format::program::{DataRef, NamedData, SegmentId, Value};
use pteron_format::vulkan::{self, read_blob, write_blob};
use pteron_format::{Program, Ptd, Pte, external, layout, layout_with_min_head, write};

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_real_program() {
    for path in fixtures_with("pte") {
        let file = std::fs::read(&path).unwrap();
        let (pte, _) = check::reading(file.len(), || Pte::read(file.as_slice()));
        let pte = pte.unwrap_or_else(|| panic!("{}: {}", path.display(), Pte::read(file.as_slice()).unwrap_err()));
        check::program(&pte);
        check::program_again(&pte);
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn every_real_file_of_external_data() {
    for path in fixtures_with("ptd") {
        let file = std::fs::read(&path).unwrap();
        let ptd = Ptd::read(file.as_slice()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        check::external_again(&ptd);
    }
}

/// A program and the external data beside it belong together; neither is enough alone.
#[test]
#[cfg_attr(miri, ignore = "reads files")]
fn exported_external_data_matches_its_program() {
    let mut folders: Vec<_> = fixtures_with("ptd").iter().map(|path| path.parent().unwrap().to_owned()).collect();
    folders.dedup();
    for folder in folders {
        let pte = Pte::read(std::fs::read(folder.join("program.pte")).unwrap()).unwrap();
        let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "ptd"));
        let data: Vec<_> = files.map(|path| Ptd::read(std::fs::read(path).unwrap()).unwrap()).collect();
        pte.verify_external(&data).unwrap();
        assert!(pte.verify_external::<Vec<u8>>(&[]).is_err(), "{}", folder.display());
    }
}

/// Older exporters wrote a header without the length of the data.
#[test]
fn the_older_header_is_read() {
    let mut file = write(&sample::program()).unwrap();
    assert_eq!(&file[8..16], b"eh00\x20\0\0\0");
    file[12] = 24;
    // Bytes after a header of 24 bytes are unused.
    file[32..40].fill(0xff);
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.with_data(), sample::program().map_data(Vec::as_slice));
    check::program_again(&pte);
}

/// A program whose data is all in its tables has no header.
#[test]
fn a_program_without_segments_has_no_header() {
    let program = with_inline_data();
    let file = write(&program).unwrap();
    assert_ne!(&file[8..12], b"eh00");
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.with_data(), program.map_data(Vec::as_slice));
    assert_eq!(pte.graphs().count(), 1);
    check::program(&pte);
    check::program_again(&pte);
}

/// A writer that at first knows neither the names nor the number of segments: segments after the first plan's head stay in place.
#[test]
fn segments_can_be_written_before_the_tables() {
    let program = sample::program();
    let mut at_most = program.clone();
    at_most.segments.push(vec![4; 40]);
    at_most.named_data.as_mut().unwrap().push(NamedData { key: "?".repeat(64), segment: SegmentId(4) });
    let room = layout(&at_most).unwrap().head.len();
    let plan = layout_with_min_head(&program, room).unwrap();
    assert_eq!(plan.head.len(), room);
    assert_eq!(plan.segments, layout(&at_most).unwrap().segments[..4]);

    let mut file = plan.head;
    for (place, bytes) in plan.segments.iter().zip(&program.segments) {
        file.resize(usize::try_from(place.start).unwrap(), 0);
        file.extend_from_slice(bytes);
    }
    assert_eq!(file.len() as u64, plan.len);
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.with_data(), program.map_data(Vec::as_slice));
    assert_eq!(layout_with_min_head(&program, 0), layout(&program), "no room is what the tables need");
}

/// The sample with its delegate and its constant inside the tables, its weight and initial values gone.
fn with_inline_data() -> Program<Vec<u8>> {
    let mut program = sample::program();
    program.inline_delegates = vec![Vec::new(), program.segments[1].clone()];
    program.inline_constants = vec![Vec::new(), program.segments[0][..24].to_vec()];
    program.plans[0].delegates[0].data = DataRef::Inline(1);
    if let Value::Tensor(tensor) = &mut program.plans[0].values[3] {
        tensor.buffer = 0;
    }
    Program { segments: Vec::new(), constants: None, mutable_data: None, named_data: None, ..program }
}

/// Data inside the tables lies on a 16-byte boundary, header or not.
#[test]
fn inline_data_is_aligned() {
    for segments in [Vec::new(), vec![vec![1; 5]]] {
        let file = write(&Program { segments, ..with_inline_data() }).unwrap();
        let pte = Pte::read(file.as_slice()).unwrap();
        for range in pte.program().inline_constants.iter().chain(&pte.program().inline_delegates) {
            assert!(range.start.is_multiple_of(16), "{range:?}");
        }
    }
}

/// A program may end in empty segments: nothing is written for them, and nothing is expected.
#[test]
fn empty_segments_take_no_room() {
    for segments in [vec![vec![1; 5], vec![]], vec![vec![], vec![1; 200], vec![], vec![]], vec![vec![], vec![]]] {
        let program = Program { segments: segments.clone(), ..with_inline_data() };
        let file = write(&program).unwrap();
        let pte = Pte::read(file.as_slice()).unwrap();
        assert_eq!(pte.with_data(), program.map_data(Vec::as_slice));
        check::program_again(&pte);
        let data = external::ExternalData { version: 0, segments, entries: Vec::new() };
        let file = external::write(&data).unwrap();
        let ptd = Ptd::read(file.as_slice()).unwrap();
        assert_eq!(ptd.with_data(), data.map_data(Vec::as_slice));
    }
}

/// Bytes after the last segment are not part of the program.
#[test]
fn trailing_bytes_are_left_out() {
    let mut file = write(&sample::program()).unwrap();
    let clean = file.clone();
    file.extend_from_slice(&[1; 100]);
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(write(&pte.with_data()).unwrap(), clean);
}

/// A list that is absent is not the same as an empty one, and stays what it was.
#[test]
fn absent_and_empty_lists_are_kept_apart() {
    for (mutable_data, named_data) in [(None, Some(Vec::new())), (Some(Vec::new()), None)] {
        let program = Program { mutable_data, named_data, ..with_inline_data() };
        let file = write(&program).unwrap();
        assert_eq!(Pte::read(file.as_slice()).unwrap().with_data(), program.map_data(Vec::as_slice));
    }
}

/// The sample with this graph as its delegate.
fn with_graph(graph: &vulkan::Graph, stored: &[u8]) -> Program<Vec<u8>> {
    let mut program = sample::program();
    program.segments[1] = write_blob(graph, stored).unwrap();
    program.plans[0].chains.clear();
    // Keys may be the sample's own, of another length.
    program.named_data = None;
    assert_eq!(program.plans[0].delegates[0].data, DataRef::Segment(SegmentId(1)));
    program
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 512 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_valid_program(program in arbitrary::program()) {
        let file = write(&program).unwrap();
        let (pte, _) = check::reading(file.len(), || Pte::read(file.as_slice()));
        let pte = pte.unwrap();
        prop_assert_eq!(pte.with_data(), program.map_data(Vec::as_slice));
        check::program(&pte);
        check::program_again(&pte);
    }

    #[test]
    fn any_valid_graph((graph, stored) in arbitrary::graph()) {
        let bytes = write_blob(&graph, &stored).unwrap();
        let blob = read_blob(&bytes).unwrap();
        prop_assert_eq!(&blob.graph, &graph);
        check::blob_again(&blob, &bytes);
        for constant in &graph.constants {
            if let Some(bytes) = blob.stored_bytes(&bytes, constant) {
                prop_assert_eq!(bytes.len() as u64, constant.len);
            }
        }
        let file = write(&with_graph(&graph, &stored)).unwrap();
        let pte = Pte::read(file.as_slice()).unwrap();
        prop_assert_eq!(pte.graphs().map(|(_, blob)| &blob.graph).collect::<Vec<_>>(), [&graph]);
        check::program(&pte);
        check::program_again(&pte);
    }

    #[test]
    fn any_valid_external_data(data in arbitrary::external()) {
        let file = external::write(&data).unwrap();
        let ptd = Ptd::read(file.as_slice()).unwrap();
        prop_assert_eq!(ptd.with_data(), data.map_data(Vec::as_slice));
        check::external_again(&ptd);
    }
}
