//! Few rows: one dispatch for everything, by the kernel for subgroups where all of them have one size, by one without barriers where
//! there is no GPU, else by their portable twin.

use super::{Binds, FusedLinearOp, INCLUDES, Params, Shape, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{self, GEMV_ROWS, gemv_holding};
use crate::plan::{Caps, Dispatch, Recipe};

pub(super) static PORTABLE: KernelDef =
    KernelDef::new("fused_linear_q4gsw_gemv", include_str!("fused_linear_q4gsw_gemv.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .proven(reach::gemv);
pub(super) static SUBGROUPS: KernelDef = KernelDef::new(
    "fused_linear_q4gsw_gemv_subgroups",
    include_str!("fused_linear_q4gsw_gemv_subgroups.wgsl"),
    Params::FIELDS,
)
.with_includes(&[INCLUDES, matmul::INCLUDES])
.with_subgroups()
.proven(reach::gemv);
pub(super) static SERIAL: KernelDef =
    KernelDef::new("fused_linear_q4gsw_gemv_serial", include_str!("fused_linear_q4gsw_gemv_serial.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES, matmul::INCLUDES])
        .proven(reach::gemv);

/// Threads of a workgroup of the kernel without barriers, each with columns of its own.
const SERIAL_THREADS: u32 = 16;
/// Columns of a workgroup: its threads read the activations once for all of them.
const COLUMNS: u32 = 4;
/// Values along k that a thread takes at a time.
const CHUNK: u32 = 16;
/// The fewest and the most threads of a workgroup.
const THREADS: u32 = 64;
const MOST_THREADS: u32 = 256;
/// With fewer workgroups than this a large GPU is not busy.
const FULL_GRID: u32 = 1024;
/// From so many workgroups of twice as many columns on, they read the activations for more of them.
const WIDE_GRID: u32 = 768;
/// From so many on, they are as small as can be: less is left to wait for at the end of a grid.
const LARGE_GRID: u32 = 4096;

/// How the kernel of a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Twin {
    Portable,
    /// Without barriers.
    Serial,
    /// With subgroups of so many lanes.
    Subgroups(u32),
}

impl Twin {
    fn of(caps: Caps) -> Self {
        if caps.software {
            return Self::Serial;
        }
        caps.subgroup().filter(|lanes| (4..=THREADS).contains(lanes)).map_or(Self::Portable, Self::Subgroups)
    }
}

/// Workgroups of a device with subgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shared {
    /// Whether they have twice as many columns, which follow one another in one part.
    wide: bool,
    threads: u32,
}

impl Shared {
    /// For so many columns of so many chunks; `whole` where any eight that follow one another are of one part.
    fn new(caps: Caps, columns: u32, chunks: u32, whole: bool) -> Self {
        let wide = whole && columns / (2 * COLUMNS) >= caps.filled(WIDE_GRID);
        let groups = columns / if wide { 2 * COLUMNS } else { COLUMNS };
        // Where there are few, all of k is on its way at once; else each thread has some chunks.
        let wanted = match wide {
            true if groups >= caps.filled(LARGE_GRID) => THREADS,
            false if groups < caps.filled(FULL_GRID) => chunks.next_power_of_two(),
            _ => (chunks / 3).next_power_of_two(),
        };
        Self { wide, threads: wanted.clamp(THREADS, MOST_THREADS) }
    }

    fn of(op: &FusedLinearOp, caps: Caps) -> Option<(u32, Self)> {
        let Twin::Subgroups(lanes) = Twin::of(caps) else { return None };
        let whole = !op.swiglu && op.weights.widths().all(|width| width % (2 * COLUMNS) == 0);
        Some((lanes, Self::new(caps, op.columns(), op.weights.k / CHUNK, whole)))
    }
}

/// A recipe for each number of rows that a kernel may hold.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let variant = match Shared::of(op, caps) {
        None if Twin::of(caps) == Twin::Serial => Variant::new(&SERIAL).with("THREADS", 1).with("GROUP", SERIAL_THREADS),
        None => Variant::new(&PORTABLE),
        Some((lanes, Shared { wide, threads })) => {
            Variant::new(&SUBGROUPS).with("LANES", lanes).with("THREADS", threads).with("WIDE", wide.into())
        }
    };
    let variant = variant
        .with("NORM", op.norm.is_some().into())
        .with("GATED", op.swiglu.into())
        .with("CHUNKS", op.weights.k / CHUNK)
        .with("CHUNKS_PER_SCALE", op.weights.group / CHUNK);
    let [out0, out1, out2] = binds.outputs;
    let binds = [binds.x, binds.norm, binds.weights, binds.scales, binds.addend, out0, out1, out2];
    GEMV_ROWS.iter().map(|&rows| Recipe::new(variant.clone().with("ROWS", rows), binds)).collect()
}

/// What computes the rows of a call, with the recipes that start at `first`.
pub(super) fn step(op: &FusedLinearOp, caps: Caps, first: usize, shape: &Shape) -> Result<Option<Dispatch>, OpError> {
    let &Shape { m, x_row, addend_row, .. } = shape;
    let n = op.columns();
    let params = Params { m, n, has_addend: op.addend.is_some().into(), x_row, addend_row, ..op.params() };
    let columns = match (Twin::of(caps), Shared::of(op, caps)) {
        (Twin::Serial, _) => SERIAL_THREADS * COLUMNS,
        (_, Some((_, Shared { wide: true, .. }))) => 2 * COLUMNS,
        _ => COLUMNS,
    };
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
        assert_eq!(Twin::of(Caps { software: true, ..caps(8, 8) }), Twin::Serial);
    }

    #[test]
    fn workgroups_are_large_where_they_are_few() {
        let shared_on = |caps, columns, chunks, whole| {
            let Shared { wide, threads } = Shared::new(caps, columns, chunks, whole);
            (wide, threads)
        };
        let shared = |columns, chunks, whole| shared_on(Caps::PORTABLE, columns, chunks, whole);
        // Projections of a model of 2,048 and of one of 4,096 columns: few columns, many, two that are gated, all tokens.
        assert_eq!(shared(2048, 128, true), (false, 128));
        assert_eq!(shared(2048, 512, true), (false, 256));
        assert_eq!(shared(8192, 128, false), (false, 64));
        assert_eq!(shared(128_256, 128, true), (true, 64));
        assert_eq!(shared(6144, 256, true), (true, 128));
        assert_eq!(shared(4096, 896, true), (false, 256));
        assert_eq!(shared(14_336, 256, false), (false, 128));
        assert_eq!(shared(128_256, 256, true), (true, 64));
        assert_eq!(shared(64, 4, true), (false, 64));
        // A device that is busy with less, and one that takes more.
        let [small, large] = [25, 400].map(|fill_percent| Caps { fill_percent, ..Caps::PORTABLE });
        assert_eq!(shared_on(small, 2048, 128, true), (true, 64));
        assert_eq!(shared_on(large, 6144, 256, true), (false, 256));
    }
}
