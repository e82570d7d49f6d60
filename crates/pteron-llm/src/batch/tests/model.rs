//! A model whose KV cache entry is a hash of all tokens up to its position, and whose samples are functions of a sequence's own text.

use std::collections::BTreeSet;

use crate::batch::{BLOCK_POSITIONS, BatchStep, PlannedStep, RowToken, TokenUse};
use crate::sampling::Sampling;
use crate::tokenizer::TokenId;

pub(super) const VOCABULARY: u32 = 40;
const BLOCK: usize = BLOCK_POSITIONS as usize;

pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_add(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The entry of a token after those that `before` stands for; the first one follows the adapter.
pub(super) fn entry(before: u64, token: TokenId) -> u64 {
    mix(before, u64::from(token))
}

pub(super) fn root(adapter: Option<u32>) -> u64 {
    adapter.map_or(1, |adapter| 2 + u64::from(adapter))
}

/// The next token. Texts with an even seed are periodic, so that drafts are often right.
pub(super) fn sample(
    hash: u64,
    last: TokenId,
    position: u32,
    sampling: &Sampling,
    history: &[TokenUse],
    mask: Option<&[u32]>,
) -> TokenId {
    let seed = sampling.seed;
    let free = mix(mix(hash, seed), u64::from(position));
    let mut x = if seed.is_multiple_of(2) { u64::from(last) * 7 + seed + 3 } else { free };
    for used in history {
        x = mix(x, u64::from(used.token) * 4 + u64::from(used.in_prompt) + mix(7, u64::from(used.generated)));
    }
    let allowed = |token: u32| mask.is_none_or(|mask| mask[token as usize / 32] >> (token % 32) & 1 == 1);
    let first = u32::try_from(x % u64::from(VOCABULARY)).unwrap();
    (0..VOCABULARY).map(|offset| (first + offset) % VOCABULARY).find(|&token| allowed(token)).unwrap()
}

/// The GPU: blocks of entries, and the last token of each slot.
pub(super) struct SimulatedGpu {
    blocks: Vec<[(u64, TokenId); BLOCK]>,
    slots: Vec<Option<TokenId>>,
    pub(super) copies: usize,
}

impl SimulatedGpu {
    pub(super) fn new(blocks: u32, slots: u32) -> Self {
        Self { blocks: vec![[(0, 0); BLOCK]; blocks as usize], slots: vec![None; slots as usize], copies: 0 }
    }

    /// Runs a step and checks everything it promises.
    pub(super) fn run(&mut self, planned: &PlannedStep) -> Vec<TokenId> {
        let step = &planned.step;
        self.copy(step);
        let before = self.check_reads(planned);
        check_writers(step);
        let mut hashes = Vec::new();
        let mut tokens = Vec::new();
        for (rows, mut hash) in step.sequences.iter().zip(before) {
            assert_eq!(rows.first_row as usize, tokens.len(), "rows are consecutive");
            assert!(rows.row_count > 0);
            for row in 0..rows.row_count {
                let token = match step.tokens[(rows.first_row + row) as usize] {
                    RowToken::Known(token) => token,
                    RowToken::Feedback(slot) => self.slots[slot.0 as usize].expect("one sample in the previous step"),
                };
                hash = entry(hash, token);
                let position = (rows.position + row) as usize;
                let block = step.block_tables[rows.block_table_offset as usize + position / BLOCK];
                self.blocks[block as usize][position % BLOCK] = (hash, token);
                hashes.push(hash);
                tokens.push(token);
            }
        }
        assert_eq!(tokens.len(), step.tokens.len());
        self.sample(step, &hashes, &tokens)
    }

    fn copy(&mut self, step: &BatchStep) {
        let from: BTreeSet<u32> = step.copies.iter().map(|copy| copy.from).collect();
        let to: BTreeSet<u32> = step.copies.iter().map(|copy| copy.to).collect();
        assert!(from.is_disjoint(&to) && to.len() == step.copies.len(), "copies depend on each other");
        for copy in &step.copies {
            self.blocks[copy.to as usize] = self.blocks[copy.from as usize];
            self.copies += 1;
        }
    }

    /// Reads all positions before each sequence's rows, and returns the last hash.
    fn check_reads(&self, planned: &PlannedStep) -> Vec<u64> {
        let sequences = planned.step.sequences.iter().zip(&planned.adapters);
        let read = sequences.map(|(rows, adapter)| {
            (0..rows.position as usize).fold(root(adapter.map(|adapter| adapter.0)), |hash, position| {
                let block = planned.step.block_tables[rows.block_table_offset as usize + position / BLOCK];
                let (stored, token) = self.blocks[block as usize][position % BLOCK];
                assert_eq!(stored, entry(hash, token), "position {position} of block {block} belongs to another text");
                stored
            })
        });
        read.collect()
    }

    fn sample(&mut self, step: &BatchStep, hashes: &[u64], tokens: &[TokenId]) -> Vec<TokenId> {
        self.slots.fill(None);
        let mut sampled_slots = BTreeSet::new();
        let samples = step.samples.iter().map(|wanted| {
            let (hash, last) = (hashes[wanted.row as usize], tokens[wanted.row as usize]);
            let token = sample(hash, last, wanted.position, &wanted.sampling, &wanted.history, wanted.allowed.as_deref());
            let single = sampled_slots.insert(wanted.slot);
            self.slots[wanted.slot.0 as usize] = single.then_some(token);
            token
        });
        samples.collect()
    }
}

/// No position is written twice, and none that a sequence reads is written by another.
fn check_writers(step: &BatchStep) {
    let place = |rows: &crate::batch::SequenceRows, position: u32| {
        (step.block_tables[(rows.block_table_offset + position / BLOCK_POSITIONS) as usize], position % BLOCK_POSITIONS)
    };
    let mut written = BTreeSet::new();
    let mut writers = std::collections::BTreeMap::new();
    for (index, rows) in step.sequences.iter().enumerate() {
        for position in rows.position..rows.position + rows.row_count {
            let place = place(rows, position);
            assert!(written.insert(place), "two rows write {place:?}");
            assert_eq!(*writers.entry(place.0).or_insert(index), index, "block {} has two writers", place.0);
        }
    }
    for (index, rows) in step.sequences.iter().enumerate() {
        for first in (0..rows.position).step_by(BLOCK) {
            let (block, _) = place(rows, first);
            assert!(
                writers.get(&block).is_none_or(|&writer| writer == index),
                "block {block} is read and written in one step"
            );
        }
    }
}
