//! Few rows: one dispatch for everything, by the kernel for subgroups where all of them have one size, else by its portable twin.

use super::{Binds, Linears, Params, Shape};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{GEMV_ROWS, gemv_holding};
use crate::plan::{Caps, Dispatch, Recipe};

pub(super) static PORTABLE: KernelDef =
    KernelDef::new("linears_q4gsw_gemv", include_str!("linears_q4gsw_gemv.wgsl"), Params::FIELDS).proven();
pub(super) static SUBGROUPS: KernelDef =
    KernelDef::new("linears_q4gsw_gemv_subgroups", include_str!("linears_q4gsw_gemv_subgroups.wgsl"), Params::FIELDS)
        .with_subgroups()
        .proven();

/// Columns of a workgroup: its threads read the activations once for all of them.
const COLUMNS: u32 = 4;
/// Values along k that a thread takes at a time.
const CHUNK: u32 = 16;
/// The fewest threads of a workgroup.
const THREADS: u32 = 64;
/// The most where there are many workgroups: small ones leave less to wait for at the end of a grid.
const SOME_THREADS: u32 = 128;
/// The most where there are few, so that all of k is on its way at once.
const MOST_THREADS: u32 = 256;
/// Workgroups that keep a large GPU busy.
const FULL_GRID: u32 = 1024;
/// Workgroups of twice as many columns that do: each reads the activations for more of them.
const WIDE_GRID: u32 = 4096;

/// How the kernel of a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twin {
    Portable,
    /// With subgroups of so many lanes.
    Subgroups(u32),
}

impl Twin {
    fn of(caps: Caps) -> Self {
        let (smallest, largest) = caps.subgroup_size;
        let known = caps.subgroups && smallest == largest && smallest.is_power_of_two();
        if known && (4..=THREADS).contains(&smallest) { Self::Subgroups(smallest) } else { Self::Portable }
    }
}

/// Threads of a workgroup with subgroups, for so many columns of so many chunks.
fn threads(columns: u32, chunks: u32) -> u32 {
    if columns / COLUMNS < FULL_GRID {
        chunks.next_power_of_two().clamp(THREADS, MOST_THREADS)
    } else {
        (chunks / 2).next_power_of_two().clamp(THREADS, SOME_THREADS)
    }
}

/// Whether workgroups have twice as many columns: where there are many, and eight that follow one another are of one part.
fn wide(op: &Linears, caps: Caps) -> bool {
    let whole = !op.gated && op.parts.widths().all(|width| width % (2 * COLUMNS) == 0);
    whole && Twin::of(caps) != Twin::Portable && op.columns() / (2 * COLUMNS) >= WIDE_GRID
}

/// A recipe for each number of rows that a kernel may hold.
pub(super) fn recipes(op: &Linears, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let chunks = op.parts.k / CHUNK;
    let variant = match Twin::of(caps) {
        Twin::Portable => Variant::new(&PORTABLE),
        Twin::Subgroups(lanes) => {
            let threads = threads(op.columns(), chunks);
            let ahead = if chunks.is_multiple_of(2 * threads) { 2 } else { 1 };
            let variant = Variant::new(&SUBGROUPS).with("LANES", lanes).with("THREADS", threads).with("AHEAD", ahead);
            variant.with("WIDE", wide(op, caps).into())
        }
    };
    let variant = variant
        .with("NORM", op.norm.is_some().into())
        .with("GATED", op.gated.into())
        .with("CHUNKS", chunks)
        .with("CHUNKS_A_SCALE", op.parts.group / CHUNK);
    let [out0, out1, out2] = binds.outputs;
    let binds = [binds.x, binds.norm, binds.weights, binds.scales, binds.addend, out0, out1, out2];
    GEMV_ROWS.iter().map(|&rows| Recipe::new(variant.clone().with("ROWS", rows), binds)).collect()
}

/// What computes the rows of a call, with the recipes that start at `first`.
pub(super) fn step(op: &Linears, caps: Caps, first: usize, shape: &Shape) -> Result<Option<Dispatch>, OpError> {
    let &Shape { m, x_row, addend_row, .. } = shape;
    let n = op.columns();
    let params = Params { m, n, has_addend: op.addend.is_some().into(), x_row, addend_row, ..op.params() };
    let columns = if wide(op, caps) { 2 * COLUMNS } else { COLUMNS };
    Dispatch::items(first + gemv_holding(m), &params, n.into(), columns.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroups_of_one_size_are_used() {
        let caps = |smallest, largest| Caps { subgroups: true, subgroup_size: (smallest, largest), ..Caps::PORTABLE };
        for lanes in [4, 8, 32, 64] {
            assert_eq!(Twin::of(caps(lanes, lanes)), Twin::Subgroups(lanes));
        }
        for (smallest, largest) in [(8, 32), (0, 0), (1, 1), (128, 128), (24, 24)] {
            assert_eq!(Twin::of(caps(smallest, largest)), Twin::Portable, "{smallest} to {largest}");
        }
        assert_eq!(Twin::of(Caps { subgroups: false, ..caps(32, 32) }), Twin::Portable);
    }

    #[test]
    fn workgroups_are_large_where_they_are_few() {
        let few = [(2048, 128, 128), (2048, 512, 256), (64, 4, 64)];
        let many = [(8192, 128, 64), (4096, 896, 128), (128_256, 256, 128), (128_256, 18, 64)];
        for (columns, chunks, expected) in few.into_iter().chain(many) {
            assert_eq!(threads(columns, chunks), expected, "{columns} columns of {chunks} chunks");
        }
    }
}
