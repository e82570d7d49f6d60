//! Drafts of a second, smaller model for speculative decoding.
//!
//! The draft model has a KV cache of its own, without a prefix cache: each request that it drafts for has blocks until it ends. A draft that
//! is wrong costs rows and no text: the model samples after every draft token. The draft model samples with the noise of the model, which
//! depends on seed, position and token alone, so that drawn texts are drafted about as well as greedy ones.

use std::collections::{HashMap, VecDeque};

use pteron::BLOCK_POSITIONS;

use super::shared::State;
use crate::batch::{MAX_DRAFT, RequestId, blocks_for};
use crate::decode_step::GpuSampling;
use crate::error::Result;
use crate::paged_model::{PagedModel, PagedToken, PendingSamples};
use crate::paged_rows::{PagedRows, narrow};
use crate::tokenizer::TokenId;

/// Requests that have drafts at a time. With more, the model is busy without them.
pub(super) const MAX_DRAFTED: u32 = 8;
/// Steps of the draft model in flight.
const IN_FLIGHT: usize = 3;
/// Positions of a text for which each request that has drafts has room.
const USUAL_POSITIONS: u32 = 4096;
/// The first draft, and the pause after drafts of which nothing was right, which doubles up to the most.
const FIRST_DRAFT: usize = 4;
const MAX_PAUSE: usize = 32;

/// The draft model, and what it knows of each request.
pub(super) struct Drafter {
    model: PagedModel,
    sequences: HashMap<RequestId, Drafted>,
    free: Vec<u32>,
}

/// A request that has drafts.
#[derive(Debug)]
struct Drafted {
    blocks: Vec<u32>,
    /// Tokens of the text whose keys and values are in the cache.
    known: usize,
    /// The draft after them. The keys and values of all but its last token are in the cache.
    draft: Vec<TokenId>,
    length: usize,
    /// Tokens that are generated without a draft, and how many after the next failure.
    pause: usize,
    next_pause: usize,
}

/// A request that can have a draft.
pub(super) struct Job {
    request: RequestId,
    /// The tokens from the first one on that is not in the cache.
    tokens: Vec<TokenId>,
    first: usize,
    temperature: f32,
    seed: u64,
    length: usize,
}

impl Job {
    /// How the token after all known ones and `drafted` others is sampled.
    fn sampling(&self, drafted: usize) -> GpuSampling {
        let draw = narrow(self.first + self.tokens.len() + drafted);
        GpuSampling { temperature: self.temperature, seed: self.seed, draw }
    }
}

impl Drafted {
    fn new() -> Self {
        Self { blocks: Vec::new(), known: 0, draft: Vec::new(), length: FIRST_DRAFT, pause: 0, next_pause: 1 }
    }

    /// Compares the last draft with what the text has become.
    fn observe(&mut self, tokens: &[TokenId]) {
        let draft = std::mem::take(&mut self.draft);
        let following = tokens.get(self.known..).unwrap_or_default();
        let right = draft.iter().zip(following).take_while(|(a, b)| a == b).count();
        if !draft.is_empty() {
            self.record(draft.len(), right);
        }
        // The last token of a draft was not computed, and one row must follow.
        let computed = self.known + right.min(draft.len().saturating_sub(1));
        self.known = computed.min(tokens.len().saturating_sub(1));
    }

    /// The next draft is longer after one that was right, shorter after one that was not, and waits after one of which nothing was.
    fn record(&mut self, drafted: usize, right: usize) {
        if right >= drafted {
            self.length = (self.length * 2).min(MAX_DRAFT);
            self.next_pause = 1;
        } else if right > 0 {
            self.length = (right + 1).min(MAX_DRAFT);
            self.next_pause = 1;
        } else {
            self.length = 2;
            self.pause = self.next_pause;
            self.next_pause = (2 * self.next_pause).min(MAX_PAUSE);
        }
    }
}

impl Drafter {
    pub(super) fn new(model: PagedModel) -> Self {
        let free = (0..model.sizes().blocks).rev().collect();
        Self { model, sequences: HashMap::new(), free }
    }

    /// Forgets requests that have ended, and returns those that can have a draft now.
    pub(super) fn jobs(&mut self, state: &State) -> Vec<Job> {
        let free = &mut self.free;
        self.sequences.retain(|request, own| {
            let lives = state.active.contains_key(request);
            if !lives {
                free.append(&mut own.blocks);
            }
            lives
        });
        let (waiting, rows) = state.scheduler.awaiting_drafts();
        let length = rows.checked_div(waiting.len()).unwrap_or(0).min(MAX_DRAFT);
        if length == 0 {
            return Vec::new();
        }
        waiting.into_iter().filter_map(|request| self.job(state, request, length)).collect()
    }

    fn job(&mut self, state: &State, request: RequestId, most: usize) -> Option<Job> {
        let (tokens, active) = (state.scheduler.tokens(request)?, state.active.get(&request)?);
        if !self.sequences.contains_key(&request) && self.sequences.len() >= MAX_DRAFTED as usize {
            return None;
        }
        let own = self.sequences.entry(request).or_insert_with(Drafted::new);
        own.observe(tokens);
        if own.pause > 0 {
            own.pause -= 1;
            return None;
        }
        let length = own.length.min(most);
        let end = tokens.len() + length;
        let missing = blocks_for(end).saturating_sub(own.blocks.len());
        if end > self.model.context_length() as usize || missing > self.free.len() {
            return None;
        }
        own.blocks.extend(self.free.split_off(self.free.len() - missing));
        // What the host samples is drafted greedily.
        let temperature = if active.on_host { 0.0 } else { active.sampling.temperature };
        let (first, seed) = (own.known, active.sampling.seed);
        Some(Job { request, tokens: tokens[first..].to_vec(), first, temperature, seed, length })
    }

    /// Drafts tokens for requests. One whose prompt takes more steps has none yet.
    pub(super) fn draft(&mut self, jobs: &[Job]) -> Result<Vec<(RequestId, Vec<TokenId>)>> {
        let mut drafts: Vec<Vec<TokenId>> = vec![Vec::new(); jobs.len()];
        let mut in_flight: VecDeque<(Vec<usize>, PendingSamples)> = VecDeque::new();
        let mut rows = self.first_rows(jobs);
        let mut step = 0;
        while !rows.is_empty() {
            let pending = self.model.start(&rows.step())?;
            step += 1;
            let next = self.next_rows(jobs, &rows.owners, step);
            in_flight.push_back((std::mem::replace(&mut rows, next).owners, pending));
            while in_flight.len() >= IN_FLIGHT || (rows.is_empty() && !in_flight.is_empty()) {
                let Some((owners, pending)) = in_flight.pop_front() else { break };
                let sampled = pteron::block_on(pending.wait())?.tokens;
                for (owner, token) in owners.into_iter().zip(sampled) {
                    drafts[owner].extend(token);
                }
            }
        }
        let mut proposals = Vec::with_capacity(jobs.len());
        for (job, draft) in jobs.iter().zip(drafts) {
            let Some(own) = self.sequences.get_mut(&job.request) else { continue };
            // Rows of a token that is not one are not used again.
            let whole = draft.len() == job.length && draft.iter().all(|token| *token < self.model.vocab_size());
            own.draft = if whole { draft } else { Vec::new() };
            if whole {
                proposals.push((job.request, own.draft.clone()));
            }
        }
        Ok(proposals)
    }

    /// Rows that the cache lacks. Where they are those of all known tokens, the next one is sampled.
    fn first_rows(&mut self, jobs: &[Job]) -> PagedRows {
        let mut rows = PagedRows::default();
        let most = self.model.sizes().max_rows as usize;
        for (index, job) in jobs.iter().enumerate() {
            let count = job.tokens.len().min(most - rows.len());
            let Some(own) = self.sequences.get_mut(&job.request).filter(|_| count > 0) else { continue };
            own.known = job.first + count;
            rows.begin(&own.blocks, job.first, count);
            job.tokens[..count].iter().for_each(|token| rows.push(PagedToken::Known(*token)));
            if count == job.tokens.len() {
                rows.sample(index, job.sampling(0));
            }
        }
        rows
    }

    /// A row for each request whose draft goes on, with the token that the step before sampled.
    fn next_rows(&self, jobs: &[Job], before: &[usize], step: usize) -> PagedRows {
        let mut rows = PagedRows::default();
        for (sample, &index) in (0..).zip(before) {
            let job = &jobs[index];
            let Some(own) = self.sequences.get(&job.request).filter(|_| step < job.length) else { continue };
            rows.begin(&own.blocks, job.first + job.tokens.len() + step - 1, 1);
            rows.push(PagedToken::Sampled(sample));
            rows.sample(index, job.sampling(step));
        }
        rows
    }
}

/// The blocks of a draft model's cache: a whole context, or texts of a usual length for all requests that it drafts for.
pub(super) fn blocks(context: u32) -> u32 {
    let of = |positions: u32| positions.div_ceil(BLOCK_POSITIONS).max(1);
    of(context).max(MAX_DRAFTED * of(context.min(USUAL_POSITIONS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_wrong_drafts_are_computed_again() {
        let mut own = Drafted { known: 4, draft: vec![7, 8, 9], ..Drafted::new() };
        // 7 and 8 were right; the row of 9 was never computed, and that of 8 was.
        own.observe(&[1, 2, 3, 4, 7, 8, 5]);
        assert_eq!((own.known, own.length, own.pause), (6, 3, 0));
        let mut own = Drafted { known: 4, draft: vec![7, 8], ..Drafted::new() };
        own.observe(&[1, 2, 3, 4, 7, 8, 9]);
        assert_eq!((own.known, own.length), (5, 8), "all were right");
        let mut own = Drafted { known: 4, draft: vec![7, 8], ..Drafted::new() };
        own.observe(&[1, 2, 3, 4, 5]);
        assert_eq!((own.known, own.length, own.pause, own.next_pause), (4, 2, 1, 2));
        own.observe(&[1, 2, 3, 4, 5, 6]);
        assert_eq!((own.known, own.pause), (4, 1), "without a draft nothing is learned");
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut own = Drafted::new();
        (0..10).for_each(|_| own.record(2, 0));
        assert_eq!((own.pause, own.next_pause), (32, 32));
        own.record(2, 2);
        assert_eq!((own.length, own.next_pause), (4, 1));
    }
}
