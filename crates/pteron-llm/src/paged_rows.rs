//! The rows of a step of a [`PagedModel`](crate::paged_model::PagedModel), as they are collected.

use pteron::SequenceRows;

use crate::decode_step::GpuSampling;
use crate::paged_model::{PagedSample, PagedStep, PagedToken};

/// The rows of a step, of which some are sampled.
#[derive(Default)]
pub(crate) struct PagedRows {
    tokens: Vec<PagedToken>,
    sequences: Vec<SequenceRows>,
    block_tables: Vec<u32>,
    samples: Vec<PagedSample>,
    /// Whom each sample is for, by the caller's index. There may be a last sample that is for nobody.
    pub(crate) owners: Vec<usize>,
}

impl PagedRows {
    /// The rows so far.
    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Begins the rows of a sequence, whose tokens follow.
    pub(crate) fn begin(&mut self, blocks: &[u32], position: usize, row_count: usize) {
        self.sequences.push(SequenceRows {
            first_row: narrow(self.tokens.len()),
            row_count: narrow(row_count),
            position: narrow(position),
            block_table_offset: narrow(self.block_tables.len()),
        });
        self.block_tables.extend(blocks);
    }

    /// Adds the row of a token.
    pub(crate) fn push(&mut self, token: PagedToken) {
        self.tokens.push(token);
    }

    /// Samples after the last row.
    pub(crate) fn sample(&mut self, owner: usize, sampling: GpuSampling) {
        self.samples.push(PagedSample { row: narrow(self.tokens.len().saturating_sub(1)), sampling });
        self.owners.push(owner);
    }

    /// The step. It has at least one sample, for nobody if need be: a step reads back a token all the same.
    pub(crate) fn step(&mut self) -> PagedStep<'_> {
        if self.samples.is_empty() {
            self.samples.push(PagedSample { row: 0, sampling: GpuSampling::GREEDY });
        }
        PagedStep {
            tokens: &self.tokens,
            sequences: &self.sequences,
            block_tables: &self.block_tables,
            samples: &self.samples,
            ..PagedStep::default()
        }
    }
}

/// A count of rows or positions, which the sizes of a paged model bound.
pub(crate) fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
