use crate::testing::case::{Case, F, I, flag, int, x};
use crate::testing::{DryRun, check, f32s, load_error, noise_bytes};

const TOPK: &str = "aten.topk.default";
const SORT: &str = "aten.sort.default";

#[test]
fn rows_of_any_length_are_sorted_both_ways() {
    for dtype in [F, I] {
        for length in [1, 2, 7, 1000, 1024, 1025, 2048, 5000] {
            for descending in [true, false] {
                let outs: [(_, &[u32]); 2] = [(dtype, &[3, length]), (I, &[3, length])];
                Case::listed(SORT, [x(dtype, &[3, length]), int(1), flag(descending)], &outs).check(&[1, 0], 0.0);
            }
        }
    }
}

#[test]
fn other_dimensions_and_parts_of_rows_agree() {
    let outs: [(_, &[u32]); 2] = [(F, &[3, 4, 5]), (I, &[3, 4, 5])];
    Case::listed(TOPK, [x(F, &[3, 9, 5]), int(4), int(1), flag(true), flag(true)], &outs).check(&[1], 0.0);
    let outs: [(_, &[u32]); 2] = [(I, &[5, 6]), (I, &[5, 6])];
    Case::listed(TOPK, [x(I, &[30, 6]), int(5), int(0), flag(false), flag(false)], &outs).check(&[7], 0.0);
    let outs: [(_, &[u32]); 2] = [(F, &[]), (I, &[])];
    Case::listed(TOPK, [x(F, &[]), int(1), int(-1), flag(true), flag(true)], &outs).check(&[], 0.0);
}

/// Equal elements keep their order, NaN is the largest, and zeros of both signs are equal.
#[test]
fn ties_and_nan_are_ordered() {
    for length in [9u32, 3000] {
        let few = [0.0, -0.0, 2.5, f32::NAN, f32::INFINITY, -1.0, f32::NEG_INFINITY];
        let values: Vec<f32> = noise_bytes(3, length as usize).iter().map(|&byte| few[usize::from(byte) % 7]).collect();
        for descending in [true, false] {
            let outs: [(_, &[u32]); 2] = [(F, &[length]), (I, &[length])];
            let case = Case::listed(SORT, [x(F, &[length]), int(0), flag(descending)], &outs);
            check(&case.builder(), &[vec![f32s(&[length], values.clone())]], 0.0);
        }
    }
}

#[test]
fn long_rows_are_merged() {
    let outs: [(_, &[u32]); 2] = [(F, &[1, 5]), (I, &[1, 5])];
    let case = Case::listed(TOPK, [x(F, &[1, 9000]), int(5), int(1), flag(true), flag(true)], &outs);
    // Keys, tiles, and nine tiles in four merges, back and forth.
    assert_eq!(DryRun::new(&case.builder()).unwrap().recipes(0), [0, 3, 4, 5, 4, 5, 1]);
}

#[test]
fn more_than_the_row_has_is_rejected() {
    let outs: [(_, &[u32]); 2] = [(F, &[9]), (I, &[9])];
    let case = Case::listed(TOPK, [x(F, &[8]), int(9), int(0), flag(true), flag(true)], &outs);
    assert!(load_error(&case.builder()).contains("`k` is 9, but the dimension has 8 elements"));
}
