//! Tables that share on purpose: many offsets to one table make a small file a large tree.

use std::time::{Duration, Instant};

use pteron_format::vulkan::{Graph, Value, read_blob, write_blob};
use pteron_format::{Problem, Pte, fuzzing};
use pteron_schema::program as pt;
use pteron_schema::vulkan as vk;
use pteron_schema::{Builder, WIPOffset};

use crate::common::{check, sample};

/// Far more than any of these takes.
const PATIENCE: Duration = Duration::from_secs(5);

fn program(root: impl FnOnce(&mut Builder<'static>) -> WIPOffset<pt::Program<'static>>, data: &[u8]) -> Vec<u8> {
    let mut b = Builder::new();
    let root = root(&mut b);
    b.finish(root, Some("ET12"));
    fuzzing::program_file(b.finished_data(), data)
}

/// Reads within bounds of memory and time; the problem found.
fn problem(file: &[u8]) -> Problem {
    let start = Instant::now();
    let (pte, _) = check::reading(file.len(), || Pte::read(file));
    assert!(pte.is_none(), "accepted");
    assert!(start.elapsed() < PATIENCE, "{:?} for {} bytes", start.elapsed(), file.len());
    Pte::read(file).unwrap_err().problem
}

/// 64 methods that are one, each of 256 chains that are one, each of 256 instructions that are one: four million.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn a_tree_of_millions_from_a_few_kilobytes() {
    let file = program(
        |b| {
            let free = pt::FreeCallArgs::default().write(b).as_union_value();
            let instruction =
                pt::InstructionArgs { instr_args: Some((pt::FreeCall::TAG, free)), ..Default::default() }.write(b);
            let instructions = Some(b.create_vector(&[instruction; 256]));
            let chain = pt::ChainArgs { instructions, ..Default::default() }.write(b);
            let chains = Some(b.create_vector(&[chain; 256]));
            let name = Some(b.create_string("m"));
            let plan = pt::ExecutionPlanArgs { name, chains, ..Default::default() }.write(b);
            pt::ProgramArgs { execution_plan: Some(b.create_vector(&[plan; 64])), ..Default::default() }.write(b)
        },
        &[],
    );
    assert!(file.len() < 4096);
    let problem = problem(&file);
    assert!(
        matches!(&problem, Problem::Flatbuffer { reason } if reason.contains("far larger than its bytes")),
        "{problem:?}"
    );
}

/// The verifier counts bytes of tables. A list of nothing is four of them, and much more than that in memory.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn small_tables_that_unpack_to_large_values() {
    let file = program(
        |b| {
            let frames = pt::FrameListArgs::default().write(b);
            let stacktrace = Some(b.create_vector(&vec![frames; 50_000]));
            let chain = pt::ChainArgs { stacktrace, ..Default::default() }.write(b);
            let chains = Some(b.create_vector(&[chain]));
            let name = Some(b.create_string("m"));
            let plan = pt::ExecutionPlanArgs { name, chains, ..Default::default() }.write(b);
            pt::ProgramArgs { execution_plan: Some(b.create_vector(&[plan])), ..Default::default() }.write(b)
        },
        &[],
    );
    let problem = problem(&file);
    assert!(matches!(problem, Problem::TablesTooLarge { input, .. } if input == file.len() as u64), "{problem:?}");
}

/// Every name refers to one string.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn one_string_behind_thousands_of_names() {
    let file = program(
        |b| {
            let word = Some(b.create_string(&"long".repeat(2000)));
            let operator = pt::OperatorArgs { name: word, overload: word, ..Default::default() }.write(b);
            let operators = Some(b.create_vector(&[operator; 40]));
            let plan = pt::ExecutionPlanArgs { name: word, operators, ..Default::default() }.write(b);
            pt::ProgramArgs { execution_plan: Some(b.create_vector(&[plan])), ..Default::default() }.write(b)
        },
        &[],
    );
    let problem = problem(&file);
    assert!(matches!(problem, Problem::Flatbuffer { .. } | Problem::TablesTooLarge { .. }), "{problem:?}");
}

/// Names that are all the same are sorted before that is seen: what sorting needs is bounded as well.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn one_name_ten_thousand_times() {
    let file = program(
        |b| {
            let key = Some(b.create_string(""));
            let entry = pt::NamedDataArgs { key, ..Default::default() }.write(b);
            let segment = pt::DataSegmentArgs::default().write(b);
            let segments = Some(b.create_vector(&[segment]));
            let named_data = Some(b.create_vector(&vec![entry; 10_000]));
            pt::ProgramArgs { named_data, segments, ..Default::default() }.write(b)
        },
        &[],
    );
    assert_eq!(problem(&file), Problem::Duplicate { what: "the data key", name: String::new() });
}

/// Thousands of delegates over one graph would be parsed one after the other.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn thousands_of_delegates_over_one_graph() {
    let mut b = Builder::new();
    let named_key = Some(b.create_string(&"k".repeat(100_000)));
    let constant = vk::VkBytesArgs { offset: 0, length: 0, named_key, ..Default::default() }.write(&mut b);
    let constants = Some(b.create_vector(&[constant; 7]));
    let root = vk::VkGraphArgs { constants, ..Default::default() }.write(&mut b);
    b.finish(root, Some("VK00"));
    let blob = fuzzing::blob_file(b.finished_data(), &[]).unwrap();
    assert!(read_blob(&blob).is_ok(), "once is no fault");
    let file = program(
        |b| {
            let id = Some(b.create_string("VulkanBackend"));
            let segment = pt::DataSegmentArgs { offset: 0, size: blob.len() as u64, ..Default::default() }.write(b);
            let segments = Some(b.create_vector(&vec![segment; 5000]));
            let delegates: Vec<_> = (0..5000)
                .map(|index| {
                    let place = pt::BackendDelegateDataReferenceArgs { location: 1, index, ..Default::default() };
                    let processed = Some(place.write(b));
                    pt::BackendDelegateArgs { id, processed, ..Default::default() }.write(b)
                })
                .collect();
            let delegates = Some(b.create_vector(&delegates));
            let name = Some(b.create_string("m"));
            let plan = pt::ExecutionPlanArgs { name, delegates, ..Default::default() }.write(b);
            let execution_plan = Some(b.create_vector(&[plan]));
            pt::ProgramArgs { execution_plan, segments, ..Default::default() }.write(b)
        },
        &blob,
    );
    let problem = problem(&file);
    assert!(matches!(problem, Problem::TablesTooLarge { limit, .. } if limit == file.len() as u64), "{problem:?}");
}

/// The bounds are for what shares on purpose; what this library writes is read, however many small things are in it.
#[test]
#[cfg_attr(miri, ignore = "is timed")]
fn large_programs_that_share_nothing_are_read() {
    let values = vec![Value::Null; 300_000];
    let graph = Graph { values, ..Graph::default() };
    let blob = write_blob(&graph, &[]).unwrap();
    let (read, _) = check::reading(blob.len(), || read_blob(&blob));
    assert!(read.is_some_and(|blob| blob.graph == graph), "{} bytes are refused", blob.len());

    let mut program = sample::program();
    let values = &mut program.plans[0].values;
    values.extend(vec![values[0].clone(); 100_000]);
    let file = pteron_format::write(&program).unwrap();
    let (pte, _) = check::reading(file.len(), || Pte::read(file.as_slice()));
    assert!(pte.is_some(), "{} bytes are refused", file.len());
}
