//! A device that is lost and memory that runs out are errors, and the process goes on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{gpu, inputs, load, program, step};
use pteron::{Error, Gpu, LoadOptions, Method, block_on};

fn lost<T: std::fmt::Debug>(result: pteron::Result<T>) {
    match result {
        Err(Error::Gpu(pteron_gpu::Error::Lost(_))) => {}
        other => panic!("expected a lost device, got {other:?}"),
    }
}

fn budgeted(gpu: &Gpu, bytes: u64) -> pteron::Result<Method> {
    block_on(program().load(gpu, "forward", &LoadOptions { memory_budget: Some(bytes), ..LoadOptions::default() }))
}

#[test]
fn a_lost_device_is_an_error_and_a_new_one_answers_again() {
    let first = gpu();
    let method = load(&first);
    let mut state = method.new_state().unwrap();
    let expected = step(&method, &mut state, 1, 0, 12);

    first.destroy();
    lost(block_on(method.call(&mut state, &inputs(1, 12, 1))));
    lost(block_on(method.call(&mut state, &inputs(1, 12, 1))));
    lost(method.new_state());
    lost(method.clone_state(&state));
    lost(method.reset(&mut state));
    lost(block_on(program().load(&first, "forward", &LoadOptions::default())));

    let second = gpu();
    let method = load(&second);
    assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected);
}

#[test]
fn a_device_lost_while_a_call_waits_is_an_error() {
    let gpu = gpu();
    let method = load(&gpu);
    let mut state = method.new_state().unwrap();
    // However the two meet, the call ends: with its answer, or with the loss.
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            loop {
                match block_on(method.call(&mut state, &inputs(1, 0, 64))) {
                    Ok(outputs) => assert_eq!(outputs.len(), 1),
                    Err(error) => return error,
                }
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(100));
        gpu.destroy();
        let error = calls.join().unwrap();
        assert!(matches!(error, Error::Gpu(pteron_gpu::Error::Lost(_))), "{error:?}");
    });
}

#[test]
fn a_memory_budget_is_kept_before_anything_is_made() {
    let gpu = gpu();
    let method = load(&gpu);
    let bytes = method.memory_bytes();
    let expected = step(&method, &mut method.new_state().unwrap(), 1, 0, 12);
    drop(method);

    for budget in [0, 1, bytes / 2, bytes - 1] {
        let before = gpu.counts();
        match budgeted(&gpu, budget) {
            Err(Error::Gpu(pteron_gpu::Error::TooLarge { need, limit, by, .. })) => {
                assert!(need > budget && limit == budget && by == "the memory budget", "{need} of {limit} by {by}");
            }
            other => panic!("{budget} of {bytes} bytes: {other:?}"),
        }
        assert_eq!(gpu.counts(), before, "a budget of {budget} bytes");
    }
    let method = budgeted(&gpu, bytes).unwrap();
    assert_eq!(method.memory_bytes(), bytes);
    assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected);
}
