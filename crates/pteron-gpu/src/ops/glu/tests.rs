use crate::testing::case::{Case, F, int, x};
use crate::testing::load_error;

#[test]
fn halves_of_any_dimension_agree() {
    Case::new("aten.glu.default", [x(F, &[9, 6]), int(-1)], (F, &[9, 3])).check(&[1, 4, 0], 1e-6);
    Case::new("aten.glu.default", [x(F, &[3, 8, 5]), int(1)], (F, &[3, 4, 5])).check(&[1, 2], 1e-6);
    Case::new("aten.glu.default", [x(F, &[8, 5]), int(0)], (F, &[4, 5])).check(&[2, 6], 1e-6);
}

#[test]
fn odd_dimension_is_rejected() {
    let text = load_error(&Case::new("aten.glu.default", [x(F, &[4, 5]), int(1)], (F, &[4, 2])).builder());
    assert!(text.contains("`self` is [4, 5], but dimension 1 has no halves"), "{text}");
}
