//! Random numbers that are the same on every platform.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// The generator Philox4x32-10 of Salmon, Moraes, Dror and Shaw (2011): one block of numbers per counter and key, with no
/// state between them. It needs 32-bit integers only, so a shader can compute the same.
pub(crate) fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let [c0, c1, c2, c3] = counter;
        let (high0, low0) = multiply(MULTIPLIERS[0], c0);
        let (high1, low1) = multiply(MULTIPLIERS[1], c2);
        counter = [high1 ^ c1 ^ key[0], low1, high0 ^ c3 ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

fn multiply(a: u32, b: u32) -> (u32, u32) {
    halves(u64::from(a) * u64::from(b))
}

/// The upper and the lower 32 bits.
fn halves(value: u64) -> (u32, u32) {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = value.to_be_bytes();
    (u32::from_be_bytes([b0, b1, b2, b3]), u32::from_be_bytes([b4, b5, b6, b7]))
}

/// Number `draw` of the stream of `seed`: at least 0, less than 1, in steps of 2⁻⁵³.
pub(crate) fn uniform(seed: u64, draw: u64) -> f64 {
    let ((seed_high, seed_low), (draw_high, draw_low)) = (halves(seed), halves(draw));
    let [first, second, ..] = philox([draw_low, draw_high, 0, 0], [seed_low, seed_high]);
    // Both parts and their sum are exact in double precision.
    let (high, low) = (f64::from(first >> 6), f64::from(second >> 5));
    (high * 134_217_728.0 + low) / 9_007_199_254_740_992.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authors_own_numbers_come_out() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408F_276D, 0x41C8_3B0E, 0xA20B_C7C6, 0x6D54_51FD]);
        let counter = [0x243F_6A88, 0x85A3_08D3, 0x1319_8A2E, 0x0370_7344];
        assert_eq!(philox(counter, [0xA409_3822, 0x299F_31D0]), [0xD16C_FE09, 0x94FD_CCEB, 0x5001_E420, 0x2412_6EA1]);
    }

    #[test]
    fn draws_are_spread_over_the_unit_interval() {
        let draws: Vec<f64> = (0..100_000).map(|draw| uniform(7, draw)).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 100_000.0;
        // Four standard deviations.
        assert!((mean - 0.5).abs() < 0.0037, "{mean}");
        assert_ne!(uniform(7, 0), uniform(8, 0));
        assert_ne!(uniform(1 << 32, 0), uniform(0, 0));
        assert_ne!(uniform(0, 1 << 32), uniform(0, 0));
    }
}
