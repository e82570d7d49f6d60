//! Dequantisation of GGML's blocks.
//!
//! `d` is the scale of a block and `m` its offset; both are float16. In K-quants, each group of a block has its own scale, a small
//! integer that is multiplied by `d`.

use std::array::from_fn;

use half::{bf16, f16};

/// Elements per block of K-quants.
const SUPER: usize = 256;

fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

fn set<const LEN: usize>(out: &mut [f32; LEN], number: impl Fn(usize) -> f32) {
    *out = from_fn(number);
}

pub(super) fn f32(block: &[u8; 4], out: &mut [f32; 1]) {
    *out = [f32::from_le_bytes(*block)];
}

pub(super) fn f16(block: &[u8; 2], out: &mut [f32; 1]) {
    *out = [f16::from_le_bytes(*block).to_f32()];
}

pub(super) fn bf16(block: &[u8; 2], out: &mut [f32; 1]) {
    *out = [bf16::from_le_bytes(*block).to_f32()];
}

/// `d`, 32 signed bytes.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    set(out, |i| f32::from(block[2 + i].cast_signed()) * d);
}

/// The 4 bits of element `i`, if low nibbles hold the first half of the elements.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    let half = bytes.len();
    bytes[i % half] >> (4 * (i / half)) & 0xF
}

/// The fifth bits of 32 elements, each shifted to bit 4.
fn fifth(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 8] >> (i % 8) & 1) << 4
}

/// `d`, nibbles; 8 is zero.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    set(out, |i| (f32::from(nibble(&block[2..], i)) - 8.0) * d);
}

/// Repacks a `Q4_0` block with adjacent elements in one byte, as programs store them. Returns it with its scale.
pub(super) fn q4_0_interleaved(block: &[u8; 18]) -> (f32, [u8; 16]) {
    let pair = |i| nibble(&block[2..], 2 * i) | nibble(&block[2..], 2 * i + 1) << 4;
    (half_at(block, 0), from_fn(pair))
}

/// `d`, `m`, nibbles.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    set(out, |i| f32::from(nibble(&block[4..], i)) * d + m);
}

/// `d`, fifth bits, nibbles; 16 is zero.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    set(out, |i| (f32::from(nibble(&block[6..], i) | fifth(&block[2..6], i)) - 16.0) * d);
}

/// `d`, `m`, fifth bits, nibbles.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    set(out, |i| f32::from(nibble(&block[8..], i) | fifth(&block[4..8], i)) * d + m);
}

/// The scale and the subtracted minimum of eight groups of 32 elements, 6 bits per number in 12 bytes. The upper two bits of the
/// last four numbers of either kind are stored above the first four.
fn groups(block: &[u8]) -> [(f32, f32); 8] {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let packed = &block[4..16];
    from_fn(|group| {
        let (scale, least) = if group < 4 {
            (packed[group] & 63, packed[group + 4] & 63)
        } else {
            let low = packed[group + 4];
            (low & 0xF | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
        };
        (d * f32::from(scale), m * f32::from(least))
    })
}

/// The 4 bits of element `i`, if each 32 bytes hold one group in their low nibbles and the next one in their high nibbles.
fn nibble_of_group(bytes: &[u8], i: usize) -> u8 {
    nibble(&bytes[i / 64 * 32..][..32], i % 64)
}

/// `d`, `m`, scales of groups, nibbles.
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; SUPER]) {
    let groups = groups(block);
    set(out, |i| {
        let (scale, least) = groups[i / 32];
        f32::from(nibble_of_group(&block[16..], i)) * scale - least
    });
}

/// `d`, `m`, scales of groups, fifth bits (one byte for the same number of each group), nibbles.
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; SUPER]) {
    let groups = groups(block);
    set(out, |i| {
        let (scale, least) = groups[i / 32];
        let fifth = (block[16 + i % 32] >> (i / 32) & 1) << 4;
        f32::from(nibble_of_group(&block[48..], i) | fifth) * scale - least
    });
}

/// Lower 4 bits, upper 2 bits, scales of groups of 16 as signed bytes, `d`; 32 is zero. Each half of the block has 64 bytes of
/// lower bits, whose high nibbles hold the second half of its elements, and 32 bytes of upper bits, each for four elements.
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; SUPER]) {
    let d = half_at(block, 208);
    set(out, |i| {
        let (half, within) = (i / 128, i % 128);
        let low = nibble(&block[half * 64..][..64], within);
        let high = block[128 + half * 32 + within % 32] >> (within / 32 * 2) & 3;
        let scale = d * f32::from(block[192 + i / 16].cast_signed());
        scale * (f32::from(low | high << 4) - 32.0)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles_of_a_block_become_neighbours() {
        let mut block = [0; 18];
        block[..2].copy_from_slice(&f16::from_f32(-0.5).to_le_bytes());
        for (i, byte) in (0u8..16).zip(&mut block[2..]) {
            // Number i is i, and number 16 + i is 15 − i.
            *byte = i | (15 - i) << 4;
        }
        let mut numbers = [0.0; 32];
        q4_0(&block, &mut numbers);
        assert_eq!((numbers[0], numbers[9], numbers[16], numbers[31]), (4.0, -0.5, -3.5, 4.0));
        let (scale, nibbles) = q4_0_interleaved(&block);
        assert_eq!((scale, nibbles[0], nibbles[7], nibbles[8], nibbles[15]), (-0.5, 0x10, 0xFE, 0xEF, 0x01));
        let again = nibbles.iter().flat_map(|byte| [byte & 0xF, byte >> 4]);
        let again: Vec<f32> = again.map(|nibble| (f32::from(nibble) - 8.0) * scale).collect();
        assert_eq!(again, numbers);
    }

    #[test]
    fn scales_of_groups_take_six_bits_each() {
        let mut block = [0; 16];
        block[..2].copy_from_slice(&f16::from_f32(1.0).to_le_bytes());
        block[2..4].copy_from_slice(&f16::from_f32(2.0).to_le_bytes());
        // Group 1: 21 and 42. Group 5: 0b10_0011 = 35 and 0b01_1100 = 28, their upper bits above those of group 1.
        block[4 + 1] = 21 | 0b10 << 6;
        block[4 + 5] = 42 | 0b01 << 6;
        block[4 + 9] = 0b0011 | 0b1100 << 4;
        let groups = groups(&block);
        assert_eq!((groups[1], groups[5], groups[2]), ((21.0, 84.0), (35.0, 56.0), (0.0, 0.0)));
    }
}
