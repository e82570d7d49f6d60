//! Transposes: which windows are moved in tiles, and how their tiles lie.

use super::axes::{self, Axis, Walk, wrapped};
use crate::error::OpError;
use crate::params;
use crate::plan::Dispatch;
use crate::shape::MAX_RANK;

params! {
    /// Of `copy_tile.wgsl`, `copy_tile_vectors.wgsl` and `copy_tile_bytes.wgsl`.
    pub(crate) struct Params {
        dims: [u32; MAX_RANK], steps: [u32; 2 * MAX_RANK], rank: u32, outer: u32, groups: u32, a_tiles: u32, b_tiles: u32,
        base: u32, a: u32, b: u32, a_bits: u32, b_bits: u32, outer_bits: u32, a_step: u32, b_step: u32, a_pitch: u32,
        pad: [u32; 2],
    }
}

/// What a tile is made of: 2^`bits` cells, each of `side` rows of `side` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) bits: u32,
    pub(crate) side: u32,
    /// Whether what is left of a tile that one index of the outer axes does not fill is for the next.
    pub(crate) several: bool,
}

/// A window cut into tiles.
#[derive(Debug)]
pub(crate) struct Tile(Params);

impl Tile {
    /// Tiles for joined axes (see [`axes::in_units`]), if the source lies together along another axis than the output and there
    /// is enough along both. Cells of several elements must begin items on both sides.
    pub(crate) fn new(axes: &[Axis], start: i64, cells: Cells) -> Option<Self> {
        let (b, rest) = axes.split_first()?;
        let a_at = rest.iter().position(|axis| axis.steps[0].abs() == 1)?;
        let a = rest[a_at];
        let share = if cells.several { 16 } else { 2 };
        let small = u64::from(a.dim) * u64::from(b.dim) <= u64::from(((cells.side * cells.side) << cells.bits) / share);
        // A few rows that lie side by side are read together anyway.
        let few = b.dim <= 8 && a_at == 0;
        if b.steps[0].abs() <= 1 || small || few {
            return None;
        }
        let mut pitch = 1;
        let mut a_pitch = 0;
        let mut others = Vec::with_capacity(axes.len());
        for (index, axis) in axes.iter().enumerate() {
            match index {
                0 => {}
                _ if index == a_at + 1 => a_pitch = pitch,
                _ => others.push(Axis { dim: axis.dim, steps: [axis.steps[0], i64::from(pitch)] }),
            }
            pitch *= axis.dim;
        }
        let whole = |step: i64| step % i64::from(cells.side) == 0;
        let begins = a.steps[0] == 1 && whole(b.dim.into()) && whole(b.steps[0]) && whole(start);
        if cells.side > 1 && !(begins && others.iter().all(|axis| whole(axis.steps[0]))) {
            return None;
        }
        others.reverse();
        Some(Self(Params { a_pitch, ..params(a, *b, &axes::join(&others), cells)? }))
    }

    pub(crate) fn dispatch(mut self, recipe: usize, base: u32) -> Result<Option<Dispatch>, OpError> {
        self.0.base = base;
        Dispatch::groups(recipe, &self.0, self.0.groups.into())
    }
}

fn params(a: Axis, b: Axis, others: &[Axis], cells: Cells) -> Option<Params> {
    let Walk { dims, steps, rank } = Walk::new(others)?;
    let outer = axes::count(others);
    let (a_cells, b_cells) = (a.dim.div_ceil(cells.side), b.dim.div_ceil(cells.side));
    let (a_bits, b_bits) = bits(a_cells, b_cells, cells.bits);
    let outer_bits = if cells.several { cells.bits - a_bits - b_bits } else { 0 };
    let (a_tiles, b_tiles) = (a_cells.div_ceil(1 << a_bits), b_cells.div_ceil(1 << b_bits));
    let groups = a_tiles * b_tiles * outer.div_ceil(1 << outer_bits);
    let (a_step, b_step) = (wrapped(a.steps[0]), wrapped(b.steps[0]));
    let lengths = Params { a: a.dim, b: b.dim, a_bits, b_bits, outer_bits, ..Params::default() };
    Some(Params { dims, steps, rank, outer, groups, a_tiles, b_tiles, a_step, b_step, ..lengths })
}

/// How a tile of at most 2^`bits` cells is shared out between `a` and `b`: about evenly, unless one of them has fewer.
fn bits(a: u32, b: u32, bits: u32) -> (u32, u32) {
    let fewest = |count: u32| count.next_power_of_two().ilog2();
    let b_bits = fewest(b).min(bits - fewest(a).min(bits / 2));
    (fewest(a).min(bits - b_bits), b_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_full_whatever_is_narrow() {
        assert_eq!(bits(1000, 1000, 11), (5, 6));
        assert_eq!(bits(3, 1000, 11), (2, 9));
        assert_eq!(bits(1000, 3, 11), (9, 2));
        assert_eq!(bits(33, 33, 11), (5, 6));
        assert_eq!(bits(32, 32, 11), (5, 5));
        assert_eq!(bits(64, 16, 11), (6, 4));
        assert_eq!(bits(1, u32::MAX / 2, 9), (0, 9));
    }
}
