//! Pixels as elements of a tensor.

use half::f16;
use pteron_format::{ScalarType, alloc};

use super::error::MediaError;
use super::image::Image;
use crate::method::TensorSpec;
use crate::tensor::Tensor;

/// The order of a picture's dimensions in a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// Channels, rows, columns: what PyTorch's models take.
    #[default]
    Nchw,
    /// Rows, columns, channels.
    Nhwc,
}

/// How a tensor holds a picture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PixelFormat {
    /// The order of the dimensions.
    pub layout: Layout,
    /// 3 for red, green and blue; 1 for grey.
    pub channels: u32,
    /// The element type: floats from 0 to 1 before they are normalised, or bytes.
    pub scalar_type: ScalarType,
    /// Whether there is a batch dimension, of 1.
    pub batch: bool,
    mean: [f32; 3],
    std: [f32; 3],
}

const EXPECTED: &str = "float32, float16 or uint8, [1, C, H, W], [C, H, W], [1, H, W, C] or [H, W, C] with C 1 or 3";

impl Default for PixelFormat {
    /// `[1, 3, H, W]` of floats from 0 to 1.
    fn default() -> Self {
        let (mean, std) = ([0.0; 3], [1.0; 3]);
        Self { layout: Layout::Nchw, channels: 3, scalar_type: ScalarType::Float, batch: true, mean, std }
    }
}

impl PixelFormat {
    /// Returns the format that a method's input takes. Without a layout, channels are looked for in the first place, then in the last.
    ///
    /// # Errors
    /// An input that is no picture of one or three channels.
    pub fn of_input(input: &TensorSpec, layout: Option<Layout>) -> Result<Self, MediaError> {
        Self::of(input.scalar_type, &input.shape, layout)
    }

    fn of(scalar_type: ScalarType, shape: &[u32], layout: Option<Layout>) -> Result<Self, MediaError> {
        let found = || format!("{} {shape:?}", scalar_type.name());
        let fail = || MediaError::Tensor { what: "picture", found: found(), expected: EXPECTED };
        let (batch, dims) = match *shape {
            [1, a, b, c] => (true, [a, b, c]),
            [a, b, c] => (false, [a, b, c]),
            _ => return Err(fail()),
        };
        let supported = matches!(scalar_type, ScalarType::Float | ScalarType::Half | ScalarType::Byte);
        let channels = |layout: Layout| match layout {
            Layout::Nchw => dims[0],
            Layout::Nhwc => dims[2],
        };
        let suits = |layout: &Layout| matches!(channels(*layout), 1 | 3);
        let candidates = layout.map_or_else(|| vec![Layout::Nchw, Layout::Nhwc], |layout| vec![layout]);
        match candidates.into_iter().find(suits) {
            Some(layout) if supported => {
                Ok(Self { layout, channels: channels(layout), scalar_type, batch, ..Self::default() })
            }
            _ => Err(fail()),
        }
    }

    /// Sets the mean and standard deviation of each channel, of values from 0 to 1: elements are (value − mean) / std. One number
    /// serves all channels.
    ///
    /// # Errors
    /// Other than 1 or `channels` numbers, a deviation of 0, a number that is not finite, or elements that are bytes.
    pub fn with_normalisation(mut self, mean: &[f32], std: &[f32]) -> Result<Self, MediaError> {
        let channels = self.channels as usize;
        let per_channel = |what, numbers: &[f32]| match *numbers {
            [one] => Ok([one; 3]),
            [r, g, b] if channels == 3 => Ok([r, g, b]),
            _ => Err(MediaError::argument(what, format!("{} numbers", numbers.len()), format!("1 number, or {channels}"))),
        };
        (self.mean, self.std) = (per_channel("the mean", mean)?, per_channel("the standard deviation", std)?);
        if let Some(bad) = self.std.iter().chain(&self.mean).find(|number| !number.is_finite()) {
            return Err(MediaError::argument("the mean or standard deviation", bad, "a finite number"));
        }
        if self.std.contains(&0.0) {
            return Err(MediaError::argument("the standard deviation", 0, "any other number"));
        }
        if self.scalar_type == ScalarType::Byte && (self.mean, self.std) != ([0.0; 3], [1.0; 3]) {
            return Err(MediaError::argument("a mean or standard deviation", "given", "none, for elements that are bytes"));
        }
        Ok(self)
    }

    /// The shape of a picture of this size.
    #[must_use]
    pub fn shape(&self, width: u32, height: u32) -> Vec<u32> {
        let dims = match self.layout {
            Layout::Nchw => [self.channels, height, width],
            Layout::Nhwc => [height, width, self.channels],
        };
        self.batch.then_some(1).into_iter().chain(dims).collect()
    }

    /// The height and width in a shape of this format.
    #[must_use]
    pub fn size(&self, shape: &[u32]) -> Option<(u32, u32)> {
        match (self.layout, &shape[usize::from(self.batch).min(shape.len())..]) {
            (Layout::Nchw, &[_, height, width]) | (Layout::Nhwc, &[height, width, _]) => Some((height, width)),
            _ => None,
        }
    }
}

impl Image {
    /// Converts to a tensor. Grey is 0.299 R + 0.587 G + 0.114 B, rounded to 8 bits as Pillow does.
    ///
    /// # Errors
    /// Out of memory.
    pub fn to_tensor(&self, format: &PixelFormat) -> Result<Tensor, MediaError> {
        let channels = format.channels as usize;
        let count = self.pixels().len() / 3;
        let value = |pixel: usize, channel: usize| {
            let pixel = &self.pixels()[pixel * 3..][..3];
            if channels == 1 { grey(pixel) } else { pixel[channel] }
        };
        let elements = count.saturating_mul(channels);
        let mut bytes = alloc::vec(elements.saturating_mul(usize::try_from(format.scalar_type.size()).unwrap_or(8)))?;
        let mut push = |pixel: usize, channel: usize| {
            let byte = value(pixel, channel);
            let float = || (f32::from(byte) / 255.0 - format.mean[channel]) / format.std[channel];
            match format.scalar_type {
                ScalarType::Byte => bytes.push(byte),
                ScalarType::Half => bytes.extend_from_slice(&f16::from_f32(float()).to_le_bytes()),
                _ => bytes.extend_from_slice(&float().to_le_bytes()),
            }
        };
        match format.layout {
            Layout::Nchw => (0..channels).for_each(|channel| (0..count).for_each(|pixel| push(pixel, channel))),
            Layout::Nhwc => (0..count).for_each(|pixel| (0..channels).for_each(|channel| push(pixel, channel))),
        }
        let shape = format.shape(self.width(), self.height());
        let fail = |_| MediaError::Tensor { what: "picture", found: format!("{shape:?}"), expected: EXPECTED };
        Tensor::new(format.scalar_type, &shape, bytes).map_err(fail)
    }

    /// Converts a tensor to a picture: `low` becomes black and `high` white, and what lies outside is cut off. Bytes stay what they are.
    /// Without a layout, channels are looked for in the first place, then in the last.
    ///
    /// # Errors
    /// A tensor that is no picture of one or three channels, or an empty range.
    pub fn from_tensor(tensor: &Tensor, low: f32, high: f32, layout: Option<Layout>) -> Result<Self, MediaError> {
        let format = PixelFormat::of(tensor.scalar_type(), tensor.shape(), layout)?;
        if !(low < high && (high - low).is_finite()) {
            return Err(MediaError::argument(
                "the range of pixels",
                format!("{low} to {high}"),
                "a lower and a higher number",
            ));
        }
        let fail = || {
            let found = format!("{} {:?}", tensor.scalar_type().name(), tensor.shape());
            MediaError::Tensor { what: "picture", found, expected: EXPECTED }
        };
        let (height, width) = format.size(tensor.shape()).ok_or_else(fail)?;
        let values: Vec<u8> = match tensor.to_f32() {
            Some(floats) => floats.into_iter().map(|value| level((value - low) / (high - low))).collect(),
            None => tensor.bytes().to_vec(),
        };
        let channels = format.channels as usize;
        let count = values.len() / channels.max(1);
        let mut pixels = alloc::vec(count.saturating_mul(3))?;
        for pixel in 0..count {
            pixels.extend((0..3).map(|channel| match (channels, format.layout) {
                (1, _) => values[pixel],
                (_, Layout::Nchw) => values[channel * count + pixel],
                (_, Layout::Nhwc) => values[pixel * channels + channel],
            }));
        }
        Self::new(width, height, pixels)
    }
}

/// Brightness in 16 fractional bits, rounded.
fn grey(pixel: &[u8]) -> u8 {
    let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
    u8::try_from((r * 19_595 + g * 38_470 + b * 7_471 + 0x8000) >> 16).unwrap_or(u8::MAX)
}

/// A share from 0 to 1 in 8 bits, rounded; 0 for NaN.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255, and NaN becomes 0")]
fn level(share: f32) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> Image {
        Image::new(2, 1, vec![0, 51, 255, 102, 153, 204]).unwrap()
    }

    fn spec(scalar_type: ScalarType, shape: &[u32]) -> TensorSpec {
        TensorSpec { scalar_type, shape: shape.to_vec(), dynamic: false }
    }

    #[test]
    fn layouts_and_normalisation() {
        let planes = image().to_tensor(&PixelFormat::default()).unwrap();
        assert_eq!(planes.shape(), [1, 3, 1, 2]);
        assert_eq!(planes.to_f32().unwrap(), [0.0, 0.4, 0.2, 0.6, 1.0, 0.8]);
        let format = PixelFormat::of_input(&spec(ScalarType::Float, &[1, 2, 3]), Some(Layout::Nhwc)).unwrap();
        let format = format.with_normalisation(&[0.0, 0.2, 1.0], &[1.0, 0.5, 2.0]).unwrap();
        let interleaved = image().to_tensor(&format).unwrap();
        assert_eq!(interleaved.shape(), [1, 2, 3]);
        assert_eq!(interleaved.to_f32().unwrap(), [0.0, 0.0, 0.0, 0.4, 0.800_000_1, -0.099_999_994]);
        let bytes = PixelFormat::of_input(&spec(ScalarType::Byte, &[1, 8, 8, 3]), None).unwrap();
        assert_eq!(image().to_tensor(&bytes).unwrap().bytes(), image().pixels());
        let grey = PixelFormat::of_input(&spec(ScalarType::Byte, &[1, 1, 8, 8]), None).unwrap();
        assert_eq!(image().to_tensor(&grey).unwrap().bytes(), [59, 144]);
    }

    #[test]
    fn a_layout_that_is_asked_for_is_the_only_one() {
        let square = spec(ScalarType::Float, &[1, 3, 4, 3]);
        assert_eq!(PixelFormat::of_input(&square, None).unwrap().layout, Layout::Nchw);
        assert_eq!(PixelFormat::of_input(&square, Some(Layout::Nhwc)).unwrap().layout, Layout::Nhwc);
        for (scalar_type, shape) in [
            (ScalarType::Float, vec![1, 4, 8, 8]),
            (ScalarType::Long, vec![1, 3, 8, 8]),
            (ScalarType::Float, vec![2, 3, 8, 8]),
            (ScalarType::Float, vec![]),
        ] {
            let error = PixelFormat::of_input(&spec(scalar_type, &shape), None).unwrap_err().to_string();
            assert!(error.contains(&format!("{} {shape:?} is no picture", scalar_type.name())), "{error}");
        }
    }

    #[test]
    fn tensors_become_the_picture_they_came_from() {
        for (shape, layout) in [(vec![1, 3, 1, 2], None), (vec![1, 2, 3], Some(Layout::Nhwc)), (vec![1, 1, 2, 3], None)] {
            let format = PixelFormat::of(ScalarType::Float, &shape, layout).unwrap();
            let tensor = image().to_tensor(&PixelFormat { channels: 3, ..format }).unwrap();
            assert_eq!(Image::from_tensor(&tensor, 0.0, 1.0, layout).unwrap(), image(), "{shape:?}");
        }
        let map = Tensor::from_f32(&[1, 1, 4], &[-5.0, f32::NAN, 0.0, 99.0]).unwrap();
        assert_eq!(
            Image::from_tensor(&map, -1.0, 1.0, None).unwrap().pixels(),
            [0, 0, 0, 0, 0, 0, 128, 128, 128, 255, 255, 255]
        );
        assert!(Image::from_tensor(&map, 1.0, 1.0, None).is_err());
    }

    #[test]
    fn normalisation_must_make_sense() {
        let with = |mean: &[f32], std: &[f32]| PixelFormat::default().with_normalisation(mean, std).unwrap_err().to_string();
        assert_eq!(with(&[0.5, 0.5], &[1.0]), "the mean is 2 numbers, allowed is 1 number, or 3");
        assert_eq!(with(&[0.5], &[1.0, 0.0, 1.0]), "the standard deviation is 0, allowed is any other number");
        assert!(with(&[f32::NAN], &[1.0]).contains("NaN"));
        let bytes = PixelFormat { scalar_type: ScalarType::Byte, ..PixelFormat::default() };
        assert!(bytes.with_normalisation(&[0.5], &[0.5]).is_err());
    }
}
