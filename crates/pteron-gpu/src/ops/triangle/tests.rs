use crate::testing::case::{B, Case, F, I, I8, int, x};
use crate::testing::load_error;

#[test]
fn both_triangles_of_every_type_and_diagonal_agree() {
    for name in ["aten.tril.default", "aten.triu.default"] {
        for dtype in [F, I, B, I8] {
            for diagonal in [0, 1, -2, 100, i64::MIN] {
                Case::new(name, [x(dtype, &[5, 4, 7]), int(diagonal)], (dtype, &[5, 4, 7])).check(&[1, 0], 0.0);
                Case::new(name, [x(dtype, &[6, 3]), int(diagonal)], (dtype, &[6, 3])).check(&[1, 4], 0.0);
            }
        }
    }
}

#[test]
fn vector_is_rejected() {
    let text = load_error(&Case::new("aten.tril.default", [x(F, &[4]), int(0)], (F, &[4])).builder());
    assert!(text.contains("`self` is [4], expected at least two dimensions"), "{text}");
}
