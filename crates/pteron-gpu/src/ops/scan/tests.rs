use crate::testing::case::{B, Case, F, I, I8, U8, int, none, x};
use crate::testing::load_error;

const NAME: &str = "aten.cumsum.default";

#[test]
fn sums_of_any_type_length_and_dimension_agree() {
    for (dtype, sum) in [(F, F), (I, I), (B, I), (U8, I), (I8, F), (I, F)] {
        for width in [1, 3, 255, 1024, 2600] {
            Case::new(NAME, [x(dtype, &[4, width]), int(1), none()], (sum, &[4, width])).check(&[1, 0], 1e-4);
        }
        Case::new(NAME, [x(dtype, &[37, 3, 2]), int(0), none()], (sum, &[37, 3, 2])).check(&[1, 5], 1e-5);
        Case::new(NAME, [x(dtype, &[3, 70, 5]), int(-2), none()], (sum, &[3, 70, 5])).check(&[1], 1e-5);
        Case::new(NAME, [x(dtype, &[]), int(0), none()], (sum, &[])).check(&[], 0.0);
    }
}

#[test]
fn floats_are_not_summed_as_integers() {
    let text = load_error(&Case::new(NAME, [x(F, &[3]), int(0), none()], (I, &[3])).builder());
    assert!(text.contains("`out` has elements I32, but the result's are F32"), "{text}");
}
