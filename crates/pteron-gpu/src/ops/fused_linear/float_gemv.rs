//! Few rows times float weights: one kernel for every device, with fewer threads on software adapters.

use super::weights::Stored;
use super::{FusedLinearOp, INCLUDES, Params, reach};
use crate::error::OpError;
use crate::kernel::{KernelDef, Variant};
use crate::plan::{Bind, Caps, Dispatch, GridKind, Recipe};

pub(super) static GEMV: KernelDef =
    KernelDef::new("fused_linear_float_gemv", include_str!("fused_linear_float_gemv.wgsl"), Params::FIELDS)
        .with_includes(&[INCLUDES])
        .proven(reach::float_gemv);

/// Rows of activations per workgroup, one recipe each. More rows are more workgroups.
pub(super) const ROWS: [u32; 3] = [1, 2, 4];
/// The most threads per workgroup, in slots of 16.
const MOST_THREADS: u32 = 512;
/// The fewest slots: a thread stores each of the outputs of four rows.
const FEWEST_SLOTS: u32 = 4;
/// Units that a thread multiplies at least.
const UNITS_PER_SLOT: u32 = 4;
/// The most slots from so many workgroups on: a large grid occupies the GPU with small ones, and its tail is shorter.
const SMALLER: [(u32, u32); 2] = [(2048, 8), (384, 16)];

/// As in `gemv`: rows that share loads of weights, and picoseconds per tile of 16 columns and 64 values of k, 2 KiB, on an H200.
pub(super) const COSTS: [(u32, u64); 3] = [(1, 480), (2, 600), (4, 950)];

/// Slots of a workgroup: enough that all units are in flight, within the limits of the device.
fn slots(caps: Caps, (groups, units): (u32, u32), rows: u32, factors: u32) -> u32 {
    if caps.software {
        return 1;
    }
    let bytes = rows * (factors * 16 + 1) * 4;
    let memory = (caps.workgroup_memory / bytes).max(1);
    let small =
        SMALLER.iter().find(|(grid, _)| groups >= caps.filled(GridKind::Gemv, *grid)).map_or(u32::MAX, |(_, slots)| *slots);
    let most = small.min(MOST_THREADS.min(caps.max_invocations) / 16);
    let wanted = (units / UNITS_PER_SLOT).next_power_of_two();
    // A power of two below the limit.
    let most = most.min(1 << memory.ilog2());
    wanted.clamp(FEWEST_SLOTS.min(most), most)
}

/// One recipe per number of rows that a workgroup holds.
pub(super) fn recipes(op: &FusedLinearOp, caps: Caps, binds: [Bind; 8]) -> Vec<Recipe> {
    let stored = op.weights.stored(caps);
    let units = op.weights.k / stored.unit_values();
    let factors = if op.swiglu { 2 } else { 1 };
    let variant = |&rows: &u32| {
        Variant::new(&GEMV)
            .with("ROWS", rows)
            .with("NORM", op.norm.is_some().into())
            .with("GATED", op.swiglu.into())
            .with("HALF", (stored == Stored::F16).into())
            .with("SLOTS", slots(caps, (op.tiles(), units), rows, factors))
            .with("UNITS", units)
    };
    ROWS.iter().map(|rows| Recipe::new(variant(rows), binds)).collect()
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

    #[test]
    fn workgroups_keep_the_limits_of_the_device() {
        for (memory, invocations) in [(16 * 1024, 256), (32 * 1024, 512), (48 * 1024, 1024), (16 * 1024, 1024)] {
            let caps = Caps { workgroup_memory: memory, max_invocations: invocations, ..Caps::PORTABLE };
            for (rows, factors) in ROWS.into_iter().flat_map(|rows| [(rows, 1), (rows, 2)]) {
                for (groups, units) in [(1, 1), (128, 128), (128, 512), (8016, 128), (256, 896)] {
                    let slots = slots(caps, (groups, units), rows, factors);
                    assert!((FEWEST_SLOTS..=invocations / 16).contains(&slots), "{slots} slots");
                    assert!(rows * (factors * slots * 16 + slots) * 4 <= memory, "{slots} slots of {rows} rows");
                }
            }
        }
        // Output, down, SwiGLU and logits of a model with 2,048 columns.
        let large = Caps { workgroup_memory: 48 * 1024, max_invocations: 1024, ..Caps::PORTABLE };
        let shapes = [(128, 128), (128, 512), (512, 128), (8016, 128)];
        assert_eq!(shapes.map(|shape| slots(large, shape, 1, 1)), [32, 32, 16, 8]);
        assert_eq!(slots(Caps { software: true, ..large }, (128, 128), 4, 2), 1);
    }
}
