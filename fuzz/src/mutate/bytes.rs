//! Changes that know nothing but where constant data is.

use std::ops::Range;

use fastrand::Rng;

use super::atoms::number;

/// Where the fixed fields of every format are.
const HEADER: usize = 64;

/// Changes up to eight places of `bytes`, aimed at `hot`; `other` lends blocks.
pub(super) fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, hot: &[Range<usize>], other: &[u8]) {
    // Few changes get furthest.
    for _ in 0..1 << rng.u8(..4) {
        if bytes.is_empty() {
            return;
        }
        let at = aim(rng, hot, bytes.len());
        match rng.u8(..16) {
            0..3 => bytes[at] ^= 1 << rng.u8(..8),
            3 => bytes[at] = rng.u8(..),
            4..8 => integer(rng, bytes, at),
            8 | 9 => redirect(rng, bytes, at, hot),
            10 => swap(rng, bytes, at, hot),
            11 => copy_within(rng, bytes, at, hot),
            12 => splice(rng, bytes, at, other),
            13 => {
                let end = bytes.len().min(at + rng.usize(1..=64));
                bytes.drain(at..end);
            }
            14 => {
                let block = vec![rng.u8(..); rng.usize(1..=64)];
                bytes.splice(at..at, block);
            }
            _ if rng.bool() => bytes.truncate(at),
            _ => bytes.extend(std::iter::repeat_n(rng.u8(..), rng.usize(1..512))),
        }
    }
}

/// A place to change: in the header, or anywhere that is not constant data.
fn aim(rng: &mut Rng, hot: &[Range<usize>], len: usize) -> usize {
    if rng.u8(..8) == 0 {
        return rng.usize(..len.min(HEADER));
    }
    let mut at = rng.usize(..hot.iter().map(ExactSizeIterator::len).sum::<usize>().max(1));
    for range in hot {
        if at < range.len() {
            return (range.start + at).min(len - 1);
        }
        at -= range.len();
    }
    at.min(len - 1)
}

/// Another number of one, two, four or eight bytes, aligned as flatbuffers align.
fn integer(rng: &mut Rng, bytes: &mut [u8], at: usize) {
    let width = 1 << rng.u8(..4);
    let at = at & !(width - 1);
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let new = number(rng, u64::from_le_bytes(old)).to_le_bytes();
    place.copy_from_slice(&new[..width]);
}

/// Makes an offset point where another one does: two offsets to one table, or to a table of another type.
fn redirect(rng: &mut Rng, bytes: &mut [u8], at: usize, hot: &[Range<usize>]) {
    let from = aim(rng, hot, bytes.len()) & !3;
    let at = at & !3;
    let Some(word) = bytes.get(from..from + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes) else { return };
    let offset = (from + word as usize).checked_sub(at).and_then(|offset| u32::try_from(offset).ok());
    if let (Some(offset), Some(place)) = (offset, bytes.get_mut(at..at + 4)) {
        place.copy_from_slice(&offset.to_le_bytes());
    }
}

/// Exchanges two words: offsets that point to each other's targets.
fn swap(rng: &mut Rng, bytes: &mut [u8], at: usize, hot: &[Range<usize>]) {
    let other = aim(rng, hot, bytes.len()) & !3;
    let at = at & !3;
    if at.max(other) + 4 <= bytes.len() {
        for byte in 0..4 {
            bytes.swap(at + byte, other + byte);
        }
    }
}

/// Copies a block over another.
fn copy_within(rng: &mut Rng, bytes: &mut [u8], at: usize, hot: &[Range<usize>]) {
    let from = aim(rng, hot, bytes.len());
    let room = bytes.len() - at.max(from);
    let len = rng.usize(1..=64).min(room);
    bytes.copy_within(from..from + len, at);
}

/// Puts a block of another input over this one.
fn splice(rng: &mut Rng, bytes: &mut [u8], at: usize, other: &[u8]) {
    if other.is_empty() {
        return;
    }
    let from = rng.usize(..other.len());
    let len = (1 << rng.u8(..9)).min(other.len() - from).min(bytes.len() - at);
    bytes[at..at + len].copy_from_slice(&other[from..from + len]);
}
