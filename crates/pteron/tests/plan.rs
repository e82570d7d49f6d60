//! Calls of exported programs, planned without a GPU.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::path::PathBuf;

use pteron::{Error, Fusions, LoadOptions, PlannedOperator, Program, Tensor};

const LINEAR: &str = "pteron.fused_linear";
const ATTENTION: &str = "pteron.rotary_sdpa";

fn plan(model: &str, tokens: u32, position: i64, options: &LoadOptions) -> Vec<PlannedOperator> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(model).join("program.pte");
    let program = Program::open(path).unwrap();
    let ids: Vec<i64> = (0..i64::from(tokens)).collect();
    let inputs = [Tensor::from_i64(&[1, tokens], &ids).unwrap(), Tensor::from_i64(&[1], &[position]).unwrap()];
    program.plan_call("forward", &inputs, options).unwrap()
}

/// The operators that take dispatches.
fn names(operators: &[PlannedOperator]) -> Vec<&'static str> {
    operators.iter().filter(|operator| operator.dispatches > 0).map(|operator| operator.name).collect()
}

/// Norm with QKV, attention, output with its sum, norm with SwiGLU, and down with its sum.
const LAYER: [&str; 5] = [LINEAR, ATTENTION, LINEAR, LINEAR, LINEAR];

#[test]
fn a_decode_step_of_a_llama_takes_five_operators_per_layer() {
    let fixtures = [
        ("llama/tiny_4w", "et_vk.embedding_q4gsw.default"),
        ("llama/tiny_8da4w", "et_vk.embedding_q4gsw.default"),
        ("convert/mistral", "et_vk.embedding_q4gsw.default"),
        ("convert/qwen2", "aten.embedding.default"),
    ];
    for (model, embedding) in fixtures {
        let expected = [&[embedding][..], &LAYER, &LAYER, &[LINEAR]].concat();
        assert_eq!(names(&plan(model, 1, 3, &LoadOptions::default())), expected, "{model}");
    }
    let operators = plan("llama/tiny_4w", 1, 3, &LoadOptions::default());
    assert_eq!(operators.iter().map(|operator| operator.dispatches).sum::<usize>(), 12);
}

#[test]
fn unfused_operators_have_the_shapes_of_the_call() {
    let options = LoadOptions::default().with_fusions(Fusions::NONE);
    let operators = plan("llama/tiny_4w", 7, 0, &options);
    assert!(names(&operators).len() > 30);
    let attention = operators.iter().find(|operator| operator.name.contains("sdpa")).unwrap();
    assert_eq!(attention.reads[0].shape[..2], [1, 7]);
    assert!(!attention.reads[0].constant);
    assert!(operators.iter().any(|operator| operator.reads.iter().any(|operand| operand.constant)));
}

#[test]
fn missing_inputs_and_methods_are_errors() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llama/tiny_4w/program.pte");
    let program = Program::open(path).unwrap();
    let ids = Tensor::from_i64(&[1, 1], &[5]).unwrap();
    let error = program.plan_call("forward", &[ids], &LoadOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Input { index: 1, .. }), "{error}");
    assert!(program.plan_call("backward", &[], &LoadOptions::default()).is_err());
}
