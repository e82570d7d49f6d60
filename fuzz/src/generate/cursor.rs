//! Decisions from an input's bytes.

/// Reads decisions off an input. After the last byte it goes on with numbers that follow from all of them, so that an input of
/// a few bytes is a whole structure too, and the same one every time.
#[derive(Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    tail: u64,
}

impl<'a> Cursor<'a> {
    /// Reads from these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let hash = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let tail = bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash);
        Self { bytes, tail: tail | 1 }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        if let Some((&first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            return first;
        }
        self.tail ^= self.tail << 13;
        self.tail ^= self.tail >> 7;
        self.tail ^= self.tail << 17;
        (self.tail >> 33) as u8
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % limit,
            _ => (usize::from(self.byte()) << 8 | usize::from(self.byte())) % limit,
        }
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n.saturating_sub(1)
    }

    /// True half of the time.
    pub fn flip(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of several, of which there must be one.
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    /// Eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    /// An integer that is small, or where arithmetic tends to break.
    pub fn integer(&mut self) -> i64 {
        const EDGES: [i64; 14] = [
            -1,
            i64::MIN,
            i64::MAX,
            1 << 15,
            1 << 16,
            (1 << 16) + 1,
            (1 << 31) - 1,
            1 << 31,
            -(1 << 31),
            (1 << 32) - 1,
            1 << 32,
            1 << 33,
            1 << 53,
            -(1 << 62),
        ];
        match self.below(8) {
            0..=3 => i64::from(self.byte() % 20),
            4 => -i64::from(self.byte() % 10),
            5 => i64::from(self.word()),
            _ => self.of(&EDGES),
        }
    }

    /// A float that is ordinary, or where arithmetic tends to break.
    pub fn float(&mut self) -> f64 {
        const EDGES: [f64; 12] = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN_POSITIVE,
            -0.0,
            1e-45,
            3.5e38,
            -1e300,
            4_294_967_296.0,
            9.3e18,
            0.5,
        ];
        if self.one_in(3) { self.of(&EDGES) } else { self.ordinary_float() }
    }

    /// An ordinary float.
    pub fn ordinary_float(&mut self) -> f64 {
        (f64::from(self.byte()) - 128.0) / 16.0
    }

    /// A common tensor size, sometimes one near an integer limit.
    pub fn size(&mut self, hostile: bool) -> u32 {
        if hostile && self.one_in(16) { self.edge_size() } else { self.of(&[1, 2, 3, 4, 5, 7, 8, 12, 16]) }
    }

    /// A size near an integer limit.
    pub fn edge_size(&mut self) -> u32 {
        const EDGES: [u32; 14] = [
            0,
            0,
            1,
            17,
            1 << 15,
            65_535,
            65_536,
            1 << 20,
            1 << 24,
            1 << 30,
            (1 << 31) - 1,
            1 << 31,
            u32::MAX - 3,
            u32::MAX,
        ];
        self.of(&EDGES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_go_on_after_the_last_byte_and_repeat() {
        let read = |bytes: &[u8]| {
            let mut cursor = Cursor::new(bytes);
            (0..64).map(|_| cursor.byte()).collect::<Vec<u8>>()
        };
        let (first, again, other) = (read(&[7, 9]), read(&[7, 9]), read(&[7, 8]));
        assert_eq!(first[..2], [7, 9]);
        assert_eq!(first, again);
        assert_ne!(first[2..], other[2..]);
    }
}
