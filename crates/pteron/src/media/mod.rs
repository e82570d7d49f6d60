//! Pictures and sound as inputs and outputs of models.
//!
//! ```no_run
//! use pteron::media::{Image, MediaLimits, PixelFormat};
//!
//! # fn run(method: &pteron::Method) -> Result<(), Box<dyn std::error::Error>> {
//! let picture = Image::decode(&std::fs::read("cat.jpg")?, &MediaLimits::default())?;
//! let format = PixelFormat::of_input(&method.inputs()[0], None)?                    // layout and channels, from the shape
//!     .with_normalisation(&[0.485, 0.456, 0.406], &[0.229, 0.224, 0.225])?;
//! let input = picture.resize_shorter(256)?.crop_centre(224, 224)?.to_tensor(&format)?;
//! # let _ = input;
//! # Ok(()) }
//! ```
//!
//! Pictures are PNG or JPEG files, sound is in WAV files. [`Image::resize`] gives the pixels of Pillow and torchvision, and
//! [`Audio::resample`] the samples of torchaudio, so that a model sees what it saw when it was trained.
//!
//! Files are hostile: dimensions are compared with [`MediaLimits`] before anything is decoded.

mod audio;
mod decode;
mod error;
mod image;
mod pixels;
mod resample;
mod resize;
mod top;
mod wav;

pub use audio::Audio;
pub use error::MediaError;
pub use image::Image;
pub use pixels::{Layout, PixelFormat};
pub use top::top_k;

/// Bounds on what a file may make the decoders allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaLimits {
    /// The most pixels of a picture.
    pub pixels: u64,
    /// The most samples of a sound, over all its channels.
    pub samples: u64,
}

impl Default for MediaLimits {
    /// 64 million pixels, and 128 million samples: 46 minutes of stereo at 24 kHz.
    fn default() -> Self {
        Self { pixels: 1 << 26, samples: 1 << 27 }
    }
}

impl MediaLimits {
    /// Sets the most pixels of a picture.
    #[must_use]
    pub fn with_pixels(mut self, pixels: u64) -> Self {
        self.pixels = pixels;
        self
    }

    /// Sets the most samples of a sound.
    #[must_use]
    pub fn with_samples(mut self, samples: u64) -> Self {
        self.samples = samples;
        self
    }
}
