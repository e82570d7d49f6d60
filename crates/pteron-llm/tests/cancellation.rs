//! Futures and generations can be dropped at any point: the session then generates exactly what a fresh one would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test stops at the first surprise")]

use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pteron::{Gpu, GpuOptions, Program, block_on};
use pteron_llm::{GenerationOptions, Model, ModelAssets, ModelOptions, SampleOn, Session, StepPipeline, TokenId};

/// A tiny Llama with a context of more than 64 tokens, used with token ids alone.
fn model() -> Model {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    let gpu = block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/llama/tiny_4w/program.pte");
    let program = Program::open(path).unwrap();
    block_on(Model::load(&gpu, &program, ModelAssets::ids_only(), &ModelOptions::default())).unwrap()
}

fn options(sample_on: SampleOn) -> GenerationOptions {
    GenerationOptions::default().with_max_tokens(12).with_ignore_eos(true).with_sample_on(sample_on)
}

fn prompt() -> Vec<TokenId> {
    (1..20).collect()
}

fn generate(session: &mut Session, prompt: &[TokenId], sample_on: SampleOn) -> Vec<TokenId> {
    let mut generation = session.generate(prompt, options(sample_on)).unwrap();
    while block_on(generation.next()).unwrap().is_some() {}
    generation.generated().to_vec()
}

/// Polls a future up to `polls` times and drops it; whether it completed.
fn poll_then_drop(future: impl Future, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|_| future.as_mut().poll(&mut context).is_ready())
}

#[test]
fn a_session_is_consistent_after_a_future_is_dropped_at_any_poll() {
    let model = model();
    for sample_on in [SampleOn::Gpu, SampleOn::Host] {
        let expected = generate(&mut Session::new(&model).unwrap(), &prompt(), sample_on);
        for polls in 0.. {
            let mut session = Session::new(&model).unwrap();
            let text = session.generate(&prompt(), options(sample_on)).unwrap().text();
            let completed = poll_then_drop(text, polls);
            assert_eq!(generate(&mut session, &prompt(), sample_on), expected, "{sample_on:?} after {polls} polls");
            let completed = poll_then_drop(session.logits(&[5, 6, 7]), polls) && completed;
            assert_eq!(
                generate(&mut session, &prompt(), sample_on),
                expected,
                "{sample_on:?} after {polls} polls of logits"
            );
            if completed {
                break;
            }
        }
    }
}

#[test]
fn a_session_is_consistent_after_a_generation_is_dropped_at_any_token() {
    let model = model();
    let other: Vec<TokenId> = prompt().into_iter().rev().collect();
    for sample_on in [SampleOn::Gpu, SampleOn::Host] {
        let expected = generate(&mut Session::new(&model).unwrap(), &prompt(), sample_on);
        let expected_other = generate(&mut Session::new(&model).unwrap(), &other, sample_on);
        let mut session = Session::new(&model).unwrap();
        for tokens in 0..=expected.len() {
            let mut generation = session.generate(&prompt(), options(sample_on)).unwrap();
            for _ in 0..tokens {
                block_on(generation.next()).unwrap().unwrap();
            }
            // One more step may be in flight. Drop its future before it is polled, and then the generation.
            drop(generation.next());
            drop(generation);
            assert!(session.tokens().starts_with(&prompt()[..session.tokens().len().min(19)]));
            assert_eq!(generate(&mut session, &other, sample_on), expected_other, "{sample_on:?} after {tokens} tokens");
            assert_eq!(generate(&mut session, &prompt(), sample_on), expected, "{sample_on:?} after {tokens} tokens");
        }
    }
}

#[test]
fn a_dropped_future_of_next_loses_no_token() {
    let model = model();
    for sample_on in [SampleOn::Gpu, SampleOn::Host] {
        let expected = generate(&mut Session::new(&model).unwrap(), &prompt(), sample_on);
        let mut session = Session::new(&model).unwrap();
        let mut generation = session.generate(&prompt(), options(sample_on)).unwrap();
        let mut found = Vec::new();
        for _ in 0..1000 {
            drop(generation.next());
            let mut next = pin!(generation.next());
            match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(Some(token))) => found.push(token.token),
                Poll::Ready(end) => {
                    assert!(end.unwrap().is_none());
                    break;
                }
                Poll::Pending => {}
            }
        }
        assert_eq!(found, expected, "{sample_on:?}");
    }
}

#[test]
fn an_owned_generation_returns_its_session() {
    let model = model();
    let expected = generate(&mut Session::new(&model).unwrap(), &prompt(), SampleOn::Gpu);
    let mut generation = Session::new(&model).unwrap().into_generation(&prompt(), options(SampleOn::Host)).unwrap();
    block_on(generation.next()).unwrap();
    let mut session = generation.into_session().unwrap();
    assert_eq!(session.tokens(), prompt());
    assert_eq!(generate(&mut session, &prompt(), SampleOn::Gpu), expected);
}

/// Compiles only if the futures of the public API can move between threads.
#[test]
fn futures_are_send() {
    fn send<T: Send>(_: T) {}
    fn is_send<T: Send>() {}
    fn futures(gpu: &Gpu, program: &Program, session: &mut Session) {
        send(Model::open("model.pte"));
        send(Model::open_on(gpu, "model.pte", &ModelOptions::default()));
        send(Model::load(gpu, program, ModelAssets::ids_only(), &ModelOptions::default()));
        send(session.logits(&[1]));
        send(session.profile());
        if let Ok(mut generation) = session.generate(&[1], GenerationOptions::default()) {
            send(generation.next());
            send(generation.text());
        }
        send(StepPipeline::new().read_oldest());
    }
    let _: fn(&Gpu, &Program, &mut Session) = futures;
    is_send::<Model>();
    is_send::<Session>();
    is_send::<pteron_llm::Generation<'static>>();
    is_send::<pteron_llm::Error>();
}
