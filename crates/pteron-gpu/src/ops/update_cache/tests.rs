use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::{DryRun, GraphBuilder, check, dims, f32s, i32s, load_error, noise, noise_bytes};

/// New rows, the cache and the position as inputs; the cache and the placeholder as outputs.
fn builder(dtype: DataType, value: &[u32], cache: &[u32]) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let value = builder.input(dtype, value);
    let cache = builder.input(dtype, cache);
    let position = builder.input(DataType::Int32, &[1]);
    let (dim, index, at) = (builder.int(0), builder.int(0), builder.value(Value::SymInt));
    builder.call("et_vk.select_as_symint.default", &[position, dim, index, at]);
    let out = builder.tensor(dtype, &[1]);
    builder.call("update_cache.default", &[value, cache, at, out]);
    builder.output(cache);
    builder.output(out);
    (builder, out)
}

#[test]
fn rows_of_any_length_go_where_the_position_says() {
    for (heads, dim) in [(2, 4), (3, 5), (1, 1), (2, 6), (8, 64)] {
        let (builder, _) = builder(DataType::Float32, &[1, 5, heads, dim], &[1, 9, heads, dim]);
        let calls = [(5, 4), (1, 0), (3, 2), (0, 9), (1, 8), (5, 0), (2, 7)].map(|(rows, at)| {
            let count = |rows: u32| (rows * heads * dim) as usize;
            let value = f32s(&[1, rows, heads, dim], noise(rows.into(), count(rows)));
            vec![value, f32s(&[1, 9, heads, dim], noise(77, count(9))), i32s(&[1], vec![at])]
        });
        check(&builder, &calls, 0.0);
    }
}

#[test]
fn integer_states_keep_written_rows() {
    let (builder, _) = builder(DataType::Int32, &[1, 2, 1, 3], &[1, 4, 1, 3]);
    let call = vec![i32s(&[1, 1, 1, 3], vec![1, -2, 3]), i32s(&[1, 4, 1, 3], (10..22).collect()), i32s(&[1], vec![3])];
    check(&builder, &[call], 0.0);

    let mut kept = GraphBuilder::new();
    let value = kept.input(DataType::Float32, &[1, 2, 2, 3]);
    let cache = kept.floats(&[1, 6, 2, 3], &[0.0; 36]);
    let (at, out) = (kept.int(3), kept.tensor(DataType::Float32, &[1]));
    kept.call("update_cache.default", &[value, cache, at, out]);
    kept.output(cache);
    kept.output(out);
    let call = |rows: u32| vec![f32s(&[1, rows, 2, 3], noise(rows.into(), (rows * 6) as usize))];
    check(&kept, &[call(2), call(1), call(2)], 0.0);
}

#[test]
fn a_step_changes_the_position_alone() {
    let (builder, out) = builder(DataType::Float32, &[1, 4, 2, 4], &[1, 8, 2, 4]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let mut call = |rows: u32, at: i32| {
        dry_run.call(&[(&[1, rows, 2, 4], &[]), (&[1, 8, 2, 4], &[]), (&[1], &[at])]).unwrap();
        assert_eq!(dry_run.dims(out), [1]);
        dry_run.planned.plans()[1].clone()
    };
    let (first, second) = (call(1, 2), call(1, 3));
    assert_eq!((&first.steps, &first.outputs), (&second.steps, &second.outputs));
    assert_eq!((first.step_words, second.step_words), (vec![2], vec![3]));
    assert_eq!(call(0, 8).steps.len(), 1);
}

#[test]
fn bad_arguments_are_rejected() {
    let (builder, _) = builder(DataType::Float32, &[1, 4, 2, 4], &[1, 8, 2, 4]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let mut refused = |value: &[u32], cache: &[u32], at: i32| {
        dry_run.call(&[(value, &[]), (cache, &[]), (&[1], &[at])]).unwrap_err().to_string()
    };
    let error = refused(&[1, 4, 2, 4], &[1, 8, 2, 4], 5);
    assert_eq!(error, "update_cache.default (call 1): `start_pos` is 5 with 4 new tokens, past the cache's 8");
    assert!(refused(&[1, 1, 2, 4], &[1, 8, 2, 4], -1).contains("`start_pos` is -1, expected 0 or more"));
    assert!(refused(&[1, 1, 2, 4], &[1, 7, 2, 4], 7).contains("`start_pos` is 7 with 1 new tokens, past the cache's 7"));
    assert!(refused(&[1, 1, 1, 4], &[1, 8, 2, 4], 0).contains("`value` is [1, 1, 1, 4], expected [1, tokens, 2, 4]"));
    assert!(refused(&[0, 1, 2, 4], &[1, 8, 2, 4], 0).contains("`value` is [0, 1, 2, 4]"));
    assert!(refused(&[1, 1, 2, 4], &[1, 8, 1, 4], 0).contains("`cache` is [1, 8, 1, 4], but rows are fixed"));
    let bytes = self::builder(DataType::Int8, &[1, 4, 1, 3], &[1, 8, 1, 3]).0;
    assert!(load_error(&bytes).contains("`cache` is [1, 8, 1, 3], whose rows of 3 bytes are no whole words"));
    let short = self::builder(DataType::Float32, &[2, 4, 2, 4], &[3, 8, 2, 4]).0;
    assert!(load_error(&short).contains("`value` is [2, 4, 2, 4], expected [3, tokens, 2, 4] as in the cache"));
}

#[test]
fn batches_and_bytes_are_appended() {
    for (dtype, heads, dim) in [(DataType::Float32, 2, 3), (DataType::Int8, 2, 6), (DataType::UInt8, 1, 4)] {
        let batch = if dtype == DataType::Float32 { 3 } else { 1 };
        let (builder, _) = builder(dtype, &[batch, 5, heads, dim], &[batch, 9, heads, dim]);
        let values = |seed: u64, rows: u32| {
            let count = (batch * rows * heads * dim) as usize;
            let shape = [batch, rows, heads, dim];
            match dtype {
                DataType::Float32 => f32s(&shape, noise(seed, count)),
                _ => HostTensor { dims: dims(&shape), data: HostData::U8(noise_bytes(seed, count)) },
            }
        };
        let calls = [(5, 4), (1, 0), (3, 2), (0, 9), (1, 8)]
            .map(|(rows, at)| vec![values(u64::from(rows) + 1, rows), values(77, 9), i32s(&[1], vec![at])]);
        check(&builder, &calls, 0.0);
    }
}

#[test]
fn rows_go_where_indices_say() {
    let mut builder = GraphBuilder::new();
    let value = builder.input(DataType::Float32, &[2, 4, 2, 3]);
    let cache = builder.floats(&[2, 6, 2, 3], &noise(3, 72));
    let indices = builder.input(DataType::Int32, &[2, 4]);
    let (zero, out) = (builder.int(0), builder.tensor(DataType::Float32, &[1]));
    builder.call("llama.update_cache_with_indices.default", &[value, cache, zero, indices, out]);
    builder.output(cache);
    let calls = [vec![5, 0, 1, 2, 3, 4, 5, 0], vec![2, 1, 0, 5, 1, 0, 3, 4]].map(|indices: Vec<i32>| {
        vec![f32s(&[2, 4, 2, 3], noise(u64::from(indices[0].unsigned_abs()) + 9, 48)), i32s(&[2, 4], indices)]
    });
    check(&builder, &calls, 0.0);
}
