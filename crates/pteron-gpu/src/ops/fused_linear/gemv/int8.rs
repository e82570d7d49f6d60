//! The kernel with 8-bit dot products: its shape on a device.

use super::super::weights::UNIT_VALUES;
use super::super::{FusedLinearOp, INCLUDES, Params, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::plan::{Bind, Caps, Dispatch, GridKind, Lanes, Recipe};

pub(in super::super) static INT8: KernelDef =
    KernelDef::new("fused_linear_q4gsw_gemv_int8", include_str!("../fused_linear_q4gsw_gemv_int8.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .with_subgroups()
        .proven(reach::gemv_int8);

/// Units of k that a slice multiplies per chunk.
const UNITS_PER_SLICE: u32 = 16;
/// Threads per slice.
const SLICE_THREADS: u32 = 32;
/// Rows of activations per workgroup, one recipe each. More rows than four are more workgroups: registers and workgroup memory of
/// eight rows leave too few threads.
pub(super) const ROWS: [u32; 3] = [1, 2, 4];
/// The most threads per workgroup.
const MOST_THREADS: u32 = 512;
/// The most slices where a grid has enough workgroups to fill a large GPU several times.
const FEW_SLICES: u32 = 4;
/// From this many workgroups on, there are [`FEW_SLICES`].
const LARGE_GRID: u32 = 2048;

/// Splits of an activation into 8-bit digits: 16 bits of the largest of its unit, or the 24 bits of a float. One digit is all of an
/// activation that the program quantises to 8 bits.
fn planes(op: &FusedLinearOp, caps: Caps) -> u32 {
    match op.int8_eps {
        Some(_) => 1,
        None if caps.rounded_factors => 2,
        None => 3,
    }
}

/// The activations that a workgroup holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    rows: u32,
    planes: u32,
    /// 2 for SwiGLU.
    factors: u32,
}

impl Held {
    /// Bytes of workgroup memory per slice.
    fn slice_bytes(self) -> u32 {
        let digits = self.planes * UNITS_PER_SLICE * UNIT_VALUES + UNITS_PER_SLICE * 4;
        self.rows * (digits + self.factors * SLICE_THREADS * 4)
    }

    /// Bytes that clusters of so many lanes leave: sums of squares, and the bounds of rows that are quantised.
    fn cluster_bytes(self, threads: u32, lanes: u32) -> u32 {
        let bounds = if self.planes == 1 { 8 } else { 0 };
        self.rows * (threads / lanes) * (4 + bounds) + 8
    }
}

/// The number of slices: as many as multiply all of k at once, within the limits of the device; then as few as need no more
/// chunks.
fn slices(caps: Caps, (groups, units): (u32, u32), held: Held, lanes: Lanes) -> u32 {
    let blocks = units.div_ceil(UNITS_PER_SLICE).max(1);
    let most_threads = MOST_THREADS.min(caps.max_invocations);
    let threads = most_threads / (held.factors * SLICE_THREADS);
    let clusters = held.cluster_bytes(most_threads, lanes.count).max(1024);
    let memory = caps.workgroup_memory.saturating_sub(clusters) / held.slice_bytes();
    let few = if groups >= caps.filled(GridKind::Gemv, LARGE_GRID) { FEW_SLICES } else { u32::MAX };
    // Subgroups must be full.
    let full = (lanes.most / (held.factors * SLICE_THREADS)).max(1);
    let most = (threads.min(memory).min(few) / full * full).max(full);
    let slices = blocks.div_ceil(blocks.div_ceil(most));
    slices.next_multiple_of(full)
}

/// The variant for this many rows.
fn variant(op: &FusedLinearOp, caps: Caps, lanes: Lanes, rows: u32) -> Variant {
    let units = op.weights.k / UNIT_VALUES;
    let held = Held { rows, planes: planes(op, caps), factors: if op.swiglu { 2 } else { 1 } };
    Variant::new(&INT8)
        .with("ROWS", rows)
        .with("NORM", op.norm.is_some().into())
        .with("GATED", op.swiglu.into())
        .with("PLANES", held.planes)
        .with("INT8", op.int8_eps.is_some().into())
        .with("LANES", lanes.count)
        .with("WHOLE", lanes.are_whole().into())
        .with("SLICES", slices(caps, (op.tiles(), units), held, lanes))
        .with("UNITS", units)
        .with("SCALE_LANES", op.weights.params(caps).scale_lanes)
        .with("FACTOR_TILES", if op.swiglu { op.tiles() } else { 0 })
        .with("LAST_ROW", op.last_row.into())
}

/// One recipe per number of rows that a workgroup holds.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, lanes: Lanes, binds: [Bind; 8]) -> Vec<Recipe> {
    ROWS.iter().map(|&rows| Recipe::new(variant(op, caps, lanes, rows), binds)).collect()
}

/// The dispatch for the rows of a call, with the recipes that start at `first`.
pub(super) fn dispatch(op: &FusedLinearOp, first: usize, params: Params) -> Result<Option<Dispatch>, OpError> {
    let params = Params { tiles: op.tiles(), ..params };
    let held = ROWS.iter().position(|&rows| params.m <= rows).unwrap_or(ROWS.len() - 1);
    let groups = u64::from(params.tiles) * u64::from(params.m.div_ceil(ROWS[held]));
    Dispatch::groups(first + held, &params, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Caps = Caps { max_invocations: 1024, workgroup_memory: 48 * 1024, ..Caps::PORTABLE };

    #[test]
    fn small_grids_multiply_all_of_k_at_once() {
        let slices = |columns: u32, k: u32, rows, factors| {
            slices(LARGE, (columns / 16, k / 32), Held { rows, planes: 2, factors }, Lanes { count: 32, most: 32 })
        };
        // Output, down, SwiGLU and logits of models with 2,048 and with 4,096 columns.
        assert_eq!(slices(2048, 2048, 1, 1), 4);
        assert_eq!(slices(2048, 8192, 1, 1), 16);
        assert_eq!(slices(8192, 2048, 1, 2), 4);
        assert_eq!(slices(128_256, 2048, 1, 1), 4);
        assert_eq!(slices(4096, 4096, 1, 1), 8);
        assert_eq!(slices(4096, 14_336, 1, 1), 14);
        assert_eq!(slices(14_336, 4096, 1, 2), 8);
        assert_eq!(slices(128_256, 4096, 1, 1), 4);
        // An odd number of blocks, and less than one.
        assert_eq!(slices(4096, 512 * 23, 1, 1), 12);
        assert_eq!(slices(4096, 32, 1, 1), 1);
    }

    #[test]
    fn workgroups_keep_the_limits_of_the_device() {
        for (memory, invocations) in [(16 * 1024, 256), (32 * 1024, 512), (48 * 1024, 1024)] {
            for planes in 1..=3 {
                let caps = Caps { workgroup_memory: memory, max_invocations: invocations, ..Caps::PORTABLE };
                for (rows, factors, (count, most)) in
                    [(1, 1, (32, 32)), (1, 2, (8, 8)), (2, 1, (64, 64)), (4, 2, (32, 64)), (4, 1, (16, 16)), (4, 1, (4, 64))]
                {
                    for units in [1, 16, 64, 256, 448] {
                        let held = Held { rows, planes, factors };
                        let slices = slices(caps, (256, units), held, Lanes { count, most });
                        let threads = slices * factors * SLICE_THREADS;
                        assert!(threads <= invocations && threads.is_multiple_of(most), "{slices} slices of {units} units");
                        let bytes = slices * held.slice_bytes() + held.cluster_bytes(threads, count);
                        assert!(bytes <= memory, "{rows} rows, {slices} slices take {bytes} bytes");
                    }
                }
            }
        }
    }
}
