//! Inputs that the device already has. Steps of a language model repeat most of their inputs, and every copy of an upload costs the device
//! some microseconds.

use super::binding::{Bound, CompiledRecipe};
use crate::memory::Place;

/// Longer inputs are uploaded each time: remembering and comparing them would take the host's time in every call.
const MOST_BYTES: usize = 64 << 10;

/// What the last calls have uploaded to each of a graph's inputs.
#[derive(Debug)]
pub(super) struct UploadedInputs(Vec<Uploaded>);

#[derive(Clone, Debug)]
enum Uploaded {
    /// A kernel writes the input, so it has to be uploaded for each call.
    Always,
    /// The first bytes that the device has.
    Bytes(Vec<u8>),
}

impl UploadedInputs {
    /// Of a graph with `count` inputs, none of which is uploaded.
    pub(super) fn new(count: usize, compiled: &[Vec<CompiledRecipe>]) -> Self {
        let mut inputs = vec![Uploaded::Bytes(Vec::new()); count];
        for recipe in compiled.iter().flatten() {
            for (binding, bound) in (0..).zip(&recipe.binds) {
                let Bound::Place(Place::Input(input)) = *bound else { continue };
                if let (true, Some(input)) = (recipe.pipeline.writes(binding), inputs.get_mut(input)) {
                    *input = Uploaded::Always;
                }
            }
        }
        Self(inputs)
    }

    /// Whether an input has to be uploaded. If so, the device has it from now on.
    pub(super) fn is_new(&mut self, input: usize, bytes: &[u8]) -> bool {
        let Some(Uploaded::Bytes(known)) = self.0.get_mut(input) else { return true };
        // Uploads end with zeros up to a whole word, where the device has other bytes if it has more.
        let ends_alike = bytes.len() == known.len() || bytes.len().is_multiple_of(4);
        if ends_alike && known.starts_with(bytes) {
            return false;
        }
        known.clear();
        if bytes.len() <= MOST_BYTES {
            known.extend_from_slice(bytes);
        }
        true
    }

    /// After an input was written in another way.
    pub(super) fn forget(&mut self, input: usize) {
        if let Some(Uploaded::Bytes(known)) = self.0.get_mut(input) {
            known.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_has_is_not_uploaded_again() {
        let mut inputs = UploadedInputs::new(2, &[]);
        assert!(inputs.is_new(0, &[1, 2, 3, 4]));
        assert!(!inputs.is_new(0, &[1, 2, 3, 4]));
        assert!(inputs.is_new(1, &[1, 2, 3, 4]));
        // Fewer bytes leave the others where they are.
        assert!(inputs.is_new(1, &[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(!inputs.is_new(1, &[1, 2, 3, 4]));
        assert!(!inputs.is_new(1, &[1, 2, 3, 4, 5, 6, 7, 8]));
        assert!(inputs.is_new(0, &[1, 2, 3, 5]));
        inputs.forget(0);
        assert!(inputs.is_new(0, &[1, 2, 3, 5]));
    }

    #[test]
    fn a_part_of_a_word_is_uploaded_with_zeros_after_it() {
        let mut inputs = UploadedInputs::new(1, &[]);
        assert!(inputs.is_new(0, &[1, 2, 3, 4]));
        assert!(inputs.is_new(0, &[1, 2]));
        assert!(!inputs.is_new(0, &[1, 2]));
    }

    #[test]
    fn long_inputs_are_uploaded_each_time() {
        let mut inputs = UploadedInputs::new(1, &[]);
        let long = vec![7; MOST_BYTES + 1];
        assert!(inputs.is_new(0, &long));
        assert!(inputs.is_new(0, &long));
        assert!(inputs.is_new(0, &[7]));
    }
}
