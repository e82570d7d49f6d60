mod f16_cache;
mod general;

use super::*;
use crate::engine::{LoadOptions, Precision};
use crate::ir::{DataType, Value, ValueId};
use crate::matmul::score_slices::ScoreSlices;
use crate::plan::{Caps, MatrixSide};
use crate::reference::HostTensor;
use crate::testing::{
    DryRun, check, check_on, check_with, coop_matrix_gpu, emulated_matrix_gpu, f32s, gpu, i32s, load_error, noise,
    varying_subgroups_gpu, with_and_without_subgroups,
};

#[derive(Clone, Copy)]
struct Sizes {
    heads: (u32, u32),
    dim: u32,
    tokens: u32,
    cache: u32,
}

/// The optional arguments after the position.
struct Rest {
    mask: Value,
    dropout: Value,
    causal: bool,
    scale: Value,
}

const USUAL: Rest = Rest { mask: Value::Null, dropout: Value::Int(0), causal: true, scale: Value::Null };

struct GraphBuilder {
    inner: crate::testing::GraphBuilder,
    out: ValueId,
}

/// Attention with caches among the inputs, or as state that calls share, and the position as an input.
fn builder(name: &str, sizes: Sizes, state: bool, rest: Rest) -> GraphBuilder {
    let Sizes { heads, dim, tokens, cache } = sizes;
    let float = DataType::Float32;
    let mut inner = crate::testing::GraphBuilder::new();
    let q = inner.input(float, &[1, tokens, heads.0, dim]);
    let new = [(); 2].map(|()| inner.input(float, &[1, tokens, heads.1, dim]));
    let shape = [1, cache, heads.1, dim];
    let zeros = vec![0.0; (cache * heads.1 * dim) as usize];
    let caches = [(); 2].map(|()| if state { inner.floats(&shape, &zeros) } else { inner.input(float, &shape) });
    let position = inner.input(DataType::Int32, &[1]);
    let (dim, index, at) = (inner.int(0), inner.int(0), inner.value(Value::SymInt));
    inner.call("et_vk.select_as_symint.default", &[position, dim, index, at]);
    // A literal as exporters write it: wrong, and ignored.
    let seq_len = inner.int(1);
    let rest = [rest.mask, rest.dropout, Value::Bool(rest.causal), rest.scale].map(|value| inner.value(value));
    let out = inner.tensor(float, &[1, tokens, heads.0, sizes.dim]);
    let mut args = vec![q, new[0], new[1], caches[0], caches[1], at, seq_len];
    args.extend(rest);
    args.push(out);
    inner.call(name, &args);
    inner.output(out);
    caches.iter().for_each(|&cache| inner.output(cache));
    GraphBuilder { inner, out }
}

fn call(sizes: Sizes, state: bool, (tokens, at): (u32, i32)) -> Vec<HostTensor> {
    let Sizes { heads, dim, cache, .. } = sizes;
    let random = |seed: u64, tokens: u32, heads: u32| {
        let seed = seed + u64::from(tokens) * 31 + at.unsigned_abs() as u64;
        f32s(&[1, tokens, heads, dim], noise(seed, (tokens * heads * dim) as usize).iter().map(|x| x * 3.0).collect())
    };
    let mut inputs = vec![random(1, tokens, heads.0), random(2, tokens, heads.1), random(3, tokens, heads.1)];
    if !state {
        inputs.extend([random(4, cache, heads.1), random(5, cache, heads.1)]);
    }
    inputs.push(i32s(&[1], vec![at]));
    inputs
}

fn agrees(name: &str, sizes: Sizes, calls: &[(u32, i32)], rest: Rest) {
    let builder = builder(name, sizes, false, rest);
    let calls: Vec<_> = calls.iter().map(|&shape| call(sizes, false, shape)).collect();
    for gpu in with_and_without_subgroups() {
        check_on(&gpu, &builder.inner, &calls, 1e-4);
    }
}

#[test]
fn any_length_at_any_position() {
    let calls = [(19, 0), (1, 0), (1, 36), (7, 13), (4, 4), (19, 18), (0, 5), (5, 0), (2, 31), (16, 1)];
    for (heads, dim) in [((4, 2), 8), ((6, 2), 6), ((3, 3), 5), ((2, 1), 4), ((8, 1), 12), ((1, 1), 1), ((4, 4), 20)] {
        agrees(NAME, Sizes { heads, dim, tokens: 19, cache: 37 }, &calls, USUAL);
    }
}

#[test]
fn split_contexts_and_long_heads_agree() {
    let calls = [(1, 0), (1, 128), (1, 699), (2, 300), (9, 600), (40, 660), (33, 0), (5, 126), (20, 250)];
    for (heads, dim) in [((4, 1), 8), ((8, 8), 64), ((7, 1), 36), ((2, 1), 128), ((3, 1), 256), ((10, 2), 260)] {
        agrees(NAME, Sizes { heads, dim, tokens: 40, cache: 700 }, &calls, USUAL);
    }
}

#[test]
fn every_fill_gives_the_same_outputs() {
    let sizes = Sizes { heads: (8, 2), dim: 64, tokens: 40, cache: 700 };
    let calls = [(1, 699), (5, 300), (40, 660)].map(|shape| call(sizes, false, shape));
    for fill_percent in [25, 400] {
        let gpu = gpu().with_caps(Caps { fill_percent, ..gpu().caps() });
        check_on(&gpu, &builder(NAME, sizes, false, USUAL).inner, &calls, 1e-4);
    }
}

#[test]
fn tiles_of_many_workgroups() {
    let calls = [(70, 60), (33, 0), (64, 64), (1, 129)];
    agrees(NAME, Sizes { heads: (8, 4), dim: 64, tokens: 70, cache: 130 }, &calls, USUAL);
    agrees(NAME, Sizes { heads: (8, 4), dim: 30, tokens: 70, cache: 130 }, &calls, USUAL);
    // Enough threads for the AV kernel that does not split the context.
    agrees(NAME, Sizes { heads: (64, 32), dim: 64, tokens: 70, cache: 130 }, &calls[..2], USUAL);
    agrees(NAME, Sizes { heads: (96, 32), dim: 30, tokens: 70, cache: 130 }, &calls[..1], USUAL);
}

#[test]
fn long_rows_of_scores() {
    let calls = [(1, 2999), (3, 1021), (1, 1024), (9, 2000)];
    agrees(NAME, Sizes { heads: (4, 1), dim: 8, tokens: 9, cache: 3001 }, &calls, USUAL);
}

#[test]
fn slices_of_scores_agree_with_one_slice() {
    // Scratch for 2048 bytes of scores: rows of 40 floats, in slices of 12 rows.
    let calls = [(19, 0), (1, 0), (1, 36), (7, 13), (19, 18), (0, 5), (2, 31)];
    for (heads, dim) in [((4, 2), 8), ((6, 2), 6), ((10, 5), 4)] {
        agrees(SLICED, Sizes { heads, dim, tokens: 19, cache: 37 }, &calls, USUAL);
    }
}

#[test]
fn naive_kernels_agree() {
    let calls = [(19, 18), (1, 36), (7, 13), (5, 0)];
    for (heads, dim) in [((4, 2), 8), ((6, 2), 6)] {
        agrees(NAIVE, Sizes { heads, dim, tokens: 19, cache: 37 }, &calls, USUAL);
    }
}

#[test]
fn a_scale_of_its_own_and_all_of_the_context() {
    let sizes = Sizes { heads: (4, 2), dim: 8, tokens: 9, cache: 20 };
    let calls = [(9, 3), (1, 19), (5, 0)];
    agrees(NAME, sizes, &calls, Rest { scale: Value::Double(0.1), ..USUAL });
    agrees(NAME, sizes, &calls, Rest { causal: false, ..USUAL });
    agrees(NAME, Sizes { dim: 6, ..sizes }, &calls, Rest { causal: false, scale: Value::Int(1), ..USUAL });
}

#[test]
fn large_scores_do_not_overflow() {
    let sizes = Sizes { heads: (2, 1), dim: 4, tokens: 5, cache: 8 };
    let builder = builder(NAME, sizes, false, USUAL);
    let mut inputs = call(sizes, false, (5, 2));
    for input in &mut inputs[..2] {
        let HostData::F32(values) = &mut input.data else { unreachable!("floats") };
        values.iter_mut().for_each(|value| *value *= 300.0);
    }
    check(&builder.inner, &[inputs], 1e-4);
}

#[test]
fn a_state_keeps_the_rows_that_calls_wrote() {
    let sizes = Sizes { heads: (4, 2), dim: 8, tokens: 11, cache: 16 };
    let builder = builder(NAME, sizes, true, USUAL);
    let calls: Vec<_> = [(11, 0), (1, 11), (3, 12), (1, 15), (2, 4)].map(|shape| call(sizes, true, shape)).into();
    check(&builder.inner, &calls, 1e-4);
}

fn plan(dry_run: &mut DryRun, sizes: Sizes, (tokens, at): (u32, i32)) -> crate::Result<Plan> {
    let Sizes { heads, dim, .. } = sizes;
    let (q, k) = ([1, tokens, heads.0, dim], [1, tokens, heads.1, dim]);
    dry_run.call(&[(&q, &[]), (&k, &[]), (&k, &[]), (&[1], &[at])])?;
    Ok(dry_run.planned.plans()[1].clone())
}

#[test]
fn a_decode_step_changes_step_words_and_grids_alone() {
    let sizes = Sizes { heads: (32, 8), dim: 64, tokens: 127, cache: 2048 };
    let mut dry_run = DryRun::new(&builder(NAME, sizes, true, USUAL).inner).unwrap();
    let first = plan(&mut dry_run, sizes, (1, 200)).unwrap();
    assert_eq!(first.steps.len(), 2, "attention, and its parts together");
    for at in [129, 255, 256, 1000, 2047] {
        let mut next = plan(&mut dry_run, sizes, (1, at)).unwrap();
        assert_eq!(next.step_words[..2], [at.unsigned_abs(), at.unsigned_abs() + 1]);
        for (step, before) in next.steps.iter_mut().zip(&first.steps) {
            step.grid = before.grid;
        }
        assert_eq!(next.steps, first.steps, "position {at}");
    }
    assert_eq!(plan(&mut dry_run, sizes, (1, 127)).unwrap().steps.len(), 1, "a short context has one part");
}

#[test]
fn kernels_follow_the_live_rows_and_the_head_dim() {
    let sizes = Sizes { heads: (32, 8), dim: 64, tokens: 512, cache: 2048 };
    let GraphBuilder { inner, out } = builder(NAME, sizes, true, USUAL);
    let mut dry_run = DryRun::new(&inner).unwrap();
    let mut used = |shape| -> Vec<&'static str> {
        let plan = plan(&mut dry_run, sizes, shape).unwrap();
        let recipes = &dry_run.planned.recipes()[1].list;
        plan.steps.iter().map(|step| recipes[step.recipe].variant.label).collect()
    };
    assert_eq!(used((512, 0)), ["sdpa_append_kv", "sdpa_flash"]);
    assert_eq!(used((9, 100)), ["sdpa_append_kv", "sdpa_flash"]);
    assert_eq!(used((9, 1000)), ["sdpa_append_kv", "sdpa_flash", "sdpa_split_kv_combine"]);
    assert_eq!(used((8, 100)), ["sdpa_flash"]);
    assert_eq!(used((1, 1000)), ["sdpa_flash", "sdpa_split_kv_combine"]);
    assert!(used((0, 100)).is_empty());
    assert_eq!(dry_run.dims(out), [1, 0, 32, 64]);
    for dim in [6, 260] {
        let odd = DryRun::new(&builder(NAME, Sizes { dim, ..sizes }, true, USUAL).inner).unwrap();
        let recipes = &odd.planned.recipes()[1].list;
        assert!(recipes.iter().any(|recipe| recipe.variant.label == "sdpa_qk"), "head dim {dim}");
    }
}

#[test]
fn devices_select_kernels_by_capability() {
    let subgroups = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };
    let coop_matrix = Caps { cooperative_matrix: true, workgroup_memory: 48 * 1024, ..subgroups };
    let sizes = Sizes { heads: (32, 8), dim: 64, tokens: 512, cache: 2048 };
    let used = |caps, shape| -> Vec<&'static str> {
        let mut dry_run = DryRun::on(&builder(NAME, sizes, true, USUAL).inner, caps).unwrap();
        let plan = plan(&mut dry_run, sizes, shape).unwrap();
        let recipes = &dry_run.planned.recipes()[1].list;
        plan.steps.iter().map(|step| recipes[step.recipe].variant.label).collect()
    };
    assert_eq!(used(subgroups, (1, 100)), ["sdpa_flash_decode_subgroups"]);
    assert_eq!(used(subgroups, (8, 1000)), ["sdpa_flash_decode_subgroups", "sdpa_split_kv_combine"]);
    assert_eq!(used(subgroups, (512, 0)), ["sdpa_append_kv", "sdpa_flash"]);
    assert_eq!(used(coop_matrix, (4, 100)), ["sdpa_flash_decode_subgroups"]);
    assert_eq!(used(coop_matrix, (512, 0)), ["sdpa_append_kv", "sdpa_flash_coop_matrix"]);
    assert_eq!(used(coop_matrix, (64, 1900)), ["sdpa_append_kv", "sdpa_flash_coop_matrix", "sdpa_split_kv_combine"]);
}

#[test]
fn cooperative_matrices_agree() {
    let Some(gpu) = coop_matrix_gpu() else { return };
    let shapes = [(300, 0), (1, 300), (5, 301), (0, 9), (40, 400), (33, 690), (16, 7), (700, 0)];
    for (heads, dim) in [((8, 2), 64), ((4, 4), 64), ((6, 2), 128), ((32, 8), 64)] {
        let sizes = Sizes { heads, dim, tokens: 700, cache: 730 };
        let calls: Vec<_> = shapes.map(|shape| call(sizes, true, shape)).into();
        check_with(&gpu, &fast(), &rotary(sizes, 730, dim / 2), &calls, 1e-2);
        let builder = builder(NAME, sizes, true, Rest { causal: false, ..USUAL });
        check_with(&gpu, &fast(), &builder.inner, &calls, 1e-2);
    }
}

fn fast() -> LoadOptions {
    LoadOptions { precision: Precision::Fast, ..LoadOptions::default() }
}

#[test]
fn subgroups_whose_size_varies() {
    let Some(gpu) = varying_subgroups_gpu() else { return };
    let sizes = Sizes { heads: (8, 2), dim: 64, tokens: 9, cache: 700 };
    let calls = [(1, 699), (5, 300), (9, 0), (1, 0)].map(|shape| call(sizes, false, shape));
    check_on(&gpu, &builder(NAME, sizes, false, USUAL).inner, &calls, 1e-4);
}

/// Emulated: every size of matrices, by subgroups of every size, on devices with much workgroup memory and with little.
#[test]
fn matrices_of_every_size() {
    for (side, lanes, dim, memory) in [
        (MatrixSide::Sixteen, 16, 64, 48),
        (MatrixSide::Sixteen, 32, 128, 48),
        (MatrixSide::Sixteen, 32, 64, 32),
        (MatrixSide::Sixteen, 64, 128, 32),
        (MatrixSide::Eight, 16, 128, 32),
        (MatrixSide::Eight, 32, 64, 32),
        (MatrixSide::Eight, 32, 128, 48),
        (MatrixSide::Eight, 64, 64, 48),
    ] {
        let Some(gpu) = emulated_matrix_gpu(side, (lanes, lanes), lanes, 100) else { return };
        let gpu = gpu.with_caps(Caps { workgroup_memory: memory * 1024, ..gpu.caps() });
        // With a partial tile of rows and of keys, and a context that workgroups share.
        let sizes = Sizes { heads: (2, 1), dim, tokens: 40, cache: 340 };
        let calls: Vec<_> = [(40, 0), (21, 319)].map(|shape| call(sizes, true, shape)).into();
        check_with(&gpu, &fast(), &rotary(sizes, 340, dim / 2), &calls, 1e-2);
        let whole = builder(NAME, sizes, true, Rest { causal: false, ..USUAL });
        check_with(&gpu, &fast(), &whole.inner, &calls[..1], 1e-2);
    }
}

#[test]
fn scratch_is_capped_and_holds_every_call_within_the_bounds() {
    let sizes = Sizes { heads: (32, 8), dim: 62, tokens: 2048, cache: 2048 };
    let mut dry_run = DryRun::new(&builder(NAME, sizes, true, USUAL).inner).unwrap();
    assert_eq!(dry_run.planned.recipes()[1].scratch, [MAX_SCORE_BYTES]);
    // 32 × 2,048 × 2,048 floats are 512 MiB: one KV head at a time.
    let full = plan(&mut dry_run, sizes, (2048, 0)).unwrap();
    assert_eq!((full.steps.len(), full.scratch.as_slice()), (2 + 3 * 8, [MAX_SCORE_BYTES].as_slice()));
    let short = plan(&mut dry_run, sizes, (512, 0)).unwrap();
    assert_eq!(short.steps.len(), 2 + 3);
    // The engine's own check is that a plan stays within recipes; every shape here passes it.
    let shapes = [(1, 2047), (7, 1500), (300, 1748), (1024, 1024), (1025, 1023), (2047, 1), (700, 3)];
    for shape in shapes {
        plan(&mut dry_run, sizes, shape).unwrap();
    }
    let sizes = Sizes { dim: 64, ..sizes };
    let mut dry_run = DryRun::new(&builder(NAME, sizes, true, USUAL).inner).unwrap();
    for shape in shapes {
        plan(&mut dry_run, sizes, shape).unwrap();
    }
}

/// Attention whose queries and keys are rotated by tables of as many positions as the cache has.
fn rotary(sizes: Sizes, rows: u32, columns: u32) -> crate::testing::GraphBuilder {
    let mut inner = builder(NAME, sizes, true, USUAL).inner;
    let table = |seed| noise(seed, (rows * columns) as usize);
    let tables = [table(11), table(12)].map(|values| inner.floats(&[rows, columns], &values));
    let call = inner.graph.calls.last_mut().unwrap();
    call.name = ROTARY;
    call.args.splice(3..3, tables);
    inner
}

#[test]
fn rotary_embedding_inside_attention_agrees() {
    for (heads, dim) in [((4, 2), 8), ((6, 2), 20), ((2, 1), 4), ((8, 4), 64), ((2, 2), 132)] {
        let sizes = Sizes { heads, dim, tokens: 43, cache: 300 };
        let shapes = [(43, 0), (1, 43), (5, 44), (0, 9), (1, 49), (40, 200), (1, 299)];
        let calls: Vec<_> = shapes.map(|shape| call(sizes, true, shape)).into();
        for gpu in with_and_without_subgroups() {
            check_on(&gpu, &rotary(sizes, 300, dim / 2), &calls, 1e-4);
        }
    }
}

/// Attention whose queries and keys are rotated by a table of as many columns, which is an input.
fn split_half(sizes: Sizes, columns: u32) -> crate::testing::GraphBuilder {
    let mut inner = builder(NAME, sizes, true, USUAL).inner;
    let table = inner.input(DataType::Float32, &[2 * sizes.tokens, columns]);
    let call = inner.graph.calls.last_mut().unwrap();
    call.name = SPLIT_HALF;
    call.args.insert(3, table);
    inner
}

#[test]
fn rotation_of_halves_inside_attention_agrees() {
    for (heads, dim, columns) in [((4, 2), 8, 8), ((6, 2), 24, 8), ((8, 4), 64, 64), ((2, 1), 64, 32), ((2, 2), 136, 128)] {
        let sizes = Sizes { heads, dim, tokens: 43, cache: 300 };
        let shapes = [(43, 0), (1, 43), (5, 44), (0, 9), (1, 49), (40, 200), (1, 299)];
        let with_table = |shape: (u32, i32)| {
            let mut inputs = call(sizes, true, shape);
            inputs.push(f32s(&[2 * shape.0, columns], noise(21, (2 * shape.0 * columns) as usize)));
            inputs
        };
        let calls: Vec<_> = shapes.map(with_table).into();
        for gpu in with_and_without_subgroups() {
            check_on(&gpu, &split_half(sizes, columns), &calls, 1e-4);
        }
    }
}

#[test]
fn tables_of_tokens_that_do_not_fit_are_rejected() {
    let sizes = Sizes { heads: (4, 2), dim: 16, tokens: 4, cache: 16 };
    for columns in [4, 12, 24] {
        let error = split_half(sizes, columns).decode().unwrap_err().to_string();
        assert!(error.contains("a multiple of 8 up to the head dim 16"), "{error}");
    }
    let mut other = split_half(sizes, 16);
    let table = other.input(DataType::Float32, &[7, 16]);
    other.graph.calls.last_mut().unwrap().args[3] = table;
    assert!(load_error(&other).contains("`angles` is [7, 16], expected [2 · 4, 16 or fewer]"), "{}", load_error(&other));
}

#[test]
fn rotary_tables_that_do_not_fit_are_rejected() {
    let sizes = Sizes { heads: (4, 2), dim: 8, tokens: 4, cache: 16 };
    let refused = |rows, columns| match DryRun::new(&rotary(sizes, rows, columns)) {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    assert!(refused(15, 4).contains("`cosines` is [15, 4], expected [16 or more, 4]"), "{}", refused(15, 4));
    assert!(refused(16, 8).contains("`cosines` is [16, 8], expected [16 or more, 4]"));
    let mut outside = rotary(sizes, 16, 4);
    let table = outside.input(DataType::Float32, &[16, 4]);
    outside.graph.calls.last_mut().unwrap().args[4] = table;
    let error = outside.decode().unwrap_err().to_string();
    assert!(error.contains("`cosines` and `sines` must be constants"), "{error}");
    let error = rotary(Sizes { dim: 6, ..sizes }, 16, 3).decode().unwrap_err().to_string();
    assert!(error.contains("`q` has head dim 6, expected a multiple of 4"), "{error}");
}

#[test]
fn bad_arguments_and_shapes_are_rejected() {
    let sizes = Sizes { heads: (4, 2), dim: 8, tokens: 16, cache: 128 };
    let mut dry_run = DryRun::new(&builder(NAME, sizes, true, USUAL).inner).unwrap();
    let mut refused = |sizes, shape| plan(&mut dry_run, sizes, shape).unwrap_err().to_string();
    let error = refused(sizes, (16, 120));
    let expected = "sdpa_with_kv_cache.default (call 1): `input_pos` is 120 with 16 new tokens, past the cache's 128";
    assert_eq!(error, expected);
    assert!(refused(sizes, (1, -1)).contains("`input_pos` is -1, expected 0 or more"));
    let error = refused(Sizes { heads: (3, 2), ..sizes }, (1, 0));
    assert!(error.contains("`q` has 3 heads, expected a multiple of the cache's 2"), "{error}");
    assert!(refused(Sizes { heads: (4, 1), ..sizes }, (1, 0)).contains("`k` is [1, 1, 1, 8], expected [1, tokens, 2, 8]"));
    assert!(refused(Sizes { dim: 4, ..sizes }, (1, 0)).contains("`q` has head dim 4, but the cache 8"));
    let error = dry_run.call(&[(&[1, 2, 4, 8], &[]), (&[1, 2, 2, 8], &[]), (&[1, 1, 2, 8], &[]), (&[1], &[0])]).unwrap_err();
    assert!(error.to_string().contains("`v` is [1, 1, 2, 8], but `q` has 2 tokens"), "{error}");

    let built = |rest| load_error(&builder(NAME, sizes, true, rest).inner);
    assert!(built(Rest { mask: Value::Int(1), ..USUAL }).contains("`attn_mask` is"));
    assert!(built(Rest { dropout: Value::Double(0.5), ..USUAL }).contains("`dropout_p` is 0.5, expected 0"));
    let long = Sizes { heads: (1, 1), dim: 1, tokens: 1, cache: 16_777_217 };
    assert!(load_error(&builder(NAME, long, false, USUAL).inner).contains("`k_cache` holds 16777217 tokens"));
    let wide = Sizes { heads: (1, 1), dim: 1, tokens: 1 << 20, cache: 1 << 20 };
    assert!(load_error(&builder(NAME, wide, false, USUAL).inner).contains("`q` has 1048576 rows of scores"));
}

#[test]
fn slices_cover_everything_and_bounds_are_the_worst() {
    for most in [16, 64, 2048, 5000, 1 << 20] {
        for (heads, rows, context) in [(1, 1, 1), (3, 7, 5), (8, 40, 33), (2, 100, 64), (5, 0, 9), (0, 4, 4)] {
            let Ok(slices) = ScoreSlices::new(heads, rows, context, most) else {
                assert!(u64::from(context).next_multiple_of(4) * 4 > most);
                continue;
            };
            let covered: u64 = (0..slices.count()).map(|round| slices.extent(round)).map(|(heads, rows)| heads * rows).sum();
            assert_eq!(covered, u64::from(heads) * u64::from(rows));
            assert!(slices.bytes() <= most);
            for (rows, context) in (0..=rows).flat_map(|rows| (1..=context).map(move |context| (rows, context))) {
                let live = ScoreSlices::new(heads, rows, context, most).unwrap();
                assert!(live.count() <= slices.count() && live.bytes() <= slices.reserve(most), "{live:?} in {slices:?}");
            }
        }
    }
}
