//! Random numbers that depend only on their position, not on earlier draws.

/// `SplitMix64`: a counter and a mixing function.
#[derive(Clone, Debug)]
pub(super) struct Generator {
    counter: u64,
}

impl Generator {
    /// Creates the generator of these coordinates.
    pub(super) fn new(names: [u64; 3]) -> Self {
        Self { counter: names.into_iter().fold(0, |state, name| mix(state ^ mix(name))) }
    }

    fn next(&mut self) -> u64 {
        self.counter = self.counter.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.counter)
    }

    /// A number from 0 to 1.
    pub(super) fn fraction(&mut self) -> f32 {
        let [.., low, high] = self.next().to_le_bytes();
        f32::from(u16::from_le_bytes([low, high])) / 65536.0
    }

    /// Returns nibbles from 1 to 15. Levels on either side of 8 are equally likely, so that the mean of a row is near zero; 8 is twice
    /// as likely as the others.
    pub(super) fn nibbles(&mut self, out: &mut [u8]) {
        const LOWEST: u64 = 0x1111_1111_1111_1111;
        for out in out.chunks_mut(8) {
            let random = self.next();
            let some = (random | random >> 1 | random >> 2 | random >> 3) & LOWEST;
            let bytes = (random | (some ^ LOWEST) << 3).to_le_bytes();
            out.copy_from_slice(&bytes[..out.len()]);
        }
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}
