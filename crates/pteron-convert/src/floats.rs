//! Floating-point formats of checkpoints.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// A floating-point format, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    /// The upper half of a float32.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
}

impl Float {
    /// Returns the size in bytes.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }

    /// Decodes as many values as `bytes` and `out` both hold.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::Bf16 => each(bytes, out, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)),
            Self::F16 => halves(bytes, out),
            Self::F32 => each(bytes, out, f32::from_le_bytes),
        }
    }
}

/// Converts without bounds checks in the loop, so that it vectorises.
fn each<const SIZE: usize, T>(bytes: &[u8], out: &mut [T], number: impl Fn([u8; SIZE]) -> T) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = number(*bytes);
    }
}

/// Vector instructions convert float16 from aligned memory; the values of a file may be unaligned.
fn halves(bytes: &[u8], out: &mut [f32]) {
    const BLOCK: usize = 256;
    let mut block = [f16::ZERO; BLOCK];
    for (out, bytes) in out.chunks_mut(BLOCK).zip(bytes.chunks(BLOCK * Float::F16.size())) {
        let count = out.len().min(bytes.len() / Float::F16.size());
        each(bytes, &mut block[..count], f16::from_le_bytes);
        block[..count].convert_to_f32_slice(&mut out[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that the bits of a half stand for, from the definition of the format.
    fn half(bits: u16) -> f64 {
        let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-14),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
        };
        if sign == 1 { -magnitude } else { magnitude }
    }

    fn decode(float: Float, bytes: &[u8]) -> Vec<f32> {
        let mut out = vec![0.0; bytes.len() / float.size()];
        float.decode(bytes, &mut out);
        out
    }

    /// All numbers of 16 bits, at an odd address.
    fn all_words() -> Vec<u8> {
        std::iter::once(0).chain((0..=u16::MAX).flat_map(u16::to_le_bytes)).collect()
    }

    #[test]
    fn every_half_is_exact() {
        let numbers = decode(Float::F16, &all_words()[1..]);
        assert_eq!(numbers.len(), 1 << 16);
        for (bits, number) in (0..=u16::MAX).zip(numbers) {
            let expected = half(bits);
            assert_eq!(number.is_nan(), expected.is_nan(), "{bits:#06x}");
            assert!(expected.is_nan() || f64::from(number).to_bits() == expected.to_bits(), "{bits:#06x}: {number}");
        }
    }

    #[test]
    fn every_bfloat_is_exact() {
        let numbers = decode(Float::Bf16, &all_words()[1..]);
        assert_eq!(numbers.len(), 1 << 16);
        for (bits, number) in (0..=u16::MAX).zip(numbers) {
            assert_eq!(number.to_bits(), u32::from(bits) << 16);
        }
    }

    #[test]
    fn single_precision_keeps_its_bits() {
        let bits = [0u32, 1 << 31, 1, 0x3f80_0001, 0x7f80_0000, 0x7fa0_1234, 0xff7f_ffff];
        let bytes: Vec<u8> = std::iter::once(0).chain(bits.into_iter().flat_map(u32::to_le_bytes)).collect();
        assert_eq!(decode(Float::F32, &bytes[1..]).into_iter().map(f32::to_bits).collect::<Vec<_>>(), bits);
    }

    #[test]
    fn the_shorter_side_decides() {
        for float in [Float::Bf16, Float::F16, Float::F32] {
            let mut out = [9.0; 600];
            float.decode(&vec![0; 300 * float.size() + 1], &mut out);
            assert_eq!((&out[..300], &out[300..]), (&[0.0; 300][..], &[9.0; 300][..]), "{float:?}");
            float.decode(&vec![0; 700 * float.size()], &mut out);
            assert_eq!(out, [0.0; 600]);
        }
    }
}
