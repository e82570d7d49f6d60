use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, i32s, load_error, noise};

struct Sizes {
    batch: u32,
    tokens: u32,
    heads: (u32, u32),
    dim: u32,
}

fn builder(sizes: &Sizes, table: &[u32]) -> (GraphBuilder, [ValueId; 2]) {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let (q, k) = ([batch, tokens, heads.0, dim], [batch, tokens, heads.1, dim]);
    let args =
        [builder.input(float, &q), builder.input(float, &k), builder.input(float, table), builder.input(float, table)];
    let out = [builder.tensor(float, &q), builder.tensor(float, &k)];
    let list = builder.value(Value::ValueList(out.to_vec()));
    builder.call("et_vk.apply_rotary_emb.default", &[args[0], args[1], args[2], args[3], list]);
    out.iter().for_each(|&out| builder.output(out));
    (builder, out)
}

fn call(sizes: &Sizes) -> Vec<HostTensor> {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let x = |seed, heads| f32s(&[batch, tokens, heads, dim], noise(seed, (batch * tokens * heads * dim) as usize));
    let angles = noise(3, (tokens * dim / 2) as usize);
    let table = |f: fn(f32) -> f32| f32s(&[tokens, dim / 2], angles.iter().map(|&angle| f(angle * 3.0)).collect());
    vec![x(1, heads.0), x(2, heads.1), table(f32::cos), table(f32::sin)]
}

#[test]
fn any_length_of_queries_and_keys() {
    for (batch, heads, dim) in [(1, (8, 2), 64), (2, (3, 3), 6), (1, (1, 4), 2), (3, (2, 1), 18), (1, (32, 8), 128)] {
        let sizes = |batch, tokens| Sizes { batch, tokens, heads, dim };
        let (builder, _) = builder(&sizes(batch, 9), &[9, dim / 2]);
        check(&builder, &[9, 1, 4, 0, 7, 9].map(|tokens| call(&sizes(batch, tokens))), 1e-5);
        check(&builder, &[call(&sizes(1, 3))], 1e-5);
    }
}

#[test]
fn one_dispatch_turns_both() {
    let (builder, out) = builder(&Sizes { batch: 1, tokens: 5, heads: (4, 2), dim: 8 }, &[5, 4]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(dry_run.recipes(0), [0]);
    dry_run.call(&[(&[1, 3, 4, 8], &[]), (&[1, 3, 2, 8], &[]), (&[3, 4], &[]), (&[3, 4], &[])]).unwrap();
    assert_eq!(out.map(|out| dry_run.dims(out)), [[1, 3, 4, 8], [1, 3, 2, 8]]);
    dry_run.call(&[(&[1, 0, 4, 8], &[]), (&[1, 0, 2, 8], &[]), (&[0, 4], &[]), (&[0, 4], &[])]).unwrap();
    assert!(dry_run.recipes(0).is_empty());
}

#[test]
fn bad_arguments_are_rejected() {
    let sizes = Sizes { batch: 1, tokens: 5, heads: (4, 2), dim: 8 };
    let (good, _) = builder(&sizes, &[5, 4]);
    let mut dry_run = DryRun::new(&good).unwrap();
    let mut refused = |q: &[u32], k: &[u32], cos: &[u32], sin: &[u32]| {
        dry_run.call(&[(q, &[]), (k, &[]), (cos, &[]), (sin, &[])]).unwrap_err().to_string()
    };
    let error = refused(&[1, 3, 4, 8], &[1, 2, 2, 8], &[3, 4], &[3, 4]);
    assert!(error.contains("`xk` is [1, 2, 2, 8], expected [1, 3, heads, 8]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 6], &[3, 4], &[3, 4]);
    assert!(error.contains("`xk` is [1, 3, 2, 6]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 8], &[5, 4], &[3, 4]);
    assert!(error.contains("`freqs_cos` is [5, 4], expected [3, 4]"), "{error}");
    let error = refused(&[1, 3, 4, 8], &[1, 3, 2, 8], &[3, 4], &[3, 3]);
    assert!(error.contains("`freqs_sin` is [3, 3], expected [3, 4]"), "{error}");
    let error = refused(&[1, 3, 4, 7], &[1, 3, 2, 7], &[3, 3], &[3, 3]);
    assert!(error.contains("`xq` is [1, 3, 4, 7]: a head dim of 7 cannot be paired"), "{error}");
    assert!(load_error(&builder(&sizes, &[5, 1, 4]).0).contains("`freqs_cos` is [5, 1, 4], expected [5, 4]"));
}

const SPLIT_HALF: &str = "et_vk.apply_rotary_emb_hf.default";

/// Split-half rotary embedding, from a row of the tables that is an input.
fn split_half(sizes: &Sizes, table: &[u32]) -> (GraphBuilder, [ValueId; 2]) {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let mut builder = GraphBuilder::new();
    let float = DataType::Float32;
    let (q, k) = ([batch, tokens, heads.0, dim], [batch, tokens, heads.1, dim]);
    let args =
        [builder.input(float, &q), builder.input(float, &k), builder.input(float, table), builder.input(float, table)];
    let position = builder.input(DataType::Int32, &[1]);
    let (zero, start) = (builder.int(0), builder.value(Value::SymInt));
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, start]);
    let out = [builder.tensor(float, &q), builder.tensor(float, &k)];
    let list = builder.value(Value::ValueList(out.to_vec()));
    builder.call(SPLIT_HALF, &[args[0], args[1], args[2], args[3], start, list]);
    out.iter().for_each(|&out| builder.output(out));
    (builder, out)
}

fn halves_call(sizes: &Sizes, table: [u32; 2], start: i32) -> Vec<HostTensor> {
    let &Sizes { batch, tokens, heads, dim } = sizes;
    let x = |seed, heads| f32s(&[batch, tokens, heads, dim], noise(seed, (batch * tokens * heads * dim) as usize));
    // The two elements of a pair have separate entries.
    let angles = |seed| f32s(&table, noise(seed, (table[0] * table[1]) as usize));
    vec![x(1, heads.0), x(2, heads.1), angles(3), angles(4), i32s(&[1], vec![start])]
}

#[test]
fn halves_of_any_length_from_any_row() {
    let cases = [
        (1, (8, 2), 64, 64),
        (2, (3, 3), 6, 6),
        (1, (1, 4), 2, 2),
        (2, (2, 1), 32, 24),
        (1, (3, 1), 16, 10),
        (1, (2, 2), 7, 4),
    ];
    for (batch, heads, dim, turning) in cases {
        let sizes = |tokens| Sizes { batch, tokens, heads, dim };
        let (builder, _) = split_half(&sizes(9), &[20, turning]);
        let calls = [(9, 0), (1, 19), (4, 3), (0, 20), (9, 11), (1, 0)];
        check(&builder, &calls.map(|(tokens, start)| halves_call(&sizes(tokens), [20, turning], start)), 1e-5);
    }
}

#[test]
fn a_step_on_changes_a_step_word_alone() {
    let sizes = Sizes { batch: 1, tokens: 4, heads: (4, 2), dim: 8 };
    let (builder, _) = split_half(&sizes, &[32, 8]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    let mut at = |start| {
        let (q, k, table) = ([1, 1, 4, 8], [1, 1, 2, 8], [32, 8]);
        dry_run
            .call(&[(&q, &[]), (&k, &[]), (&table, &[]), (&table, &[]), (&[1], &[start])])
            .map(|_| dry_run.planned.plans()[1].clone())
    };
    let (first, last) = (at(0).unwrap(), at(31).unwrap());
    assert_eq!((first.steps, &first.step_words, &last.step_words), (last.steps, &vec![0], &vec![31]));
    let error = at(32).unwrap_err().to_string();
    assert!(error.contains("`start_pos` is 32 with 1 tokens, past the 32 rows of `freqs_cos`"), "{error}");
    assert!(at(-1).unwrap_err().to_string().contains("`start_pos` is -1, expected the row of a table"));
}

#[test]
fn halves_need_tables_that_go_with_them() {
    let sizes = Sizes { batch: 1, tokens: 4, heads: (4, 2), dim: 8 };
    for table in [&[32, 10][..], &[32, 7], &[32], &[1, 32, 8]] {
        let error = load_error(&split_half(&sizes, table).0);
        assert!(error.contains("`freqs_cos` is [") && error.contains("an even number up to `xq`'s 8"), "{error}");
    }
    assert!(load_error(&split_half(&sizes, &[3, 8]).0).contains("`start_pos` is 0 with 4 tokens, past the 3 rows"));
}

fn interleaved(x: &[u32], angles: &[u32]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let args = [x, angles].map(|dims| builder.input(DataType::Float32, dims));
    let out = builder.tensor(DataType::Float32, x);
    builder.call("et_vk.apply_rotary_emb_interleaved.default", &[args[0], args[1], out]);
    builder.output(out);
    builder
}

#[test]
fn cosines_and_sines_may_be_neighbours() {
    let random = |seed, dims: &[u32]| f32s(dims, noise(seed, dims.iter().product::<u32>() as usize));
    let builder = interleaved(&[3, 40, 34], &[1, 40, 17, 2]);
    let call = |batch, tokens| vec![random(1, &[batch, tokens, 34]), random(2, &[1, tokens, 17, 2])];
    check(&builder, &[call(3, 40), call(1, 1), call(2, 7), call(0, 40), call(3, 0)], 1e-5);
    check(&interleaved(&[2, 5, 8], &[40]), &[vec![random(1, &[2, 5, 8]), random(2, &[40])]], 1e-5);
    assert!(load_error(&interleaved(&[2, 5, 7], &[5, 7])).contains("`x` is [2, 5, 7]: 7 columns cannot be paired"));
    assert!(load_error(&interleaved(&[5, 8], &[5, 8])).contains("`x` is [5, 8], expected [batch, tokens, columns]"));
    let error = load_error(&interleaved(&[2, 5, 8], &[2, 5, 8]));
    assert!(error.contains("`freqs_cis` is [2, 5, 8], expected 40 elements to go with `x` [2, 5, 8]"), "{error}");
}
