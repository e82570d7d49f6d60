//! Every truncation of small real files, and every other value of every byte of them that is not constant data.
//!
//! Each gives a valid program that can be written and read again, or a clear error, with bounded memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::num::NonZero;
use std::ops::Range;
use std::panic::catch_unwind;
use std::thread;

use common::check;
use pteron_format::program::{DataRef, SegmentId};
use pteron_format::{ByteRange, Ptd, Pte};

/// Reads bytes and checks every property; whether they were accepted.
type Check = fn(&[u8]) -> bool;

fn check_program(bytes: &[u8]) -> bool {
    let (pte, _) = check::reading(bytes.len(), || Pte::read(bytes));
    pte.map(|pte| {
        check::program(&pte);
        check::program_again(&pte);
    })
    .is_some()
}

fn check_external(bytes: &[u8]) -> bool {
    let (ptd, _) = check::reading(bytes.len(), || Ptd::read(bytes));
    ptd.map(|ptd| check::external_again(&ptd)).is_some()
}

/// Names the input of a check that fails.
fn named(check: Check, bytes: &[u8], what: impl FnOnce() -> String) -> bool {
    catch_unwind(|| check(bytes)).unwrap_or_else(|_| panic!("{}", what()))
}

/// Runs `job` for each of `items`, on all cores, and returns the sum of the results.
fn parallel<T: Sync>(items: &[T], job: impl Fn(&T) -> u64 + Sync) -> u64 {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let job = &job;
    thread::scope(|scope| {
        let worker = |first| scope.spawn(move || items.iter().skip(first).step_by(cores).map(job).sum::<u64>());
        let workers: Vec<_> = (0..cores).map(worker).collect();
        workers.into_iter().map(|worker| worker.join().expect("every input is handled")).sum()
    })
}

/// The positions of a file's bytes that are not constant data.
fn positions(bytes: &[u8], constants: &[Range<u64>]) -> Vec<usize> {
    let is_constant = |at: usize| constants.iter().any(|range| range.contains(&(at as u64)));
    (0..bytes.len()).filter(|&at| !is_constant(at)).collect()
}

fn as_range(range: ByteRange) -> Range<u64> {
    range.start..range.start + range.len
}

/// The constant data of a valid program: segments that are no delegate.
fn program_constants(bytes: &[u8]) -> Vec<Range<u64>> {
    let pte = Pte::read(bytes).expect("a real file is valid");
    let places = (0..).map(|index| DataRef::Segment(SegmentId(index)));
    let segments = pte.program().segments.iter().zip(places);
    let is_graph = |place| pte.graph(place).is_some() || pte.xnnpack(place).is_some();
    segments.filter(|(_, place)| !is_graph(*place)).map(|(&range, _)| as_range(range)).collect()
}

fn exhaust(path: &str, constants: fn(&[u8]) -> Vec<Range<u64>>, check: Check) {
    let original = common::fixture(path);
    assert!(check(&original), "{path} is valid");
    let lens: Vec<usize> = (0..original.len()).collect();
    let accepted = parallel(&lens, |&len| named(check, &original[..len], || format!("{path} cut at {len}")).into());
    // Padding after the last table is the only part that can be removed.
    assert!(accepted < 16, "{path} is accepted at {accepted} shorter lengths");
    let positions = positions(&original, &constants(&original));
    assert!(positions.len() > 500, "{path} is a file with something to change");
    let accepted = parallel(&positions, |&at| {
        let mut bytes = original.clone();
        let others = (0..=u8::MAX).filter(|&value| value != original[at]);
        let accepted = others.filter(|&value| {
            bytes[at] = value;
            named(check, &bytes, || format!("{path} with byte {at} = {value}"))
        });
        accepted.count() as u64
    });
    let all = positions.len() as u64 * 255;
    println!("{path}: {all} changes of {} bytes, {accepted} of them valid", positions.len());
    assert!(accepted < all, "{path} is checked");
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn a_delegate_with_constants() {
    exhaust("ops/rms_norm/program.pte", program_constants, check_program);
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn instructions_outside_of_delegates() {
    exhaust("ops/branch/program.pte", program_constants, check_program);
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn a_delegate_inside_the_tables() {
    exhaust("ops/inline_delegate/program.pte", program_constants, check_program);
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn an_xnnpack_delegate_in_float32() {
    exhaust("xnnpack/xnnpack_fp32_linear/program.pte", program_constants, check_program);
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn an_xnnpack_delegate_with_4_bit_weights() {
    exhaust("xnnpack/xnnpack_8da4w_linear/program.pte", program_constants, check_program);
}

#[test]
#[cfg_attr(miri, ignore = "millions of readings")]
fn external_data() {
    let constants = |bytes: &[u8]| {
        let ptd = Ptd::read(bytes).expect("a real file is valid");
        ptd.data().segments.iter().map(|&range| as_range(range)).collect()
    };
    exhaust("ops/constants_external_portable/_default_external_constant.ptd", constants, check_external);
}
