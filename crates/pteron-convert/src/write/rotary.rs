//! Cosines and sines for rotary position embedding, as the exporter's tables have them.
//!
//! Frequencies and angles are float32 there, and models are trained with such tables: far positions differ from exact angles by
//! more than rounding. So the same steps are rounded here, and only the functions are more exact.

use std::f32::consts::TAU;

use super::jobs::Wave;
use crate::decoder::{Decoder, Scaling};

/// The frequencies of a decoder.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rotary {
    frequencies: Vec<f32>,
}

impl Rotary {
    pub(super) fn new(decoder: &Decoder) -> Self {
        let width = narrow(f64::from(decoder.head_width));
        let theta = f64::from(narrow(decoder.rotary.theta));
        let frequency = |index: u32| {
            let exponent = narrow(f64::from(index * 2)) / width;
            1.0 / narrow(libm::pow(theta, f64::from(exponent)))
        };
        let frequencies = (0..decoder.head_width / 2).map(frequency);
        let frequencies = match &decoder.rotary.scaling {
            None => frequencies.collect(),
            Some(scaling) => frequencies.enumerate().map(|(index, frequency)| stretch(scaling, index, frequency)).collect(),
        };
        Self { frequencies }
    }

    pub(super) fn frequencies(&self) -> &[f32] {
        &self.frequencies
    }

    /// The numbers for a position, as bytes.
    pub(super) fn row(&self, wave: Wave, position: usize, out: &mut [u8]) {
        // No context is longer than float32 can count.
        let position = narrow(position as f64);
        for (out, frequency) in out.as_chunks_mut().0.iter_mut().zip(&self.frequencies) {
            let angle = f64::from(position * frequency);
            let value = match wave {
                Wave::Cosine => libm::cos(angle),
                Wave::Sine => libm::sin(angle),
            };
            *out = narrow(value).to_le_bytes();
        }
    }
}

/// A frequency for longer contexts.
fn stretch(scaling: &Scaling, index: usize, frequency: f32) -> f32 {
    match scaling {
        Scaling::Divisors(divisors) => frequency / divisors.get(index).copied().unwrap_or(1.0),
        &Scaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
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

#[allow(clippy::cast_possible_truncation, reason = "rounding to float32 is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}
