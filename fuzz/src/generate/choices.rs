//! Decisions of a generator, read from bytes.

/// Numbers at which sizes and offsets tend to break.
const EDGES: [u64; 20] =
    [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 64, 127, 128, 255, 256, 65_535, u32::MAX as u64, i64::MAX as u64, u64::MAX];

/// A source of decisions. When its bytes are used up, every decision is the first option, the number 0, `false`, or nothing: a
/// generator must end then.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    /// Decisions made by `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether no bytes are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The number of bytes left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        byte
    }

    /// A truth value.
    pub fn bool(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Whether something with a probability of `per_256` / 256 happens.
    pub fn chance(&mut self, per_256: u8) -> bool {
        !self.is_empty() && self.byte() >= 255 - per_256.saturating_sub(1) && per_256 > 0
    }

    /// A number below `end`; 0 if `end` is 0. Takes one byte where that is enough.
    pub fn below(&mut self, end: usize) -> usize {
        match end {
            0 | 1 => 0,
            2..=256 => usize::from(self.byte()) % end,
            257..=65_536 => usize::from(u16::from_le_bytes([self.byte(), self.byte()])) % end,
            _ => self.u32() as usize % end,
        }
    }

    /// A number in `from..=to`.
    pub fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// Any 32 bits.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Any 64 bits.
    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// A number: small, at an edge, or anything.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=127 => u64::from(small) % 32,
            128..=223 => EDGES[self.below(EDGES.len())],
            224..=239 => EDGES[self.below(EDGES.len())].wrapping_add(u64::from(self.byte())).wrapping_sub(128),
            _ => self.u64(),
        }
    }

    /// A signed number: small, at an edge, or anything.
    pub fn signed(&mut self) -> i64 {
        let number = self.number().cast_signed();
        if self.bool() { number.wrapping_neg() } else { number }
    }

    /// One of `options`.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<'o, T>(&mut self, options: &'o [T]) -> &'o T {
        &options[self.below(options.len())]
    }

    /// As many bytes as are left, at most `most`.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All bytes that are left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// A text of up to `most` characters, mostly letters, sometimes anything.
    pub fn text(&mut self, most: usize) -> String {
        const PIECES: [&str; 24] = [
            "a", "b", "c", "e", "t", " ", "  ", "\n", "é", "日", "🪽", "▁", "Ġ", "<s>", "</s>", "<0x41>", "##", "A", "Z",
            "0", "\u{301}", "\u{200d}", "ﬁ", "'",
        ];
        let count = self.below(most + 1);
        let mut text = String::new();
        for _ in 0..count {
            match self.byte() {
                byte @ 0..=199 => text.push_str(PIECES[usize::from(byte) % PIECES.len()]),
                byte @ 200..=247 => text.push(char::from(byte - 200 + b'!')),
                _ => text.push(char::from_u32(self.u32() % 0x11_0000).unwrap_or('\u{fffd}')),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_bytes_every_decision_is_the_first() {
        let mut none = Choices::new(&[]);
        assert_eq!((none.byte(), none.below(9), none.number(), none.u64()), (0, 0, 0, 0));
        assert!(!none.bool() && !none.chance(255) && none.is_empty());
        assert_eq!((*none.pick(&[7, 8]), none.text(9)), (7, String::new()));
    }

    #[test]
    fn numbers_stay_below_their_end() {
        let bytes: Vec<u8> = (0..=255).collect();
        for end in [1, 2, 7, 256, 257, 65_536, 65_537, 1 << 20] {
            let mut choices = Choices::new(&bytes);
            for _ in 0..bytes.len() {
                assert!(choices.below(end) < end);
            }
        }
    }
}
