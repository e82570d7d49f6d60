//! Appended operators, feedback and pipelined calls, in a language model that samples on the GPU.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::collections::VecDeque;

use common::tokens::{GREEDY, Sampling, Tokens, sampling, start, start_group, token};
use common::{CONTEXT, floats, gpu, program};
use pteron::{CallInput, Error, LoadOptions, Method, PendingCall, State, Tensor, block_on};

const PROMPT: [i64; 5] = [7, 3, 200, 41, 19];

fn load() -> Method {
    block_on(program().load(&gpu(), "forward", &sampling())).unwrap()
}

fn wait(pending: PendingCall) -> i64 {
    token(&block_on(pending.wait()).unwrap())
}

/// The argmax of the logits of a plain call.
fn by_logits(method: &Method, state: &mut State, tokens: &[i64], position: i64) -> i64 {
    let count = u32::try_from(tokens.len()).unwrap();
    let inputs = [Tensor::from_i64(&[1, count], tokens).unwrap(), Tensor::from_i64(&[1], &[position]).unwrap()];
    let logits = floats(block_on(method.call(state, &inputs)).unwrap()[0].bytes());
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).unwrap();
    i64::try_from(best.0).unwrap()
}

/// Generates on several states in turn, with up to two steps in flight per state.
fn generate(method: &Method, prompts: &[&[i64]], how: impl Fn(i32) -> Sampling, count: i32) -> Vec<Vec<i64>> {
    let mut states: Vec<State> = prompts.iter().map(|_| method.new_state().unwrap()).collect();
    let mut in_flight: Vec<VecDeque<PendingCall>> = prompts.iter().map(|_| VecDeque::new()).collect();
    let mut found = vec![Vec::new(); prompts.len()];
    for step in 0..count {
        for (index, prompt) in prompts.iter().enumerate() {
            let (tokens, position) = match step {
                0 => (Tokens::Given(prompt), 0),
                _ => (Tokens::Sampled, i64::try_from(prompt.len()).unwrap() + i64::from(step) - 1),
            };
            in_flight[index].push_back(start(method, &mut states[index], tokens, position, how(step)).unwrap());
            if in_flight[index].len() == 2 {
                found[index].push(wait(in_flight[index].pop_front().unwrap()));
            }
        }
    }
    for (found, in_flight) in found.iter_mut().zip(in_flight) {
        found.extend(in_flight.into_iter().map(wait));
    }
    found
}

#[test]
fn pipelined_greedy_tokens_are_the_argmax_of_the_logits() {
    let method = load();
    let mut state = method.new_state().unwrap();
    let mut expected = vec![by_logits(&method, &mut state, &PROMPT, 0)];
    for position in 5..60 {
        expected.push(by_logits(&method, &mut state, &[expected[expected.len() - 1]], position));
    }
    let count = i32::try_from(expected.len()).unwrap();
    assert_eq!(generate(&method, &[&PROMPT], |_| GREEDY, count), [expected]);
}

/// Greedy and drawn tokens of groups are those of single steps, also where the kernels change with the position.
#[test]
fn steps_in_groups_sample_the_same_tokens_as_alone() {
    let method = load();
    let drawn = |draw: i32| [1.0f32.to_bits().cast_signed(), 5, 0, draw];
    for how in [&(|_| GREEDY) as &dyn Fn(i32) -> Sampling, &drawn] {
        let mut state = method.new_state().unwrap();
        let mut found = vec![wait(start(&method, &mut state, Tokens::Given(&PROMPT), 0, how(0)).unwrap())];
        let mut grouped = 0;
        while found.len() < 100 {
            let step = i32::try_from(found.len()).unwrap();
            let hows: Vec<Sampling> = (step..step + 4).map(how).collect();
            let started = start_group(&method, &mut state, 4 + i64::from(step), &hows).unwrap();
            grouped += usize::from(started.len() == 4);
            found.extend(started.into_iter().map(wait));
        }
        assert!(grouped > 15, "{grouped} full groups");
        let count = i32::try_from(found.len()).unwrap();
        assert_eq!(generate(&method, &[&PROMPT], how, count), [found]);
    }
}

#[test]
fn a_seed_draws_the_same_tokens_again() {
    let method = load();
    let draws = |seed| generate(&method, &[&PROMPT], |draw| [1.0f32.to_bits().cast_signed(), seed, 0, draw], 40);
    let first = draws(11);
    assert_eq!(first, draws(11));
    assert_ne!(first, draws(12));
}

#[test]
fn interleaved_states_sample_the_same_tokens_as_alone() {
    let method = load();
    let prompts = [&PROMPT[..], &PROMPT[..3]];
    let alone: Vec<_> = prompts.iter().flat_map(|prompt| generate(&method, &[prompt], |_| GREEDY, 20)).collect();
    assert_eq!(generate(&method, &prompts, |_| GREEDY, 20), alone);
}

#[test]
fn bad_inputs_and_misuse_are_different_errors() {
    let method = load();
    let mut state = method.new_state().unwrap();
    let mut error = |tokens, position| start(&method, &mut state, tokens, position, GREEDY).unwrap_err();
    assert!(matches!(error(Tokens::Sampled, 0), Error::Input { index: 0, .. }), "nothing was fed back yet");
    let outside = error(Tokens::Given(&[999]), 0);
    assert!(matches!(&outside, Error::Input { index: 0, reason, .. } if reason.contains("holds 999")), "{outside}");
    assert!(matches!(error(Tokens::Given(&[1; 200]), 0), Error::Input { index: 0, .. }));
    let past = error(Tokens::Given(&[1]), CONTEXT.into()).to_string();
    assert!(past.contains("past the cache's 128"), "{past}");
    assert!(!method.has_feedback(&state, 0), "refused calls feed nothing back");
    let plain = block_on(program().load(&gpu(), "forward", &LoadOptions::default())).unwrap();
    let mut other = plain.new_state().unwrap();
    let tokens = Tensor::from_i64(&[1, 1], &[1]).unwrap();
    let error = plain.start(&mut other, &[CallInput::Tensor(&tokens); 2], 0).unwrap_err();
    assert!(matches!(&error, Error::Misuse(reason) if reason.contains("max_in_flight")), "{error}");
    let error = start(&method, &mut other, Tokens::Given(&[1]), 0, GREEDY).unwrap_err();
    assert!(matches!(error, Error::Misuse(_)), "{error}");
}
