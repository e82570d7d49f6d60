//! The engine against sessions: each request gets the text that it gets alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::cast_possible_truncation, reason = "small counts of a test")]

mod requests;
mod texts;

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
