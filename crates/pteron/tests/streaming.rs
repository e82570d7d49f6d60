//! Programs that are opened and loaded while their file arrives.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::{gpu, inputs, load, program_file, step};
use proptest::prelude::*;
use pteron::{CallInput, Error, FileRange, LoadOptions, Method, PartialProgram, Program, StreamingMethod, Tensor, block_on};
use pteron_format::PartialFile;
use pteron_format::program::{Instruction, Value, ValueId};

fn slice(file: &[u8], part: FileRange) -> Vec<u8> {
    let start = usize::try_from(part.start).unwrap();
    file[start..start + usize::try_from(part.len).unwrap()].to_vec()
}

/// Opens files as if each part were a request; returns the program and the number of bytes fetched.
fn open(files: &[Vec<u8>]) -> pteron::Result<(Program, u64)> {
    let mut partial = PartialProgram::new(files[0].len() as u64);
    for file in &files[1..] {
        partial.attach(PartialFile::new(file.len() as u64));
    }
    let mut taken = 0;
    while let Some(part) = partial.needs()? {
        taken += part.len;
        partial.supply(part.file, part.start, slice(&files[part.file], part));
    }
    Ok((partial.finish()?, taken))
}

fn begin(files: &[Vec<u8>], options: &LoadOptions) -> StreamingMethod {
    block_on(open(files).unwrap().0.load_streaming(&gpu(), "forward", options)).unwrap()
}

/// Writes everything that is needed, in pieces of `piece` bytes.
fn fill(streaming: &mut StreamingMethod, files: &[Vec<u8>], piece: usize) {
    for part in streaming.needs() {
        let bytes = slice(&files[part.file], part);
        for (index, bytes) in bytes.chunks(piece).enumerate() {
            streaming.write(part.file, part.start + (index * piece) as u64, bytes).unwrap();
        }
    }
}

fn streamed(files: &[Vec<u8>], piece: usize) -> Method {
    let mut streaming = begin(files, &LoadOptions::default());
    fill(&mut streaming, files, piece);
    assert_eq!((streaming.needs(), streaming.take_corrupt()), (vec![], vec![]));
    block_on(streaming.finish()).unwrap()
}

#[test]
fn tables_are_a_small_part_of_a_file() {
    let file = program_file();
    let length = file.len() as u64;
    let (program, taken) = open(&[file]).unwrap();
    assert_eq!(program.methods().collect::<Vec<_>>(), ["forward"]);
    assert!(taken < length / 4, "{taken} of {length} bytes");
}

#[test]
fn a_streamed_program_gives_the_outputs_of_a_mapped_one() {
    let files = [program_file()];
    let whole = load(&gpu());
    let expected = step(&whole, &mut whole.new_state().unwrap(), 1, 0, 12);
    for piece in [1 << 20, 4099] {
        let method = streamed(&files, piece);
        assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected, "pieces of {piece}");
        assert_eq!(method.memory(), whole.memory());
    }
}

#[test]
fn external_data_arrives_too() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ops/constants_external");
    let mut data: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    data.retain(|path| path.extension().is_some_and(|extension| extension == "ptd"));
    let files: Vec<Vec<u8>> =
        [folder.join("program.pte")].into_iter().chain(data).map(|path| std::fs::read(path).unwrap()).collect();
    let error = open(&files[..1]).expect_err("its constants are elsewhere").to_string();
    assert!(error.contains("external"), "{error}");
    let mut streaming = begin(&files, &LoadOptions::default());
    assert!(streaming.needs().iter().any(|part| part.file == 1) && streaming.needs().iter().any(|part| part.file == 2));
    fill(&mut streaming, &files, 1000);
    block_on(streaming.finish()).unwrap();
}

#[test]
fn a_damaged_constant_is_named_and_wanted_again() {
    let good = [program_file()];
    let mut streaming = begin(&good, &LoadOptions::default());
    let part = *streaming.needs().last().unwrap();
    let mut bad = good.clone();
    bad[0][usize::try_from(part.start + part.len).unwrap() - 1] ^= 1;
    fill(&mut streaming, &bad, 3000);
    let damaged = streaming.take_corrupt();
    assert_eq!(damaged.len(), 1);
    let damage = &damaged[0];
    assert!(damage.key.len() == 64 && damage.part.start + damage.part.len == part.start + part.len, "{damage:?}");
    assert_eq!((streaming.needs(), streaming.take_corrupt()), (vec![damage.part], vec![]));
    fill(&mut streaming, &good, 3000);
    let method = block_on(streaming.finish()).unwrap();
    let whole = load(&gpu());
    let expected = step(&whole, &mut whole.new_state().unwrap(), 1, 0, 12);
    assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected);
}

/// The program with one constant renamed to a key that is not a checksum.
fn renamed(mut file: Vec<u8>) -> Vec<u8> {
    let mut streaming = begin(&[file.clone()], &LoadOptions::default());
    let part = streaming.needs()[0];
    streaming.write(0, part.start, &vec![0xa5; usize::try_from(part.len).unwrap()]).unwrap();
    let key = streaming.take_corrupt()[0].key.clone().into_bytes();
    let places: Vec<usize> = (0..file.len() - key.len()).filter(|&at| file[at..].starts_with(&key)).collect();
    assert!(places.len() >= 2, "the tables and the graph have it");
    for at in places {
        file[at..at + key.len()].fill(b'z');
    }
    file
}

#[test]
fn damage_without_a_checksum_lies_in_unchecked_ranges() {
    let named = program_file();
    assert_eq!(begin(std::slice::from_ref(&named), &LoadOptions::default()).unchecked(), []);
    for good in [[named.clone()], [renamed(named)]] {
        let mut streaming = begin(&good, &LoadOptions::default());
        let unchecked = streaming.unchecked();
        let mut bad = good.clone();
        for part in &unchecked {
            bad[0][usize::try_from(part.start).unwrap()] ^= 1;
        }
        fill(&mut streaming, &bad, 3000);
        assert_eq!((streaming.take_corrupt(), streaming.unchecked()), (vec![], vec![]), "nobody can tell");
        assert_eq!(unchecked.len(), usize::from(bad != good));
    }
}

#[test]
fn an_incomplete_program_cannot_be_finished() {
    let files = [program_file()];
    let mut streaming = begin(&files, &LoadOptions::default());
    let needs = streaming.needs();
    let (written, total) = streaming.progress();
    assert!(written == 0 && total > 0);
    for part in &needs {
        streaming.write(0, part.start, &slice(&files[0], FileRange { len: part.len - 1, ..*part })).unwrap();
    }
    assert!(streaming.progress().0 < total);
    match block_on(streaming.finish()) {
        Err(Error::Gpu(pteron_gpu::Error::MissingConstant { .. })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_can_be_timed_before_constants_arrive() {
    let files = [program_file()];
    let mut streaming = begin(&files, &common::tokens::sampling());
    let mut state = streaming.new_state().unwrap();
    let inputs = [Tensor::from_i64(&[1, 1], &[0]).unwrap(), Tensor::from_i64(&[1], &[0]).unwrap()];
    let sampling = Tensor::new(pteron::ScalarType::Int, &[4], vec![0; 16]).unwrap();
    let inputs = [CallInput::Tensor(&inputs[0]), CallInput::Tensor(&inputs[1]), CallInput::Tensor(&sampling)];
    for _ in 0..5 {
        block_on(streaming.start(&mut state, &inputs, 1).unwrap().wait()).unwrap();
    }
    fill(&mut streaming, &files, 1 << 16);
    let method = block_on(streaming.finish()).unwrap();
    let whole = load(&gpu());
    let expected = step(&whole, &mut whole.new_state().unwrap(), 1, 0, 12);
    let mut state = method.new_state().unwrap();
    assert!(!method.has_feedback(&state, 0), "a new state has run no call");
    assert_eq!(step(&method, &mut state, 1, 0, 12), expected, "calls without constants change nothing");
    let plain = begin(&files, &LoadOptions::default());
    let refused = plain.start(&mut plain.new_state().unwrap(), &inputs, 0);
    assert!(matches!(refused, Err(Error::Misuse(_))));
}

#[test]
fn memory_is_known_before_any_is_made() {
    let (gpu, files) = (gpu(), [program_file()]);
    let before = gpu.counts().buffer_bytes;
    let planned = open(&files).unwrap().0.plan_memory(&gpu, "forward", &LoadOptions::default()).unwrap();
    assert_eq!(gpu.counts().buffer_bytes, before);
    let loaded = load(&gpu);
    assert_eq!((planned, planned.state_bytes), (loaded.memory(), loaded.state_bytes()));
    let small = LoadOptions::default().with_memory_budget(1000);
    let refused = open(&files).unwrap().0.plan_memory(&gpu, "forward", &small);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

/// A program that changes a tensor of two gigabytes outside its delegate, so that the method would have to keep the tensor.
#[test]
fn a_small_file_that_claims_much_is_opened_without_making_it() {
    let mut program = pteron_format::Pte::read(program_file()).unwrap().with_data().map_data(|data| data.to_vec());
    let plan = program.plans.iter_mut().find(|plan| plan.name == "forward").unwrap();
    let tensor = plan.values.iter_mut().find_map(|value| match value {
        Value::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let mut huge = tensor.unwrap().clone();
    (huge.sizes, huge.dim_order, huge.buffer, huge.allocation) = (vec![500_000_000], vec![0], 0, None);
    plan.values.push(Value::Tensor(huge));
    let id = ValueId(u32::try_from(plan.values.len() - 1).unwrap());
    plan.chains[0].instructions.insert(0, Instruction::Free(id));
    let file = pteron_format::write(&program).unwrap();
    let allocated = allocation_counter::measure(|| {
        open(std::slice::from_ref(&file)).unwrap();
    });
    assert!(allocated.bytes_max < 64 << 20, "{} bytes", allocated.bytes_max);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A file that is truncated or changed anywhere in its tables is an error or a program, never anything else.
    #[test]
    fn any_bytes_can_be_opened_in_parts(at in 0usize..60_000, change in 1u8.., cut in 0usize..200_000) {
        let mut file = program_file();
        let at = at % file.len();
        file[at] ^= change;
        file.truncate(file.len().saturating_sub(cut).max(16));
        let in_parts = open(&[file.clone()]).map(|(program, _)| program.methods().count());
        let whole = Program::from_bytes(file, Vec::new()).map(|program| program.methods().count());
        prop_assert_eq!(in_parts.is_ok(), whole.is_ok(), "{:?} {:?}", in_parts, whole);
    }
}

#[test]
fn lost_devices_are_heard_of() {
    let gpu = gpu();
    let method = load(&gpu);
    let mut state = method.new_state().unwrap();
    gpu.destroy();
    assert!(block_on(gpu.lost()).contains("destroyed"));
    assert!(block_on(method.call(&mut state, &inputs(1, 0, 1))).is_err());
}
