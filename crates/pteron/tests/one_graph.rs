//! A method of several delegates is one graph: a call is one submit, and nothing is read back inside it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::path::Path;

use common::gpu;
use pteron::{LoadOptions, Program, ScalarType, Tensor, block_on, summarize};
use pteron_format::Pte;

/// Checks a program with this many delegates.
fn expect_one_submit(folder: &str, delegates: usize) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder).join("program.pte");
    let bytes = std::fs::read(&file).unwrap();
    let pte = Pte::read(bytes.as_slice()).unwrap();
    assert_eq!(pte.program().plan("forward").unwrap().delegates.len(), delegates, "{folder}");
    let summary = summarize(&pte, "forward").unwrap();
    assert_eq!((summary.graphs, summary.host_kernels.len()), (1, 0), "{folder}");
    let gpu = gpu();
    let method = block_on(Program::open(&file).unwrap().load(&gpu, "forward", &LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let input = |spec: &pteron::TensorSpec| {
        assert_eq!(spec.scalar_type, ScalarType::Float, "{folder}");
        let count = spec.shape.iter().product::<u32>();
        Tensor::from_f32(&spec.shape, &vec![0.5; count as usize]).unwrap()
    };
    let inputs: Vec<Tensor> = method.inputs().iter().map(input).collect();
    block_on(method.call(&mut state, &inputs)).unwrap();
    let before = gpu.counts();
    block_on(method.call(&mut state, &inputs)).unwrap();
    assert_eq!(gpu.counts().submits - before.submits, 1, "{folder}");
}

#[test]
fn delegates_of_a_method_are_one_submit() {
    expect_one_submit("ops/two_delegates_only", 3);
}

#[test]
fn an_xnnpack_network_is_one_submit() {
    expect_one_submit("xnnpack/xnnpack_int8_net", 1);
}

#[test]
fn a_vision_transformer_with_kernel_calls_between_delegates_is_one_submit() {
    expect_one_submit("ops/vision_transformer", 4);
}
