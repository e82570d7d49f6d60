//! Prints the operators of a call of a language model after fusing, and their dispatches, without a GPU.
//!
//! `cargo run -p pteron --example operators -- [model.pte] [tokens] [position] [summary]`; without arguments it shows a decode step of a
//! small model of the tests. With `summary`, one line per model: dispatches and the operators that take them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pteron::{LoadOptions, Operand, Program, ScalarType, Tensor};

fn main() -> pteron::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let bundled = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llama/tiny_4w/program.pte");
    let path = arguments.next().map_or_else(bundled, PathBuf::from);
    let program = Program::open(&path)?;
    let mut number = |default: u32| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (tokens, position) = (number(1), number(3));
    let summary = arguments.next().is_some();
    let (specs, _) = program.signature("forward")?;
    // Tokens are `[1, tokens]`; positions are one number, or one per token.
    let inputs = specs.iter().enumerate().map(|(index, spec)| {
        let mut shape = spec.shape.clone();
        if let Some(last) = shape.last_mut().filter(|last| **last > 1) {
            *last = tokens.min(*last);
        }
        let count = shape.iter().product::<u32>();
        let values: Vec<i64> = (0..count).map(|at| i64::from(if index == 0 { at } else { position + at })).collect();
        match spec.scalar_type {
            ScalarType::Long => Tensor::from_i64(&shape, &values),
            other => Tensor::zeros(other, &shape),
        }
    });
    let inputs = inputs.collect::<pteron::Result<Vec<_>>>()?;
    let operators = program.plan_call("forward", &inputs, &LoadOptions::default())?;
    let dispatches: usize = operators.iter().map(|operator| operator.dispatches).sum();
    if summary {
        let mut counts = BTreeMap::<&str, usize>::new();
        operators.iter().filter(|operator| operator.dispatches > 0).for_each(|operator| {
            *counts.entry(operator.name).or_default() += operator.dispatches;
        });
        let counts: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        println!("{}: {dispatches} dispatches: {}", path.display(), counts.join(", "));
        return Ok(());
    }
    for operator in &operators {
        let list = |operands: &[Operand]| operands.iter().map(text).collect::<Vec<_>>().join(" ");
        println!("{:2} {} ({}) -> {}", operator.dispatches, operator.name, list(&operator.reads), list(&operator.writes));
    }
    println!("{dispatches} dispatches");
    Ok(())
}

/// A tensor as `%3[1,5,64]`, a constant with a star.
fn text(operand: &Operand) -> String {
    let dims: Vec<String> = operand.shape.iter().map(u32::to_string).collect();
    format!("%{}{}[{}]", operand.id, if operand.constant { "*" } else { "" }, dims.join(","))
}
