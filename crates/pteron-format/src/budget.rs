//! A limit on the memory that reading may allocate.
//!
//! Flatbuffers may share tables: a thousand list entries can point to one table of a thousand entries. Unpacked, a small file
//! could exhaust memory. Every allocation of a reader is charged here first, against a limit derived from the length of the input;
//! real exports stay far below it.

use crate::alloc;
use crate::bytes::Bytes;
use crate::error::{Error, Item, Location, Problem, Result, Section};

/// Small programs unpack to several times their bytes; this much is free.
const FREE: u64 = 512 * 1024;
/// Beyond that, unpacked structures may be this many times the input.
const FACTOR: u64 = 3;

/// The bytes that may still be allocated for one input, and how much of it may still be parsed as graphs.
#[derive(Debug)]
pub(crate) struct Budget {
    input: u64,
    left: u64,
    graphs_left: u64,
}

impl Budget {
    pub(crate) fn for_input<B: Bytes + ?Sized>(bytes: &B) -> Self {
        let input = bytes.held();
        Self { input, left: Self::limit(input), graphs_left: input }
    }

    fn limit(input: u64) -> u64 {
        input.saturating_mul(FACTOR).saturating_add(FREE)
    }

    /// Charges `count` items of type `T`, or fails if the size of the file does not justify them.
    pub(crate) fn charge<T>(&mut self, section: &Section, count: usize) -> Result<()> {
        let need = (count as u64).saturating_mul(size_of::<T>() as u64);
        self.left = self.take(section, self.left, need, Self::limit(self.input))?;
        Ok(())
    }

    /// Charges `len` bytes of a graph. Graphs do not overlap, so together they are no longer than the file; otherwise many delegates
    /// could point to one range, which would be parsed each time.
    pub(crate) fn charge_graph(&mut self, section: &Section, len: u64) -> Result<()> {
        self.graphs_left = self.take(section, self.graphs_left, len, self.input)?;
        Ok(())
    }

    fn take(&self, section: &Section, left: u64, need: u64, limit: u64) -> Result<u64> {
        left.checked_sub(need).ok_or_else(|| {
            let location = Location { section: section.clone(), item: Item::Whole };
            Error::new(location, Problem::TablesTooLarge { limit, input: self.input })
        })
    }

    /// Creates an empty vector with capacity for `count` items, charged.
    #[track_caller]
    pub(crate) fn vec<T>(&mut self, section: &Section, count: usize) -> Result<Vec<T>> {
        self.charge::<T>(section, count)?;
        alloc::vec(count).map_err(|lacking| lacking.in_section(section))
    }

    /// Copies `text`, charged.
    #[track_caller]
    pub(crate) fn text(&mut self, section: &Section, text: &str) -> Result<String> {
        self.charge::<u8>(section, text.len())?;
        alloc::text(text).map_err(|lacking| lacking.in_section(section))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_input_may_use_the_free_part_and_no_more() {
        let mut budget = Budget::for_input(&[0; 10]);
        assert!(budget.charge::<u8>(&Section::Program, 512 * 1024 + 30).is_ok());
        let error = budget.charge::<u8>(&Section::Program, 1).unwrap_err();
        assert_eq!(error.problem, Problem::TablesTooLarge { limit: 512 * 1024 + 30, input: 10 });
    }

    #[test]
    fn graphs_are_no_longer_than_the_file() {
        let mut budget = Budget::for_input(&[0; 10]);
        assert!(budget.charge_graph(&Section::Graph, 6).is_ok());
        let error = budget.charge_graph(&Section::Graph, 5).unwrap_err();
        assert_eq!(error.problem, Problem::TablesTooLarge { limit: 10, input: 10 });
        assert!(budget.charge_graph(&Section::Graph, 4).is_ok());
    }

    #[test]
    fn a_count_that_overflows_is_refused() {
        let mut budget = Budget::for_input(&[0u8; 0]);
        assert!(budget.charge::<u64>(&Section::Program, usize::MAX).is_err());
    }
}
