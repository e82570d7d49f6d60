//! Training with a program exported for it: losses follow PyTorch's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::path::PathBuf;

use common::gpu;
use pteron::{LoadOptions, Program, Tensor, block_on};

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn losses_of_twenty_steps_are_those_of_pytorch() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/training/finetune");
    let file = |name: &str| std::fs::read(folder.join(name).with_extension("bin")).unwrap();
    let program = Program::open(folder.join("program.pte")).unwrap();
    let method = block_on(program.load(&gpu(), "forward", &LoadOptions::default())).unwrap();
    let mut state = method.new_state().unwrap();
    let input = |(index, name): (usize, &str)| {
        let wanted = &method.inputs()[index];
        if name.is_empty() {
            return Tensor::zeros(wanted.scalar_type, &wanted.shape).unwrap();
        }
        Tensor::new(wanted.scalar_type, &wanted.shape, file(name)).unwrap()
    };
    let mut inputs: Vec<Tensor> = ["x", "labels", "weights", "", "", "steps"].into_iter().enumerate().map(input).collect();
    let expected = floats(&file("losses"));
    assert_eq!(expected.len(), 20);
    assert!(expected[19] < expected[0] / 2.0, "PyTorch learns: {expected:?}");
    for (step, want) in expected.iter().enumerate() {
        let outputs = block_on(method.call(&mut state, &inputs)).unwrap();
        let got = floats(outputs[0].bytes())[0];
        assert!((got - want).abs() <= 1e-3, "step {step}: {got}, PyTorch has {want}");
        inputs[2..5].clone_from_slice(&outputs[1..4]);
    }
}
