//! Tokens chosen on the GPU are those the host would choose from the logits.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::collections::VecDeque;

use common::{CONTEXT, floats, gpu, program};
use pteron::{Choice, LoadOptions, Method, State, Tensor, Tokens, block_on};

const PROMPT: [u32; 5] = [7, 3, 200, 41, 19];

fn load() -> Method {
    let options = LoadOptions { choose_tokens: true, ..LoadOptions::default() };
    block_on(program().load(&gpu(), "forward", &options)).unwrap()
}

/// The likeliest token by the logits of a plain call.
fn by_logits(method: &Method, state: &mut State, tokens: &[u32], position: u32) -> u32 {
    let tokens: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
    let count = u32::try_from(tokens.len()).unwrap();
    let inputs = [Tensor::from_i64(&[1, count], &tokens).unwrap(), Tensor::from_i64(&[1], &[position.into()]).unwrap()];
    let logits = floats(block_on(method.call(state, &inputs)).unwrap()[0].bytes());
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0))).unwrap();
    u32::try_from(best.0).unwrap()
}

/// A generation in which the next step is started before the last token is read.
fn ahead(method: &Method, state: &mut State, choice: impl Fn(u32) -> Choice, count: u32) -> Vec<u32> {
    let mut position = 0;
    let mut on_their_way = VecDeque::new();
    let mut found = Vec::new();
    for step in 0..count {
        let tokens = if step == 0 { Tokens::Given(&PROMPT) } else { Tokens::Chosen };
        on_their_way.push_back(method.start_token(state, tokens, position, choice(step)).unwrap());
        position += if step == 0 { 5 } else { 1 };
        if on_their_way.len() == 3 {
            found.push(block_on(on_their_way.pop_front().unwrap().wait()).unwrap().id);
        }
    }
    found.extend(on_their_way.into_iter().map(|token| block_on(token.wait()).unwrap().id));
    found
}

#[test]
fn the_likeliest_tokens_are_the_same_either_way() {
    let method = load();
    let mut state = method.new_state().unwrap();
    let mut expected = vec![by_logits(&method, &mut state, &PROMPT, 0)];
    for position in 5..60 {
        expected.push(by_logits(&method, &mut state, &[expected[expected.len() - 1]], position));
    }
    let count = u32::try_from(expected.len()).unwrap();
    assert_eq!(ahead(&method, &mut method.new_state().unwrap(), |_| Choice::GREEDY, count), expected);
}

#[test]
fn a_seed_draws_the_same_tokens_again() {
    let method = load();
    let draws = |seed| {
        let choice = |draw| Choice { temperature: 1.0, seed, draw };
        ahead(&method, &mut method.new_state().unwrap(), choice, 40)
    };
    let first = draws(11);
    assert_eq!(first, draws(11));
    assert_ne!(first, draws(12));
}

/// Two states with a step in flight each, alternating, choose what each chooses alone.
#[test]
fn interleaved_states_choose_the_same_tokens_as_alone() {
    let method = load();
    let prompts = [&PROMPT[..], &PROMPT[..3]];
    let alone = prompts.map(|prompt| {
        let mut state = method.new_state().unwrap();
        let mut tokens = Vec::new();
        let mut position = 0;
        for step in 0..20 {
            let next = if step == 0 { Tokens::Given(prompt) } else { Tokens::Chosen };
            tokens
                .push(block_on(method.start_token(&mut state, next, position, Choice::GREEDY).unwrap().wait()).unwrap().id);
            position += if step == 0 { u32::try_from(prompt.len()).unwrap() } else { 1 };
        }
        tokens
    });
    let mut states = [(); 2].map(|()| (method.new_state().unwrap(), VecDeque::new(), Vec::new()));
    for step in 0..20 {
        for (prompt, (state, in_flight, tokens)) in prompts.iter().zip(&mut states) {
            let position = if step == 0 { 0 } else { u32::try_from(prompt.len()).unwrap() + step - 1 };
            let next = if step == 0 { Tokens::Given(prompt) } else { Tokens::Chosen };
            in_flight.push_back(method.start_token(state, next, position, Choice::GREEDY).unwrap());
            if in_flight.len() == 2 {
                tokens.push(block_on(in_flight.pop_front().unwrap().wait()).unwrap().id);
            }
        }
    }
    for (alone, (_, in_flight, mut tokens)) in alone.into_iter().zip(states) {
        tokens.extend(in_flight.into_iter().map(|next| block_on(next.wait()).unwrap().id));
        assert_eq!(tokens, alone);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let method = load();
    let mut state = method.new_state().unwrap();
    let mut error = |tokens: &[u32], position| {
        method.start_token(&mut state, Tokens::Given(tokens), position, Choice::GREEDY).unwrap_err().to_string()
    };
    assert!(error(&[999], 0).contains("input 0 of \"forward\" holds 999"), "{}", error(&[999], 0));
    assert!(error(&[1; 200], 0).contains("input 0"), "{}", error(&[1; 200], 0));
    assert!(error(&[1], CONTEXT).contains("past the cache's 128"), "{}", error(&[1], CONTEXT));
    let plain = common::load(&gpu());
    let mut state = plain.new_state().unwrap();
    let error = plain.start_token(&mut state, Tokens::Given(&[1]), 0, Choice::GREEDY).unwrap_err().to_string();
    assert!(error.contains("was not loaded to choose tokens"), "{error}");
}
