//! WAV files: PCM of 8 to 32 bits, and floats.

use pteron_format::alloc;

use super::MediaLimits;
use super::audio::Audio;
use super::error::MediaError;

/// Numbers of formats in the header; the last one names another in its extension.
const PCM: u16 = 1;
const FLOAT: u16 = 3;
const EXTENSIBLE: u16 = 0xFFFE;

/// How samples are stored.
struct Form {
    kind: u16,
    channels: u16,
    rate: u32,
    /// Bytes of a sample.
    size: usize,
}

fn damaged(reason: impl Into<String>) -> MediaError {
    MediaError::Damaged { format: "WAV", reason: reason.into() }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Decodes a file, and mixes its channels to one.
pub(super) fn decode(bytes: &[u8], limits: &MediaLimits) -> Result<Audio, MediaError> {
    if !bytes.starts_with(b"RIFF") || bytes.get(8..12) != Some(b"WAVE") {
        return Err(MediaError::format("a WAV sound", bytes));
    }
    let form = read_form(chunk(bytes, *b"fmt ")?.ok_or_else(|| damaged("it has no format"))?)?;
    let data = chunk(bytes, *b"data")?.ok_or_else(|| damaged("it has no samples"))?;
    let channels = usize::from(form.channels);
    let count = data.len() / form.size;
    if count as u64 > limits.samples {
        return Err(MediaError::TooManySamples { samples: count as u64, limit: limits.samples });
    }
    let mut samples = alloc::vec(count / channels)?;
    // What is left after the last whole frame is dropped.
    for frame in data.chunks_exact(form.size * channels) {
        let sum: f32 = frame.chunks_exact(form.size).map(|sample| value(form.kind, sample)).sum();
        samples.push(sum / f32::from(form.channels));
    }
    Audio::new(form.rate, samples)
}

/// Finds a chunk. One that is longer than the file ends with it, as in files that were not closed.
fn chunk(bytes: &[u8], name: [u8; 4]) -> Result<Option<&[u8]>, MediaError> {
    let mut at = 12usize;
    while let (Some(found), Some(len)) = (bytes.get(at..at.saturating_add(4)), u32_at(bytes, at.saturating_add(4))) {
        let start = at + 8;
        let end = start.saturating_add(len as usize);
        if found == name {
            return Ok(Some(&bytes[start..end.min(bytes.len())]));
        }
        // Chunks begin at even positions.
        at = end.saturating_add(end % 2);
    }
    Ok(None)
}

fn read_form(header: &[u8]) -> Result<Form, MediaError> {
    let short = || damaged(format!("its format has {} bytes, and needs 16 or more", header.len()));
    let number = |at| u16_at(header, at).ok_or_else(short);
    let (kind, channels, bits) = (number(0)?, number(2)?, number(14)?);
    let rate = u32_at(header, 4).ok_or_else(short)?;
    let kind = if kind == EXTENSIBLE { u16_at(header, 24).ok_or_else(short)? } else { kind };
    if channels == 0 || rate == 0 {
        return Err(damaged(format!("it has {channels} channels of {rate} samples per second")));
    }
    match (kind, bits) {
        (PCM, 8 | 16 | 24 | 32) | (FLOAT, 32 | 64) => Ok(Form { kind, channels, rate, size: usize::from(bits / 8) }),
        (PCM | FLOAT, bits) => {
            Err(damaged(format!("its samples have {bits} bits; supported are 8, 16, 24 and 32, and floats of 32 and 64")))
        }
        (other, _) => {
            Err(damaged(format!("its samples are compressed (format {other}); supported are PCM (1) and floats (3)")))
        }
    }
}

/// A sample from −1 to 1; floats may exceed that, and are 0 where they are not finite.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "to 24 bits, which suffices for sound")]
fn value(kind: u16, sample: &[u8]) -> f32 {
    let float = match (kind, sample) {
        (FLOAT, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (FLOAT, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]) as f32,
        (_, &[byte]) => (f32::from(byte) - 128.0) / 128.0,
        (_, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
        (_, &[a, b, c]) => i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0,
        (_, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0,
        _ => 0.0,
    };
    if float.is_finite() { float } else { 0.0 }
}

/// Encodes as 16-bit PCM.
#[allow(clippy::cast_possible_truncation, reason = "clamped to 16 bits")]
pub(super) fn encode(audio: &Audio) -> Result<Vec<u8>, MediaError> {
    let too_long = || MediaError::TooManySamples { samples: audio.samples().len() as u64, limit: u64::from(u32::MAX / 4) };
    let len = u32::try_from(audio.samples().len()).ok().and_then(|len| len.checked_mul(2)).ok_or_else(too_long)?;
    let riff = len.checked_add(36).ok_or_else(too_long)?;
    let rate = audio.rate();
    let mut out = alloc::vec((len as usize).saturating_add(44))?;
    for part in
        [&b"RIFF"[..], &riff.to_le_bytes(), b"WAVEfmt ", &16u32.to_le_bytes(), &PCM.to_le_bytes(), &1u16.to_le_bytes()]
    {
        out.extend_from_slice(part);
    }
    for part in [rate.to_le_bytes(), rate.saturating_mul(2).to_le_bytes(), [2, 0, 16, 0]] {
        out.extend_from_slice(&part);
    }
    out.extend_from_slice(b"data");
    out.extend_from_slice(&len.to_le_bytes());
    for sample in audio.samples() {
        // NaN becomes 0.
        out.extend_from_slice(&((sample.clamp(-1.0, 1.0) * 32_767.0).round() as i16).to_le_bytes());
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header and these samples, and an unknown chunk of odd length between them.
    fn file(kind: u16, channels: u16, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut out = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        out.extend([kind.to_le_bytes(), channels.to_le_bytes()].concat());
        out.extend([8000u32.to_le_bytes(), 0u32.to_le_bytes()].concat());
        out.extend([0u16.to_le_bytes(), bits.to_le_bytes()].concat());
        out.extend(b"LIST\x03\0\0\0abc\0data");
        out.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        out.extend(data);
        out
    }

    fn samples(file: &[u8]) -> Vec<f32> {
        Audio::decode_wav(file, &MediaLimits::default()).unwrap().samples().to_vec()
    }

    #[test]
    fn every_kind_of_sample() {
        assert_eq!(samples(&file(PCM, 1, 8, &[0, 128, 192])), [-1.0, 0.0, 0.5]);
        assert_eq!(samples(&file(PCM, 1, 16, &[0, 0x80, 0, 0x40])), [-1.0, 0.5]);
        assert_eq!(samples(&file(PCM, 1, 24, &[0, 0, 0x80, 0, 0, 0x40])), [-1.0, 0.5]);
        assert_eq!(samples(&file(PCM, 1, 32, &[0, 0, 0, 0x80])), [-1.0]);
        assert_eq!(samples(&file(FLOAT, 1, 32, &0.25f32.to_le_bytes())), [0.25]);
        assert_eq!(samples(&file(FLOAT, 1, 64, &[0.25f64, f64::NAN].map(f64::to_le_bytes).concat())), [0.25, 0.0]);
        // Channels are mixed, and half a frame is dropped.
        assert_eq!(samples(&file(PCM, 2, 8, &[0, 192, 128, 128, 7])), [-0.25, 0.0]);
        let mut extensible = file(PCM, 1, 16, &[0, 0x40]);
        extensible.splice(20..22, EXTENSIBLE.to_le_bytes());
        extensible.splice(16..20, 40u32.to_le_bytes());
        extensible.splice(36..36, [0; 24]);
        extensible.splice(44..46, PCM.to_le_bytes());
        assert_eq!(samples(&extensible), [0.5]);
    }

    #[test]
    fn written_files_are_read_back() {
        let audio = Audio::new(16_000, vec![0.0, 0.5, -1.0, 2.0, f32::NAN]).unwrap();
        let back = Audio::decode_wav(&audio.encode_wav().unwrap(), &MediaLimits::default()).unwrap();
        assert_eq!(back.rate(), 16_000);
        for (found, expected) in back.samples().iter().zip([0.0, 0.5, -1.0, 1.0, 0.0]) {
            assert!((found - expected).abs() < 1e-4, "{found} is not {expected}");
        }
    }

    #[test]
    fn damaged_files_are_errors() {
        let refused = |file: &[u8]| Audio::decode_wav(file, &MediaLimits::default()).unwrap_err().to_string();
        assert!(refused(&file(PCM, 0, 16, &[])).ends_with("it has 0 channels of 8000 samples per second"));
        assert!(refused(&file(PCM, 1, 12, &[])).contains("its samples have 12 bits"));
        assert!(refused(&file(85, 1, 16, &[])).contains("compressed (format 85)"));
        assert!(refused(b"RIFF\0\0\0\0WAVE").ends_with("it has no format"));
        assert!(refused(b"\x89PNG").contains("it is not a WAV sound: it begins with the signature of a PNG picture"));
        let limits = MediaLimits::default().with_samples(2);
        let error = Audio::decode_wav(&file(PCM, 1, 8, &[0; 3]), &limits).unwrap_err().to_string();
        assert_eq!(error, "it has 3 samples, more than the 2 that are allowed");
        // No cut and no changed byte makes it panic.
        let whole = file(PCM, 2, 16, &[1; 32]);
        for at in 0..whole.len() {
            let _ = Audio::decode_wav(&whole[..at], &MediaLimits::default());
            for value in [0, 1, 0x7F, 0xFF] {
                let mut broken = whole.clone();
                broken[at] = value;
                let _ = Audio::decode_wav(&broken, &MediaLimits::default());
            }
        }
    }
}
