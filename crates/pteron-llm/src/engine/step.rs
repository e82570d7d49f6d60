//! A planned step, as the model takes it.

use std::collections::HashMap;
use std::ops::Range;

use pteron::SequenceRows;

use crate::adapters::AdapterId;
use crate::batch::{self, PlannedStep, RequestId, RowToken, SampleRow, Slot};
use crate::decode_step::GpuSampling;
use crate::error::{Error, Result};
use crate::paged_model::{PagedSample, PagedStep, PagedToken};
use crate::tokenizer::TokenId;

/// Where the model holds adapters, by the id that the scheduler knows.
pub(super) type AdapterSlots = HashMap<batch::AdapterId, AdapterId>;

/// The samples of one sequence in a step.
#[derive(Clone, Debug)]
pub(super) struct SequenceSamples {
    pub(super) request: RequestId,
    /// Its samples among those of the batch.
    pub(super) samples: Range<usize>,
    /// The draft token after each of its samples but the last.
    pub(super) draft: Vec<TokenId>,
    /// Whether the host samples its tokens.
    pub(super) on_host: bool,
}

/// A step with its samples in the order in which the model takes them: those of the host first, because their logits are read back.
#[derive(Debug)]
pub(super) struct ModelStep {
    pub(super) id: u64,
    pub(super) sequences: Vec<SequenceSamples>,
    /// The samples in the order of the batch.
    pub(super) samples: Vec<SampleRow>,
    /// For each sample of the model its index in the batch.
    pub(super) order: Vec<usize>,
    /// The number of samples whose logits are read back.
    pub(super) host_samples: usize,
    tokens: Vec<PagedToken>,
    rows: Vec<SequenceRows>,
    block_tables: Vec<u32>,
    model_samples: Vec<PagedSample>,
    copies: Vec<[u32; 2]>,
    /// The adapter of each sequence.
    adapters: Vec<Option<AdapterId>>,
}

impl ModelStep {
    /// Translates a planned step. `previous` is the step before it.
    pub(super) fn new(planned: PlannedStep, on_host: &[bool], previous: &Feedback, slots: &AdapterSlots) -> Result<Self> {
        let PlannedStep { id, step, requests, adapters } = planned;
        let mut sequences = Vec::with_capacity(requests.len());
        let mut first = 0;
        for ((rows, &request), &on_host) in step.sequences.iter().zip(&requests).zip(on_host) {
            let end = rows.first_row + rows.row_count;
            let count = step.samples[first..].iter().take_while(|sample| sample.row < end).count();
            let samples = first..first + count;
            first = samples.end;
            // A row after a sampled one holds the draft token that the sample is compared with.
            let drafted = step.samples[samples.clone()].iter().skip(1).map(|sample| step.tokens[sample.row as usize]);
            let draft = drafted.filter_map(|token| if let RowToken::Known(token) = token { Some(token) } else { None });
            let draft = draft.collect();
            sequences.push(SequenceSamples { request, samples, draft, on_host });
        }
        let of = |host: bool| sequences.iter().filter(move |own| own.on_host == host).flat_map(|own| own.samples.clone());
        let order: Vec<usize> = of(true).chain(of(false)).collect();
        let host_samples = of(true).count();
        let mut model_samples: Vec<_> = order.iter().map(|&index| model_sample(&step.samples[index])).collect();
        if model_samples.is_empty() {
            // A step that only computes a part of a prompt reads back a token all the same: to know when it has run.
            model_samples.push(PagedSample { row: 0, sampling: GpuSampling::GREEDY });
        }
        let token = |token: &RowToken| match *token {
            RowToken::Known(token) => Ok(PagedToken::Known(token)),
            RowToken::Feedback(slot) => previous.sample(slot).map(PagedToken::Sampled),
        };
        let rows = step.sequences.iter().map(|rows| SequenceRows {
            first_row: rows.first_row,
            row_count: rows.row_count,
            position: rows.position,
            block_table_offset: rows.block_table_offset,
        });
        let adapter = |id: &batch::AdapterId| {
            slots.get(id).copied().ok_or_else(|| Error::Misuse("a step has an adapter that was unloaded".to_owned()))
        };
        Ok(Self {
            id,
            adapters: adapters.iter().map(|id| id.as_ref().map(adapter).transpose()).collect::<Result<_>>()?,
            tokens: step.tokens.iter().map(token).collect::<Result<_>>()?,
            rows: rows.collect(),
            block_tables: step.block_tables,
            model_samples,
            copies: step.copies.iter().map(|copy| [copy.from, copy.to]).collect(),
            sequences,
            samples: step.samples,
            order,
            host_samples,
        })
    }

    /// The step as the model takes it.
    pub(super) fn paged(&self) -> PagedStep<'_> {
        PagedStep {
            tokens: &self.tokens,
            sequences: &self.rows,
            block_tables: &self.block_tables,
            samples: &self.model_samples,
            copies: &self.copies,
            adapters: &self.adapters,
        }
    }

    /// Where the next step finds this one's samples.
    pub(super) fn feedback(&self) -> Feedback {
        Feedback((0..).zip(&self.order).map(|(index, &sample)| (self.samples[sample].slot, index)).collect())
    }
}

fn model_sample(sample: &SampleRow) -> PagedSample {
    let (temperature, seed) = (sample.sampling.temperature, sample.sampling.seed);
    PagedSample { row: sample.row, sampling: GpuSampling { temperature, seed, draw: sample.position } }
}

/// The samples of a step, by slot.
#[derive(Debug, Default)]
pub(super) struct Feedback(Vec<(Slot, u32)>);

impl Feedback {
    fn sample(&self, slot: Slot) -> Result<u32> {
        let found = self.0.iter().find(|(own, _)| *own == slot).map(|(_, index)| *index);
        found.ok_or_else(|| Error::Misuse(format!("slot {} has no sample in the step before", slot.0)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::batch::{Request, Scheduler, SchedulerConfig};

    fn is_sampled(token: &PagedToken) -> Option<u32> {
        if let PagedToken::Sampled(index) = token { Some(*index) } else { None }
    }

    #[test]
    fn samples_of_the_host_come_first_and_are_not_fed_back() {
        let mut scheduler = Scheduler::new(SchedulerConfig::new(64, 128, 100));
        let on_host = [false, true, false];
        for sampled_by_caller in on_host {
            let request = Request { sampled_by_caller, ..Request::new(vec![1, 2, 3]) };
            scheduler.submit(request, Duration::ZERO).unwrap();
        }
        let first = scheduler.plan_step(Duration::ZERO).unwrap();
        let first = ModelStep::new(first, &on_host, &Feedback::default(), &AdapterSlots::new()).unwrap();
        assert_eq!((first.order.as_slice(), first.host_samples), (&[1, 0, 2][..], 1));
        assert_eq!(first.paged().samples.iter().map(|sample| sample.row).collect::<Vec<_>>(), [5, 2, 8]);
        // The next step, while the first is in flight: without the sequence whose token the host samples.
        let second = scheduler.plan_step(Duration::ZERO).unwrap();
        let second = ModelStep::new(second, &[false, false], &first.feedback(), &AdapterSlots::new()).unwrap();
        assert_eq!(second.paged().tokens.iter().map(is_sampled).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert_eq!(second.sequences.iter().map(|own| own.samples.clone()).collect::<Vec<_>>(), [0..1, 1..2]);
    }

    #[test]
    fn a_token_that_no_step_sampled_is_an_error() {
        let mut scheduler = Scheduler::new(SchedulerConfig::new(64, 128, 100));
        scheduler.submit(Request::new(vec![1]), Duration::ZERO).unwrap();
        scheduler.plan_step(Duration::ZERO).unwrap();
        let second = scheduler.plan_step(Duration::ZERO).unwrap();
        assert!(ModelStep::new(second, &[false], &Feedback::default(), &AdapterSlots::new()).is_err());
    }

    #[test]
    fn a_step_without_samples_has_one_of_nobody() {
        let mut scheduler = Scheduler::new(SchedulerConfig { max_rows: 4, ..SchedulerConfig::new(64, 128, 100) });
        scheduler.submit(Request::new(vec![1; 10]), Duration::ZERO).unwrap();
        let step = ModelStep::new(
            scheduler.plan_step(Duration::ZERO).unwrap(),
            &[false],
            &Feedback::default(),
            &AdapterSlots::new(),
        )
        .unwrap();
        assert_eq!((step.paged().samples.len(), step.order.len(), step.samples.len()), (1, 0, 0));
    }
}
