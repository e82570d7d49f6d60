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

/// Compares linears of every kind of weights, with a tile.
fn check(side: MatrixSide, (sizes, lanes): Subgroups, tile: usize) {
    let (fill_percent, rows) = EVERY_TILE[tile];
    let Some(gpu) = emulated_matrix_gpu(side, sizes, lanes, fill_percent) else { return };
    let parts = Call { norm: true, biases: 0b011, ..Call::new(&[104, 60, 40], 352) };
    let swiglu = Call { swiglu: true, addend: true, ..Call { biases: 0b10, ..Call::new(&[104, 104], 352) } };
    for call in [parts.clone(), swiglu, floats(parts.clone()), Call { int8: true, norm: false, ..parts }] {
        check_with(&gpu, &fast(), &call.builder(&[rows]), &[call.inputs(rows)], MATRIX_TOLERANCE);
    }
}

/// Each takes other tiles.
#[test]
fn subgroups_of_every_size() {
    for (index, subgroups) in SUBGROUPS.into_iter().enumerate() {
        check(Sixteen, subgroups, index);
        check(Eight, subgroups, (index + 4) % EVERY_TILE.len());
    }
}

/// Those of NVIDIA and of Metal, with the tiles that split k and those that do not.
#[test]
fn usual_subgroups() {
    for tile in [0, 2, 3, 6, 8] {
        check(Sixteen, ((32, 32), 32), tile);
        check(Eight, ((32, 32), 32), tile);
    }
}
