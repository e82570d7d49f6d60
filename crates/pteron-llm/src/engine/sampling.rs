//! Sampling on the host, of requests that the GPU cannot sample for, on several threads.

use std::sync::{Arc, Mutex, PoisonError};

use super::shared::State;
use super::step::{ModelStep, SequenceSamples};
use super::thread_pool::ThreadPool;
use crate::batch::TokenMask;
use crate::sampling::{History, SampledToken, Sampler, Sampling, SamplingError};
use crate::tokenizer::TokenId;

/// The samples of a step in the order of the batch. Samples after a wrong draft token have none: the model has seen another text than
/// the one that was sampled.
pub(super) type Results = Vec<Sample>;

/// A sample of a step, if it has one.
pub(super) type Sample = Option<Result<SampledToken, SamplingError>>;

/// Samplers for their buffers, which are as large as the vocabulary.
pub(super) type Scratch = Arc<Mutex<Vec<Sampler>>>;

/// The samples of one sequence.
#[derive(Debug)]
pub(super) struct SequenceJob {
    /// The first of its samples, in the batch and in the rows of logits.
    first: usize,
    first_row: usize,
    count: usize,
    draft: Vec<TokenId>,
    sampling: Arc<Sampling>,
    mask: Option<TokenMask>,
    prompt: Arc<[TokenId]>,
    /// The generated tokens, where penalties need them.
    generated: Vec<TokenId>,
    /// The number of generated tokens, which numbers the draws.
    draws: u64,
}

/// Collects what the sampling of a step's sequences needs.
pub(super) fn jobs(state: &State, step: &ModelStep) -> Vec<SequenceJob> {
    let mut first_row = 0;
    let on_host = step.sequences.iter().filter(|own| own.on_host);
    let job = |own: &SequenceSamples| {
        let row = first_row;
        first_row += own.samples.len();
        let active = state.active.get(&own.request)?;
        let needs_history = active.sampling.has_penalties();
        Some(SequenceJob {
            first: own.samples.start,
            first_row: row,
            count: own.samples.len(),
            draft: own.draft.clone(),
            sampling: Arc::clone(&active.sampling),
            mask: step.samples.get(own.samples.start)?.allowed.clone(),
            prompt: Arc::clone(&active.prompt),
            generated: if needs_history { active.generated.clone() } else { Vec::new() },
            draws: active.generated.len() as u64,
        })
    };
    on_host.filter_map(job).collect()
}

/// Samples all sequences, and writes their samples into the results.
pub(super) fn run(
    pool: &ThreadPool,
    scratch: &Scratch,
    jobs: Vec<SequenceJob>,
    (logits, vocabulary): (Vec<f32>, usize),
    results: &mut Results,
) {
    if jobs.is_empty() {
        return;
    }
    let logits = Arc::new(logits);
    let each = jobs.len().div_ceil(pool.threads());
    let mut jobs = jobs.into_iter().peekable();
    let mut parts = Vec::new();
    while jobs.peek().is_some() {
        let part: Vec<SequenceJob> = jobs.by_ref().take(each).collect();
        let (logits, scratch) = (Arc::clone(&logits), Arc::clone(scratch));
        parts.push(move || sample_all(part, &scratch, &logits, vocabulary));
    }
    for (first, sampled) in pool.run_all(parts).into_iter().flatten().flatten() {
        for (index, token) in (first..).zip(sampled) {
            if let Some(result) = results.get_mut(index) {
                *result = Some(token);
            }
        }
    }
}

/// The samples of a sequence, and the index of the first in the batch.
type Sampled = (usize, Vec<Result<SampledToken, SamplingError>>);

fn sample_all(jobs: Vec<SequenceJob>, scratch: &Scratch, logits: &[f32], vocabulary: usize) -> Vec<Sampled> {
    let free = || scratch.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sampler = free().pop();
    let mut sampled = Vec::with_capacity(jobs.len());
    for job in jobs {
        let options = Sampling::clone(&job.sampling);
        let ready = match &mut sampler {
            Some(sampler) => sampler.restart(options, job.draws),
            None => Sampler::new(options).map(|new| sampler.insert(new).rewind(job.draws)),
        };
        let first = job.first;
        sampled.push(match (ready, &mut sampler) {
            (Ok(()), Some(sampler)) => (first, sample(job, sampler, logits, vocabulary)),
            (Err(error), _) => (first, vec![Err(error)]),
            (Ok(()), None) => continue,
        });
    }
    free().extend(sampler);
    sampled
}

/// Samples one sequence, up to the first token that is not the draft's.
fn sample(
    job: SequenceJob,
    sampler: &mut Sampler,
    logits: &[f32],
    vocabulary: usize,
) -> Vec<Result<SampledToken, SamplingError>> {
    let SequenceJob { first_row, count, draft, mask, prompt, mut generated, .. } = job;
    let mut sampled = Vec::with_capacity(count);
    for index in 0..count {
        let start = (first_row + index) * vocabulary;
        let row = logits.get(start..start + vocabulary).unwrap_or_default();
        let token = sampler.sample_allowed(row, &History { prompt: &prompt, generated: &generated }, mask.as_deref());
        let id = token.as_ref().ok().map(|token| token.token);
        sampled.push(token);
        match id {
            Some(id) if draft.get(index) == Some(&id) => generated.push(id),
            _ => break,
        }
    }
    sampled
}
