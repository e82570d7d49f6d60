use crate::testing::case::{B, Case, F, I, I8, int, none, x};
use crate::testing::load_error;

#[test]
fn slices_and_single_indices_are_replaced() {
    for dtype in [F, I, B, I8] {
        let name = "aten.slice_scatter.default";
        let args = |shape: &[u32], source: &[u32], dim, start, end, step| {
            [x(dtype, shape), x(dtype, source), int(dim), int(start), int(end), int(step)]
        };
        Case::new(name, args(&[4, 7, 3], &[4, 3, 3], 1, 1, 7, 2), (dtype, &[4, 7, 3])).check(&[1, 2, 0], 0.0);
        Case::new(name, args(&[4, 9], &[4, 2], -1, -3, -1, 1), (dtype, &[4, 9])).check(&[1], 0.0);
        let whole = [x(dtype, &[5, 3]), x(dtype, &[5, 3]), int(0), none(), none(), int(1)];
        Case::new(name, whole, (dtype, &[5, 3])).check(&[2], 0.0);
        let one = [x(dtype, &[4, 7, 3]), x(dtype, &[4, 3]), int(1), int(-2)];
        Case::new("aten.select_scatter.default", one, (dtype, &[4, 7, 3])).check(&[1, 3], 0.0);
    }
}

#[test]
fn source_of_another_shape_is_rejected() {
    let args = [x(F, &[4, 7]), x(F, &[4, 2]), int(1), int(0), int(3), int(1)];
    let text = load_error(&Case::new("aten.slice_scatter.default", args, (F, &[4, 7])).builder());
    assert!(text.contains("`src` is [4, 2], but the slice that it replaces is [4, 3]"), "{text}");
}
