//! The options of a generation.

use pteron_llm::{ContextOverflow, GenerationOptions, Sampling, TokenId};
use pyo3::prelude::*;

/// How text is generated.
#[pyclass(frozen, module = "pteron._native", name = "Options")]
#[derive(Clone)]
pub(crate) struct Options(pub(crate) GenerationOptions);

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (
        *, max_tokens = None, temperature = 0.0, top_k = 0, top_p = 1.0, min_p = 0.0, repetition_penalty = 1.0, presence_penalty = 0.0,
        frequency_penalty = 0.0, logit_bias = Vec::new(), seed = 0, logprobs = None, stop = Vec::new(), stop_tokens = Vec::new(),
        ignore_eos = false, keep = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "each is a keyword argument of Python")]
    fn new(
        max_tokens: Option<usize>,
        temperature: f32,
        top_k: u32,
        top_p: f32,
        min_p: f32,
        repetition_penalty: f32,
        presence_penalty: f32,
        frequency_penalty: f32,
        logit_bias: Vec<(TokenId, f32)>,
        seed: u64,
        logprobs: Option<u32>,
        stop: Vec<String>,
        stop_tokens: Vec<TokenId>,
        ignore_eos: bool,
        keep: Option<usize>,
    ) -> Self {
        let mut sampling =
            Sampling::default().with_temperature(temperature).with_top_k(top_k).with_top_p(top_p).with_min_p(min_p);
        sampling.repetition_penalty = repetition_penalty;
        sampling.presence_penalty = presence_penalty;
        sampling.frequency_penalty = frequency_penalty;
        sampling.logit_bias = logit_bias;
        sampling.seed = seed;
        sampling.logprobs = logprobs;
        let overflow = keep.map_or(ContextOverflow::Stop, |keep| ContextOverflow::DropOldest { keep });
        Self(
            GenerationOptions::default()
                .with_sampling(sampling)
                .with_max_tokens(max_tokens)
                .with_stop_strings(stop)
                .with_stop_tokens(stop_tokens)
                .with_ignore_eos(ignore_eos)
                .with_overflow(overflow),
        )
    }
}
