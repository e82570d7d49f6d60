use super::*;
use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise, thinned};

const NAME: &str = "et_vk.sdpa.default";
const TOLERANCE: f32 = 1e-4;

/// Attention over inputs of these dims: queries, keys, values, and optionally a mask.
fn builder(inputs: &[&[u32]], out: &[u32], scale: Value) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let mut args: Vec<ValueId> = inputs.iter().map(|dims| builder.input(DataType::Float32, dims)).collect();
    if inputs.len() == 3 {
        args.push(builder.value(Value::Null));
    }
    args.push(builder.value(scale));
    let out = builder.tensor(DataType::Float32, out);
    args.push(out);
    builder.call(NAME, &args);
    builder.output(out);
    (builder, out)
}

fn random(seed: u64, shape: &[u32]) -> HostTensor {
    let seed = shape.iter().fold(seed, |seed, &dim| seed * 31 + u64::from(dim));
    f32s(shape, noise(seed, shape.iter().product::<u32>() as usize).iter().map(|x| x * 3.0).collect())
}

fn call(inputs: &[&[u32]]) -> Vec<HostTensor> {
    (1..).zip(inputs).map(|(seed, dims)| random(seed, dims)).collect()
}

/// One call at the bounds.
fn agrees(inputs: &[&[u32]], out: &[u32]) {
    check(&builder(inputs, out, Value::Null).0, &[call(inputs)], TOLERANCE);
}

#[test]
fn any_live_length_and_context() {
    for (dim, columns) in thinned([(8, 8), (6, 5), (64, 20), (1, 1), (12, 3)], 3) {
        let bounds: [&[u32]; 4] = [&[2, 3, 19, dim], &[2, 3, 37, dim], &[2, 3, 37, columns], &[19, 37]];
        let (builder, _) = builder(&bounds, &[2, 3, 19, columns], Value::Null);
        let live = |(batch, tokens, context): (u32, u32, u32)| {
            call(&[&[batch, 3, tokens, dim], &[batch, 3, context, dim], &[batch, 3, context, columns], &[tokens, context]])
        };
        let calls =
            [(2, 19, 37), (1, 1, 37), (2, 7, 13), (2, 19, 1), (1, 9, 36), (0, 19, 37), (2, 0, 37), (2, 19, 0), (2, 8, 8)];
        check(&builder, &calls.map(live), TOLERANCE);
    }
}

#[test]
fn leading_dims_broadcast() {
    agrees(&[&[5, 8], &[7, 8], &[7, 6]], &[5, 6]);
    agrees(&[&[3, 5, 8], &[3, 7, 8], &[3, 7, 6]], &[3, 5, 6]);
    agrees(&[&[2, 3, 5, 8], &[2, 1, 7, 8], &[2, 1, 7, 6], &[2, 1, 5, 7]], &[2, 3, 5, 6]);
    agrees(&[&[2, 3, 5, 8], &[3, 7, 8], &[7, 6], &[1, 3, 1, 7]], &[2, 3, 5, 6]);
    agrees(&[&[3, 5, 8], &[2, 1, 7, 8], &[1, 3, 7, 6], &[4, 1, 1, 5, 1]], &[4, 2, 3, 5, 6]);
    agrees(&[&[1, 2, 1, 2, 1, 2, 5, 4], &[1, 2, 1, 2, 1, 2, 3, 4], &[1, 2, 1, 2, 1, 2, 3, 4]], &[1, 2, 1, 2, 1, 2, 5, 4]);
    agrees(&[&[2, 5, 8], &[2, 7, 8], &[2, 7, 6], &[7]], &[2, 5, 6]);
    agrees(&[&[2, 5, 8], &[2, 7, 8], &[2, 7, 6], &[]], &[2, 5, 6]);
}

#[test]
fn rounds_by_batches_and_by_rows() {
    // Scratch for 524,288 scores: several batches per slice, then rows of a batch that does not fit. Large enough for tiles.
    let calls: [([&[u32]; 4], &[u32]); 4] = [
        ([&[700, 8], &[1001, 8], &[1001, 4], &[700, 1001]], &[700, 4]),
        ([&[9, 200, 8], &[9, 300, 8], &[9, 300, 180], &[9, 200, 300]], &[9, 200, 180]),
        ([&[3, 3, 200, 6], &[3, 299, 6], &[1, 3, 299, 61], &[3, 1, 200, 1]], &[3, 3, 200, 61]),
        ([&[2, 7, 1], &[1, 80_000, 1], &[2, 80_000, 1], &[7, 1]], &[2, 7, 1]),
    ];
    for (inputs, out) in thinned(calls, 4) {
        agrees(&inputs, out);
    }
}

#[test]
fn long_rows_and_few_tokens() {
    agrees(&[&[4, 1, 64], &[4, 700, 64], &[4, 700, 64]], &[4, 1, 64]);
    agrees(&[&[1, 5, 30], &[1, 1500, 30], &[1, 1500, 66]], &[1, 5, 66]);
}

#[test]
fn a_scale_of_its_own() {
    for scale in [Value::Double(0.1), Value::Int(1), Value::Double(-0.5)] {
        let inputs: [&[u32]; 3] = [&[2, 9, 6], &[2, 11, 6], &[2, 11, 6]];
        check(&builder(&inputs, &[2, 9, 6], scale).0, &[call(&inputs)], TOLERANCE);
    }
    // With a head dim of 0 the scores are the mask.
    let inputs: [&[u32]; 4] = [&[2, 9, 0], &[2, 11, 0], &[2, 11, 6], &[9, 11]];
    check(&builder(&inputs, &[2, 9, 6], Value::Int(1)).0, &[call(&inputs)], TOLERANCE);
}

#[test]
fn masks_of_infinities_and_of_the_lowest_float() {
    for (tokens, context) in [(5u32, 7u32), (20, 12), (3, 300)] {
        let inputs: [&[u32]; 4] = [&[2, tokens, 4], &[2, context, 4], &[2, context, 4], &[tokens, context]];
        let (builder, _) = builder(&inputs, &[2, tokens, 4], Value::Null);
        let mut calls = Vec::new();
        for masked in [f32::NEG_INFINITY, f32::MIN, -1e9] {
            let mut causal = call(&inputs);
            // The first row attends to nothing, each later row to one more key.
            let sees = |i: u32| i % context < i / context;
            let mask = (0..tokens * context).map(|i| if sees(i) { 0.0 } else { masked });
            causal[3] = f32s(inputs[3], mask.collect());
            calls.push(causal);
        }
        for odd in [f32::NAN, f32::INFINITY] {
            let mut broken = call(&inputs);
            let HostData::F32(mask) = &mut broken[3].data else { unreachable!("floats") };
            mask[(context + 2) as usize] = odd;
            calls.push(broken);
        }
        check(&builder, &calls, TOLERANCE);
    }
}

#[test]
fn values_that_are_no_numbers_stay_in_their_columns() {
    let inputs: [&[u32]; 3] = [&[1, 10, 4], &[1, 13, 4], &[1, 13, 6]];
    let mut broken = call(&inputs);
    let HostData::F32(values) = &mut broken[2].data else { unreachable!("floats") };
    (values[5], values[12 * 6 + 1]) = (f32::INFINITY, f32::NAN);
    check(&builder(&inputs, &[1, 10, 6], Value::Null).0, &[broken], TOLERANCE);
}

#[test]
fn plans_stay_within_capped_scratch() {
    let bounds: [&[u32]; 3] = [&[6, 1024, 8], &[6, 1000, 8], &[6, 1000, 8]];
    let (builder, out) = builder(&bounds, &[6, 1024, 8], Value::Null);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(dry_run.planned.recipes()[0].scratch, [SCORE_BYTES]);
    // Rows of 1,000 floats: 512 of a batch's 1,024 rows per slice.
    assert_eq!(dry_run.recipes(0).len(), 3 * 2 * 6);
    for (batch, tokens, context, slices) in
        [(6, 1024, 100, 2), (6, 80, 1000, 1), (1, 1, 1, 1), (6, 1023, 999, 12), (2, 513, 1000, 2)]
    {
        let (q, k) = ([batch, tokens, 8], [batch, context, 8]);
        dry_run.call(&[(&q, &[]), (&k, &[]), (&k, &[])]).unwrap();
        assert_eq!((dry_run.recipes(0).len(), dry_run.dims(out)), (3 * slices, vec![batch, tokens, 8]), "{q:?} {k:?}");
    }
    // Without a context only the product runs, and writes zeros.
    dry_run.call(&[(&[6, 1024, 8], &[]), (&[6, 0, 8], &[]), (&[6, 0, 8], &[])]).unwrap();
    assert_eq!(dry_run.recipes(0).len(), 1);
    dry_run.call(&[(&[6, 0, 8], &[]), (&[6, 9, 8], &[]), (&[6, 9, 8], &[])]).unwrap();
    assert!(dry_run.recipes(0).is_empty());
}

#[test]
fn bad_arguments_are_rejected() {
    let refused = |inputs: &[&[u32]]| load_error(&builder(inputs, &[2, 5, 6], Value::Null).0);
    assert!(refused(&[&[8], &[7, 8], &[7, 6]]).contains("`q` is [8], expected at least two dimensions"));
    assert!(refused(&[&[5, 8], &[7, 9], &[7, 6]]).contains("`k` has head dim 9, but `q` 8"));
    assert!(refused(&[&[5, 8], &[7, 8], &[6, 6]]).contains("`v` has 6 positions, but `k` 7"));
    assert!(refused(&[&[5, 0], &[7, 0], &[7, 6]]).contains("`q` is [5, 0]: a head dim of 0 gives no scale"));
    let error = refused(&[&[2, 5, 8], &[3, 7, 8], &[3, 7, 6]]);
    assert!(error.contains("`k` has leading dims [3], which cannot be broadcast with [2]"), "{error}");
    let error = refused(&[&[2, 5, 8], &[2, 7, 8], &[2, 7, 6], &[4, 7]]);
    assert!(error.contains("`attn_mask` is [4, 7], which cannot be broadcast to the scores [2, 5, 7]"), "{error}");
    assert!(refused(&[&[2, 5, 8], &[2, 7, 8], &[2, 7, 6], &[3, 5, 7]]).contains("`attn_mask` has leading dims [3]"));
    let error = refused(&[&[2, 1, 8], &[2, 600_000, 8], &[2, 600_000, 6]]);
    assert!(error.contains("`k` holds 600000 tokens: one row of scores takes 2400000 bytes"), "{error}");
    let many: [&[u32]; 3] = [&[1 << 15, 1, 1, 1], &[1 << 15, 1, 1], &[1, 1]];
    assert!(refused(&many).contains("`q` has 1 rows of scores for each of 1073741824 heads"));
    assert!(refused(&[&[1 << 16, 1, 1, 1], &[1 << 16, 1, 1], &[1, 1]]).contains("more than kernels count"));
}
