//! The smallest changes: numbers, names, lists.

use fastrand::Rng;

/// A list grown by repetition stays below this many entries.
const MAX_LIST: usize = 20_000;

/// Numbers at which something changes sign, width or meaning.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    17,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fff0,
    u64::MAX,
];

/// Another number: an edge, a neighbour, a multiple, or anything.
pub(super) fn number(rng: &mut Rng, old: u64) -> u64 {
    match rng.u8(..10) {
        0..4 => *rng.choice(&EDGES).unwrap_or(&0),
        4 => old.wrapping_add(rng.u64(1..=16)),
        5 => old.wrapping_sub(rng.u64(1..=16)),
        6 => old.wrapping_mul(rng.u64(2..=9)),
        7 => old ^ 1 << rng.u8(..64),
        8 => rng.u64(..256),
        _ => rng.u64(..),
    }
}

/// The same for 32 bits.
pub(super) fn number32(rng: &mut Rng, old: u32) -> u32 {
    // The low half is what is wanted.
    (number(rng, old.into()) & u64::from(u32::MAX)) as u32
}

/// An index into a list of `len`: mostly a valid one, since those get further.
pub(super) fn index(rng: &mut Rng, old: u32, len: usize) -> u32 {
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    match rng.u8(..4) {
        0 => number32(rng, old),
        1 => len.saturating_add(rng.u32(..3)).saturating_sub(1),
        _ if len > 0 => rng.u32(..len),
        _ => 0,
    }
}

/// Another name.
pub(super) fn name(rng: &mut Rng, old: &mut String) {
    match rng.u8(..8) {
        0 => old.clear(),
        1 => *old = "\u{1b}[2J\n\r\0".repeat(rng.usize(1..20)),
        2 => *old = "\u{10ffff}\u{202e}\u{feff}ä€𝄞".repeat(rng.usize(1..60)),
        3 => *old = old.repeat(rng.usize(2..40)),
        4 => *old = "\"\\'".repeat(rng.usize(1..60)),
        5 => old.push(char::from(rng.u8(..128))),
        6 => {
            old.pop();
        }
        _ => *old = ["VulkanBackend", "forward", "aten.add.Tensor", "x"][rng.usize(..4)].to_owned(),
    }
    if old.len() > 8192 {
        old.clear();
    }
}

/// Changes an entry, or the list around it.
pub(super) fn list<T: Clone>(rng: &mut Rng, list: &mut Vec<T>, change: impl FnOnce(&mut Rng, &mut T)) {
    if list.is_empty() {
        return;
    }
    let at = rng.usize(..list.len());
    match rng.u8(..16) {
        0 => {
            list.remove(at);
        }
        1 => list.insert(rng.usize(..=list.len()), list[at].clone()),
        2 => {
            let other = rng.usize(..list.len());
            list.swap(at, other);
        }
        3 => list.truncate(at),
        4 => list.clear(),
        5 if list.len() < MAX_LIST => {
            let count = 1 << rng.u8(..10);
            list.extend(std::iter::repeat_n(list[at].clone(), count));
        }
        6 => list.reverse(),
        _ => change(rng, &mut list[at]),
    }
}

/// Changes a list that may be absent.
pub(super) fn optional_list<T: Clone>(rng: &mut Rng, items: &mut Option<Vec<T>>, change: impl FnOnce(&mut Rng, &mut T)) {
    match items {
        Some(items) if rng.u8(..) < 240 => list(rng, items, change),
        Some(_) => *items = None,
        None => *items = Some(Vec::new()),
    }
}

/// Other bytes: some, fewer, more.
pub(super) fn data(rng: &mut Rng, bytes: &mut Vec<u8>) {
    match rng.u8(..6) {
        0 => bytes.clear(),
        1 => bytes.truncate(rng.usize(..=bytes.len())),
        2 => bytes.extend(std::iter::repeat_n(rng.u8(..), rng.usize(1..300))),
        3 => {
            bytes.pop();
        }
        _ => {
            if let Some(byte) = bytes.get_mut(rng.usize(..64)) {
                *byte = rng.u8(..);
            }
        }
    }
}
