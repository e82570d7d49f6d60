//! How the elements of several tensors lie for one walk over the output: as few axes as possible, and whether four can be read
//! at once.

use crate::shape::{Dims, MAX_RANK};

/// What the kernels are told of dims and strides, innermost first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) dims: [u32; MAX_RANK],
    /// For each input, 0 where it repeats.
    pub(super) strides: [[u32; MAX_RANK]; 3],
    pub(super) rank: u32,
    /// As `map_params.wgsl` says.
    pub(super) modes: u32,
}

impl Layout {
    /// For inputs that can be broadcast to `out`.
    pub(super) fn new(out: &Dims, inputs: &[Dims]) -> Self {
        let strides: Vec<[u32; MAX_RANK]> =
            inputs.iter().map(|dims| dims.broadcast_strides(out).unwrap_or([0; MAX_RANK])).collect();
        let mut layout = Self { dims: [1; MAX_RANK], strides: [[0; MAX_RANK]; 3], rank: 0, modes: 0 };
        for axis in (0..out.len()).rev().filter(|&axis| out[axis] != 1) {
            layout.add(out[axis], strides.iter().map(|strides| strides[axis]));
        }
        layout.rank = layout.rank.max(1);
        layout.modes = layout.modes(inputs.len());
        layout
    }

    /// One more axis around those there are, or the outermost one made longer.
    fn add(&mut self, dim: u32, strides: impl Iterator<Item = u32> + Clone) {
        let at = self.rank as usize;
        let runs_on = at > 0
            && strides
                .clone()
                .zip(&self.strides)
                .all(|(stride, own)| self.dims[at - 1].checked_mul(own[at - 1]) == Some(stride));
        if runs_on {
            // Only without elements, or past what memory holds, can it be too long to count: neither is run.
            self.dims[at - 1] = self.dims[at - 1].saturating_mul(dim);
            return;
        }
        self.dims[at] = dim;
        strides.zip(&mut self.strides).for_each(|(stride, own)| own[at] = stride);
        self.rank += 1;
    }

    fn modes(&self, inputs: usize) -> u32 {
        // The last four of a single row may reach into the padding; between rows there is none.
        let in_rows = self.rank == 1 || self.dims[0].is_multiple_of(4);
        let outer_in_fours = |strides: &[u32; MAX_RANK]| strides[1..].iter().all(|stride| stride.is_multiple_of(4));
        let side_by_side = |strides: &[u32; MAX_RANK]| strides[0] == 1 && outer_in_fours(strides);
        let inputs = &self.strides[..inputs];
        if !in_rows || !inputs.iter().all(|strides| strides[0] == 0 || side_by_side(strides)) {
            return 0;
        }
        inputs.iter().enumerate().fold(1, |modes, (index, strides)| modes | u32::from(side_by_side(strides)) << (index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dims;

    fn layout(out: &[u32], inputs: &[&[u32]]) -> (Vec<u32>, u32) {
        let inputs: Vec<Dims> = inputs.iter().map(|input| dims(input)).collect();
        let layout = Layout::new(&dims(out), &inputs);
        (layout.dims[..layout.rank as usize].to_vec(), layout.modes)
    }

    #[test]
    fn equal_shapes_are_one_row_of_any_length() {
        assert_eq!(layout(&[3, 5, 7], &[&[3, 5, 7], &[3, 5, 7]]), (vec![105], 0b111));
        assert_eq!(layout(&[], &[&[], &[]]), (vec![1], 0b001));
        assert_eq!(layout(&[3, 5], &[&[3, 5], &[]]), (vec![15], 0b011));
        assert_eq!(layout(&[1, 1, 9], &[&[1, 9], &[1, 1, 9]]), (vec![9], 0b111));
    }

    #[test]
    fn what_repeats_splits_axes_and_rows_of_fours_are_read_at_once() {
        assert_eq!(layout(&[6, 8], &[&[6, 8], &[8]]), (vec![8, 6], 0b111));
        assert_eq!(layout(&[2, 3, 8], &[&[2, 3, 8], &[3, 1]]), (vec![8, 3, 2], 0b011));
        assert_eq!(layout(&[2, 3, 8], &[&[2, 3, 8], &[2, 1, 8]]), (vec![8, 3, 2], 0b111));
        assert_eq!(layout(&[4, 6, 5], &[&[4, 1, 1], &[6, 5]]), (vec![30, 4], 0));
        assert_eq!(layout(&[6, 7], &[&[6, 7], &[7]]), (vec![7, 6], 0));
    }

    #[test]
    fn sizes_beside_a_zero_may_be_any() {
        assert_eq!(layout(&[0, 65_536, 65_536], &[&[0, 65_536, 65_536]]).0, [0]);
    }

    #[test]
    fn a_single_number_is_read_by_every_lane() {
        assert_eq!(layout(&[6, 8], &[&[6, 8], &[1, 1], &[6, 1]]), (vec![8, 6], 0b0011));
    }
}
