//! Dims and strides of broadcast inputs for the elementwise kernels: collapsed to as few axes as possible, with flags for inputs that
//! a thread can load as one vector.

use crate::shape::{Dims, MAX_RANK};

/// Dims and strides as the kernels take them, innermost first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Layout {
    pub(super) dims: [u32; MAX_RANK],
    /// Strides of each input, 0 where it is broadcast.
    pub(super) strides: [[u32; MAX_RANK]; 3],
    pub(super) rank: u32,
    /// See `elementwise_params.wgsl`.
    pub(super) flags: u32,
}

impl Layout {
    /// Computes the layout of inputs that can be broadcast to `out`.
    pub(super) fn new(out: &Dims, inputs: &[Dims]) -> Self {
        let strides: Vec<[u32; MAX_RANK]> =
            inputs.iter().map(|dims| dims.broadcast_strides(out).unwrap_or([0; MAX_RANK])).collect();
        let mut layout = Self { dims: [1; MAX_RANK], strides: [[0; MAX_RANK]; 3], rank: 0, flags: 0 };
        for axis in (0..out.len()).rev().filter(|&axis| out[axis] != 1) {
            layout.add(out[axis], strides.iter().map(|strides| strides[axis]));
        }
        layout.rank = layout.rank.max(1);
        layout.flags = layout.flags(inputs.len());
        layout
    }

    /// Adds an axis outside the others, or collapses it into the outermost one.
    fn add(&mut self, dim: u32, strides: impl Iterator<Item = u32> + Clone) {
        let at = self.rank as usize;
        let collapses = at > 0
            && strides
                .clone()
                .zip(&self.strides)
                .all(|(stride, own)| self.dims[at - 1].checked_mul(own[at - 1]) == Some(stride));
        if collapses {
            // It saturates only for tensors without elements or larger than memory, and neither is dispatched.
            self.dims[at - 1] = self.dims[at - 1].saturating_mul(dim);
            return;
        }
        self.dims[at] = dim;
        strides.zip(&mut self.strides).for_each(|(stride, own)| own[at] = stride);
        self.rank += 1;
    }

    fn flags(&self, inputs: usize) -> u32 {
        // The last vector of a single row may reach into the padding; there is none between rows.
        let whole_vectors = self.rank == 1 || self.dims[0].is_multiple_of(4);
        let outer_aligned = |strides: &[u32; MAX_RANK]| strides[1..].iter().all(|stride| stride.is_multiple_of(4));
        let contiguous = |strides: &[u32; MAX_RANK]| strides[0] == 1 && outer_aligned(strides);
        let inputs = &self.strides[..inputs];
        if !whole_vectors || !inputs.iter().all(|strides| strides[0] == 0 || contiguous(strides)) {
            return 0;
        }
        inputs.iter().enumerate().fold(1, |flags, (index, strides)| flags | u32::from(contiguous(strides)) << (index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::dims;

    fn layout(out: &[u32], inputs: &[&[u32]]) -> (Vec<u32>, u32) {
        let inputs: Vec<Dims> = inputs.iter().map(|input| dims(input)).collect();
        let layout = Layout::new(&dims(out), &inputs);
        (layout.dims[..layout.rank as usize].to_vec(), layout.flags)
    }

    #[test]
    fn equal_shapes_collapse_to_one_axis() {
        assert_eq!(layout(&[3, 5, 7], &[&[3, 5, 7], &[3, 5, 7]]), (vec![105], 0b111));
        assert_eq!(layout(&[], &[&[], &[]]), (vec![1], 0b001));
        assert_eq!(layout(&[3, 5], &[&[3, 5], &[]]), (vec![15], 0b011));
        assert_eq!(layout(&[1, 1, 9], &[&[1, 9], &[1, 1, 9]]), (vec![9], 0b111));
    }

    #[test]
    fn broadcast_dims_stay_axes_and_aligned_rows_are_vectorised() {
        assert_eq!(layout(&[6, 8], &[&[6, 8], &[8]]), (vec![8, 6], 0b111));
        assert_eq!(layout(&[2, 3, 8], &[&[2, 3, 8], &[3, 1]]), (vec![8, 3, 2], 0b011));
        assert_eq!(layout(&[2, 3, 8], &[&[2, 3, 8], &[2, 1, 8]]), (vec![8, 3, 2], 0b111));
        assert_eq!(layout(&[4, 6, 5], &[&[4, 1, 1], &[6, 5]]), (vec![30, 4], 0));
        assert_eq!(layout(&[6, 7], &[&[6, 7], &[7]]), (vec![7, 6], 0));
    }

    #[test]
    fn empty_tensor_with_huge_dims_has_a_layout() {
        assert_eq!(layout(&[0, 65_536, 65_536], &[&[0, 65_536, 65_536]]).0, [0]);
    }

    #[test]
    fn broadcast_scalar_is_not_a_vector_load() {
        assert_eq!(layout(&[6, 8], &[&[6, 8], &[1, 1], &[6, 1]]), (vec![8, 6], 0b0011));
    }
}
