//! Planning a step: decode rows first, then prefill chunks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use super::pool::{AdapterId, BLOCK};
use super::request::RequestId;
use super::scheduler::Scheduler;
use super::sequence::{Prefix, Sequence};
use super::step::{BatchStep, BlockCopy, RowToken, SampleRow, SequenceRows, narrow};
use crate::tokenizer::TokenId;

/// A step to run, and whose rows it has.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// The number of the step. Steps run and finish in this order.
    pub id: u64,
    /// The rows.
    pub step: BatchStep,
    /// The request of each of the step's sequences.
    pub requests: Vec<RequestId>,
    /// The LoRA adapter of each of the step's sequences.
    pub adapters: Vec<Option<AdapterId>>,
}

/// A step whose results have not arrived.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) id: u64,
    pub(super) rows: Vec<PlannedRows>,
    pub(super) samples: usize,
}

/// The rows of one sequence in a step.
#[derive(Clone, Debug)]
pub(super) struct PlannedRows {
    pub(super) request: RequestId,
    pub(super) text_version: u64,
    pub(super) blocks_version: u64,
    pub(super) position: usize,
    pub(super) count: usize,
    /// Whether the token after its last row is sampled; with a draft, the token after each row.
    pub(super) sampled: bool,
    /// Whether the token of its row is fed back.
    feedback: bool,
    pub(super) draft: Vec<TokenId>,
    /// Its samples among those of the step.
    pub(super) samples: Range<usize>,
    /// Copies before the step. Their sources are pinned until the step is planned.
    copies: Vec<BlockCopy>,
}

/// The step that is being planned.
#[derive(Debug, Default)]
struct StepPlan {
    rows: Vec<PlannedRows>,
    count: usize,
    /// Requests that do not run in this step.
    skip: BTreeSet<RequestId>,
}

impl Scheduler {
    /// Plans the next step, while earlier ones are in flight. Returns `None` if as many steps as allowed are in flight, or nothing can
    /// run before one of them finishes.
    pub fn plan_step(&mut self, now: Duration) -> Option<PlannedStep> {
        self.expire(now);
        if self.in_flight.len() >= self.config.max_in_flight {
            return None;
        }
        let mut plan = StepPlan::default();
        self.plan_decode(&mut plan);
        self.plan_prefill(&mut plan, now);
        if plan.rows.is_empty() {
            return None;
        }
        let copies = plan.rows.iter().flat_map(|rows| &rows.copies);
        copies.for_each(|copy| self.pool.unpin(copy.from));
        let planned = self.write_step(&mut plan.rows);
        self.statistics.steps += 1;
        self.statistics.rows += planned.step.tokens.len() as u64;
        self.next_step += 1;
        self.in_flight.push_back(InFlight { id: planned.id, rows: plan.rows, samples: planned.step.samples.len() });
        Some(planned)
    }

    /// One row, and draft tokens where they pay, for each running sequence that only lacks the row of its last token. Where the row
    /// limit does not admit all, those go first whose last row is longest ago.
    fn plan_decode(&mut self, plan: &mut StepPlan) {
        let previous = self.next_step.checked_sub(1);
        let sequences = self.running.iter().map(|id| &self.sequences[id]);
        let ready = sequences.filter(|sequence| sequence.remaining() == 1 && sequence.can_decode(previous));
        let mut ready: Vec<_> = ready.map(|sequence| (sequence.last_step, sequence.id)).collect();
        ready.sort_unstable();
        ready.truncate(self.config.max_rows);
        let mut draft_rows = self.config.max_draft_rows.min(self.config.max_rows).saturating_sub(ready.len());
        for (_, request) in ready {
            // An earlier one may have taken its blocks.
            if !self.running.contains(&request) {
                continue;
            }
            let draft = self.sequences[&request].draft(draft_rows);
            let drafted = draft.len();
            let position = self.sequences[&request].length() - 1;
            // A draft is worth no other sequence's blocks.
            let fits = drafted > 0 && self.reserve(plan, request, position, position + 1 + drafted, false);
            if fits {
                draft_rows -= drafted;
                self.add_rows(plan, request, position + 1 + drafted, draft);
            } else if self.reserve(plan, request, position, position + 1, true) {
                self.add_rows(plan, request, position + 1, Vec::new());
            }
        }
    }

    /// Prefill chunks of running and queued requests, until the rows are used up.
    fn plan_prefill(&mut self, plan: &mut StepPlan, now: Duration) {
        let mut admit = true;
        while plan.count < self.config.max_rows {
            let Some(request) = self.next_prefill(plan, now, admit) else { return };
            plan.skip.insert(request);
            let Some(sequence) = self.sequences.get_mut(&request) else { continue };
            let (queued, had) = (sequence.slot.is_none(), sequence.computed);
            if sequence.pending > 0 || sequence.verifying || sequence.prefill_end() <= sequence.planned {
                continue;
            }
            let prefix = sequence.adopt_cached(&mut self.pool);
            if queued && (prefix == Prefix::Computing || !self.admit(request)) {
                admit &= prefix == Prefix::Computing;
                // Only running requests keep what the cache has of them.
                self.sequences.get_mut(&request).into_iter().for_each(|sequence| sequence.drop_blocks(&mut self.pool, had));
                continue;
            }
            let sequence = &self.sequences[&request];
            self.statistics.hit_positions += (sequence.computed - had) as u64;
            if prefix == Prefix::Computing {
                continue;
            }
            let (start, end) = (sequence.planned, self.chunk_end(plan, sequence));
            if end > start && self.reserve(plan, request, start, end, true) {
                self.add_rows(plan, request, end, Vec::new());
            }
        }
    }

    /// The next request to prefill: those that have waited long in the order of arrival, then those of the key that was given least.
    fn next_prefill(&self, plan: &StepPlan, now: Duration, admit: bool) -> Option<RequestId> {
        let running = self.running.iter().copied().filter(|id| {
            let sequence = &self.sequences[id];
            sequence.remaining() > 1 && sequence.pending == 0 && !sequence.verifying && !plan.skip.contains(id)
        });
        let admit = admit && !self.free_slots.is_empty();
        let queued = admit.then(|| self.queue.heads(&plan.skip)).into_iter().flatten();
        running.chain(queued).min_by_key(|id| {
            let sequence = &self.sequences[id];
            let aged = now.saturating_sub(sequence.arrival) >= self.config.aging;
            let share = if aged { 0 } else { self.queue.rows(sequence.request.key) };
            (!aged, share, sequence.slot.is_none(), *id)
        })
    }

    /// The end of the next chunk: within the limits on rows, at the end of a block where the prompt goes on, and within the blocks
    /// that can be had without preemption, as long as that is one row.
    fn chunk_end(&self, plan: &StepPlan, sequence: &Sequence) -> usize {
        let start = sequence.planned;
        let rows = self.config.max_chunk.max(1).min(self.config.max_rows - plan.count);
        let whole = sequence.prefill_end();
        let mut end = whole.min(start + rows);
        while end > start + 1 && sequence.table.blocks_needed(&self.pool, start, end) > self.pool.available() {
            end = ((end - 1) / BLOCK * BLOCK).max(start + 1);
        }
        let aligned = end / BLOCK * BLOCK;
        if end < whole && aligned > start { aligned } else { end }
    }

    /// Gives a queued request a slot, if the pool has room for its tokens, and for one more block of each running sequence.
    fn admit(&mut self, request: RequestId) -> bool {
        loop {
            let sequence = &self.sequences[&request];
            let end = (sequence.tokens.len() + 1).min(sequence.limit - 1);
            let needed = sequence.table.blocks_needed(&self.pool, sequence.planned, end) + self.running.len();
            if needed <= self.pool.available() {
                break;
            }
            if !self.running.is_empty() || !self.drop_queued_blocks(request) {
                return false;
            }
        }
        let Some(slot) = self.free_slots.pop() else { return false };
        let Some(sequence) = self.sequences.get_mut(&request) else { return false };
        sequence.slot = Some(slot);
        self.statistics.prompt_positions += sequence.tokens.len() as u64;
        self.queue.remove(sequence.request.key, request);
        self.queued_with_blocks.remove(&request);
        self.running.insert(request);
        true
    }

    /// Reserves blocks for the rows of a request, at the cost of younger ones if `preempt`. Adds its copies to the plan on success.
    fn reserve(&mut self, plan: &mut StepPlan, request: RequestId, from: usize, to: usize, preempt: bool) -> bool {
        loop {
            let Some(sequence) = self.sequences.get_mut(&request) else { return false };
            if let Ok(reservation) = sequence.table.reserve(&mut self.pool, from, to) {
                let rows = PlannedRows {
                    request,
                    text_version: sequence.text_version,
                    blocks_version: sequence.blocks_version,
                    position: from,
                    count: to - from,
                    sampled: false,
                    feedback: false,
                    draft: Vec::new(),
                    samples: 0..0,
                    copies: reservation.copies,
                };
                plan.rows.push(rows);
                return true;
            }
            if !preempt || !(self.drop_queued_blocks(request) || self.preempt_younger(plan, request)) {
                return false;
            }
        }
    }

    /// Completes the rows that were reserved last.
    fn add_rows(&mut self, plan: &mut StepPlan, request: RequestId, end: usize, draft: Vec<TokenId>) {
        let (Some(sequence), Some(rows)) = (self.sequences.get_mut(&request), plan.rows.last_mut()) else { return };
        rows.sampled = end - draft.len() == sequence.length();
        rows.feedback = sequence.pending > 0;
        sequence.planned = end;
        sequence.last_step = Some(self.next_step);
        sequence.verifying = !draft.is_empty();
        sequence.pending += usize::from(rows.sampled && draft.is_empty());
        rows.draft = draft;
        sequence.table.claim(&mut self.pool, &sequence.tokens, end);
        plan.count += rows.count;
        self.queue.charge(sequence.request.key, rows.count);
    }

    /// Drops the blocks of the youngest queued request that has some.
    fn drop_queued_blocks(&mut self, but: RequestId) -> bool {
        let Some(victim) = self.queued_with_blocks.iter().rev().copied().find(|id| *id != but) else { return false };
        self.queued_with_blocks.remove(&victim);
        self.sequences.get_mut(&victim).into_iter().for_each(|sequence| sequence.drop_blocks(&mut self.pool, 0));
        true
    }

    /// Queues the youngest running request again if it is younger than this one, and drops its blocks and planned rows.
    fn preempt_younger(&mut self, plan: &mut StepPlan, than: RequestId) -> bool {
        let Some(&victim) = self.running.last().filter(|&&id| id > than) else { return false };
        if let Some(index) = plan.rows.iter().position(|rows| rows.request == victim) {
            let rows = plan.rows.remove(index);
            plan.count -= rows.count;
            rows.copies.iter().for_each(|copy| self.pool.unpin(copy.from));
            if let Some(sequence) = self.sequences.get_mut(&victim) {
                sequence.verifying = false;
                sequence.pending -= usize::from(rows.sampled && rows.draft.is_empty());
            }
        }
        plan.skip.insert(victim);
        self.statistics.preemptions += 1;
        self.queue_again(victim);
        true
    }

    /// Takes slot and blocks from a running request. It continues from its tokens later.
    pub(super) fn queue_again(&mut self, request: RequestId) {
        let Some(sequence) = self.sequences.get_mut(&request) else { return };
        sequence.drop_blocks(&mut self.pool, 0);
        self.free_slots.extend(sequence.slot.take());
        self.running.remove(&request);
        self.queued_with_blocks.remove(&request);
        self.queue.push(sequence.request.key, request);
    }

    /// Writes the planned rows as the GPU takes them.
    fn write_step(&self, plan: &mut [PlannedRows]) -> PlannedStep {
        let mut step = BatchStep::default();
        let (mut requests, mut adapters) = (Vec::new(), Vec::new());
        for rows in plan {
            let sequence = &self.sequences[&rows.request];
            requests.push(rows.request);
            adapters.push(sequence.request.scope.adapter);
            let first_row = step.tokens.len();
            step.sequences.push(SequenceRows {
                first_row: narrow(first_row),
                row_count: narrow(rows.count),
                position: narrow(rows.position),
                block_table_offset: narrow(step.block_tables.len()),
            });
            step.block_tables.extend_from_slice(sequence.table.blocks());
            step.copies.extend_from_slice(&rows.copies);
            let samples = step.samples.len();
            write_rows(&mut step, sequence, rows);
            rows.samples = samples..step.samples.len();
        }
        PlannedStep { id: self.next_step, step, requests, adapters }
    }
}

/// Writes the tokens and samples of one sequence.
fn write_rows(step: &mut BatchStep, sequence: &Sequence, rows: &PlannedRows) {
    let Some(slot) = sequence.slot else { return };
    let first_row = step.tokens.len();
    if rows.feedback {
        step.tokens.push(RowToken::Feedback(slot));
    } else {
        let known = &sequence.tokens[rows.position..rows.position + rows.count - rows.draft.len()];
        step.tokens.extend(known.iter().chain(&rows.draft).copied().map(RowToken::Known));
    }
    if rows.sampled {
        let first = rows.count - 1 - rows.draft.len();
        step.samples.extend((first..rows.count).map(|row| SampleRow {
            row: narrow(first_row + row),
            slot,
            position: narrow(rows.position + row + 1),
            sampling: sequence.sampling(),
            allowed: sequence.mask.clone(),
            history: sequence.history(&rows.draft[..row - first]),
        }));
    }
}
