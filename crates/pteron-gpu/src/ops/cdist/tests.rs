use crate::testing::case::{Case, F, float, none, x};
use crate::testing::load_error;

#[test]
fn every_norm_and_batch_agrees() {
    for p in [0.0, 1.0, 2.0, 3.5, f64::INFINITY] {
        let name = "aten._cdist_forward.default";
        Case::new(name, [x(F, &[6, 5]), x(F, &[4, 5]), float(p), none()], (F, &[6, 4])).check(&[1, 3], 1e-4);
        Case::new(name, [x(F, &[3, 1, 6, 5]), x(F, &[2, 4, 5]), float(p), none()], (F, &[3, 2, 6, 4])).check(&[1], 1e-4);
        Case::new("aten._pdist_forward.default", [x(F, &[7, 5]), float(p)], (F, &[21])).check(&[1, 2, 5], 1e-4);
    }
}

#[test]
fn rows_of_different_lengths_are_rejected() {
    let args = [x(F, &[6, 5]), x(F, &[4, 3]), float(2.0), none()];
    let text = load_error(&Case::new("aten._cdist_forward.default", args, (F, &[6, 4])).builder());
    assert!(text.contains("`x2` is [4, 3], expected rows of 5 as in [6, 5]"), "{text}");
}
