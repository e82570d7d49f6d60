//! One loaded model at every length and every position: the resources, writes and submits of a call, and its outputs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{CONTEXT, MOST_TOKENS, Random, floats, gpu, inputs, load, step};
use pteron::{Counts, Gpu, Method, State, block_on};

/// The difference between two counts.
fn since(before: Counts, after: Counts) -> Counts {
    Counts {
        buffers: after.buffers - before.buffers,
        buffer_bytes: after.buffer_bytes - before.buffer_bytes,
        bind_groups: after.bind_groups - before.bind_groups,
        pipelines: after.pipelines - before.pipelines,
        submits: after.submits - before.submits,
        passes: after.passes - before.passes,
        dispatches: after.dispatches - before.dispatches,
        writes: after.writes - before.writes,
        written_bytes: after.written_bytes - before.written_bytes,
    }
}

/// Runs a call and checks that it allocates nothing and takes one write, one pass and one submit.
fn counted(gpu: &Gpu, method: &Method, state: &mut State, position: u32, count: u32) -> (Counts, Vec<f32>) {
    let before = gpu.counts();
    let outputs = floats(&step(method, state, 1, position, count));
    let did = since(before, gpu.counts());
    let what = format!("{count} tokens at {position}: {did:?}");
    assert_eq!((did.buffers, did.buffer_bytes, did.bind_groups, did.pipelines), (0, 0, 0, 0), "{what}");
    assert_eq!((did.submits, did.passes, did.writes), (1, 1, 1), "{what}");
    assert!(did.dispatches > 0, "{what}");
    (did, outputs)
}

/// Runs token by token through the whole context, then these calls in random order, all on one loaded method.
fn sweep(mut calls: Vec<(u32, u32)>) {
    let gpu = gpu();
    let method = load(&gpu);
    let mut state = method.new_state().unwrap();
    let mut expected = Vec::new();
    for position in 0..CONTEXT {
        let (did, outputs) = counted(&gpu, &method, &mut state, position, 1);
        assert!(position == 0 || did.written_bytes < 1024, "a decode step at {position} wrote {} bytes", did.written_bytes);
        expected.push(outputs);
    }
    // The caches now hold this text, and a call at any position writes the same text again: its outputs equal those of the
    // single-token call at its last position.
    Random::new(7).shuffle(&mut calls);
    for (done, &(count, position)) in calls.iter().enumerate() {
        let (_, outputs) = counted(&gpu, &method, &mut state, position, count);
        let want = &expected[(position + count - 1) as usize];
        assert_eq!(outputs.len(), want.len());
        for (index, (got, want)) in outputs.iter().zip(want).enumerate() {
            let close = (got - want).abs() <= 1e-3 * want.abs().max(1.0);
            assert!(close, "call {done}, {count} tokens at {position}: element {index} is {got}, expected {want}");
        }
    }
}

/// Every combination of length and position that fits the context.
fn all_calls() -> Vec<(u32, u32)> {
    (1..=MOST_TOKENS).flat_map(|count| (0..=CONTEXT - count).map(move |position| (count, position))).collect()
}

#[test]
fn every_length_at_some_positions_and_every_position_at_some_lengths() {
    let mut random = Random::new(11);
    let mut calls = all_calls();
    // Every position with one token; the first, the last and some in between with any other number.
    calls.retain(|&(count, position)| count == 1 || position == 0 || position == CONTEXT - count || random.below(12) == 0);
    assert!((1..=MOST_TOKENS).all(|count| calls.iter().filter(|call| call.0 == count).count() >= 2));
    assert!((0..CONTEXT).all(|position| calls.iter().any(|call| call.1 == position)));
    assert!(calls.len() > 900, "{} calls", calls.len());
    sweep(calls);
}

#[test]
#[ignore = "minutes on a software adapter: `cargo test -p pteron --test sweep -- --ignored`"]
fn every_length_at_every_position() {
    let calls = all_calls();
    assert_eq!(calls.len(), 8255);
    sweep(calls);
}

#[test]
fn a_decode_step_after_a_prefill_writes_little_at_every_position() {
    let gpu = gpu();
    let method = load(&gpu);
    let mut state = method.new_state().unwrap();
    for prompt in [MOST_TOKENS - 8, 3, 64] {
        counted(&gpu, &method, &mut state, 0, prompt);
        counted(&gpu, &method, &mut state, prompt, 1);
        for position in prompt + 1..prompt + 8 {
            let (did, _) = counted(&gpu, &method, &mut state, position, 1);
            assert!(did.written_bytes < 1024, "after {prompt} tokens, at {position}: {} bytes", did.written_bytes);
        }
    }
}

#[test]
fn the_same_call_twice_writes_nothing() {
    let gpu = gpu();
    let method = load(&gpu);
    let mut state = method.new_state().unwrap();
    for count in [1, 5, 33] {
        let [tokens, position] = inputs(1, 0, count);
        let first = block_on(method.call(&mut state, &[tokens.clone(), position.clone()])).unwrap();
        let before = gpu.counts();
        let second = block_on(method.call(&mut state, &[tokens, position])).unwrap();
        let did = since(before, gpu.counts());
        assert_eq!(did.written_bytes, 0, "{count} tokens: the device has them: {did:?}");
        assert_eq!(first, second, "{count} tokens");
    }
}
