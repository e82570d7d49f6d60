//! The rows of one call of the model.
//!
//! A step is plain data: the scheduler writes it, and the GPU side uploads it. Steps run in the order in which they were planned,
//! and within a step the copies come first.

use std::sync::Arc;

use crate::sampling::Sampling;
use crate::tokenizer::TokenId;

/// The number of positions in a block of the KV cache.
pub const BLOCK_POSITIONS: u32 = 32;

/// The rows of one call of the model: decode rows and prefill chunks of many sequences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchStep {
    /// The token of each row.
    pub tokens: Vec<RowToken>,
    /// The sequences, in the order of their rows. Every row belongs to exactly one of them.
    pub sequences: Vec<SequenceRows>,
    /// Physical block ids. Those of a sequence start at its offset and cover every position up to its last row.
    pub block_tables: Vec<u32>,
    /// The rows whose logits are sampled, in ascending order.
    pub samples: Vec<SampleRow>,
    /// Blocks to copy before the step. No block is read by one copy and written by another, so they may run in any order.
    pub copies: Vec<BlockCopy>,
}

/// The token of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowToken {
    /// A token that the host knows.
    Known(TokenId),
    /// The token sampled for this slot in the previous step, which had exactly one sample for it. The GPU feeds it back.
    Feedback(Slot),
}

/// The number of a running sequence, below the most sequences that run at once. It is reused when the sequence has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The rows of a sequence in a step: consecutive positions in consecutive rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRows {
    /// The first row.
    pub first_row: u32,
    /// The number of rows, at least one.
    pub row_count: u32,
    /// The position of the first row. All positions before it are in the KV cache.
    pub position: u32,
    /// The index of its first block in [`BatchStep::block_tables`].
    pub block_table_offset: u32,
}

/// A row whose logits are sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleRow {
    /// The row.
    pub row: u32,
    /// The slot of its sequence. A sequence with draft tokens has several samples, one per row.
    pub slot: Slot,
    /// The position of the sampled token. Random noise depends on the seed, this position and the token id only.
    pub position: u32,
    /// The sampling parameters.
    pub sampling: Arc<Sampling>,
    /// A bit per token, least significant first: whether it may be sampled. `None` allows all.
    pub allowed: Option<TokenMask>,
    /// The tokens before the sampled one, by ascending id; empty unless the sampling parameters have penalties.
    pub history: Vec<TokenUse>,
}

/// A bit per token of the vocabulary, least significant bit of the first word first.
pub type TokenMask = Arc<[u32]>;

/// How often a token occurs before the sampled one, for penalties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// The token.
    pub token: TokenId,
    /// Whether the prompt contains it.
    pub in_prompt: bool,
    /// How often it was generated.
    pub generated: u32,
}

/// A copy of all positions of a block, in every layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// The block that is read.
    pub from: u32,
    /// The block that is written.
    pub to: u32,
}

/// The number of blocks that hold this many positions.
#[must_use]
pub const fn blocks_for(positions: usize) -> usize {
    positions.div_ceil(BLOCK_POSITIONS as usize)
}

/// Narrows a row, a position or an offset for the GPU.
#[expect(clippy::expect_used, reason = "contexts and pools are given as u32, and rows are limited by them")]
pub(super) fn narrow(value: usize) -> u32 {
    u32::try_from(value).expect("positions, rows and block offsets of a step fit 32 bits")
}
