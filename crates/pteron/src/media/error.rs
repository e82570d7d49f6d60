//! Errors of pictures and sound.

use pteron_format::EscapedText;
use pteron_format::alloc::OutOfMemory;

/// Why a picture or a sound cannot be used. `Display` is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// A file of another format.
    #[error("it is not {expected}: it begins with {found}")]
    Format {
        /// The formats that are read here.
        expected: &'static str,
        /// The first bytes, or what they are known to be.
        found: String,
    },
    /// A file that is damaged, or uses a part of its format that is not supported.
    #[error("this {format} file cannot be decoded: {}", EscapedText::sentence(.reason))]
    Damaged {
        /// The file's format.
        format: &'static str,
        /// The fault.
        reason: String,
    },
    /// A picture with more pixels than [`MediaLimits`](super::MediaLimits) allows. It was not decoded.
    #[error("it has {width} × {height} pixels, more than the {limit} that are allowed")]
    TooManyPixels {
        /// The width.
        width: u64,
        /// The height.
        height: u64,
        /// The most pixels.
        limit: u64,
    },
    /// A sound with more samples than [`MediaLimits`](super::MediaLimits) allows. It was not decoded.
    #[error("it has {samples} samples, more than the {limit} that are allowed")]
    TooManySamples {
        /// The samples, over all channels.
        samples: u64,
        /// The most samples.
        limit: u64,
    },
    /// A size, a rate or another number that makes no sense.
    #[error("{what} is {found}, allowed is {allowed}")]
    Argument {
        /// The name of the argument.
        what: &'static str,
        /// Its value.
        found: String,
        /// The values it may have.
        allowed: String,
    },
    /// A tensor that cannot hold, or is not, a picture or a sound.
    #[error("a tensor of {found} is no {what}; expected is {expected}")]
    Tensor {
        /// A picture or a sound.
        what: &'static str,
        /// The tensor's type and shape.
        found: String,
        /// The types and shapes that are.
        expected: &'static str,
    },
    /// The host has no memory left.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl MediaError {
    pub(super) fn argument(what: &'static str, found: impl ToString, allowed: impl ToString) -> Self {
        Self::Argument { what, found: found.to_string(), allowed: allowed.to_string() }
    }

    /// Describes a file by its first bytes.
    pub(super) fn format(expected: &'static str, bytes: &[u8]) -> Self {
        let begins = |magic: &[u8]| bytes.starts_with(magic);
        let riff = |kind: &[u8]| begins(b"RIFF") && bytes.get(8..12) == Some(kind);
        let found = match () {
            () if bytes.is_empty() => "nothing: the file is empty".to_owned(),
            () if begins(b"\x89PNG") => "the signature of a PNG picture".to_owned(),
            () if begins(b"\xff\xd8") => "the signature of a JPEG picture".to_owned(),
            () if begins(b"GIF8") => "the signature of a GIF picture".to_owned(),
            () if begins(b"BM") => "the signature of a BMP picture".to_owned(),
            () if riff(b"WEBP") => "the signature of a WebP picture".to_owned(),
            () if riff(b"WAVE") => "the signature of a WAV sound".to_owned(),
            () if begins(b"OggS") => "the signature of an Ogg file".to_owned(),
            () if begins(b"fLaC") => "the signature of a FLAC sound".to_owned(),
            () if begins(b"ID3") || begins(b"\xff\xfb") => "the signature of an MP3 sound".to_owned(),
            () => {
                let first = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>();
                format!("the bytes {}", first.join(" "))
            }
        };
        Self::Format { expected, found }
    }
}
