//! The limits of a template on time, memory and stack.

use super::fault::Fault;

/// The most bytes a template may have; the largest in use have some ten thousand.
pub(super) const MAX_SOURCE: usize = 1 << 20;
/// The deepest nesting of blocks, brackets and calls. A megabyte of stack fits 300 levels.
pub(super) const MAX_DEPTH: u32 = 200;
/// The deepest nesting of lists and dictionaries. JSON is parsed to the same depth.
pub(super) const MAX_NESTING: u32 = 128;
/// The most values that `range` returns.
pub(super) const MAX_RANGE: usize = 100_000;
/// The widest field that texts are padded to.
pub(super) const MAX_WIDTH: usize = 1 << 16;

/// The limit that a template exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// The template is too large.
    #[error("it has more than 1 MiB")]
    Source,
    /// Blocks, brackets, calls or values are nested too deeply.
    #[error("blocks, brackets, calls or values are too deep in each other")]
    Depth,
    /// It takes too many steps.
    #[error("it takes too many steps for this conversation")]
    Steps,
    /// It creates too many values, or too large ones.
    #[error("it takes too much memory for this conversation")]
    Memory,
    /// It writes too much.
    #[error("it writes too much text for this conversation")]
    Output,
}

/// The remaining budget of a template.
#[derive(Debug)]
pub(super) struct Budget {
    steps: u64,
    memory: usize,
    output: usize,
    depth: u32,
}

impl Budget {
    /// Creates the budget for a template and a conversation with this total number of bytes.
    pub(super) fn new(input: usize) -> Self {
        let bytes = u64::try_from(input).unwrap_or(u64::MAX);
        Self {
            steps: bytes.saturating_mul(100).saturating_add(4 << 20),
            memory: input.saturating_mul(128).saturating_add(64 << 20),
            output: input.saturating_mul(64).saturating_add(4 << 20),
            depth: 0,
        }
    }

    /// Charges steps.
    pub(super) fn step(&mut self, steps: usize) -> Result<(), Fault> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.steps = self.steps.checked_sub(steps).ok_or(Fault::Limit(Limit::Steps))?;
        Ok(())
    }

    /// Charges for scanning a text of this many bytes.
    pub(super) fn scan(&mut self, bytes: usize) -> Result<(), Fault> {
        self.step(1 + bytes / 16)
    }

    /// Charges bytes that are about to be allocated. Freed values are not credited.
    pub(super) fn allocate(&mut self, bytes: usize) -> Result<(), Fault> {
        self.step(bytes / 64)?;
        self.memory = self.memory.checked_sub(bytes).ok_or(Fault::Limit(Limit::Memory))?;
        Ok(())
    }

    /// Credits bytes of a temporary allocation.
    pub(super) fn free(&mut self, bytes: usize) {
        self.memory = self.memory.saturating_add(bytes);
    }

    /// Charges bytes that are about to be written.
    pub(super) fn write(&mut self, bytes: usize) -> Result<(), Fault> {
        self.allocate(bytes)?;
        self.output = self.output.checked_sub(bytes).ok_or(Fault::Limit(Limit::Output))?;
        Ok(())
    }

    /// Enters a nesting level; [`leave`](Self::leave) leaves it.
    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        self.step(1)?;
        if self.depth >= MAX_DEPTH {
            return Err(Fault::Limit(Limit::Depth));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
