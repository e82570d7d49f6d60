//! Loading progress, as reported to a caller.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::{gpu, program};
use pteron::{Gpu, LoadOptions, LoadProgress, OnProgress, Program, block_on};

/// Loads a program, and returns all progress reports and the result.
fn load(gpu: &Gpu, program: &Program, memory_budget: Option<u64>) -> (Vec<LoadProgress>, pteron::Result<()>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let progress = OnProgress::new({
        let told = Arc::clone(&told);
        move |now| told.lock().unwrap().push(now)
    });
    let options = LoadOptions::default().with_memory_budget(memory_budget).with_progress(progress);
    let ended = block_on(program.load(gpu, "forward", &options)).map(drop);
    let told = told.lock().unwrap().clone();
    (told, ended)
}

fn is_complete(progress: &LoadProgress) -> bool {
    (progress.uploaded_bytes, progress.ready_pipelines) == (progress.total_bytes, progress.total_pipelines)
}

#[test]
fn a_load_ends_where_it_said_it_would() {
    let gpu = gpu();
    let (told, ended) = load(&gpu, &program(), None);
    ended.unwrap();
    let (first, last) = (told.first().unwrap(), told.last().unwrap());
    assert!(is_complete(last) && last.total_bytes > 0 && last.total_pipelines == gpu.counts().pipelines, "{last:?}");
    assert_eq!((first.total_bytes, first.total_pipelines), (last.total_bytes, last.total_pipelines));
    assert!(!is_complete(first) && first.uploaded_bytes + first.ready_pipelines > 0, "{first:?}");
}

#[test]
fn several_delegates_are_one_load() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ops/two_delegates_only/program.pte");
    let (told, ended) = load(&gpu(), &Program::open(path).unwrap(), None);
    ended.unwrap();
    assert!(told.iter().all(|now| now.total_pipelines == 3), "{told:?}");
    assert_eq!(told.iter().filter(|now| is_complete(now)).count(), 1, "{told:?}");
    assert!(is_complete(told.last().unwrap()), "{told:?}");
}

#[test]
fn a_rejected_load_reports_no_progress() {
    let (told, ended) = load(&gpu(), &program(), Some(1));
    assert!(ended.is_err() && told.is_empty(), "{told:?}");
}
