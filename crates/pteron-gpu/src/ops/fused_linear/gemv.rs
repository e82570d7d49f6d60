//! Few rows: one dispatch, after that of the prologue if rows are quantised for a kernel that multiplies floats. Devices
//! with subgroups run the kernel with 8-bit dot products if they have instructions for them, else the subgroup kernel; software adapters run the serial one, and others the portable one.

mod int8;

use super::{Binds, FusedLinearOp, IDLE, INCLUDES, NORMED, Params, Shape, float_gemv, prologue, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::matmul::{self, GEMV_MAX_ROWS, GEMV_ROWS, gemv_holding};
use crate::plan::{Bind, Caps, Dispatch, GridKind, Lanes, Recipe};

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
        .proven(reach::gemv_serial);

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
    /// With reductions over these lanes.
    Subgroups(Lanes),
    /// The same, with 8-bit dot products.
    Int8(Lanes),
}

impl Kernel {
    fn of(caps: Caps) -> Self {
        if caps.software {
            return Self::Serial;
        }
        match caps.lanes() {
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
        let wide = whole && columns / (2 * COLUMNS) >= caps.filled(GridKind::Gemv, WIDE_GRID);
        let groups = columns / if wide { 2 * COLUMNS } else { COLUMNS };
        // With few workgroups every chunk of k is in flight at once; else a thread takes several chunks.
        let wanted = match wide {
            true if groups >= caps.filled(GridKind::Gemv, LARGE_GRID) => THREADS,
            false if groups < caps.filled(GridKind::Gemv, FULL_GRID) => chunks.next_power_of_two(),
            _ => (chunks / 3).next_power_of_two(),
        };
        Self { wide, threads: wanted.clamp(THREADS, MOST_THREADS) }
    }

    /// The same with no more threads than the sums of their clusters fit workgroup memory.
    fn within(self, caps: Caps, lanes: Lanes) -> Self {
        let cluster = GEMV_MAX_ROWS * (2 * COLUMNS + 1) * 4;
        let threads = caps.workgroup_memory / cluster * lanes.count;
        Self { threads: self.threads.min(1 << threads.max(THREADS).ilog2()), ..self }
    }

    fn of(op: &FusedLinearOp, caps: Caps) -> Option<(Lanes, Self)> {
        let Kernel::Subgroups(lanes) = Kernel::of(caps) else { return None };
        let whole = !op.swiglu && op.weights.widths().all(|width| width % (2 * COLUMNS) == 0);
        Some((lanes, Self::new(caps, op.columns(), op.weights.k / CHUNK, whole).within(caps, lanes)))
    }
}

/// Whether rows are quantised by another dispatch.
fn has_prologue(op: &FusedLinearOp, caps: Caps) -> bool {
    op.int8_eps.is_some() && !matches!(Kernel::of(caps), Kernel::Int8(_))
}

/// Bytes of scratch for `rows` rows.
pub(super) fn scratch(op: &FusedLinearOp, caps: Caps, rows: u64) -> [u64; IDLE] {
    let mut scratch = [0; IDLE];
    if has_prologue(op, caps) {
        scratch[NORMED] = prologue::scratch(op, rows);
    }
    scratch
}

/// One recipe per number of rows that a workgroup holds, then that of the prologue.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: &Binds) -> Vec<Recipe> {
    let [out0, out1, out2] = binds.outputs;
    let quantised = has_prologue(op, caps);
    let prologue = prologue::recipe(op, binds).filter(|_| quantised);
    let x = if quantised { Bind::Scratch(NORMED) } else { binds.x };
    let binds = [x, binds.norm, binds.weights, binds.scales, binds.addend, out0, out1, out2];
    if op.weights.are_floats() {
        return float_gemv::recipes(op, caps, binds);
    }
    if let Kernel::Int8(lanes) = Kernel::of(caps) {
        return int8::recipes(op, caps, lanes, binds);
    }
    let variant = match SubgroupShape::of(op, caps) {
        None if Kernel::of(caps) == Kernel::Serial => Variant::new(&SERIAL).with("THREADS", 1).with("GROUP", SERIAL_THREADS),
        None => Variant::new(&PORTABLE),
        Some((lanes, SubgroupShape { wide, threads })) => {
            let variant = Variant::new(&SUBGROUPS).with("LANES", lanes.count).with("WHOLE", lanes.are_whole().into());
            variant.with("THREADS", threads).with("WIDE", wide.into())
        }
    };
    let norm = op.norm.is_some() && !quantised;
    let variant = variant.with("NORM", norm.into()).with("GATED", op.swiglu.into()).with("CHUNKS", op.weights.k / CHUNK);
    GEMV_ROWS.iter().map(|&rows| Recipe::new(variant.clone().with("ROWS", rows), binds)).chain(prologue).collect()
}

/// The number of [`recipes`].
pub(super) fn recipe_count(op: &FusedLinearOp, caps: Caps) -> usize {
    match Kernel::of(caps) {
        _ if op.weights.are_floats() => float_gemv::ROWS.len(),
        Kernel::Int8(_) => int8::ROWS.len(),
        _ => GEMV_ROWS.len() + usize::from(has_prologue(op, caps)),
    }
}

/// The dispatches for the rows of a call, with the recipes that start at `first`.
pub(super) fn dispatches(op: &FusedLinearOp, caps: Caps, first: usize, shape: &Shape) -> Result<Vec<Dispatch>, OpError> {
    if !has_prologue(op, caps) {
        return Ok(dispatch(op, caps, first, shape, shape.x_row)?.into_iter().collect());
    }
    let prologue = prologue::dispatch(op, first + GEMV_ROWS.len(), shape.m, shape.x_row)?;
    Ok(prologue.into_iter().chain(dispatch(op, caps, first, shape, 0)?).collect())
}

/// The dispatch of the product, whose rows begin at `x_row`.
fn dispatch(op: &FusedLinearOp, caps: Caps, first: usize, shape: &Shape, x_row: u32) -> Result<Option<Dispatch>, OpError> {
    let &Shape { m, addend_row, .. } = shape;
    let n = op.columns();
    let params = Params { m, n, has_addend: op.addend.is_some().into(), x_row, addend_row, ..op.params(caps) };
    if op.weights.are_floats() {
        return float_gemv::dispatch(op, first, params);
    }
    if let Kernel::Int8(_) = Kernel::of(caps) {
        return int8::dispatch(op, first, params);
    }
    let held = gemv_holding(m);
    if takes_any_rows(op, caps) {
        let across = u64::from(n.div_ceil(SERIAL_THREADS * COLUMNS));
        return Dispatch::groups(first + held, &params, across * u64::from(m.div_ceil(GEMV_ROWS[held])));
    }
    let columns = match SubgroupShape::of(op, caps) {
        Some((_, SubgroupShape { wide: true, .. })) => 2 * COLUMNS,
        _ => COLUMNS,
    };
    Dispatch::items(first + held, &params, n.into(), columns.into())
}

/// Whether the kernel takes any number of rows, in blocks: on software adapters the kernels for many rows are slower, because their
/// threads wait for one another.
pub(super) fn takes_any_rows(op: &FusedLinearOp, caps: Caps) -> bool {
    Kernel::of(caps) == Kernel::Serial && !op.weights.are_floats()
}

/// Rows that share loads of weights, and picoseconds per tile of 16 columns and 64 values of k, measured on an H200, in whole calls.
const COSTS: [(u32, u64); 3] = [(1, 184), (2, 290), (4, 1300)];
/// Picoseconds of a dispatch apart from them.
const DISPATCH: u64 = 5_000_000;

/// Predicted picoseconds of a call with `rows` rows, of which only ratios to other predictions for the same GPU matter.
pub(super) fn time(op: &FusedLinearOp, caps: Caps, rows: u32) -> u64 {
    time_of(caps, (op.weights.tiles(), op.weights.k.div_ceil(64)), op.weights.are_floats(), rows)
}

/// The same for so many tiles of columns, and slices of 64 values of k.
pub(super) fn time_of(caps: Caps, (tiles, slices): (u32, u32), floats: bool, rows: u32) -> u64 {
    let costs = if floats { float_gemv::COSTS } else { COSTS };
    let (held, each) = costs.iter().copied().find(|&(held, _)| rows <= held).unwrap_or(costs[costs.len() - 1]);
    let tiles = u64::from(tiles) * u64::from(slices) * u64::from(rows.div_ceil(held));
    DISPATCH + tiles.saturating_mul(each * 100) / u64::from(caps.fill(GridKind::Gemv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subgroups_of_any_usual_size_have_their_kernels() {
        let caps = |smallest, largest| Caps { subgroups: true, subgroup_size: (smallest, largest), ..Caps::PORTABLE };
        for (count, most) in [(4, 4), (8, 8), (16, 16), (32, 32), (64, 64), (8, 32), (32, 64)] {
            let lanes = Lanes { count, most };
            assert_eq!(Kernel::of(caps(count, most)), Kernel::Subgroups(lanes));
            assert_eq!(Kernel::of(Caps { int8_dot: true, ..caps(count, most) }), Kernel::Int8(lanes));
        }
        for (smallest, largest) in [(0, 0), (1, 1), (128, 128), (24, 24)] {
            assert_eq!(Kernel::of(caps(smallest, largest)), Kernel::Portable, "{smallest} to {largest}");
        }
        assert_eq!(Kernel::of(Caps { subgroups: false, ..caps(32, 32) }), Kernel::Portable);
        assert_eq!(Kernel::of(Caps { software: true, int8_dot: true, ..caps(8, 8) }), Kernel::Serial);
    }

    #[test]
    fn sums_of_small_subgroups_fit_workgroup_memory() {
        for (lanes, memory) in [4, 8, 16, 64].into_iter().flat_map(|lanes| [(lanes, 16 << 10), (lanes, 32 << 10)]) {
            let caps = Caps { subgroups: true, subgroup_size: (lanes, lanes), workgroup_memory: memory, ..Caps::PORTABLE };
            let shape = SubgroupShape { wide: true, threads: MOST_THREADS }.within(caps, caps.lanes().unwrap());
            assert!(shape.threads / lanes * 8 * 36 <= memory && shape.threads >= THREADS, "{lanes} lanes: {shape:?}");
            assert_eq!(shape.threads < MOST_THREADS, lanes == 4 && memory == 16 << 10, "{lanes} lanes: {shape:?}");
        }
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
