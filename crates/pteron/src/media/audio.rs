//! A decoded sound.

use half::f16;
use pteron_format::{ScalarType, alloc};

use super::error::MediaError;
use super::{MediaLimits, resample, wav};
use crate::method::TensorSpec;
use crate::tensor::Tensor;

const EXPECTED: &str = "float32 or float16 [1, samples], with any number of leading dimensions of 1";

/// A sound of one channel, from −1 to 1.
#[derive(Clone, PartialEq)]
pub struct Audio {
    rate: u32,
    samples: Vec<f32>,
}

impl std::fmt::Debug for Audio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Audio({} samples at {} Hz)", self.samples.len(), self.rate)
    }
}

impl Audio {
    /// Creates a sound from samples.
    ///
    /// # Errors
    /// A rate of 0.
    pub fn new(rate: u32, samples: Vec<f32>) -> Result<Self, MediaError> {
        match rate {
            0 => Err(MediaError::argument("the number of samples per second", 0, "1 or more")),
            rate => Ok(Self { rate, samples }),
        }
    }

    /// Decodes a WAV file (PCM of 8 to 32 bits, floats of 32 and 64), and mixes its channels to one.
    ///
    /// # Errors
    /// Another format, a damaged file, or one with more samples than the limits allow.
    pub fn decode_wav(bytes: &[u8], limits: &MediaLimits) -> Result<Self, MediaError> {
        wav::decode(bytes, limits)
    }

    /// Encodes as a WAV file of 16 bits.
    ///
    /// # Errors
    /// More samples than such a file holds, or out of memory.
    pub fn encode_wav(&self) -> Result<Vec<u8>, MediaError> {
        wav::encode(self)
    }

    /// Samples per second.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// The samples.
    #[must_use]
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// Converts to another rate with a windowed sinc: the samples of `torchaudio.functional.resample`.
    ///
    /// # Errors
    /// A rate of 0, more samples than the limits allow, or out of memory.
    pub fn resample(&self, rate: u32, limits: &MediaLimits) -> Result<Self, MediaError> {
        if rate == 0 {
            return Self::new(rate, Vec::new());
        }
        Self::new(rate, resample::resample(&self.samples, self.rate, rate, limits)?)
    }

    /// Converts to what a method's input takes: `[…, 1, samples]`. An input of fixed length gets as many samples as it has; a shorter
    /// sound is followed by silence.
    ///
    /// # Errors
    /// An input of another shape or type, or a sound that is longer than it takes.
    pub fn to_tensor(&self, input: &TensorSpec) -> Result<Tensor, MediaError> {
        let found = || format!("{} {:?}", input.scalar_type.name(), input.shape);
        let fail = || MediaError::Tensor { what: "sound", found: found(), expected: EXPECTED };
        let (&most, leading) = input.shape.split_last().ok_or_else(fail)?;
        if leading.iter().any(|&dim| dim != 1) || !matches!(input.scalar_type, ScalarType::Float | ScalarType::Half) {
            return Err(fail());
        }
        let length = u32::try_from(self.samples.len()).ok().filter(|&length| length <= most);
        let too_long = || {
            let allowed = format!("{}{most}", if input.dynamic { "up to " } else { "" });
            MediaError::argument("the number of samples", self.samples.len(), allowed)
        };
        let length = length.ok_or_else(too_long)?;
        let length = if input.dynamic { length } else { most };
        let mut bytes = alloc::vec((length as usize).saturating_mul(4))?;
        for sample in self.samples.iter().copied().chain(std::iter::repeat(0.0)).take(length as usize) {
            match input.scalar_type {
                ScalarType::Half => bytes.extend_from_slice(&f16::from_f32(sample).to_le_bytes()),
                _ => bytes.extend_from_slice(&sample.to_le_bytes()),
            }
        }
        let shape: Vec<u32> = leading.iter().copied().chain([length]).collect();
        Tensor::new(input.scalar_type, &shape, bytes).map_err(|_| fail())
    }

    /// Converts a tensor `[…, 1, samples]` to a sound.
    ///
    /// # Errors
    /// A tensor of another shape or type, or a rate of 0.
    pub fn from_tensor(tensor: &Tensor, rate: u32) -> Result<Self, MediaError> {
        let found = || format!("{} {:?}", tensor.scalar_type().name(), tensor.shape());
        let fail = || MediaError::Tensor { what: "sound", found: found(), expected: EXPECTED };
        let (_, leading) = tensor.shape().split_last().ok_or_else(fail)?;
        let samples = tensor.to_f32().filter(|_| leading.iter().all(|&dim| dim == 1)).ok_or_else(fail)?;
        Self::new(rate, samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(shape: &[u32], dynamic: bool) -> TensorSpec {
        TensorSpec { scalar_type: ScalarType::Float, shape: shape.to_vec(), dynamic }
    }

    #[test]
    fn inputs_get_their_length() {
        let audio = Audio::new(8000, vec![0.5, -0.5, 0.25]).unwrap();
        let fixed = audio.to_tensor(&spec(&[1, 1, 5], false)).unwrap();
        assert_eq!((fixed.shape(), fixed.to_f32().unwrap()), (&[1, 1, 5][..], vec![0.5, -0.5, 0.25, 0.0, 0.0]));
        let live = audio.to_tensor(&spec(&[1, 5], true)).unwrap();
        assert_eq!((live.shape(), live.to_f32().unwrap()), (&[1, 3][..], vec![0.5, -0.5, 0.25]));
        assert_eq!(Audio::from_tensor(&live, 8000).unwrap(), audio);
        let error = audio.to_tensor(&spec(&[1, 2], true)).unwrap_err().to_string();
        assert_eq!(error, "the number of samples is 3, allowed is up to 2");
        for shape in [&[][..], &[2, 9]] {
            assert!(audio.to_tensor(&spec(shape, true)).unwrap_err().to_string().contains("is no sound"));
        }
    }
}
