//! One test per rule: a file that breaks only this rule is rejected, with the right location and message.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "../common/mod.rs"]
mod common;
mod external;
mod graph;
mod header;
mod program;
mod sharing;
mod tables;
mod tensor;
mod xnnpack;

use common::check;
use pteron_format::{Error, Problem, Pte};

/// The expected location, as displayed, and the expected problem.
#[derive(Debug)]
struct Fault {
    place: &'static str,
    problem: Problem,
}

fn fault(place: &'static str, problem: Problem) -> Fault {
    Fault { place, problem }
}

/// The error is the one expected, and reads as one sentence that starts with its place.
#[track_caller]
fn assert_fault(error: &Error, expected: &Fault, rule: &str) {
    check::error_text(error);
    assert_eq!((error.location.to_string().as_str(), &error.problem), (expected.place, &expected.problem), "{rule}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("{}: ", expected.place)) && !text.ends_with('.'), "{rule}: {text}");
}

/// Reading `file` gives the expected error.
#[track_caller]
fn assert_refused(file: &[u8], expected: &Fault, rule: &str) {
    let (pte, _) = check::reading(file.len(), || Pte::read(file));
    assert!(pte.is_none(), "{rule}: accepted");
    assert_fault(&Pte::read(file).unwrap_err(), expected, rule);
}

#[test]
fn the_samples_break_no_rule() {
    use common::sample;
    use pteron_format::{Ptd, external, write};

    let file = write(&sample::program()).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    check::program(&pte);
    check::program_again(&pte);
    let file = external::write(&sample::external()).unwrap();
    let ptd = Ptd::read(file.as_slice()).unwrap();
    check::external_again(&ptd);
    pte.verify_external(&[ptd]).unwrap();
}
