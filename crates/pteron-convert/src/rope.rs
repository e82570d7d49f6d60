//! Cosine and sine tables of rotary position embedding, as the exporter computes them.
//!
//! The exporter computes frequencies and angles in float32, and models are trained with such tables: at far positions they differ
//! from exact angles by more than rounding. This module rounds at the same steps; only cosine and sine are more exact.

use std::f32::consts::TAU;

use crate::config::{ModelConfig, RopeScaling};

/// Computes the cosine and sine tables, `[context, head_dim / 2]` each.
///
/// The values are correctly rounded; about 5 % of PyTorch's differ from them by one unit in the last place, depending on the
/// machine.
#[must_use]
pub fn table(config: &ModelConfig, context: u32) -> (Vec<f32>, Vec<f32>) {
    let rotary = RopeTable::new(config);
    let angles = (0..context as usize).flat_map(|position| rotary.angles(position));
    angles.map(|angle| (Wave::Cosine.of(angle), Wave::Sine.of(angle))).unzip()
}

/// Cosine or sine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wave {
    Cosine,
    Sine,
}

impl Wave {
    fn of(self, angle: f32) -> f32 {
        narrow(match self {
            Self::Cosine => libm::cos(angle.into()),
            Self::Sine => libm::sin(angle.into()),
        })
    }
}

/// The RoPE frequencies of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RopeTable {
    frequencies: Vec<f32>,
}

impl RopeTable {
    pub(crate) fn new(config: &ModelConfig) -> Self {
        let width = narrow(f64::from(config.head_dim));
        let theta = f64::from(narrow(config.rope.theta));
        let frequency = |index: u32| {
            let exponent = narrow(f64::from(index * 2)) / width;
            1.0 / narrow(libm::pow(theta, f64::from(exponent)))
        };
        let frequencies = (0..config.head_dim / 2).map(frequency);
        let frequencies = match &config.rope.scaling {
            None => frequencies.collect(),
            Some(scaling) => {
                frequencies.enumerate().map(|(index, frequency)| scale_frequency(scaling, index, frequency)).collect()
            }
        };
        Self { frequencies }
    }

    pub(crate) fn frequencies(&self) -> &[f32] {
        &self.frequencies
    }

    /// The rotation angles of each pair at a position.
    fn angles(&self, position: usize) -> impl Iterator<Item = f32> {
        // No context is longer than float32 can count.
        let position = narrow(position as f64);
        self.frequencies.iter().map(move |frequency| position * frequency)
    }

    /// The table row of a position, as bytes.
    pub(crate) fn row(&self, wave: Wave, position: usize, out: &mut [u8]) {
        for (out, angle) in out.as_chunks_mut().0.iter_mut().zip(self.angles(position)) {
            *out = wave.of(angle).to_le_bytes();
        }
    }
}

/// Scales a frequency.
fn scale_frequency(scaling: &RopeScaling, index: usize, frequency: f32) -> f32 {
    match scaling {
        RopeScaling::FrequencyDivisors(divisors) => frequency / divisors.get(index).copied().unwrap_or(1.0),
        &RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
            let [factor, low, high] = [factor, low_frequency_factor, high_frequency_factor].map(narrow);
            let context = narrow(f64::from(original_context));
            // PyTorch divides a number by a tensor through the tensor's reciprocal.
            let wavelength = frequency.recip() * TAU;
            if wavelength < context / high {
                return frequency;
            }
            if wavelength > context / low {
                return frequency / factor;
            }
            let smooth = (wavelength.recip() * context - low) / (high - low);
            (1.0 - smooth) * frequency / factor + smooth * frequency
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "rounding to float32 is intended")]
pub(crate) fn narrow(value: f64) -> f32 {
    value as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RopeStyle;

    /// Llama 3.1's frequencies, as PyTorch computes them: two unscaled, seven interpolated, two divided.
    #[test]
    fn scaled_frequencies_equal_pytorchs_bit_for_bit() {
        let expected = [
            0x3b81_2e35,
            0x3b52_7720,
            0x3b0d_fd06,
            0x3ab3_d11d,
            0x3a60_979e,
            0x3a09_95d2,
            0x39a3_f108,
            0x393b_2dd2,
            0x38c8_6886,
            0x38a3_418d,
            0x3884_fdbf,
        ];
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_frequency_factor: 1.0,
            high_frequency_factor: 4.0,
            original_context: 8192,
        };
        let frequencies = |scaling| {
            let rotary = crate::config::RopeConfig { theta: 5e5, scaling, style: RopeStyle::HalfSplit };
            let config = crate::synthetic::parse("layers=1,width=128,heads=1,hidden=128,vocab=8").unwrap();
            RopeTable::new(&ModelConfig { rope: rotary, ..config }).frequencies
        };
        let stretched = frequencies(Some(scaling));
        let bits: Vec<u32> = stretched[27..38].iter().map(|frequency| frequency.to_bits()).collect();
        assert_eq!(bits, expected);
        let plain = frequencies(None);
        assert_eq!(stretched[..28], plain[..28]);
        assert_eq!(stretched[63], plain[63] / 8.0);
    }
}
