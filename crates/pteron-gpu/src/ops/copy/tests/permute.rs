//! Permutes, flips, and dims of 1 that are added or removed.

use super::*;

const PERMUTE: &str = "aten.permute_copy.default";

fn permute_of(dtype: DataType, bound: &[u32], order: &[i64]) -> (GraphBuilder, ValueId) {
    let out: Vec<u32> = order.iter().map(|&dim| bound[usize::try_from(dim).unwrap()]).collect();
    one(PERMUTE, dtype, bound, &[Value::IntList(order.to_vec())], &out)
}

fn flip_of(dtype: DataType, bound: &[u32], dims: &[i64]) -> (GraphBuilder, ValueId) {
    one("aten.flip.default", dtype, bound, &[Value::IntList(dims.to_vec())], bound)
}

fn alias(builder: &(GraphBuilder, ValueId)) -> bool {
    DryRun::new(&builder.0).unwrap().graph.nodes[0].op.alias().is_some()
}

#[test]
fn permute_of_every_dtype_agrees() {
    for dtype in TYPES {
        check(&permute_of(dtype, &[7, 5], &[1, 0]).0, &inputs(dtype, &[&[7, 5], &[1, 5], &[3, 2], &[0, 5], &[7, 5]]), 0.0);
        check(&permute_of(dtype, &[2, 3, 4, 5], &[3, 1, 0, 2]).0, &inputs(dtype, &[&[2, 3, 4, 5], &[1, 2, 4, 1]]), 0.0);
        check(&permute_of(dtype, &[2, 9, 3, 16], &[0, 2, 1, 3]).0, &inputs(dtype, &[&[2, 9, 3, 16], &[1, 1, 3, 16]]), 0.0);
        check(&permute_of(dtype, &[2, 1, 3, 2, 5], &[4, 2, 0, 1, 3]).0, &inputs(dtype, &[&[2, 1, 3, 2, 5]]), 0.0);
        check(&permute_of(dtype, &[2; 8], &[7, 5, 3, 1, 0, 2, 4, 6]).0, &inputs(dtype, &[&[2; 8]]), 0.0);
        check(&permute_of(dtype, &[], &[]).0, &inputs(dtype, &[&[]]), 0.0);
    }
}

#[test]
fn tiled_transposes_agree() {
    for dtype in TYPES {
        // Plain, with an outer dim, with one between, around one, narrow on either side, and one that bytes do not fill.
        for (bound, order) in [
            (&[68, 132][..], &[1, 0][..]),
            (&[3, 72, 100], &[0, 2, 1]),
            (&[64, 3, 96], &[2, 1, 0]),
            (&[2, 64, 3, 96], &[3, 0, 2, 1]),
            (&[2100, 3], &[1, 0]),
            (&[3, 2100], &[1, 0]),
            (&[20, 4, 1100], &[2, 1, 0]),
            (&[67, 131], &[1, 0]),
            (&[3, 71, 35], &[0, 2, 1]),
            (&[9, 16, 36], &[0, 2, 1]),
            (&[5, 20, 3, 24], &[2, 3, 0, 1]),
        ] {
            let mut small = bound.to_vec();
            small[0] -= 1;
            check(&permute_of(dtype, bound, order).0, &inputs(dtype, &[bound, &small, bound]), 0.0);
        }
    }
}

#[test]
fn strategy_follows_the_layout() {
    use DataType::{Bool as B, Float32 as F};
    // Rows that stay whole, large transposes, small ones.
    assert_eq!(recipe(&permute_of(F, &[2, 9, 3, 16], &[0, 2, 1, 3])), [VEC4]);
    assert_eq!(recipe(&permute_of(F, &[2, 40, 3, 40], &[0, 3, 2, 1])), [CELLS]);
    assert_eq!(recipe(&permute_of(F, &[2, 40, 3, 42], &[0, 3, 2, 1])), [TRANSPOSE]);
    assert_eq!(recipe(&permute_of(F, &[2, 42, 3, 40], &[0, 3, 2, 1])), [TRANSPOSE]);
    assert_eq!(recipe(&permute_of(F, &[1100, 3], &[1, 0])), [TRANSPOSE]);
    assert_eq!(recipe(&permute_of(F, &[3, 1100], &[1, 0])), [ELEMENTS]);
    assert_eq!(recipe(&permute_of(F, &[50, 16, 20], &[0, 2, 1])), [CELLS]);
    assert_eq!(recipe(&permute_of(F, &[50, 8, 8], &[0, 2, 1])), [ELEMENTS]);
    assert_eq!(recipe(&permute_of(F, &[7, 6, 3], &[1, 0, 2])), [ELEMENTS]);
    assert_eq!(recipe(&permute_of(B, &[52, 40, 4], &[1, 0, 2])), [WORD_CELLS]);
    assert_eq!(recipe(&permute_of(B, &[68, 132], &[1, 0])), [BYTE_CELLS]);
    assert_eq!(recipe(&permute_of(B, &[67, 132], &[1, 0])), [BYTES]);
    assert_eq!(recipe(&permute_of(B, &[68, 131], &[1, 0])), [BYTES]);
    // The live shape selects the recipe.
    let (builder, out) = permute_of(F, &[64, 64], &[1, 0]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let calls =
        [([64, 64], &[CELLS][..]), ([2, 5], &[ELEMENTS]), ([64, 1], &[VEC4]), ([0, 64], &[]), ([31, 64], &[TRANSPOSE])];
    for (shape, want) in calls {
        dry_run.call(&[(&shape, &[])]).unwrap();
        assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (want.to_vec(), vec![shape[1], shape[0]]));
    }
}

#[test]
fn identity_permutations_alias() {
    use DataType::Float32 as F;
    assert!(alias(&permute_of(F, &[4, 1, 3], &[1, 0, 2])));
    assert!(alias(&permute_of(F, &[4, 1, 3, 1], &[0, 3, 1, 2])));
    assert!(!alias(&permute_of(F, &[4, 2, 3], &[1, 0, 2])));
    assert!(alias(&flip_of(F, &[4, 1], &[1])));
    assert!(alias(&flip_of(F, &[4, 1], &[])));
    assert!(!alias(&flip_of(F, &[4, 2], &[1])));
    check(&permute_of(F, &[4, 1, 3], &[1, 0, 2]).0, &inputs(F, &[&[4, 1, 3], &[2, 1, 1], &[4, 0, 3]]), 0.0);
}

#[test]
fn every_transpose_operator_agrees() {
    for dtype in TYPES {
        for (bound, out) in [(&[6, 5][..], &[5, 6][..]), (&[6], &[6]), (&[], &[])] {
            check(&one("aten.t_copy.default", dtype, bound, &[], out).0, &inputs(dtype, &[bound]), 0.0);
        }
        let order = [Value::IntList(vec![-1, -2])];
        check(&one("aten.permute.default", dtype, &[6, 5], &order, &[5, 6]).0, &inputs(dtype, &[&[6, 5], &[1, 5]]), 0.0);
    }
}

#[test]
fn flip_of_every_dtype_and_dimension_agrees() {
    for dtype in TYPES {
        for dims in [&[0][..], &[1], &[2], &[0, 2], &[-1, 0, 1]] {
            for bound in [[5, 7, 11], [3, 2, 16], [2, 3, 53]] {
                let small = [1, bound[1], bound[2] - 1];
                let shapes = [&bound[..], &small, &[bound[0], 0, 1], &[1, 1, 1], &bound];
                check(&flip_of(dtype, &bound, dims).0, &inputs(dtype, &shapes), 0.0);
            }
        }
        check(&flip_of(dtype, &[], &[0]).0, &inputs(dtype, &[&[]]), 0.0);
    }
    use DataType::Float32 as F;
    assert_eq!(recipe(&flip_of(F, &[6, 8], &[0])), [VEC4]);
    assert_eq!(recipe(&flip_of(F, &[6, 8], &[1])), [ELEMENTS]);
}

#[test]
fn squeeze_and_unsqueeze_agree() {
    for dtype in TYPES {
        for (dim, out) in [(0, [1, 3, 4]), (2, [3, 4, 1]), (-1, [3, 4, 1]), (-3, [1, 3, 4]), (1, [3, 1, 4])] {
            let (builder, _) = one("aten.unsqueeze_copy.default", dtype, &[3, 4], &[Value::Int(dim)], &out);
            check(&builder, &inputs(dtype, &[&[3, 4], &[1, 4], &[0, 4], &[3, 4]]), 0.0);
        }
        for (dims, out) in
            [(vec![0], &[5, 1, 4][..]), (vec![0, 2], &[5, 4]), (vec![-2, 1], &[1, 5, 4]), (vec![], &[1, 5, 1, 4])]
        {
            let (builder, _) = one("aten.squeeze_copy.dims", dtype, &[1, 5, 1, 4], &[Value::IntList(dims)], out);
            check(&builder, &inputs(dtype, &[&[1, 5, 1, 4], &[1, 1, 1, 4], &[1, 0, 1, 1], &[1, 5, 1, 4]]), 0.0);
        }
    }
    let single = one("aten.unsqueeze_copy.default", DataType::Float32, &[], &[Value::Int(-1)], &[1]);
    check(&single.0, &inputs(DataType::Float32, &[&[]]), 0.0);
    assert!(alias(&single));
    let kept = one("aten.squeeze_copy.dims", DataType::Float32, &[], &[Value::IntList(vec![-1])], &[]);
    check(&kept.0, &inputs(DataType::Float32, &[&[]]), 0.0);
}

#[test]
fn squeeze_keeps_a_dim_that_is_1_only_live() {
    let (builder, out) =
        one("aten.squeeze_copy.dims", DataType::Float32, &[1, 6, 2], &[Value::IntList(vec![0, 1])], &[6, 2]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    dry_run.call(&[(&[1, 1, 2], &[])]).unwrap();
    assert_eq!(dry_run.dims(out), [1, 2]);
    let error = dry_run.call(&[(&[0, 6, 2], &[])]).unwrap_err().to_string();
    assert!(error.contains("`self` is [0, 6, 2], but dimension 0 is left out"), "{error}");
    check(&builder, &inputs(DataType::Float32, &[&[1, 6, 2], &[1, 1, 2], &[1, 6, 1]]), 0.0);
}

#[test]
fn bad_arguments_are_rejected() {
    use DataType::Float32 as F;
    for order in [&[0, 0][..], &[0], &[0, 2], &[0, 1, 2]] {
        let (builder, _) = one(PERMUTE, F, &[3, 4], &[Value::IntList(order.to_vec())], &[3, 4]);
        assert!(load_error(&builder).contains("expected each of the tensor's 2 dimensions once"), "{order:?}");
    }
    assert!(load_error(&one("aten.t_copy.default", F, &[3, 4, 5], &[], &[5, 4, 3]).0).contains("at most two dimensions"));
    assert!(load_error(&flip_of(F, &[3, 4], &[0, -2]).0).contains("names a dimension twice"));
    assert!(load_error(&flip_of(F, &[3, 4], &[2]).0).contains("`dims` is [2], but the tensor has 2 dimensions"));
    let unsqueeze =
        |bound: &[u32], dim| load_error(&one("aten.unsqueeze_copy.default", F, bound, &[Value::Int(dim)], &[1]).0);
    assert!(unsqueeze(&[3, 4], 3).contains("`dim` is 3, but there are 3 places"));
    assert!(unsqueeze(&[1; 8], 0).contains("more than 8 dimensions"));
    let squeeze = |dims: Vec<i64>| load_error(&one("aten.squeeze_copy.dims", F, &[1, 4], &[Value::IntList(dims)], &[4]).0);
    assert!(squeeze(vec![0, -2]).contains("names a dimension twice"));
    assert!(squeeze(vec![2]).contains("has 2 dimensions"));
}
