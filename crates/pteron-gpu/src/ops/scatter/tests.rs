use crate::testing::case::{Arg, B, Case, F, I, I8, flag, float, int, x};
use crate::testing::load_error;

fn list(indices: &[Option<(&[u32], u32)>]) -> Arg {
    Arg::IndexList(indices.iter().map(|index| index.map(|(shape, limit)| (shape.to_vec(), limit))).collect())
}

#[test]
fn elements_along_any_dimension_are_replaced_and_added() {
    for dtype in [F, I, B, I8] {
        for (axis, limit) in [(0, 4), (1, 7), (-1, 5)] {
            let args =
                |index: &[u32], last: Arg| [x(dtype, &[4, 7, 5]), int(axis), Arg::Indices(index.to_vec(), limit), last];
            let out: (_, &[u32]) = (dtype, &[4, 7, 5]);
            for index in [[4, 7, 5], [3, 2, 4]] {
                Case::new("aten.scatter.value", args(&index, float(1.0)), out).check(&[], 0.0);
                Case::new("aten.scatter.src", args(&index, x(dtype, &[4, 7, 5])), out).check(&[], 0.0);
                if [F, I].contains(&dtype) {
                    Case::new("aten.scatter_add.default", args(&index, x(dtype, &[4, 7, 5])), out).check(&[], 1e-5);
                }
            }
        }
    }
}

/// Many source elements name few elements, over several tiles of the sort.
#[test]
fn sums_of_many_are_added_in_order() {
    let args = [x(F, &[3]), int(0), Arg::Indices(vec![4000], 3), x(F, &[4000])];
    Case::new("aten.scatter_add.default", args, (F, &[3])).check(&[], 1e-5);
    let args = [x(F, &[3]), int(0), Arg::Indices(vec![4000], 3), x(F, &[4000])];
    Case::new("aten.scatter.src", args, (F, &[3])).check(&[], 0.0);
}

#[test]
fn lists_of_indices_put_values_anywhere() {
    // The dims and the end of each list of indices, and the dims of the values.
    type Lists<'a> = (&'a [Option<(&'a [u32], u32)>], &'a [u32]);
    let lists: [Lists<'_>; 6] = [
        (&[Some((&[6], 4))], &[6, 5, 3]),
        (&[None, Some((&[6], 5))], &[6, 3]),
        (&[Some((&[6], 4)), Some((&[6], 5))], &[1]),
        (&[Some((&[2, 1], 4)), Some((&[3], 5))], &[2, 3, 3]),
        (&[Some((&[6], 4)), None, Some((&[6], 3))], &[6, 5]),
        (&[None, Some((&[2, 2], 5)), Some((&[2, 1], 3))], &[4, 2, 2]),
    ];
    for (indices, values) in lists {
        for adds in [false, true] {
            let args = [x(F, &[4, 5, 3]), list(indices), x(F, values), flag(adds)];
            Case::new("aten.index_put.default", args, (F, &[4, 5, 3])).check(&[], 1e-5);
        }
        let args = [x(I8, &[4, 5, 3]), list(indices), x(I8, values), flag(false)];
        Case::new("aten.index_put.default", args, (I8, &[4, 5, 3])).check(&[], 0.0);
    }
}

#[test]
fn masks_replace_elements_or_rows() {
    for (mask, values) in [(vec![4, 5, 3], vec![]), (vec![4, 5], vec![3]), (vec![4], vec![1, 1])] {
        for dtype in [F, I8] {
            let masks = Arg::Ins(vec![(B, mask.clone())]);
            let args = [x(dtype, &[4, 5, 3]), masks, x(dtype, &values), flag(false)];
            Case::new("aten.index_put.default", args, (dtype, &[4, 5, 3])).check(&[1], 0.0);
        }
    }
}

#[test]
fn bad_arguments_are_rejected() {
    let args = [x(F, &[4, 2]), int(0), Arg::Indices(vec![3, 3], 4), float(0.0)];
    let text = load_error(&Case::new("aten.scatter.value", args, (F, &[4, 2])).builder());
    assert!(text.contains("`index` is [3, 3], expected at most [4, 2] apart from dimension 0"), "{text}");
    let args = [x(F, &[4, 2]), list(&[Some((&[3], 4))]), x(F, &[5, 2]), flag(false)];
    let text = load_error(&Case::new("aten.index_put.default", args, (F, &[4, 2])).builder());
    assert!(text.contains("`values` is [5, 2], which cannot be broadcast to [3, 2]"), "{text}");
    let args = [x(I8, &[4]), list(&[Some((&[3], 4))]), x(I8, &[3]), flag(true)];
    let text = load_error(&Case::new("aten.index_put.default", args, (I8, &[4])).builder());
    assert!(text.contains("`self` has elements I8, supported: [F32, I32]"), "{text}");
    let args = [x(F, &[4]), Arg::Ins(vec![(B, vec![4])]), x(F, &[3]), flag(false)];
    let text = load_error(&Case::new("aten.index_put.default", args, (F, &[4])).builder());
    assert!(text.contains("the mask decides how many are needed"), "{text}");
}
