//! Tiled transposes: which views they cover, and their tile sizes.

use super::strides::{self, Axis, StridedDims, wrapping};
use crate::error::OpError;
use crate::params;
use crate::plan::Dispatch;
use crate::shape::MAX_RANK;

params! {
    /// Parameters of `transpose.wgsl`, `transpose_vec4.wgsl` and `transpose_bytes.wgsl`.
    pub(crate) struct Params {
        dims: [u32; MAX_RANK], strides: [u32; 2 * MAX_RANK], rank: u32, outer: u32, groups: u32, a_tiles: u32, b_tiles: u32,
        base: u32, a: u32, b: u32, a_bits: u32, b_bits: u32, outer_bits: u32, a_stride: u32, b_stride: u32, out_a_stride: u32,
        pad: [u32; 2],
    }
}

/// The blocks of a tile: 2^`bits` blocks of `side` × `side` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    pub(crate) bits: u32,
    pub(crate) side: u32,
    /// Whether a tile that one index of the outer axes does not fill takes further ones.
    pub(crate) spans_outer: bool,
}

/// A view divided into transpose tiles.
#[derive(Debug)]
pub(crate) struct TransposeTiles(Params);

impl TransposeTiles {
    /// Divides collapsed axes (see [`strides::vectorise`]) into tiles, if the source is contiguous along another axis than the output
    /// and both are long enough. Blocks of several elements must be aligned to vectors on both sides.
    pub(crate) fn new(axes: &[Axis], start: i64, blocks: Blocks) -> Option<Self> {
        let (b, rest) = axes.split_first()?;
        let a_at = rest.iter().position(|axis| axis.strides[0].abs() == 1)?;
        let a = rest[a_at];
        let share = if blocks.spans_outer { 16 } else { 2 };
        let small = u64::from(a.dim) * u64::from(b.dim) <= u64::from(((blocks.side * blocks.side) << blocks.bits) / share);
        // Loads of a few adjacent rows coalesce without tiles.
        let few = b.dim <= 8 && a_at == 0;
        if b.strides[0].abs() <= 1 || small || few {
            return None;
        }
        let mut out_stride = 1;
        let mut out_a_stride = 0;
        let mut others = Vec::with_capacity(axes.len());
        for (index, axis) in axes.iter().enumerate() {
            match index {
                0 => {}
                _ if index == a_at + 1 => out_a_stride = out_stride,
                _ => others.push(Axis { dim: axis.dim, strides: [axis.strides[0], i64::from(out_stride)] }),
            }
            out_stride *= axis.dim;
        }
        let aligned = |stride: i64| stride % i64::from(blocks.side) == 0;
        let blocks_aligned = a.strides[0] == 1 && aligned(b.dim.into()) && aligned(b.strides[0]) && aligned(start);
        if blocks.side > 1 && !(blocks_aligned && others.iter().all(|axis| aligned(axis.strides[0]))) {
            return None;
        }
        others.reverse();
        Some(Self(Params { out_a_stride, ..params(a, *b, &strides::collapse(&others), blocks)? }))
    }

    pub(crate) fn dispatch(mut self, recipe: usize, base: u32) -> Result<Option<Dispatch>, OpError> {
        self.0.base = base;
        Dispatch::groups(recipe, &self.0, self.0.groups.into())
    }
}

fn params(a: Axis, b: Axis, others: &[Axis], blocks: Blocks) -> Option<Params> {
    let StridedDims { dims, strides, rank } = StridedDims::new(others)?;
    let outer = strides::count(others);
    let (a_blocks, b_blocks) = (a.dim.div_ceil(blocks.side), b.dim.div_ceil(blocks.side));
    let (a_bits, b_bits) = bits(a_blocks, b_blocks, blocks.bits);
    let outer_bits = if blocks.spans_outer { blocks.bits - a_bits - b_bits } else { 0 };
    let (a_tiles, b_tiles) = (a_blocks.div_ceil(1 << a_bits), b_blocks.div_ceil(1 << b_bits));
    let groups = a_tiles * b_tiles * outer.div_ceil(1 << outer_bits);
    let (a_stride, b_stride) = (wrapping(a.strides[0]), wrapping(b.strides[0]));
    let lengths = Params { a: a.dim, b: b.dim, a_bits, b_bits, outer_bits, ..Params::default() };
    Some(Params { dims, strides, rank, outer, groups, a_tiles, b_tiles, a_stride, b_stride, ..lengths })
}

/// Divides a tile of at most 2^`bits` blocks between the axes `a` and `b`: about evenly, unless one of them is shorter.
fn bits(a: u32, b: u32, bits: u32) -> (u32, u32) {
    let fewest = |count: u32| count.next_power_of_two().ilog2();
    let b_bits = fewest(b).min(bits - fewest(a).min(bits / 2));
    (fewest(a).min(bits - b_bits), b_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_full_when_one_axis_is_short() {
        assert_eq!(bits(1000, 1000, 11), (5, 6));
        assert_eq!(bits(3, 1000, 11), (2, 9));
        assert_eq!(bits(1000, 3, 11), (9, 2));
        assert_eq!(bits(33, 33, 11), (5, 6));
        assert_eq!(bits(32, 32, 11), (5, 5));
        assert_eq!(bits(64, 16, 11), (6, 4));
        assert_eq!(bits(1, u32::MAX / 2, 9), (0, 9));
    }
}
