//! Scales as ExecuTorch's exporter chooses them.
//!
//! It asks PyTorch's torchao for scale-only HQQ: from the greatest magnitude divided by 8, levels are rounded for the scale and
//! the scale is fitted to the levels, up to 20 times. It stops early once the scales of *all* groups of a tensor have settled;
//! a scale that has settled stays as it is, so that each group can stop on its own and come to the same bits.

use super::simd::{LANES, absmax, round};

const TURNS: usize = 20;

/// Levels and scale of a group.
pub(super) fn group(weights: &[f32], levels: &mut [f32]) -> f32 {
    let mut scale = (absmax(weights) / 8.0).max(f32::EPSILON);
    for _ in 0..TURNS {
        divide(weights, scale, levels);
        let fitted = fit(weights, levels).unwrap_or(scale).max(f32::EPSILON);
        if fitted == scale {
            break;
        }
        scale = fitted;
    }
    divide(weights, scale, levels);
    scale
}

/// Not a product with the reciprocal: PyTorch divides here, and the bits may differ.
fn divide(weights: &[f32], scale: f32, levels: &mut [f32]) {
    for (level, &weight) in levels.iter_mut().zip(weights) {
        *level = round(weight / scale);
    }
}

/// The scale with the least squared error; `None` where all levels are zero.
fn fit(weights: &[f32], levels: &[f32]) -> Option<f32> {
    let products = sum(weights, levels);
    let squares = sum(levels, levels);
    (squares > 0.0).then(|| products / squares)
}

/// The sum of products in the order in which PyTorch adds numbers that lie side by side: four vectors of eight lanes in turns,
/// then the four, then the lanes. (Beyond 512 numbers it would add in a cascade.)
fn sum(left: &[f32], right: &[f32]) -> f32 {
    const VECTORS: usize = 4;
    let mut sums = [[0f32; LANES]; VECTORS];
    let vectors = left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0);
    let in_turns = left.len() / (LANES * VECTORS) * VECTORS;
    for (index, (left, right)) in vectors.enumerate() {
        let vector = if index < in_turns { index % VECTORS } else { 0 };
        for lane in 0..LANES {
            sums[vector][lane] += left[lane] * right[lane];
        }
    }
    let [mut total, others @ ..] = sums;
    for other in others {
        for lane in 0..LANES {
            total[lane] += other[lane];
        }
    }
    total.into_iter().fold(0.0, |sum, lane| sum + lane)
}
