//! Loops over groups that compilers vectorise: fixed lane counts, no branches, no calls.

use super::{MAX_LEVEL, MIN_LEVEL};

/// Vector lanes. Groups are multiples of this.
pub(super) const LANES: usize = 8;

/// Adding this to a number below 2²² in magnitude leaves no room for a fraction: the sum is rounded, ties to even, and its lowest
/// bits are the integer. Unlike `round_ties_even`, the oldest x86-64 has an instruction for it.
const SHIFT: f32 = 12_582_912.0;

/// The nearest level, ties to even. `scaled` is below 2²² in magnitude.
#[inline(always)]
pub(super) fn round(scaled: f32) -> f32 {
    let rounded = (scaled + SHIFT) - SHIFT;
    // Not `clamp`: this is one instruction each.
    let above = if rounded < MIN_LEVEL { MIN_LEVEL } else { rounded };
    if above > MAX_LEVEL { MAX_LEVEL } else { above }
}

/// The nibble of a level.
#[inline(always)]
pub(super) fn nibble(level: f32) -> u8 {
    ((level - MIN_LEVEL) + SHIFT).to_bits().to_le_bytes()[0]
}

/// The level of a nibble.
#[inline(always)]
pub(super) fn level(nibble: u8) -> f32 {
    f32::from(nibble) + MIN_LEVEL
}

/// Rounds every weight times `factor` to a level.
pub(super) fn round_all(weights: &[f32], factor: f32, levels: &mut [f32]) {
    for (level, &weight) in levels.iter_mut().zip(weights) {
        *level = round(weight * factor);
    }
}

/// Returns the largest magnitude.
pub(super) fn absmax(weights: &[f32]) -> f32 {
    let mut most = [0f32; LANES];
    for lanes in weights.as_chunks::<LANES>().0 {
        for (most, weight) in most.iter_mut().zip(lanes) {
            let magnitude = weight.abs();
            *most = if magnitude > *most { magnitude } else { *most };
        }
    }
    most.into_iter().fold(0.0, f32::max)
}

/// The sums over a group that determine its least-squares scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    factor: f32,
    /// Sum of scaled weight times level.
    products: f32,
    /// Sum of squared levels; an integer.
    squares: f32,
}

impl Fit {
    #[inline(always)]
    pub(super) fn new(weights: &[f32], factor: f32) -> Self {
        let (mut products, mut squares) = ([0f32; LANES], [0f32; LANES]);
        for lanes in weights.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                let scaled = lanes[lane] * factor;
                let level = round(scaled);
                products[lane] += scaled * level;
                squares[lane] += level * level;
            }
        }
        Self { factor, products: total(products), squares: total(squares) }
    }

    /// Returns the least-squares scale; `None` where all levels are zero.
    pub(super) fn scale(self) -> Option<f32> {
        (self.squares > 0.0).then(|| self.products / self.squares / self.factor)
    }

    /// Returns how far that scale lowers the squared error below that of zeros, in squares of `unit`.
    pub(super) fn gain(self, unit: f32) -> f32 {
        let products = self.products / (self.factor * unit);
        if self.squares > 0.0 { products * products / self.squares } else { 0.0 }
    }
}

/// Sums the lanes pairwise, for a shorter dependency chain.
fn total(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// The squared error of a group.
pub(super) fn squared_error(weights: &[f32], levels: &[f32], scale: f32) -> f64 {
    let mut sums = [0f64; LANES];
    for (weights, levels) in weights.as_chunks::<LANES>().0.iter().zip(levels.as_chunks::<LANES>().0) {
        for lane in 0..LANES {
            let error = f64::from(weights[lane]) - f64::from(levels[lane] * scale);
            sums[lane] += error * error;
        }
    }
    sums.into_iter().sum()
}
