//! States of one method: independent, cloned, reset, used from several threads; and rejected calls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::{CONTEXT, VOCABULARY, gpu, inputs, load, step};
use pteron::{Method, ScalarType, State, Tensor, block_on};

/// Runs a conversation: consecutive calls of these lengths, on the text of a seed.
fn converse(method: &Method, state: &mut State, seed: u32, lengths: &[u32]) -> Vec<Vec<u8>> {
    let mut position = 0;
    let mut outputs = Vec::new();
    for &count in lengths {
        outputs.push(step(method, state, seed, position, count));
        position += count;
    }
    outputs
}

const LENGTHS: [&[u32]; 2] = [&[9, 1, 1, 20, 1, 1, 1], &[1, 1, 33, 2, 1, 17, 1]];

fn alone(method: &Method, seed: usize) -> Vec<Vec<u8>> {
    converse(method, &mut method.new_state().unwrap(), u32::try_from(seed).unwrap(), LENGTHS[seed])
}

#[test]
fn two_states_take_turns_without_disturbing_each_other() {
    let method = load(&gpu());
    let expected = [alone(&method, 0), alone(&method, 1)];
    assert_ne!(expected[0], expected[1]);
    let mut states = [method.new_state().unwrap(), method.new_state().unwrap()];
    let mut positions = [0, 0];
    for turn in 0..LENGTHS[0].len() {
        for (seed, text) in [(0, 0u32), (1, 1)] {
            let count = LENGTHS[seed][turn];
            let output = step(&method, &mut states[seed], text, positions[seed], count);
            assert_eq!(output, expected[seed][turn], "state {seed}, turn {turn}");
            positions[seed] += count;
        }
    }
}

#[test]
fn a_copied_state_goes_on_alike_and_apart() {
    let method = load(&gpu());
    let mut first = method.new_state().unwrap();
    step(&method, &mut first, 2, 0, 21);
    let mut copy = method.clone_state(&first).unwrap();
    let expected: Vec<_> = (21..26).map(|position| step(&method, &mut first, 2, position, 1)).collect();
    // Another text in a second copy changes neither state.
    let mut other = method.clone_state(&copy).unwrap();
    step(&method, &mut other, 3, 0, 26);
    let again: Vec<_> = (21..26).map(|position| step(&method, &mut copy, 2, position, 1)).collect();
    assert_eq!(again, expected);
    // The copy has its own cache: overwriting it does not change the original's outputs.
    step(&method, &mut copy, 4, 0, 26);
    let next = step(&method, &mut first, 2, 26, 1);
    assert_ne!(step(&method, &mut copy, 2, 26, 1), next);
    let mut afresh = method.new_state().unwrap();
    step(&method, &mut afresh, 2, 0, 21);
    (21..26).for_each(|position| drop(step(&method, &mut afresh, 2, position, 1)));
    assert_eq!(step(&method, &mut afresh, 2, 26, 1), next);
}

#[test]
fn a_reset_state_starts_over() {
    let method = load(&gpu());
    let mut state = method.new_state().unwrap();
    let expected = converse(&method, &mut state, 0, LENGTHS[0]);
    method.reset(&mut state).unwrap();
    // A position that attends to earlier ones sees nothing of the old text.
    let on_nothing = step(&method, &mut state, 0, 34, 1);
    assert_eq!(on_nothing, step(&method, &mut method.new_state().unwrap(), 0, 34, 1));
    method.reset(&mut state).unwrap();
    assert_eq!(converse(&method, &mut state, 0, LENGTHS[0]), expected);
}

#[test]
fn threads_that_share_a_method_get_their_own_outputs() {
    let method = load(&gpu());
    let expected = [alone(&method, 0), alone(&method, 1)];
    std::thread::scope(|scope| {
        let talk = |seed: usize| {
            let (method, expected) = (&method, &expected[seed]);
            scope.spawn(move || {
                for round in 0..3 {
                    assert_eq!(&alone(method, seed), expected, "text {seed}, round {round}");
                }
            })
        };
        let threads = [talk(0), talk(1), talk(0)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_rejected_call_changes_nothing_and_names_the_fault() {
    let gpu = gpu();
    let method = load(&gpu);
    let expected = alone(&method, 1);
    let long = |shape: &[u32], values: &[i64]| Tensor::from_i64(shape, values).unwrap();
    let zero = long(&[1], &[0]);
    let refused: Vec<(Vec<Tensor>, &str)> = vec![
        (vec![], "input 0"),
        (vec![long(&[1, 1], &[0])], "input 1 of \"forward\" is missing"),
        (vec![long(&[1, 1], &[0]), zero.clone(), zero.clone()], "too many"),
        (vec![Tensor::from_f32(&[1, 1], &[0.0]).unwrap(), zero.clone()], "is float32, but the method takes int64"),
        (vec![long(&[1], &[0]), zero.clone()], "has shape [1], allowed is up to [1, 127]"),
        (vec![long(&[2, 1], &[0, 0]), zero.clone()], "has shape [2, 1]"),
        (vec![Tensor::zeros(ScalarType::Long, &[1, CONTEXT]).unwrap(), zero.clone()], "[1, 128], allowed is up to [1, 127]"),
        (vec![long(&[1, 2], &[5, VOCABULARY]), zero.clone()], "input 0 of \"forward\" holds 256, allowed is 0 to 255"),
        (vec![long(&[1, 1], &[-1]), zero.clone()], "holds -1, allowed is 0 to 255"),
        (vec![long(&[1, 1], &[1 << 40]), zero.clone()], "holds 1099511627776"),
        (vec![long(&[1, 1], &[0]), long(&[1], &[CONTEXT.into()])], "(call "),
        (vec![long(&[1, 3], &[0; 3]), long(&[1], &[126])], "(call "),
        (vec![long(&[1, 1], &[0]), long(&[1], &[-1])], "(call "),
        (vec![long(&[1, 1], &[0]), long(&[1], &[i64::MAX])], "holds 9223372036854775807"),
        (vec![long(&[1, 1], &[0]), long(&[2], &[0, 0])], "input 1"),
    ];
    let mut state = method.new_state().unwrap();
    let mut position = 0;
    for (turn, &count) in LENGTHS[1].iter().enumerate() {
        let before = gpu.counts();
        for (inputs, says) in &refused {
            let error = block_on(method.call(&mut state, inputs)).unwrap_err().to_string();
            assert!(error.contains(says), "{error:?} does not say {says:?}");
        }
        assert_eq!(gpu.counts(), before, "turn {turn}: refused calls did something");
        assert_eq!(step(&method, &mut state, 1, position, count), expected[turn], "turn {turn}");
        position += count;
    }
    assert_eq!(inputs(1, 0, 1)[0].shape(), [1, 1]);
}
