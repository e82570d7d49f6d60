//! The engine against sessions: each request gets the text that it gets alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::cast_possible_truncation, reason = "small counts of a test")]

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pteron::{Gpu, GpuOptions, Precision, Program, block_on};
use pteron_llm::batch::{DraftSource, SubmitError, TokenMask};
use pteron_llm::{
    ConstraintError, ContextOverflow, Engine, EngineError, EngineOptions, EngineRequest, Error, FinishReason,
    GenerationOptions, KvDtype, Model, ModelAssets, ModelOptions, SampleOn, Sampling, Session, ShowSpecial, TokenConstraint,
    TokenId, TokenStream, Tokenizer,
};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn new_gpu() -> Gpu {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
}

fn gpu() -> Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(new_gpu).clone()
}

/// 32-bit floats throughout, so that other numbers of rows round nearly the same.
fn exact() -> ModelOptions {
    ModelOptions::default().with_precision(Precision::Full).with_kv_dtype(KvDtype::F32)
}

/// A tiny Llama of random weights: 256 tokens, which stand for nothing, and a context of 128.
const TINY: &str = "fixtures/llama/tiny_4w/program.pte";

fn tiny() -> Program {
    Program::open(root().join(TINY)).unwrap()
}

fn tiny_engine(options: EngineOptions) -> Engine {
    block_on(Engine::load(&gpu(), &tiny(), ModelAssets::ids_only(), options.with_model(exact()))).unwrap()
}

fn demo_assets() -> ModelAssets {
    Tokenizer::open(root().join("models/demo/tokenizer.json")).unwrap().into()
}

fn demo_program() -> Program {
    Program::open(root().join("models/demo/model.pte")).unwrap()
}

/// What a request gets: its tokens without one that ended the text, its text, and why it ended.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    tokens: Vec<TokenId>,
    text: String,
    finish: Option<FinishReason>,
}

/// The text of a request alone, in a session.
fn alone(model: &Model, prompt: &[TokenId], options: &GenerationOptions) -> Outcome {
    let mut session = Session::new(model).unwrap();
    let mut generation = session.generate(prompt, options.clone()).unwrap();
    let mut text = String::new();
    while let Some(token) = block_on(generation.next()).unwrap() {
        text += &token.text;
    }
    Outcome { tokens: generation.generated().to_vec(), text, finish: generation.finish() }
}

fn collect(stream: &mut TokenStream) -> Result<Outcome, EngineError> {
    let mut outcome = Outcome { tokens: Vec::new(), text: String::new(), finish: None };
    while let Some(token) = stream.next_blocking()? {
        assert_eq!(outcome.finish, None, "a token after the last");
        if !matches!(token.finish, Some(FinishReason::StopToken(_))) {
            outcome.tokens.push(token.token);
        }
        outcome.text += &token.text;
        outcome.finish = token.finish;
    }
    Ok(outcome)
}

fn greedy(max_tokens: usize) -> GenerationOptions {
    GenerationOptions::default().with_max_tokens(max_tokens).with_ignore_eos(true)
}

fn request(prompt: &[TokenId], options: &GenerationOptions) -> EngineRequest {
    EngineRequest::new(prompt.to_vec()).with_options(options.clone())
}

/// Pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }

    fn tokens(&mut self, count: u32) -> Vec<TokenId> {
        (0..count).map(|_| self.below(256)).collect()
    }
}

/// Options of every kind: sampled on the GPU and on the host.
fn some_options(random: &mut Random) -> GenerationOptions {
    let seed = u64::from(random.below(1000));
    let drawn = Sampling::default().with_temperature(0.8).with_seed(seed);
    let sampling = match random.below(6) {
        0 | 1 => Sampling::default(),
        2 => drawn,
        3 => drawn.with_top_k(20).with_top_p(0.9).with_min_p(0.01),
        4 => drawn.with_repetition_penalty(1.2).with_frequency_penalty(0.1),
        _ => Sampling::default().with_logprobs(2).with_logit_bias([(7, -1.0)]),
    };
    greedy(1 + random.below(24) as usize).with_sampling(sampling)
}

fn tiny_model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| block_on(Model::load(&gpu(), &tiny(), ModelAssets::ids_only(), &exact())).unwrap())
}

#[test]
fn mixed_requests_get_the_texts_that_they_get_alone() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(6).with_max_rows(16));
    let mut random = Random(1);
    let shared = random.tokens(70);
    let mut streams = Vec::new();
    for index in 0..24 {
        let own = 1 + random.below(40);
        let prompt = match index % 3 {
            0 => [&shared[..33 + index], &random.tokens(3)].concat(),
            _ => random.tokens(own),
        };
        let options = some_options(&mut random);
        let mut stream = engine.submit(request(&prompt, &options)).unwrap();
        match index % 5 {
            // Some are cancelled, at once or after a token.
            2 => drop(stream),
            4 => drop(stream.next_blocking().unwrap().unwrap()),
            _ => streams.push((prompt, options, stream)),
        }
    }
    for (prompt, options, mut stream) in streams {
        let outcome = collect(&mut stream).unwrap();
        assert_eq!(outcome, alone(tiny_model(), &prompt, &options), "{} tokens, {options:?}", prompt.len());
        assert_eq!((stream.usage().prompt_tokens, stream.usage().generated_tokens), (prompt.len(), outcome.tokens.len()));
    }
    let statistics = engine.statistics();
    assert!(statistics.cached_tokens >= 32, "{statistics:?}");
    assert_eq!((statistics.waiting, statistics.running, statistics.blocks_used), (0, 0, 0));
    assert_eq!((statistics.finished + statistics.cancelled, statistics.failed), (24, 0));
}

/// The bytes that leave room for some blocks beyond one full context, by the error of a budget that is too small.
fn budget_for(blocks: u64) -> u64 {
    let options = EngineOptions::default().with_max_sequences(4).with_max_rows(16).with_model(exact());
    let refused = block_on(Engine::load(&gpu(), &tiny(), ModelAssets::ids_only(), options.with_memory_budget(1)));
    let Err(Error::Budget(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains(&error.needed.to_string()) && error.left == 0, "{error}");
    // A context of 128 positions has four blocks.
    error.weights + error.activations + error.needed / 4 * blocks
}

#[test]
fn preempted_requests_get_the_same_texts() {
    let options = EngineOptions::default().with_max_sequences(4).with_max_rows(16);
    let engine = tiny_engine(options.with_memory_budget(budget_for(5)));
    assert_eq!(engine.statistics().blocks_total, 5);
    let mut random = Random(2);
    let sampling = Sampling::default().with_temperature(0.7).with_seed(3);
    let requests: Vec<_> = (0..4)
        .map(|index| {
            let options = match index {
                0 => greedy(60),
                1 => greedy(60).with_sampling(sampling.clone().with_top_k(40)),
                _ => greedy(60).with_sampling(sampling.clone()),
            };
            (random.tokens(20 + index), options)
        })
        .collect();
    let mut streams: Vec<_> =
        requests.iter().map(|(prompt, options)| engine.submit(request(prompt, options)).unwrap()).collect();
    for ((prompt, options), stream) in requests.iter().zip(&mut streams) {
        assert_eq!(collect(stream).unwrap(), alone(tiny_model(), prompt, options), "{options:?}");
    }
    let statistics = engine.statistics();
    assert!(statistics.preemptions > 0, "{statistics:?}");
    assert_eq!(statistics.blocks_used, 0);
}

#[test]
fn a_full_context_ends_texts_as_in_a_session() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(2));
    let mut random = Random(3);
    for length in [100, 127, 128] {
        let prompt = random.tokens(length);
        let outcome = collect(&mut engine.submit(request(&prompt, &greedy(1000))).unwrap()).unwrap();
        let expected = alone(tiny_model(), &prompt, &greedy(1000));
        assert_eq!(outcome.finish, Some(FinishReason::ContextFull));
        assert_eq!((outcome.tokens, outcome.text), (expected.tokens, expected.text), "{length} tokens");
    }
}

#[test]
fn requests_beyond_the_limits_are_refused() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(1).with_max_queue(2));
    let refused = |request: EngineRequest| engine.submit(request).unwrap_err();
    assert!(matches!(refused(request(&[], &greedy(1))), EngineError::Submit(SubmitError::EmptyPrompt)));
    assert!(matches!(refused(request(&[1], &greedy(0))), EngineError::Submit(SubmitError::NoTokens)));
    let error = refused(request(&[1; 129], &greedy(1))).to_string();
    assert!(error.contains("129 tokens") && error.contains("128"), "{error}");
    let error = refused(request(&[256], &greedy(1))).to_string();
    assert!(error.contains("token 256 is not in the model's vocabulary of 256"), "{error}");
    let invalid = |sampling| greedy(1).with_sampling(sampling);
    let error = refused(request(&[1], &invalid(Sampling::default().with_temperature(-1.0)))).to_string();
    assert!(error.contains("temperature is -1"), "{error}");
    let error = refused(request(&[1], &invalid(Sampling::default().with_logit_bias([(256, 1.0)])))).to_string();
    assert!(error.contains("token 256"), "{error}");
    let endless = greedy(1).with_overflow(ContextOverflow::DropOldest { keep: 1 });
    assert!(matches!(refused(request(&[1], &endless)), EngineError::Options(_)));
    assert!(matches!(refused(request(&[1], &greedy(1).with_stop_string(""))), EngineError::Options(_)));
    // One runs, two wait.
    let mut streams = Vec::new();
    let full = loop {
        match engine.submit(request(&[1, 2, 3], &greedy(100))) {
            Ok(stream) => streams.push(stream),
            Err(error) => break error,
        }
    };
    assert!(matches!(full, EngineError::Submit(SubmitError::QueueFull { limit: 2, .. })), "{full}");
    assert!((2..=3).contains(&streams.len()), "{}", streams.len());
    // A place is free as soon as a stream is dropped.
    streams.pop();
    streams.push(engine.submit(request(&[4], &greedy(2))).unwrap());
    engine.drain();
    assert!(matches!(refused(request(&[1], &greedy(1))), EngineError::Draining));
    streams.iter_mut().for_each(|stream| assert!(collect(stream).is_ok()));
    assert!(engine.wait_idle(Duration::from_secs(60)));
}

#[test]
fn timeouts_end_requests_that_run_and_that_wait() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(1));
    let mut running = engine.submit(request(&[1, 2], &greedy(100))).unwrap();
    running.next_blocking().unwrap().unwrap();
    let mut late = engine.submit(request(&[3], &greedy(1)).with_timeout(Duration::ZERO)).unwrap();
    assert!(matches!(late.next_blocking(), Err(EngineError::DeadlineExceeded)));
    assert!(late.next_blocking().unwrap().is_none());
    assert!(collect(&mut running).is_ok());
    // One whose constraint never answers, while nothing else runs.
    let slow = request(&[3], &greedy(1)).with_constraint(Box::new(Slow)).with_timeout(Duration::from_millis(50));
    let start = Instant::now();
    assert!(matches!(engine.submit(slow).unwrap().next_blocking(), Err(EngineError::DeadlineExceeded)));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(engine.statistics().failed, 2);
}

/// A constraint that takes longer than its request may.
struct Slow;

impl TokenConstraint for Slow {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        std::thread::sleep(Duration::from_secs(6));
        Ok(Arc::new([u32::MAX; 8]))
    }

    fn accept(&mut self, _: TokenId) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }
}

#[test]
fn equal_prefixes_are_computed_once() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(4).with_max_rows(32));
    let prompt = Random(4).tokens(70);
    let used = |request: EngineRequest| {
        let mut stream = engine.submit(request).unwrap();
        let outcome = collect(&mut stream).unwrap();
        (stream.usage().cached_tokens, outcome)
    };
    let expected = alone(tiny_model(), &prompt, &greedy(8));
    assert_eq!(used(request(&prompt, &greedy(8))), (0, expected.clone()));
    // Two blocks of 32 positions.
    assert_eq!(used(request(&prompt, &greedy(8))), (64, expected.clone()));
    assert_eq!(used(request(&prompt, &greedy(8)).with_cache_salt(1)), (0, expected.clone()));
    // Two at once: the second waits for the first one's blocks.
    let other = [&prompt[10..], &[1]].concat();
    let streams = [0, 1].map(|_| engine.submit(request(&other, &greedy(4))).unwrap());
    let cached = streams.map(|mut stream| {
        collect(&mut stream).unwrap();
        stream.usage().cached_tokens
    });
    assert_eq!(cached, [0, 32]);
    assert_eq!(engine.statistics().cached_tokens, 96);
    assert!(engine.statistics().blocks_cached >= 4);
}

#[test]
fn dropped_streams_cancel_their_requests() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(2));
    let mut streams: Vec<_> = (0..6).map(|token| engine.submit(request(&[token], &greedy(120))).unwrap()).collect();
    streams[0].next_blocking().unwrap().unwrap();
    drop(streams);
    assert!(engine.wait_idle(Duration::from_secs(60)));
    let statistics = engine.statistics();
    assert_eq!((statistics.cancelled, statistics.finished, statistics.blocks_used), (6, 0, 0));
    // The engine goes on, also when only a stream is left of it.
    let mut last = engine.submit(request(&[9], &greedy(20))).unwrap();
    drop(engine);
    assert_eq!(collect(&mut last).unwrap(), alone(tiny_model(), &[9], &greedy(20)));
}

/// Allows the even tokens, and ends the text after some.
struct Even {
    left: usize,
    failure: Failure,
}

/// How a constraint fails when it is asked for its third mask.
#[derive(Clone, Copy)]
enum Failure {
    None,
    Error,
    Panic,
    WrongSize,
    ForbidsAll,
}

impl TokenConstraint for Even {
    fn mask(&mut self) -> Result<TokenMask, ConstraintError> {
        match self.failure {
            _ if self.left > 2 => {}
            Failure::None => {}
            Failure::Error => return Err(ConstraintError::new("a test")),
            Failure::Panic => panic!("a test of panics"),
            Failure::WrongSize => return Ok(Arc::new([1])),
            Failure::ForbidsAll => return Ok(Arc::new([0; 8])),
        }
        Ok(Arc::new([0x5555_5555; 8]))
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        assert_eq!(token % 2, 0);
        self.left -= 1;
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.left == 0
    }
}

#[test]
fn constraints_end_their_own_requests_alone() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(8));
    let even = |failure| request(&[5, 6, 7], &greedy(50)).with_constraint(Box::new(Even { left: 4, failure }));
    let other = engine.submit(request(&[1, 2, 3], &greedy(40)));
    let failures = [Failure::Error, Failure::Panic, Failure::WrongSize, Failure::ForbidsAll];
    let failing: Vec<_> = failures.into_iter().map(|failure| engine.submit(even(failure)).unwrap()).collect();
    let outcome = collect(&mut engine.submit(even(Failure::None)).unwrap()).unwrap();
    // A session with a bias against the odd tokens, until the constraint is complete.
    let odd = (0..128).map(|token| (2 * token + 1, f32::NEG_INFINITY));
    let expected = alone(tiny_model(), &[5, 6, 7], &greedy(4).with_sampling(Sampling::default().with_logit_bias(odd)));
    assert_eq!((outcome.tokens.as_slice(), outcome.finish), (&expected.tokens[..], Some(FinishReason::ConstraintComplete)));
    for (index, mut stream) in failing.into_iter().enumerate() {
        // Two tokens come before the failure.
        for token in &expected.tokens[..2] {
            assert_eq!(stream.next_blocking().unwrap().unwrap().token, *token);
        }
        let error = stream.next_blocking().unwrap_err();
        let as_expected = match index {
            3 => matches!(error, EngineError::Sampling(_)),
            _ => matches!(error, EngineError::Constraint(_)),
        };
        assert!(as_expected, "{index}: {error}");
        assert!(stream.next_blocking().unwrap().is_none());
    }
    assert_eq!(collect(&mut other.unwrap()).unwrap(), alone(tiny_model(), &[1, 2, 3], &greedy(40)));
    assert_eq!(engine.statistics().failed, 4);
}

#[test]
fn threads_and_tasks_submit_at_once() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    fn is_send<T: Send>(_: &T) {}
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(8));
    is_shared(&engine);
    let prompts: Vec<Vec<TokenId>> = (0..6).map(|index| vec![index, 10 * index, 7]).collect();
    let expected: Vec<_> = prompts.iter().map(|prompt| alone(tiny_model(), prompt, &greedy(12))).collect();
    std::thread::scope(|scope| {
        for (prompt, expected) in prompts.iter().zip(&expected) {
            let engine = engine.clone();
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(&collect(&mut engine.submit(request(prompt, &greedy(12))).unwrap()).unwrap(), expected);
                }
            });
        }
        // One thread for all tasks: if a stream blocked it, they could not run at once.
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        for (prompt, expected) in prompts.iter().cloned().zip(expected.iter().cloned()) {
            let mut stream = engine.submit(request(&prompt, &greedy(12))).unwrap();
            is_send(&stream);
            tasks.spawn_local(async move {
                let mut tokens = Vec::new();
                while let Some(token) = stream.next().await.unwrap() {
                    tokens.push(token.token);
                }
                assert_eq!(tokens, expected.tokens);
            });
        }
        runtime.block_on(tasks);
    });
    let statistics = engine.statistics();
    assert_eq!((statistics.finished, statistics.generated_tokens), (24, 24 * 12));
    assert_eq!((statistics.time_to_first_token.count(), statistics.queue_time.count()), (24, 24));
    assert_eq!(statistics.inter_token.count(), 24 * 11);
}

#[test]
fn speculation_leaves_texts_as_they_are() {
    let engine = tiny_engine(EngineOptions::default().with_max_sequences(4));
    let pattern: Vec<TokenId> = [3, 1, 4, 1, 5, 9, 2, 6].repeat(6);
    let drawn = Sampling::default().with_temperature(0.9).with_seed(5);
    for sampling in [Sampling::default(), drawn.clone(), drawn.with_top_k(30).with_repetition_penalty(1.1)] {
        let options = greedy(60).with_sampling(sampling);
        let expected = alone(tiny_model(), &pattern, &options);
        for draft in [DraftSource::None, DraftSource::PromptLookup] {
            let mut stream = engine.submit(request(&pattern, &options).with_draft(draft)).unwrap();
            assert_eq!(collect(&mut stream).unwrap(), expected, "{draft:?}, {options:?}");
        }
    }
    let statistics = engine.statistics();
    assert!(statistics.drafted > 0, "{statistics:?}");
    assert!(statistics.drafted >= statistics.accepted);
}

#[test]
fn a_lost_device_ends_all_requests() {
    let gpu = new_gpu();
    let options = EngineOptions::default().with_max_sequences(2).with_model(exact());
    let engine = block_on(Engine::load(&gpu, &tiny(), ModelAssets::ids_only(), options)).unwrap();
    let mut streams: Vec<_> = (0..4).map(|token| engine.submit(request(&[token], &greedy(120))).unwrap()).collect();
    streams[0].next_blocking().unwrap().unwrap();
    gpu.destroy();
    let is_lost =
        |error: &EngineError| matches!(error, EngineError::Model(error) if matches!(**error, Error::DeviceLost(_)));
    for stream in &mut streams {
        let error = collect(stream).unwrap_err();
        assert!(is_lost(&error), "{error}");
    }
    assert!(engine.wait_idle(Duration::from_secs(60)));
    let error = engine.submit(request(&[1], &greedy(1))).unwrap_err();
    assert!(is_lost(&error), "{error}");
}

/// PyTorch's greedy continuations of the bundled model, whose best two logits are never close.
fn goldens() -> Vec<(Vec<TokenId>, Vec<TokenId>)> {
    let file = std::fs::read(root().join("models/demo/goldens.json")).unwrap();
    let goldens: Value = serde_json::from_slice(&file).unwrap();
    let ids = |value: &Value| serde_json::from_value(value.clone()).unwrap();
    goldens["prompts"].as_array().unwrap().iter().map(|row| (ids(&row["prompt_ids"]), ids(&row["ids"]))).collect()
}

#[test]
fn the_bundled_model_continues_all_prompts_at_once_as_pytorch_does() {
    let options = EngineOptions::default().with_model(exact()).with_max_rows(32);
    let engine = block_on(Engine::load(&gpu(), &demo_program(), demo_assets(), options)).unwrap();
    assert!(engine.tokenizer().is_some() && !engine.has_chat_template());
    let goldens = goldens();
    let requests = goldens.iter().zip([DraftSource::None, DraftSource::PromptLookup].iter().cycle());
    let streams = requests.map(|((prompt, expected), draft)| {
        let options = greedy(expected.len().min(40));
        engine.submit(request(prompt, &options).with_draft(*draft)).unwrap()
    });
    let streams: Vec<_> = streams.collect();
    for ((_, expected), mut stream) in goldens.iter().zip(streams) {
        let outcome = collect(&mut stream).unwrap();
        assert_eq!(outcome.tokens, expected[..expected.len().min(40)]);
        assert_eq!(outcome.text, engine.tokenizer().unwrap().decode(&outcome.tokens, ShowSpecial::No));
    }
    // Stop strings and tokens, on the GPU and on the host.
    let (prompt, ids) = &goldens[0];
    let whole = engine.tokenizer().unwrap().decode(ids, ShowSpecial::No);
    let stop = whole.split(' ').nth(4).unwrap();
    for place in [SampleOn::Gpu, SampleOn::Host] {
        let options = greedy(64).with_stop_string(stop).with_sample_on(place);
        let outcome = collect(&mut engine.submit(request(prompt, &options)).unwrap()).unwrap();
        assert_eq!(
            (outcome.text.as_str(), outcome.finish),
            (&whole[..whole.find(stop).unwrap()], Some(FinishReason::StopString(0)))
        );
        let logprobs = Sampling::default().with_logprobs(if place == SampleOn::Host { Some(2) } else { None });
        let options = greedy(64).with_stop_tokens([ids[5]]).with_sampling(logprobs);
        let mut stream = engine.submit(request(prompt, &options)).unwrap();
        let mut last = None;
        while let Some(token) = stream.next_blocking().unwrap() {
            assert_eq!(
                (token.logprob.is_some(), token.top_logprobs.len()),
                (place == SampleOn::Host, if token.logprob.is_some() { 2 } else { 0 })
            );
            last = Some(token);
        }
        assert_eq!(last.unwrap().finish, Some(FinishReason::StopToken(ids[5])));
        assert_eq!(stream.usage().generated_tokens, ids.iter().position(|id| *id == ids[5]).unwrap());
    }
}
