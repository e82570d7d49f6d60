//! Few rows: one dispatch. Devices with one subgroup size run the kernel with 8-bit dot products if they have instructions for
//! them, else the subgroup kernel; software adapters run the serial one, and others the portable one.

mod int8;

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

pub(super) use int8::INT8;

/// Threads of a workgroup of the serial kernel, each with its own columns.
const SERIAL_THREADS: u32 = 16;
/// Columns per workgroup, which share loads of activations.
const COLUMNS: u32 = 4;
/// Values along k per thread and step.
const CHUNK: u32 = 16;
/// The fewest and the most threads per workgroup.
const THREADS: u32 = 64;
const MOST_THREADS: u32 = 256;
/// With fewer workgroups than this a large GPU is not fully occupied.
const FULL_GRID: u32 = 1024;
/// From this many workgroups of eight columns on, eight columns share loads of activations.
const WIDE_GRID: u32 = 768;
/// From this many on, workgroups have the fewest threads: the tail of the grid is shorter.
const LARGE_GRID: u32 = 4096;

/// The kernel of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Portable,
    /// Without barriers.
    Serial,
    /// With subgroups of this many threads.
    Subgroups(u32),
    /// The same, with 8-bit dot products.
    Int8(u32),
}

impl Kernel {
    fn of(caps: Caps) -> Self {
        if caps.software {
            return Self::Serial;
        }
        match caps.subgroup().filter(|lanes| (4..=THREADS).contains(lanes)) {
            Some(lanes) if caps.int8_dot => Self::Int8(lanes),
            Some(lanes) => Self::Subgroups(lanes),
            None => Self::Portable,
        }
    }
}

/// Workgroup shape of the subgroup kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SubgroupShape {
    /// Whether it computes eight adjacent columns of one weight instead of four.
    wide: bool,
    threads: u32,
}

impl SubgroupShape {
    /// The shape for these numbers of columns and chunks; `whole` if any eight adjacent columns belong to one weight.
    fn new(caps: Caps, columns: u32, chunks: u32, whole: bool) -> Self {
        let wide = whole && columns / (2 * COLUMNS) >= caps.filled(WIDE_GRID);
        let groups = columns / if wide { 2 * COLUMNS } else { COLUMNS };
        // With few workgroups every chunk of k is in flight at once; else a thread takes several chunks.
        let wanted = match wide {
            true if groups >= caps.filled(LARGE_GRID) => THREADS,
            false if groups < caps.filled(FULL_GRID) => chunks.next_power_of_two(),
            _ => (chunks / 3).next_power_of_two(),
        };
        Self { wide, threads: wanted.clamp(THREADS, MOST_THREADS) }
    }

    fn of(op: &FusedLinearOp, caps: Caps) -> Option<(u32, Self)> {
        let Kernel::Subgroups(lanes) = Kernel::of(caps) else { return None };
        let whole = !op.swiglu && op.weights.widths().all(|width| width % (2 * COLUMNS) == 0);
        Some((lanes, Self::new(caps, op.columns(), op.weights.k / CHUNK, whole)))
    }
}

/// One recipe per number of rows that a workgroup holds.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let [out0, out1, out2] = binds.outputs;
    let binds = [binds.x, binds.norm, binds.weights, binds.scales, binds.addend, out0, out1, out2];
    if let Kernel::Int8(lanes) = Kernel::of(caps) {
        return int8::recipes(op, caps, lanes, binds);
    }
    let variant = match SubgroupShape::of(op, caps) {
        None if Kernel::of(caps) == Kernel::Serial => Variant::new(&SERIAL).with("THREADS", 1).with("GROUP", SERIAL_THREADS),
        None => Variant::new(&PORTABLE),
        Some((lanes, SubgroupShape { wide, threads })) => {
            Variant::new(&SUBGROUPS).with("LANES", lanes).with("THREADS", threads).with("WIDE", wide.into())
        }
    };
    let variant =
        variant.with("NORM", op.norm.is_some().into()).with("GATED", op.swiglu.into()).with("CHUNKS", op.weights.k / CHUNK);
    GEMV_ROWS.iter().map(|&rows| Recipe::new(variant.clone().with("ROWS", rows), binds)).collect()
}

/// The number of [`recipes`].
pub(super) fn recipe_count(caps: Caps) -> usize {
    if let Kernel::Int8(_) = Kernel::of(caps) { int8::ROWS.len() } else { GEMV_ROWS.len() }
}

/// The dispatch for the rows of a call, with the recipes that start at `first`.
pub(super) fn dispatch(op: &FusedLinearOp, caps: Caps, first: usize, shape: &Shape) -> Result<Option<Dispatch>, OpError> {
    let &Shape { m, x_row, addend_row, .. } = shape;
    let n = op.columns();
    let params = Params { m, n, has_addend: op.addend.is_some().into(), x_row, addend_row, ..op.params() };
    if let Kernel::Int8(_) = Kernel::of(caps) {
        return int8::dispatch(op, first, params);
    }
    let columns = match (Kernel::of(caps), SubgroupShape::of(op, caps)) {
        (Kernel::Serial, _) => SERIAL_THREADS * COLUMNS,
        (_, Some((_, SubgroupShape { wide: true, .. }))) => 2 * COLUMNS,
        _ => COLUMNS,
    };
    Dispatch::items(first + gemv_holding(m), &params, n.into(), columns.into())
}

/// Rows that share loads of weights, and picoseconds per tile of 16 columns and 64 values of k, measured on an H200, in whole calls.
const COSTS: [(u32, u64); 3] = [(1, 184), (2, 290), (4, 1300)];
/// Picoseconds of a dispatch apart from them.
const DISPATCH: u64 = 5_000_000;

/// Predicted picoseconds of a call with `rows` rows, of which only ratios to other predictions for the same GPU matter.
pub(super) fn time(op: &FusedLinearOp, caps: Caps, rows: u32) -> u64 {
    let (held, each) = COSTS.iter().copied().find(|&(held, _)| rows <= held).unwrap_or(COSTS[COSTS.len() - 1]);
    let tiles = u64::from(op.params().tiles) * u64::from(op.weights.k.div_ceil(64)) * u64::from(rows.div_ceil(held));
    DISPATCH + tiles.saturating_mul(each * 100) / u64::from(caps.fill_percent.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroup_kernel_needs_one_subgroup_size() {
        let caps = |smallest, largest| Caps { subgroups: true, subgroup_size: (smallest, largest), ..Caps::PORTABLE };
        for lanes in [4, 8, 32, 64] {
            assert_eq!(Kernel::of(caps(lanes, lanes)), Kernel::Subgroups(lanes));
        }
        for (smallest, largest) in [(8, 32), (0, 0), (1, 1), (128, 128), (24, 24)] {
            assert_eq!(Kernel::of(caps(smallest, largest)), Kernel::Portable, "{smallest} to {largest}");
        }
        assert_eq!(Kernel::of(Caps { subgroups: false, ..caps(32, 32) }), Kernel::Portable);
        assert_eq!(Kernel::of(Caps { software: true, int8_dot: true, ..caps(8, 8) }), Kernel::Serial);
        assert_eq!(Kernel::of(Caps { int8_dot: true, ..caps(16, 16) }), Kernel::Int8(16));
        assert_eq!(Kernel::of(Caps { int8_dot: true, ..caps(8, 16) }), Kernel::Portable);
    }

    #[test]
    fn few_workgroups_have_many_threads() {
        let shared_on = |caps, columns, chunks, whole| {
            let SubgroupShape { wide, threads } = SubgroupShape::new(caps, columns, chunks, whole);
            (wide, threads)
        };
        let shared = |columns, chunks, whole| shared_on(Caps::PORTABLE, columns, chunks, whole);
        // Projections of models with 2,048 and with 4,096 columns: output, down, SwiGLU, logits; merged QKV.
        assert_eq!(shared(2048, 128, true), (false, 128));
        assert_eq!(shared(2048, 512, true), (false, 256));
        assert_eq!(shared(8192, 128, false), (false, 64));
        assert_eq!(shared(128_256, 128, true), (true, 64));
        assert_eq!(shared(6144, 256, true), (true, 128));
        assert_eq!(shared(4096, 896, true), (false, 256));
        assert_eq!(shared(14_336, 256, false), (false, 128));
        assert_eq!(shared(128_256, 256, true), (true, 64));
        assert_eq!(shared(64, 4, true), (false, 64));
        // A device that needs fewer workgroups, and one that needs more.
        let [small, large] = [25, 400].map(|fill_percent| Caps { fill_percent, ..Caps::PORTABLE });
        assert_eq!(shared_on(small, 2048, 128, true), (true, 64));
        assert_eq!(shared_on(large, 6144, 256, true), (false, 256));
    }
}
