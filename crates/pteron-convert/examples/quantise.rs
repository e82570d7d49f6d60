//! How many weights a second one core quantises, and how far from the originals they end.
//!
//! ```text
//! cargo run --release -p pteron-convert --example quantise
//! ```
//!
//! The weights are sums of uniform numbers, about normal; 4096 rows of 2048 in groups of 32. The time is the best of five.

use std::time::Instant;

use pteron_convert::quantise::{QuantisationError, ScaleMethod, quantise_row};

const ROWS: usize = 4096;
const COLUMNS: usize = 2048;
const GROUP: usize = 32;

fn main() {
    let weights = weights();
    for how in [ScaleMethod::MaxAbs, ScaleMethod::Exporter, ScaleMethod::Search] {
        let mut best = f64::INFINITY;
        let mut deviation = QuantisationError::default();
        for _ in 0..5 {
            let start = Instant::now();
            deviation = quantise(how, &weights);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let speed = (ROWS * COLUMNS) as f64 / best / 1e6;
        let name = format!("{how:?}");
        println!("{name:10} {speed:6.0} million a second, relative error {:.5}", deviation.relative_error());
    }
}

fn quantise(how: ScaleMethod, weights: &[f32]) -> QuantisationError {
    let (mut nibbles, mut scales) = ([0; COLUMNS / 2], [0.0; COLUMNS / GROUP]);
    let rows = weights.chunks_exact(COLUMNS);
    let deviations = rows.filter_map(|row| quantise_row(how, row, GROUP, &mut nibbles, &mut scales).ok());
    deviations.fold(QuantisationError::default(), QuantisationError::merge)
}

fn weights() -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f32::from(u16::from_le_bytes([state.to_le_bytes()[6], state.to_le_bytes()[7]])) / 65536.0 - 0.5
    };
    (0..ROWS * COLUMNS).map(|_| (0..8).map(|_| uniform()).sum::<f32>() * 0.02).collect()
}
