//! Graphs of operators that programs call outside of delegates.

use super::Sample;
use crate::testing::case::{Arg, B, Case, F, I, I8, U8, flag, float, int, ints, none, x};

pub(super) fn samples() -> Vec<Sample> {
    let cases = [elementwise(), scalars(), reductions(), copies(), borders(), ordered(), images()].into_iter().flatten();
    let fixed = fixed().into_iter().chain(tables()).chain(attention()).map(|case| case.sample(&[]));
    cases.map(|case| case.sample(&[1, 3])).chain(fixed).collect()
}

/// Cases of one shape.
fn fixed() -> Vec<Case> {
    let shape: &[u32] = &[6, 5];
    let index = || Arg::Indices(vec![4, 5], 6);
    let pairs = || Arg::IndexList(vec![Some((vec![4], 6)), Some((vec![4], 5))]);
    vec![
        Case::new("aten.scatter.value", [x(F, shape), int(0), index(), float(0.5)], (F, shape)),
        Case::new("aten.scatter.src", [x(F, shape), int(0), index(), x(F, shape)], (F, shape)),
        Case::new("aten.scatter_add.default", [x(F, shape), int(0), index(), x(F, shape)], (F, shape)),
        Case::new("aten.index_put.default", [x(F, shape), pairs(), x(F, &[4]), flag(true)], (F, shape)),
        Case::new("aten.as_strided_copy.default", [x(F, &[40]), ints(&[4, 3]), ints(&[2, 5]), int(1)], (F, &[4, 3])),
    ]
}

/// Scans and sorts.
fn ordered() -> Vec<Case> {
    let shape: &[u32] = &[6, 5];
    let both: [(_, &[u32]); 2] = [(F, shape), (I, shape)];
    let top: [(_, &[u32]); 2] = [(F, &[6, 2]), (I, &[6, 2])];
    vec![
        Case::new("aten.cumsum.default", [x(B, shape), int(1), none()], (I, shape)),
        Case::listed("aten.topk.default", [x(F, shape), int(2), int(1), flag(true), flag(true)], &top),
        Case::listed("aten.sort.default", [x(F, shape), int(1), flag(false)], &both),
        Case::listed("aten.sort.stable", [x(F, shape), flag(true), int(1), flag(true)], &both),
    ]
}

fn elementwise() -> Vec<Case> {
    let shape: &[u32] = &[6, 5];
    let floats = [
        "aten.log.default",
        "aten.log2.default",
        "aten.expm1.default",
        "aten.reciprocal.default",
        "aten.erf.default",
        "aten.sinh.default",
        "aten.cosh.default",
        "aten.asin.default",
        "aten.acos.default",
        "aten.atan.default",
        "aten.asinh.default",
        "aten.acosh.default",
        "aten.atanh.default",
        "aten.sign.default",
        "aten.floor.default",
        "aten.ceil.default",
        "aten.trunc.default",
        "aten.frac.default",
    ];
    let tests = ["aten.isnan.default", "aten.isinf.default"];
    let pairs = [
        "aten.maximum.default",
        "aten.floor_divide.default",
        "aten.fmod.Tensor",
        "aten.remainder.Tensor",
        "aten.atan2.default",
        "aten.fill.Tensor",
    ];
    let bits = ["aten.bitwise_xor.Tensor", "aten.bitwise_left_shift.Tensor", "aten.bitwise_right_shift.Tensor"];
    let mut cases: Vec<Case> = floats.map(|name| Case::new(name, [x(F, shape)], (F, shape))).into();
    cases.extend(tests.map(|name| Case::new(name, [x(F, shape)], (B, shape))));
    cases.extend(pairs.map(|name| Case::new(name, [x(F, shape), x(F, &[5])], (F, shape))));
    cases.extend(bits.map(|name| Case::new(name, [x(I, shape), x(I, &[5])], (I, shape))));
    cases.extend([
        Case::new("aten.copy.default", [x(I8, shape), x(F, &[5]), flag(false)], (I8, shape)),
        Case::new("aten.logical_xor.default", [x(F, shape), x(B, &[5])], (B, shape)),
        Case::new("aten.masked_fill.Scalar", [x(F, shape), x(B, shape), float(-1.5)], (F, shape)),
        Case::new("aten.clamp.Tensor", [x(F, shape), x(F, &[5]), x(F, shape)], (F, shape)),
        Case::new("aten.clamp.Tensor", [x(F, shape), x(F, &[5]), none()], (F, shape)),
        Case::new("aten.clamp.Tensor", [x(I, shape), none(), x(I, &[5])], (I, shape)),
        Case::new("aten.glu.default", [x(F, &[6, 8]), int(1)], (F, &[6, 4])),
        Case::new("aten._cdist_forward.default", [x(F, shape), x(F, &[4, 5]), float(2.0), none()], (F, &[6, 4])),
        Case::new("aten._pdist_forward.default", [x(F, shape), float(1.0)], (F, &[15])),
    ]);
    cases
}

fn scalars() -> Vec<Case> {
    let shape: &[u32] = &[6, 5];
    let with_alpha = ["aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar"];
    let arithmetic =
        ["aten.mul.Scalar", "aten.div.Scalar", "aten.floor_divide.Scalar", "aten.fmod.Scalar", "aten.remainder.Scalar"];
    let bits = [
        "aten.bitwise_and.Scalar",
        "aten.bitwise_or.Scalar",
        "aten.bitwise_xor.Scalar",
        "aten.bitwise_left_shift.Tensor_Scalar",
        "aten.bitwise_right_shift.Tensor_Scalar",
    ];
    let mut cases: Vec<Case> = with_alpha.map(|name| Case::new(name, [x(F, shape), float(1.5), int(2)], (F, shape))).into();
    cases.extend(arithmetic.map(|name| Case::new(name, [x(F, shape), float(1.5)], (F, shape))));
    cases.extend(bits.map(|name| Case::new(name, [x(I, shape), int(3)], (I, shape))));
    cases.extend([
        Case::new("aten.div.Scalar_mode", [x(F, shape), float(1.5), none()], (F, shape)),
        Case::new("aten.pow.Scalar", [float(1.5), x(F, shape)], (F, shape)),
        Case::new("aten.logit.default", [x(F, shape), float(0.1)], (F, shape)),
        Case::new("aten.round.decimals", [x(F, shape), int(1)], (F, shape)),
    ]);
    cases
}

fn reductions() -> Vec<Case> {
    let shape: &[u32] = &[6, 5];
    let rows: &[u32] = &[6];
    let keep = || flag(false);
    let mut cases = Vec::new();
    for name in ["aten.any.default", "aten.all.default"] {
        cases.push(Case::new(name, [x(B, shape)], (B, &[])));
    }
    for name in ["aten.any.dim", "aten.all.dim"] {
        cases.push(Case::new(name, [x(B, shape), int(1), keep()], (B, rows)));
    }
    for name in ["aten.any.dims", "aten.all.dims"] {
        cases.push(Case::new(name, [x(I8, shape), ints(&[1]), keep()], (B, rows)));
    }
    for name in ["aten.max.default", "aten.min.default"] {
        cases.push(Case::new(name, [x(I8, shape)], (I8, &[])));
    }
    for name in ["aten.sum.default", "aten.prod.default"] {
        cases.push(Case::new(name, [x(F, shape), none()], (F, &[])));
    }
    for name in ["aten.max.dim", "aten.min.dim"] {
        cases.push(Case::listed(name, [x(F, shape), int(1), keep()], &[(F, rows), (I, rows)]));
    }
    cases.extend([
        Case::new("aten.mean.default", [x(F, shape), none()], (F, &[])),
        Case::new("aten.prod.dim_int", [x(B, shape), int(1), keep(), none()], (I, rows)),
        Case::new("aten.var.correction", [x(F, shape), ints(&[1]), float(0.5), keep()], (F, rows)),
        Case::listed("aten.var_mean.correction", [x(F, shape), ints(&[1]), none(), keep()], &[(F, rows), (F, rows)]),
    ]);
    cases
}

fn copies() -> Vec<Case> {
    let shape: &[u32] = &[6, 4];
    let same = [
        "aten.detach_copy.default",
        "aten.lift_fresh_copy.default",
        "aten._conj_physical.default",
        "et_copy._h2d_copy.default",
        "et_copy._d2h_copy.default",
    ];
    let mut cases: Vec<Case> = same.map(|name| Case::new(name, [x(F, shape)], (F, shape))).into();
    let pair = || Arg::Ins(vec![(F, shape.to_vec()); 2]);
    let options = |count| vec![none(); count];
    cases.extend([
        Case::new("aten.squeeze_copy.dim", [x(F, &[6, 1, 4]), int(1)], (F, shape)),
        Case::new("aten.squeeze_copy.default", [x(F, &[6, 1, 4])], (F, shape)),
        Case::new("aten.narrow_copy.default", [x(F, &[6, 9]), int(1), int(-5), int(3)], (F, &[6, 3])),
        Case::new("aten.diagonal_copy.default", [x(F, &[6, 5, 4]), int(1), int(1), int(2)], (F, &[6, 3])),
        Case::new("aten.transpose_copy.int", [x(F, shape), int(0), int(-1)], (F, &[4, 6])),
        Case::new("aten.pixel_unshuffle.default", [x(F, &[2, 3, 4, 6]), int(2)], (F, &[2, 12, 2, 3])),
        Case::new("aten.stack.default", [pair(), int(1)], (F, &[6, 2, 4])),
        Case::listed("aten.split_copy.Tensor", [x(F, &[6, 5]), int(2), int(1)], &[(F, &[6, 2]), (F, &[6, 2]), (F, &[6, 1])]),
        Case::listed("aten.unbind_copy.int", [x(F, &[6, 3]), int(1)], &[(F, &[6]), (F, &[6]), (F, &[6])]),
        Case::new("aten.select_scatter.default", [x(F, shape), x(F, &[6]), int(1), int(2)], (F, shape)),
        Case::new("aten.slice_scatter.default", [x(F, shape), x(F, &[6, 2]), int(1), int(1), none(), int(2)], (F, shape)),
        Case::new("aten.tril.default", [x(F, &[6, 4, 3]), int(0)], (F, &[6, 4, 3])),
        Case::new("aten.triu.default", [x(F, &[6, 4, 3]), int(-1)], (F, &[6, 4, 3])),
        Case::new("aten.fill.Scalar", [x(F, shape), float(2.5)], (F, shape)),
        Case::new("aten.empty.memory_format", [vec![ints(&[2, 3])], options(5)].concat(), (F, &[2, 3])),
        Case::new("dim_order_ops._empty_dim_order.default", [vec![ints(&[2, 3])], options(5)].concat(), (F, &[2, 3])),
        Case::new("aten.arange.default", [vec![int(7)], options(4)].concat(), (I, &[7])),
        Case::new("aten.arange.start", [vec![int(2), int(7)], options(4)].concat(), (F, &[5])),
    ]);
    cases
}

fn borders() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, pad, out) in [
        ("aten.reflection_pad1d.default", vec![1, 2], vec![4, 3, 6, 5, 8]),
        ("aten.reflection_pad2d.default", vec![1, 2, 3, 0], vec![4, 3, 6, 8, 8]),
        ("aten.reflection_pad3d.default", vec![1, 2, 3, 0, 0, 5], vec![4, 3, 11, 8, 8]),
        ("aten.replication_pad1d.default", vec![7, 2], vec![4, 3, 6, 5, 14]),
        ("aten.replication_pad2d.default", vec![1, 2, 9, 0], vec![4, 3, 6, 14, 8]),
        ("aten.replication_pad3d.default", vec![1, 2, 3, 0, 1, 8], vec![4, 3, 15, 8, 8]),
    ] {
        cases.push(Case::new(name, [x(F, &[4, 3, 6, 5, 5]), ints(&pad)], (F, &out)));
    }
    cases.push(Case::new("aten.roll.default", [x(F, &[6, 4, 3]), ints(&[-1, 5]), ints(&[1, 0])], (F, &[6, 4, 3])));
    cases.push(Case::new("aten.roll.default", [x(F, &[6, 4, 3]), ints(&[5]), ints(&[])], (F, &[6, 4, 3])));
    cases
}

fn images() -> Vec<Case> {
    let (image, channel): (&[u32], &[u32]) = (&[5, 3, 8, 6], &[3]);
    let outs: [(_, &[u32]); 3] = [(F, image), (F, channel), (F, channel)];
    let empty: [(_, &[u32]); 3] = [(F, image), (F, &[0]), (F, &[0])];
    let small: &[u32] = &[5, 3, 3, 2];
    let volume = || [x(F, &[5, 3, 4, 8, 6]), ints(&[2, 3, 2])];
    let smaller: &[u32] = &[5, 3, 2, 3, 2];
    let no_stats = [x(F, image), x(F, channel), x(F, channel), flag(true), float(0.1), float(1e-5)];
    vec![
        Case::listed("aten._native_batch_norm_legit.no_stats", no_stats, &outs),
        Case::listed(
            "aten._native_batch_norm_legit.default",
            [x(F, image), none(), none(), x(F, channel), x(F, channel), flag(false), float(0.1), float(10.0)],
            &empty,
        ),
        Case::new("aten._adaptive_avg_pool2d.default", [x(F, image), ints(&[3, 2])], (F, small)),
        Case::listed("aten.adaptive_max_pool2d.default", [x(F, image), ints(&[3, 2])], &[(F, small), (I, small)]),
        Case::new("aten.adaptive_avg_pool1d.default", [x(F, &[5, 3, 9]), ints(&[4])], (F, &[5, 3, 4])),
        Case::new("aten._adaptive_avg_pool3d.default", volume(), (F, smaller)),
        Case::listed("aten.adaptive_max_pool3d.default", volume(), &[(F, smaller), (I, smaller)]),
    ]
}

/// Rows of quantised tables.
fn tables() -> Vec<Case> {
    let table = |name: &'static str, dtype, width| {
        let index = Arg::Indices(vec![5], 6);
        let mut args = vec![x(dtype, &[6, 4]), x(F, &[6]), none(), int(-8), int(7), index];
        if name.ends_with("dtype") {
            args.push(none());
        }
        Case::new(name, args, (F, &[5, width]))
    };
    vec![
        table("quantized_decomposed.embedding_byte.default", I8, 4),
        table("quantized_decomposed.embedding_byte.dtype", I8, 4),
        table("quantized_decomposed.embedding_4bit.default", U8, 8),
        table("quantized_decomposed.embedding_4bit.dtype", U8, 8),
        table("quantized_decomposed.embedding_2bit.default", U8, 16),
        table("quantized_decomposed.embedding_2bit.dtype", U8, 16),
    ]
}

/// Caches, and attention over them.
fn attention() -> Vec<Case> {
    let (new, cache): (&[u32], &[u32]) = (&[1, 3, 2, 8], &[1, 10, 2, 8]);
    let (q, rows): (&[u32], &[u32]) = (&[1, 3, 4, 8], &[1, 10, 2, 1]);
    let scales = |shape: &[u32]| [x(I8, shape), x(F, shape)];
    let mut quantised = vec![x(I8, q), x(I8, cache), x(I8, cache), int(4), none(), float(0.0), flag(true), float(0.001)];
    quantised.extend([scales(&[1, 3, 4, 1]), scales(rows), scales(rows)].concat());
    quantised.push(flag(false));
    let mut cached = vec![x(F, q), x(F, new), x(F, new), x(F, cache), x(F, cache), int(4), int(3)];
    cached.extend([none(), float(0.0), flag(true), none()]);
    vec![
        Case::new("llama.update_cache.default", [x(F, new), x(F, cache), int(4)], (F, &[1])),
        Case::new(
            "llama.update_cache_with_indices.default",
            [x(F, new), x(F, cache), int(0), Arg::Indices(vec![1, 3], 10)],
            (F, &[1]),
        ),
        Case::new("llama.sdpa_with_kv_cache.default", cached, (F, q)),
        Case::new("llama.custom_quantized_sdpa.default", quantised, (F, q)),
        Case::new("llama.fast_hadamard_transform.default", [x(F, &[3, 56])], (F, &[3, 56])),
    ]
}
