//! A bound on what reading may allocate.
//!
//! Flatbuffers may share: a thousand list entries can point to one table of a thousand entries. Unpacked, a small file
//! would fill any memory. Every allocation made while reading is charged here first, against a limit that follows from the
//! length of the input; real exports stay far below it.

use crate::error::{Error, Item, Part, Place, Problem, Result};

/// Small programs unpack to several times their bytes; this much is free.
const FREE: u64 = 512 * 1024;
/// Beyond that, unpacked structures may be this many times the input.
const FACTOR: u64 = 2;

/// What may still be allocated for one input.
#[derive(Debug)]
pub(crate) struct Budget {
    input: u64,
    left: u64,
}

impl Budget {
    pub(crate) fn for_input(bytes: &[u8]) -> Self {
        let input = bytes.len() as u64;
        Self { input, left: Self::limit(input) }
    }

    fn limit(input: u64) -> u64 {
        input.saturating_mul(FACTOR).saturating_add(FREE)
    }

    /// Takes room for `count` items of type `T`, or says that the file does not justify them.
    pub(crate) fn charge<T>(&mut self, part: &Part, count: usize) -> Result<()> {
        let need = (count as u64).saturating_mul(size_of::<T>() as u64);
        match self.left.checked_sub(need) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::new(
                Place { part: part.clone(), item: Item::Whole },
                Problem::Unjustified { limit: Self::limit(self.input), input: self.input },
            )),
        }
    }

    /// An empty vector with room for `count` items, charged.
    pub(crate) fn vec<T>(&mut self, part: &Part, count: usize) -> Result<Vec<T>> {
        self.charge::<T>(part, count)?;
        Ok(Vec::with_capacity(count))
    }

    /// A copy of `text`, charged.
    pub(crate) fn text(&mut self, part: &Part, text: &str) -> Result<String> {
        self.charge::<u8>(part, text.len())?;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_input_may_use_the_free_part_and_no_more() {
        let mut budget = Budget::for_input(&[0; 10]);
        assert!(budget.charge::<u8>(&Part::Program, 512 * 1024 + 20).is_ok());
        let error = budget.charge::<u8>(&Part::Program, 1).unwrap_err();
        assert_eq!(error.problem, Problem::Unjustified { limit: 512 * 1024 + 20, input: 10 });
    }

    #[test]
    fn a_count_that_overflows_is_refused() {
        let mut budget = Budget::for_input(&[]);
        assert!(budget.charge::<u64>(&Part::Program, usize::MAX).is_err());
    }
}
