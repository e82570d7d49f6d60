//! Scales with the least squared error.

use super::max_abs;
use super::simd::{Fit, absmax, round_all, squared_error};

/// Candidate levels for the largest magnitude of a group. Levels range from −8 to 7: at 8, one sign of the scale represents the
/// extreme and the other clips it. Far smaller candidates leave levels unused; far larger ones clip several values.
const REACHES: [f32; 16] = [6.4, 6.75, 7.0, 7.2, 7.4, 7.6, 7.8, 8.0, 8.2, 8.4, 8.6, 8.9, 9.2, 9.6, 10.0, 10.6];

/// Iterations of rounding and fitting after the search.
const TURNS: usize = 3;

/// Below this range the reciprocal of a scale may overflow, and above it the largest level may. [`max_abs`] handles such groups.
const SEARCHED: std::ops::Range<f32> = 1e-36..1e37;

/// Computes levels and scale of a group, with an error no larger than that of [`max_abs`].
pub(super) fn group(weights: &[f32], levels: &mut [f32]) -> f32 {
    let most = absmax(weights);
    let plain = max_abs(weights, levels);
    if !SEARCHED.contains(&most) {
        return plain;
    }
    let plain_error = squared_error(weights, levels, plain);
    let Some(scale) = best_scale(weights, most) else { return plain };
    round_all(weights, 1.0 / scale, levels);
    if squared_error(weights, levels, scale) <= plain_error {
        return scale;
    }
    max_abs(weights, levels)
}

fn best_scale(weights: &[f32], most: f32) -> Option<f32> {
    let gain = |fit: Fit| fit.gain(most);
    let mut best = Fit::new(weights, 8.0 / most);
    let mut best_gain = gain(best);
    for reach in REACHES {
        for factor in [reach / most, -reach / most] {
            let fit = Fit::new(weights, factor);
            if gain(fit) > best_gain {
                (best, best_gain) = (fit, gain(fit));
            }
        }
    }
    for _ in 0..TURNS {
        let fit = Fit::new(weights, 1.0 / best.scale()?);
        if gain(fit) <= best_gain {
            break;
        }
        (best, best_gain) = (fit, gain(fit));
    }
    best.scale()
}
