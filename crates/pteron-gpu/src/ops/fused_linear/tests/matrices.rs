//! Cooperative matrices of every size by subgroups of every size, emulated.

use super::floats::floats;
use super::*;
use crate::plan::MatrixSide::{self, Eight, Sixteen};
use crate::testing::emulated_matrix_gpu;

/// The sizes of subgroups that a driver reports, and the one it runs with.
type Subgroups = ((u32, u32), u32);

const SUBGROUPS: [Subgroups; 9] = [
    ((8, 8), 8),
    ((16, 16), 16),
    ((32, 32), 32),
    ((64, 64), 64),
    // Drivers that choose.
    ((8, 16), 16),
    ((16, 32), 16),
    ((16, 32), 32),
    ((32, 64), 32),
    ((32, 64), 64),
];

/// Compares linears of kinds of weights, with a tile.
fn check(side: MatrixSide, (sizes, lanes): Subgroups, tile: usize, kinds: &[usize]) {
    let (fill_percent, rows) = EVERY_TILE[tile];
    let Some(gpu) = emulated_matrix_gpu(side, sizes, lanes, fill_percent) else { return };
    let parts = Call { norm: true, biases: 0b011, ..Call::new(&[104, 60, 40], 352) };
    let swiglu = Call { norm: true, swiglu: true, addend: true, biases: 0b10, ..Call::new(&[104, 104], 352) };
    let int8 = Call { int8: true, norm: false, ..parts.clone() };
    let calls = [parts.clone(), floats(parts), swiglu, int8];
    for call in kinds.iter().map(|kind| &calls[*kind]) {
        check_with(&gpu, &fast(), &call.builder(&[rows]), &[call.inputs(rows)], MATRIX_TOLERANCE);
    }
}

/// Each takes other tiles and weights.
#[test]
fn subgroups_of_every_size() {
    for (index, subgroups) in SUBGROUPS.into_iter().enumerate() {
        check(Sixteen, subgroups, index, &[[0, 1], [2, 3]][index % 2]);
        check(Eight, subgroups, (index + 4) % EVERY_TILE.len(), &[[2, 3], [0, 1]][index % 2]);
    }
}

/// Those of NVIDIA and of Metal, with tiles of which one splits k.
#[test]
fn usual_subgroups() {
    for (side, tile) in [(Sixteen, 1), (Sixteen, 5), (Eight, 2), (Eight, 7)] {
        check(side, ((32, 32), 32), tile, &[0, 1, 2, 3]);
    }
}
