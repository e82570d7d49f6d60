//! Conversion of sample rates: a sinc of six zero crossings, under a squared cosine, cut off at 0.99 of the lower rate's band.

use std::f64::consts::PI;

use pteron_format::alloc;

use super::MediaLimits;
use super::error::MediaError;

/// Zero crossings of the sinc on each side.
const CROSSINGS: f64 = 6.0;
/// The share of the band that passes.
const ROLL_OFF: f64 = 0.99;
/// The most weights that are kept at once: one set per position between two input samples.
const MOST_WEIGHTS: u64 = 1 << 22;

/// The filter between two rates without a common divisor.
struct Filter {
    from: f64,
    to: f64,
    /// The cut-off, as a rate.
    band: f64,
    /// Input samples on each side.
    reach: i64,
}

impl Filter {
    #[allow(clippy::cast_possible_truncation, reason = "at most 6.1 times the ratio of two rates")]
    fn new(from: u64, to: u64) -> Self {
        let [from, to] = [from, to].map(|rate| rate as f64);
        let band = from.min(to) * ROLL_OFF;
        Self { from, to, band, reach: (CROSSINGS * from / band).ceil() as i64 }
    }

    /// The weight of the input sample `offset` places after the one at or before an output, which lies `phase / to` of a sample later.
    fn weight(&self, offset: i64, phase: u64) -> f64 {
        let time = (offset as f64 / self.from - phase as f64 / (self.from * self.to)) * self.band;
        let time = time.clamp(-CROSSINGS, CROSSINGS);
        let window = (time * PI / CROSSINGS / 2.0).cos().powi(2);
        let angle = time * PI;
        let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
        sinc * window * self.band / self.from
    }
}

/// Converts samples from one rate to another; both are positive.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "positions lie below the number of samples; sound has 24 bits"
)]
pub(super) fn resample(samples: &[f32], from: u32, to: u32, limits: &MediaLimits) -> Result<Vec<f32>, MediaError> {
    let divisor = gcd(from, to);
    let [from, to] = [from / divisor, to / divisor].map(u64::from);
    let count = (samples.len() as u128 * u128::from(to)).div_ceil(u128::from(from));
    let too_many =
        || MediaError::TooManySamples { samples: u64::try_from(count).unwrap_or(u64::MAX), limit: limits.samples };
    let count = u64::try_from(count).ok().filter(|&count| count <= limits.samples).ok_or_else(too_many)?;
    let mut out = alloc::vec(usize::try_from(count).map_err(|_| too_many())?)?;
    if from == to {
        out.extend_from_slice(samples);
        return Ok(out);
    }
    let filter = Filter::new(from, to);
    let taps = filter.reach.unsigned_abs().saturating_mul(2).saturating_add(1);
    // Positions repeat after `to` outputs.
    let kept = (taps.saturating_mul(to) <= MOST_WEIGHTS).then(|| table(&filter, from, to));
    for index in 0..count {
        let position = u128::from(index) * u128::from(from);
        let (base, phase) = ((position / u128::from(to)) as i64, (position % u128::from(to)) as u64);
        let start = base.saturating_sub(filter.reach);
        // Only samples that exist, however far the filter reaches.
        let first = usize::try_from(start).unwrap_or(0).min(samples.len());
        let end =
            usize::try_from(base.saturating_add(filter.reach)).map_or(0, |last| last.saturating_add(1)).min(samples.len());
        let weights = kept.as_ref().and_then(|table| table.get((index % to) as usize));
        let weight = |at: i64| match weights.and_then(|weights| weights.get(usize::try_from(at - start).ok()?)) {
            Some(&weight) => weight,
            None => filter.weight(at - base, phase),
        };
        let inside = samples[first..end.max(first)].iter().zip(first as i64..);
        out.push(inside.map(|(&sample, at)| f64::from(sample) * weight(at)).sum::<f64>() as f32);
    }
    Ok(out)
}

/// The weights of the first `to` outputs.
fn table(filter: &Filter, from: u64, to: u64) -> Vec<Vec<f64>> {
    let phase = |index: u64| u64::try_from(u128::from(index) * u128::from(from) % u128::from(to)).unwrap_or(0);
    let weights = |index: u64| (-filter.reach..=filter.reach).map(|offset| filter.weight(offset, phase(index))).collect();
    (0..to).map(weights).collect()
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_keeps_its_pitch_and_loudness() {
        #[expect(clippy::cast_possible_truncation, reason = "samples have 32 bits")]
        let tone = |rate: u32| {
            (0..rate / 10).map(|at| (f64::from(at) / f64::from(rate) * 440.0 * 2.0 * PI).sin() as f32).collect::<Vec<_>>()
        };
        for (from, to) in [(44_100, 16_000), (8_000, 16_000), (16_000, 44_100), (48_000, 16_000), (11_025, 11_024)] {
            let out = resample(&tone(from), from, to, &MediaLimits::default()).unwrap();
            assert_eq!(out.len(), tone(to).len(), "{from} to {to}");
            // Apart from the ends, where there is nothing on one side.
            let far =
                out.iter().zip(tone(to)).skip(100).take(out.len() - 200).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far < 0.01, "{from} to {to}: {far}");
        }
    }

    #[test]
    fn extreme_rates_take_no_longer_than_the_samples_justify() {
        let samples = [1.0; 100];
        assert_eq!(resample(&samples, u32::MAX, 1, &MediaLimits::default()).unwrap().len(), 1);
        let error = resample(&samples, 1, u32::MAX, &MediaLimits::default()).unwrap_err().to_string();
        assert_eq!(error, "it has 429496729500 samples, more than the 134217728 that are allowed");
        assert_eq!(resample(&[], 5, 7, &MediaLimits::default()).unwrap(), []);
        assert_eq!(resample(&samples, u32::MAX, u32::MAX - 1, &MediaLimits::default()).unwrap().len(), 100);
    }
}
