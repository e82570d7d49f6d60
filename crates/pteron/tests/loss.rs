//! Device loss and out-of-memory are errors, and the process continues.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::tokens::{GREEDY, Tokens, start, token};
use common::{gpu, inputs, load, program, program_file, step};
use pteron::{Error, Gpu, LoadOptions, Method, OnProgress, StreamingMethod, block_on};

fn lost<T: std::fmt::Debug>(result: pteron::Result<T>) {
    match result {
        Err(Error::DeviceLost(_)) => {}
        other => panic!("expected a lost device, got {other:?}"),
    }
}

fn budgeted(gpu: &Gpu, bytes: u64) -> pteron::Result<Method> {
    block_on(program().load(gpu, "forward", &LoadOptions::default().with_memory_budget(bytes)))
}

#[test]
fn a_lost_device_is_an_error_and_a_new_one_works() {
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
    // Whatever the order, the call ends with its outputs or with the loss.
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
        assert!(matches!(error, Error::DeviceLost(_)), "{error:?}");
    });
}

#[test]
fn a_memory_budget_is_kept_before_anything_is_made() {
    let gpu = gpu();
    let method = load(&gpu);
    let own = method.memory_bytes();
    let bytes = own + method.state_bytes();
    assert!(method.state_bytes() > 0);
    let expected = step(&method, &mut method.new_state().unwrap(), 1, 0, 12);
    drop(method);

    for budget in [0, 1, bytes / 2, own, bytes - 1] {
        let before = gpu.counts();
        match budgeted(&gpu, budget) {
            Err(Error::TooLarge { need, limit, by, .. }) => {
                assert_eq!((need, limit, by), (bytes, budget, "the memory budget"), "all that is needed, and what there is");
            }
            other => panic!("{budget} of {bytes} bytes: {other:?}"),
        }
        assert_eq!(gpu.counts(), before, "a budget of {budget} bytes");
    }
    let method = budgeted(&gpu, bytes).unwrap();
    assert_eq!(method.memory_bytes(), own);
    assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected);
}

/// Options whose progress callback loses the device on its n-th call, and the counter of those calls.
fn losing(gpu: &Gpu, nth: u64) -> (LoadOptions, Arc<AtomicU64>) {
    let told = Arc::new(AtomicU64::new(0));
    let listener = OnProgress::new({
        let (gpu, told) = (gpu.clone(), Arc::clone(&told));
        move |_| {
            if told.fetch_add(1, Ordering::Relaxed) == nth {
                gpu.destroy();
            }
        }
    });
    (common::tokens::sampling().with_progress(listener), told)
}

#[test]
fn a_device_lost_anywhere_in_a_load_is_an_error() {
    let program = program();
    // One run without loss counts the progress callbacks.
    let whole = gpu();
    let (options, told) = losing(&whole, u64::MAX);
    let method = block_on(program.load(&whole, "forward", &options)).unwrap();
    let expected = step(&method, &mut method.new_state().unwrap(), 1, 0, 12);
    let events = told.load(Ordering::Relaxed);
    assert!(events > 2, "{events}");
    for nth in (0..events).step_by(usize::try_from(events / 6).unwrap().max(1)) {
        let gpu = gpu();
        let (options, _) = losing(&gpu, nth);
        match block_on(program.load(&gpu, "forward", &options)) {
            Err(error) => lost::<()>(Err(error)),
            // Lost after the last check.
            Ok(method) => lost(method.new_state()),
        }
        let (options, _) = losing(&gpu, nth);
        match block_on(program.load_streaming(&gpu, "forward", &options)) {
            Err(error) => lost::<()>(Err(error)),
            Ok(streaming) => lost(block_on(streaming.finish())),
        }
    }
    assert_eq!(step(&method, &mut method.new_state().unwrap(), 1, 0, 12), expected, "other devices go on");
}

#[test]
fn a_device_lost_while_weights_arrive_is_an_error() {
    let (program, file) = (program(), program_file());
    let options = common::tokens::sampling();
    let write = |streaming: &mut StreamingMethod, share: usize| {
        let needs = streaming.needs();
        for part in &needs[..needs.len() * share / 2] {
            let start = usize::try_from(part.start).unwrap();
            streaming.write(0, part.start, &file[start..][..usize::try_from(part.len).unwrap()])?;
        }
        Ok(())
    };
    for share in 0..=2 {
        let gpu = gpu();
        let mut streaming = block_on(program.load_streaming(&gpu, "forward", &options)).unwrap();
        write(&mut streaming, share).unwrap();
        gpu.destroy();
        lost(block_on(streaming.wait_idle()));
        lost(streaming.new_state());
        // A write may fail or be ignored; `finish` reports the loss.
        let _: pteron::Result<()> = write(&mut streaming, 2);
        lost(block_on(streaming.finish()));
    }
    let gpu = gpu();
    let mut streaming = block_on(program.load_streaming(&gpu, "forward", &options)).unwrap();
    write(&mut streaming, 2).unwrap();
    let method = block_on(streaming.finish()).unwrap();
    assert!(!step(&method, &mut method.new_state().unwrap(), 1, 0, 12).is_empty());
}

#[test]
fn a_device_lost_between_tokens_is_an_error() {
    let options = common::tokens::sampling();
    let tokens = |gpu: &Gpu, lose_at: usize| {
        let method = block_on(program().load(gpu, "forward", &options))?;
        let mut state = method.new_state()?;
        let mut ids = Vec::new();
        let mut next = start(&method, &mut state, Tokens::Given(&[1, 2, 3]), 0, GREEDY)?;
        for at in 0..6 {
            if at == lose_at {
                gpu.destroy();
            }
            let second = start(&method, &mut state, Tokens::Sampled, 3 + i64::try_from(at).unwrap(), GREEDY)?;
            ids.push(token(&block_on(next.wait())?));
            next = second;
        }
        ids.push(token(&block_on(next.wait())?));
        Ok(ids)
    };
    let expected = tokens(&gpu(), usize::MAX).unwrap();
    assert_eq!(expected.len(), 7);
    for lose_at in [0, 1, 5] {
        lost(tokens(&gpu(), lose_at));
    }
    // A token that was in flight when the device was lost.
    let first = gpu();
    let method = block_on(program().load(&first, "forward", &options)).unwrap();
    let mut state = method.new_state().unwrap();
    let next = start(&method, &mut state, Tokens::Given(&[1, 2, 3]), 0, GREEDY).unwrap();
    first.destroy();
    match block_on(next.wait()) {
        Ok(output) => assert_eq!(token(&output), expected[0], "it had arrived already"),
        Err(error) => lost::<()>(Err(error)),
    }
    assert_eq!(tokens(&gpu(), usize::MAX).unwrap(), expected);
}

#[test]
fn states_count_in_the_memory_budget_and_give_it_back() {
    let gpu = gpu();
    let method = load(&gpu);
    let (own, state) = (method.memory_bytes(), method.state_bytes());
    drop(method);
    let method = budgeted(&gpu, own + 2 * state).unwrap();
    let mut first = method.new_state().unwrap();
    let expected = step(&method, &mut first, 1, 0, 12);
    for _ in 0..3 {
        let copy = method.clone_state(&first).unwrap();
        for refused in [method.new_state().map(drop), method.clone_state(&first).map(drop)] {
            match refused {
                Err(Error::TooLarge { need, limit, by, .. }) => {
                    assert_eq!((need, limit, by), (own + 3 * state, own + 2 * state, "the memory budget"));
                }
                other => panic!("{other:?}"),
            }
        }
        // A rejected call changes nothing.
        method.reset(&mut first).unwrap();
        assert_eq!(step(&method, &mut first, 1, 0, 12), expected);
        drop(copy);
    }
}

#[test]
fn delegates_count_together() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ops/two_delegates_only/program.pte");
    let (gpu, program) = (gpu(), pteron::Program::open(path).unwrap());
    let load =
        |memory_budget| block_on(program.load(&gpu, "forward", &LoadOptions::default().with_memory_budget(memory_budget)));
    let memory = load(None).unwrap().memory();
    let bytes = memory.total_bytes + memory.state_bytes;
    let before = gpu.counts().buffers;
    for budget in [0, bytes / 2, bytes - 1] {
        match load(Some(budget)) {
            Err(Error::TooLarge { need, limit, .. }) => assert_eq!((need, limit), (bytes, budget)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(gpu.counts().buffers, before, "nothing was made");
    load(Some(bytes)).unwrap().new_state().unwrap();
}
