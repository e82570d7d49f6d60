//! Attention with masks, batches and integers.

use crate::ir::DataType;
use crate::testing::case::{Arg, Case, F, I, I8, flag, float, int, none, x};
use crate::testing::load_error;

const CUSTOM: &str = "llama.custom_sdpa.default";
const QUANTISED: &str = "llama.custom_quantized_sdpa.default";

fn custom(q: &[u32], k: &[u32], start: i64, mask: Arg, causal: bool) -> Case {
    let args = [x(F, q), x(F, k), x(F, k), int(start), mask, float(0.0), flag(causal), none()];
    Case::new(CUSTOM, args, (F, q))
}

#[test]
fn masks_are_added_to_scores() {
    for (q, k) in [([1, 5, 4, 8], [1, 12, 2, 8]), ([2, 3, 6, 20], [2, 600, 3, 20]), ([1, 1, 2, 300], [1, 7, 1, 300])] {
        custom(&q, &k, 2, x(F, &[q[1], k[1]]), false).check(&[], 1e-4);
        custom(&q, &k, 2, x(F, &[1, 1, q[1], k[1]]), false).check(&[], 1e-4);
    }
}

#[test]
fn batches_attend_causally_and_to_all_keys() {
    for causal in [true, false] {
        custom(&[3, 5, 4, 8], &[3, 20, 2, 8], 7, none(), causal).check(&[], 1e-4);
        custom(&[2, 300, 2, 16], &[2, 400, 2, 16], 0, none(), causal).check(&[], 1e-4);
    }
}

fn quantised(sequence_last: bool, zeros: DataType, mask: bool) -> Case {
    let shape = |tokens: u32, heads: u32, last: u32| {
        if sequence_last { [1, heads, tokens, last] } else { [1, tokens, heads, last] }
    };
    let (q, k) = (shape(3, 4, 8), shape(10, 2, 8));
    let mut args = vec![x(I8, &q), x(I8, &k), x(I8, &k), int(4)];
    args.push(if mask { x(F, &[3, 10]) } else { none() });
    args.extend([float(0.0), flag(!mask), float(0.001)]);
    for rows in [shape(3, 4, 1), shape(10, 2, 1), shape(10, 2, 1)] {
        args.extend([x(zeros, &rows), x(F, &rows)]);
    }
    args.push(flag(sequence_last));
    Case::new(QUANTISED, args, (F, &q))
}

#[test]
fn integers_are_converted_by_rows() {
    for (sequence_last, mask) in [(false, false), (true, false), (false, true)] {
        for zeros in [I8, I, F] {
            quantised(sequence_last, zeros, mask).check(&[], 2e-3);
        }
    }
}

#[test]
fn bad_arguments_are_rejected() {
    let text = load_error(&custom(&[2, 3, 4, 8], &[2, 10, 3, 8], 0, none(), true).builder());
    assert!(text.contains("`key` has 3 heads, which do not divide the 4 of the query"), "{text}");
    let text = load_error(&custom(&[2, 3, 4, 8], &[2, 10, 2, 8], 8, none(), true).builder());
    assert!(text.contains("`start_pos` is 8 with 3 queries, past the 10 keys"), "{text}");
    let text = load_error(&custom(&[1, 3, 4, 8], &[1, 10, 2, 8], 0, x(F, &[3, 9]), false).builder());
    assert!(text.contains("`attn_mask` is [3, 9], expected [3, 10]"), "{text}");
    let text = load_error(&custom(&[1, 3, 4, 8], &[1, 10, 2, 8], 0, x(F, &[3, 10]), true).builder());
    assert!(text.contains("`is_causal` is true, and there is a mask"), "{text}");
}
