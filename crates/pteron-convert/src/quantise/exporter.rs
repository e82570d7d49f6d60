//! Scales of ExecuTorch's exporter: torchao's scale-only HQQ.
//!
//! Starting from absmax / 8, it alternates between rounding to levels and fitting the scale to them, up to 20 times. torchao stops
//! once the scales of *all* groups of a tensor have converged; a converged scale does not change, so stopping per group gives the
//! same bits.

use super::simd::{LANES, absmax, round};

const ITERATIONS: usize = 20;

/// Computes levels and scale of a group.
pub(super) fn group(weights: &[f32], levels: &mut [f32]) -> f32 {
    let mut scale = (absmax(weights) / 8.0).max(f32::EPSILON);
    for _ in 0..ITERATIONS {
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

/// Divides, as PyTorch does; multiplying by the reciprocal could give other bits.
fn divide(weights: &[f32], scale: f32, levels: &mut [f32]) {
    for (level, &weight) in levels.iter_mut().zip(weights) {
        *level = round(weight / scale);
    }
}

/// Returns the least-squares scale; `None` where all levels are zero.
fn fit(weights: &[f32], levels: &[f32]) -> Option<f32> {
    let products = sum(weights, levels);
    let squares = sum(levels, levels);
    (squares > 0.0).then(|| products / squares)
}

/// The dot product in PyTorch's order of summation: four vectors of eight lanes in turn, then the four, then the lanes. (Beyond
/// 512 elements PyTorch sums in a cascade.)
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
