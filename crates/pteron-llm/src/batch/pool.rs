//! The physical blocks of the KV cache: reference counts, the free list, and the prefix cache.
//!
//! A block is *free*, *in use* (one or more block tables name it), or *cached* (none does, but its content may be used again). The
//! prefix cache maps a block's 32 tokens and the block before it to the block that holds them. The block before is named by identity
//! (its id, and a version that changes with its content), so a chain of entries stands for all tokens before it, and a hash
//! collision cannot join two different prefixes: keys are compared, not only their hashes.

use std::collections::{BTreeMap, HashMap};

use super::step::BLOCK_POSITIONS;
use crate::tokenizer::TokenId;

pub(super) const BLOCK: usize = BLOCK_POSITIONS as usize;

/// Keeps prefixes apart that have equal tokens: the LoRA adapter they were computed with, and a salt of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrefixScope {
    /// The LoRA adapter; `None` for the base model.
    pub adapter: Option<AdapterId>,
    /// A number of the caller, for example one per tenant, so that none can probe the prompts of others.
    pub salt: u64,
}

/// A LoRA adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId(pub u32);

/// The content before a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Parent {
    /// Nothing: it is the first block.
    Root(PrefixScope),
    /// A block, and the version of its content.
    Block(u32, u64),
}

/// The content of a full block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    pub(super) parent: Parent,
    pub(super) tokens: [TokenId; BLOCK],
}

#[derive(Clone, Debug, Default)]
struct Block {
    /// The number of block tables that name it, and of pins.
    references: u32,
    /// The number of copies in the step being planned that read it.
    pins: u32,
    /// Changes whenever other content is written.
    version: u64,
    /// Its entry in the prefix cache.
    key: Option<BlockKey>,
    /// Whether its rows were computed, so that others may use it. Before that, its entry is a claim: others wait for it.
    computed: bool,
    /// When it was last released; its place in the list of cached blocks.
    released: u64,
}

/// The result of looking up a block in the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// Nobody has computed it.
    Missing,
    /// A step in flight computes it.
    Computing,
    /// It can be used.
    Cached(u32),
}

/// No block is free and none is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolFull;

/// Counts of blocks by state. `used + cached + free` is `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// All blocks.
    pub total: u32,
    /// Blocks that sequences name.
    pub used: u32,
    /// Blocks that no sequence names, kept for their content until the memory is needed.
    pub cached: u32,
    /// Blocks without content.
    pub free: u32,
}

/// The physical blocks of the KV cache.
#[derive(Clone, Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// Cached blocks that nobody uses, by the time of their release: the first is evicted first.
    cached: BTreeMap<u64, u32>,
    index: HashMap<BlockKey, u32>,
    clock: u64,
    pub(super) evictions: u64,
}

impl BlockPool {
    /// Creates a pool of free blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        Self {
            blocks: vec![Block::default(); blocks as usize],
            free: (0..blocks).rev().collect(),
            cached: BTreeMap::new(),
            index: HashMap::new(),
            clock: 0,
            evictions: 0,
        }
    }

    /// The number of all blocks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    /// The number of blocks that can be allocated: free ones and cached ones.
    #[must_use]
    pub fn available(&self) -> usize {
        self.free.len() + self.cached.len()
    }

    /// Counts the blocks by state.
    #[must_use]
    pub fn counts(&self) -> BlockCounts {
        let count = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        BlockCounts {
            total: count(self.total()),
            used: count(self.total() - self.available()),
            cached: count(self.cached.len()),
            free: count(self.free.len()),
        }
    }

    /// Whether several block tables name the block, so that none may write to it. Copies that read it run before any row.
    pub(super) fn is_shared(&self, block: u32) -> bool {
        let entry = &self.blocks[block as usize];
        entry.references - entry.pins > 1
    }

    /// Turns a table's reference into a pin: a copy of the step being planned reads the block, so no other copy may write to it.
    pub(super) fn pin(&mut self, block: u32) {
        self.blocks[block as usize].pins += 1;
    }

    /// Drops a pin.
    pub(super) fn unpin(&mut self, block: u32) {
        self.blocks[block as usize].pins -= 1;
        self.release(block);
    }

    /// The block as the parent of the next one.
    pub(super) fn parent(&self, block: u32) -> Parent {
        Parent::Block(block, self.blocks[block as usize].version)
    }

    /// Takes a free block, or evicts the cached one that was released first.
    pub(super) fn allocate(&mut self) -> Result<u32, PoolFull> {
        let block = match self.free.pop() {
            Some(block) => block,
            None => {
                let (_, block) = self.cached.pop_first().ok_or(PoolFull)?;
                self.evictions += 1;
                block
            }
        };
        self.overwrite(block);
        self.blocks[block as usize].references = 1;
        Ok(block)
    }

    /// Adds a reference.
    pub(super) fn retain(&mut self, block: u32) {
        let entry = &mut self.blocks[block as usize];
        if entry.references == 0 {
            self.cached.remove(&entry.released);
        }
        entry.references += 1;
    }

    /// Drops a reference. The last one frees the block, or leaves it cached if its content was published.
    pub(super) fn release(&mut self, block: u32) {
        self.clock += 1;
        let entry = &mut self.blocks[block as usize];
        debug_assert!(entry.references > 0, "block {block} was released once too often");
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        if entry.computed {
            entry.released = self.clock;
            self.cached.insert(self.clock, block);
        } else {
            self.withdraw(block);
            self.free.push(block);
        }
    }

    /// Prepares for other content: nobody finds the block or what follows it by its old content.
    pub(super) fn overwrite(&mut self, block: u32) {
        self.withdraw(block);
        let entry = &mut self.blocks[block as usize];
        entry.version += 1;
        entry.computed = false;
    }

    /// Removes the block from the prefix cache.
    fn withdraw(&mut self, block: u32) {
        if let Some(key) = self.blocks[block as usize].key.take() {
            self.index.remove(&key);
        }
    }

    pub(super) fn look_up(&self, key: &BlockKey) -> Lookup {
        match self.index.get(key) {
            None => Lookup::Missing,
            Some(&block) if self.blocks[block as usize].computed => Lookup::Cached(block),
            Some(_) => Lookup::Computing,
        }
    }

    /// Announces that a step in flight computes this content, unless another block has it or computes it already.
    pub(super) fn claim(&mut self, block: u32, key: BlockKey) {
        if self.blocks[block as usize].key.is_none() && !self.index.contains_key(&key) {
            self.blocks[block as usize].key = Some(key.clone());
            self.index.insert(key, block);
        }
    }

    /// Takes back a claim. A published block stays.
    pub(super) fn withdraw_claim(&mut self, block: u32) {
        if !self.blocks[block as usize].computed {
            self.withdraw(block);
        }
    }

    /// Publishes a computed block, and returns the block that holds this content from now on: another one where that was first.
    pub(super) fn publish(&mut self, block: u32, key: BlockKey) -> u32 {
        match self.look_up(&key) {
            Lookup::Cached(other) => return other,
            Lookup::Computing => {
                let claimant = self.index.get(&key).copied();
                claimant.into_iter().for_each(|claimant| self.withdraw(claimant));
            }
            Lookup::Missing => {}
        }
        self.withdraw(block);
        self.index.insert(key.clone(), block);
        let entry = &mut self.blocks[block as usize];
        entry.key = Some(key);
        entry.computed = true;
        block
    }

    /// Checks every rule of the pool against the blocks that tables name, with repetition, and those that steps in flight compute.
    #[cfg(test)]
    pub(super) fn check(&self, named: impl Iterator<Item = u32>, in_flight: &std::collections::BTreeSet<u32>) {
        let mut uses = vec![0; self.total()];
        named.for_each(|block| uses[block as usize] += 1);
        let mut states = vec![0; self.total()];
        for &block in &self.free {
            states[block as usize] += 1;
            assert!(self.blocks[block as usize].key.is_none(), "free block {block} has content");
        }
        for (&released, &block) in &self.cached {
            states[block as usize] += 1;
            let entry = &self.blocks[block as usize];
            assert!(entry.computed && entry.key.is_some() && entry.released == released, "cached block {block}");
        }
        for (index, entry) in self.blocks.iter().enumerate() {
            assert_eq!(entry.references, uses[index], "references of block {index}");
            assert_eq!(states[index], u32::from(entry.references == 0), "block {index} is lost, or in two lists");
            assert_eq!(entry.pins, 0, "block {index} is pinned between steps");
            assert!(!entry.computed || entry.key.is_some(), "published block {index} has no key");
        }
        let keys = self.blocks.iter().filter(|entry| entry.key.is_some()).count();
        assert_eq!(keys, self.index.len(), "entries without a block");
        for (key, &block) in &self.index {
            let entry = &self.blocks[block as usize];
            assert_eq!(entry.key.as_ref(), Some(key));
            assert!(entry.computed || in_flight.contains(&block), "others wait for block {block}, which nobody computes");
        }
    }
}
