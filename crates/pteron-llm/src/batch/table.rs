//! The blocks of one sequence.

use super::pool::{BLOCK, BlockKey, BlockPool, Lookup, Parent, PoolFull, PrefixScope};
use super::step::{BlockCopy, blocks_for};
use crate::tokenizer::TokenId;

/// The blocks of one sequence, in the order of its positions.
#[derive(Clone, Debug)]
pub(super) struct BlockTable {
    scope: PrefixScope,
    blocks: Vec<u32>,
    /// How many blocks at the start are published. Blocks are published in order.
    published: usize,
    /// How many blocks at the start are published or claimed.
    claimed: usize,
}

/// The blocks that a write needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservation {
    /// Copies of shared blocks. The blocks that they read are pinned until the step is planned.
    pub(super) copies: Vec<BlockCopy>,
}

impl BlockTable {
    pub(super) fn new(scope: PrefixScope) -> Self {
        Self { scope, blocks: Vec::new(), published: 0, claimed: 0 }
    }

    pub(super) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// How many blocks at the start are published.
    pub(super) fn published(&self) -> usize {
        self.published
    }

    fn key(&self, pool: &BlockPool, index: usize, tokens: &[TokenId]) -> Option<BlockKey> {
        let tokens = tokens.get(index * BLOCK..(index + 1) * BLOCK)?.try_into().ok()?;
        let parent = match index.checked_sub(1) {
            None => Parent::Root(self.scope),
            Some(before) => pool.parent(self.blocks[before]),
        };
        Some(BlockKey { parent, tokens })
    }

    /// Looks up the block after the table's last one.
    pub(super) fn look_up_next(&self, pool: &BlockPool, tokens: &[TokenId]) -> Lookup {
        self.key(pool, self.blocks.len(), tokens).map_or(Lookup::Missing, |key| pool.look_up(&key))
    }

    /// Appends a block of the prefix cache.
    pub(super) fn adopt(&mut self, pool: &mut BlockPool, block: u32) {
        debug_assert_eq!(self.published, self.blocks.len(), "only published blocks come before a cached one");
        pool.retain(block);
        self.blocks.push(block);
        self.published = self.blocks.len();
        self.claimed = self.published;
    }

    /// The number of blocks to allocate before the positions from `from` to `to` can be written.
    pub(super) fn blocks_needed(&self, pool: &BlockPool, from: usize, to: usize) -> usize {
        let existing = self.blocks.iter().take(blocks_for(to)).skip(from / BLOCK);
        let shared = existing.filter(|&&block| pool.is_shared(block)).count();
        blocks_for(to).saturating_sub(self.blocks.len()) + shared
    }

    /// Makes the positions from `from` to `to` writable by this sequence alone: appends blocks, and copies shared ones.
    pub(super) fn reserve(&mut self, pool: &mut BlockPool, from: usize, to: usize) -> Result<Reservation, PoolFull> {
        if self.blocks_needed(pool, from, to) > pool.available() {
            return Err(PoolFull);
        }
        let mut reservation = Reservation::default();
        let first = from / BLOCK;
        for index in first..self.blocks.len().min(blocks_for(to)) {
            let block = self.blocks[index];
            if pool.is_shared(block) {
                let copy = pool.allocate()?;
                // The claim, if there is one, stays with the old block and ends there: this sequence computes it elsewhere now.
                if (self.published..self.claimed).contains(&index) {
                    pool.withdraw_claim(block);
                }
                pool.pin(block);
                reservation.copies.push(BlockCopy { from: block, to: copy });
                self.blocks[index] = copy;
            } else {
                pool.overwrite(block);
            }
        }
        self.published = self.published.min(first);
        self.claimed = self.claimed.min(first);
        while self.blocks.len() < blocks_for(to) {
            self.blocks.push(pool.allocate()?);
        }
        Ok(reservation)
    }

    /// Announces the full blocks up to `planned` positions, which steps in flight compute, so that others wait for them.
    pub(super) fn claim(&mut self, pool: &mut BlockPool, tokens: &[TokenId], planned: usize) {
        let full = planned.min(tokens.len()) / BLOCK;
        for index in self.claimed..full {
            if let Some(key) = self.key(pool, index, tokens) {
                pool.claim(self.blocks[index], key);
            }
        }
        self.claimed = self.claimed.max(full);
    }

    /// Publishes the full blocks up to `computed` positions. Where another sequence was first, its block replaces this one's.
    pub(super) fn publish(&mut self, pool: &mut BlockPool, tokens: &[TokenId], computed: usize) {
        let full = computed.min(tokens.len()) / BLOCK;
        for index in self.published..full {
            let Some(key) = self.key(pool, index, tokens) else { break };
            let own = self.blocks[index];
            let shared = pool.publish(own, key);
            if shared != own {
                pool.retain(shared);
                pool.withdraw_claim(own);
                pool.release(own);
                self.blocks[index] = shared;
            }
        }
        self.published = self.published.max(full);
        self.claimed = self.claimed.max(self.published);
    }

    /// Drops the blocks after this many positions.
    pub(super) fn truncate(&mut self, pool: &mut BlockPool, positions: usize) {
        let keep = blocks_for(positions);
        // The last position's block goes first, so that the cache evicts the ends of prefixes before their starts.
        while self.blocks.len() > keep {
            let index = self.blocks.len() - 1;
            if (self.published..self.claimed).contains(&index) {
                pool.withdraw_claim(self.blocks[index]);
            }
            pool.release(self.blocks[index]);
            self.blocks.pop();
        }
        // A claim on a block that stays in part would never be fulfilled.
        let full = positions / BLOCK;
        for index in full.max(self.published)..self.claimed.min(keep) {
            pool.withdraw_claim(self.blocks[index]);
        }
        self.published = self.published.min(full);
        self.claimed = self.claimed.min(full);
    }

    /// Shares the blocks of the first positions with a new table.
    pub(super) fn fork(&self, pool: &mut BlockPool, positions: usize) -> Self {
        let blocks: Vec<u32> = self.blocks.iter().copied().take(blocks_for(positions)).collect();
        blocks.iter().for_each(|&block| pool.retain(block));
        let published = self.published.min(positions / BLOCK);
        Self { scope: self.scope, blocks, published, claimed: published }
    }
}
