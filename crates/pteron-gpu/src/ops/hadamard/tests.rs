use super::ORDER_28;
use crate::testing::case::{Case, F, x};
use crate::testing::{is_swiftshader, load_error, skip, thinned};

const NAME: &str = "llama.fast_hadamard_transform.default";

#[test]
fn rows_of_every_supported_length_agree() {
    for width in thinned([64, 1, 2, 2048, 4096, 56, 28, 28 * 64], 5) {
        Case::new(NAME, [x(F, &[3, width])], (F, &[3, width])).check(&[1, 0], 1e-4);
    }
}

/// Parts that workgroup memory does not hold, 28 times.
#[test]
fn three_passes_agree() {
    if is_swiftshader() {
        return skip("takes minutes for it");
    }
    Case::new(NAME, [x(F, &[1, 28 * 4096])], (F, &[1, 28 * 4096])).check(&[], 1e-3);
}

#[test]
fn rows_of_the_matrix_are_orthogonal() {
    for (a, &row) in ORDER_28.iter().enumerate() {
        for &other in &ORDER_28[a + 1..] {
            assert_eq!((row ^ other).count_ones(), 14);
        }
    }
}

#[test]
fn other_lengths_are_rejected() {
    let text = load_error(&Case::new(NAME, [x(F, &[3, 12])], (F, &[3, 12])).builder());
    assert!(text.contains("`mat` is [3, 12], expected rows of a power of two, or of 28 times one"), "{text}");
}
