use crate::engine::{LoadOptions, TensorData};
use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::case::{Case, flag, int, ints, none, x};
use crate::testing::{DryRun, GraphBuilder, check, dims, f32s, i32s, load_error, noise, noise_bytes, run};

const FLOAT: DataType = DataType::Float32;
const SUM: &str = "aten.sum.dim_IntList";
const MEAN: &str = "aten.mean.dim";
const AMAX: &str = "aten.amax.default";
const AMIN: &str = "aten.amin.default";
const ARGMAX: &str = "aten.argmax.default";
const ARGMIN: &str = "aten.argmin.default";
const OF_LISTS: [&str; 4] = [SUM, MEAN, AMAX, AMIN];
const OF_ONE: [&str; 2] = [ARGMAX, ARGMIN];

/// The `dim` argument of an operator for these dimensions: none means all.
fn dim(name: &str, axes: &[i64]) -> Value {
    match (OF_ONE.contains(&name), axes) {
        (true, []) => Value::Null,
        (true, axes) => Value::Int(axes[0]),
        (false, axes) => Value::IntList(axes.to_vec()),
    }
}

fn with(name: &str, dtype: DataType, bound: &[u32], dim: Value, keepdim: bool) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(dtype, bound);
    let axes = match &dim {
        Value::Int(axis) => vec![*axis],
        Value::IntList(axes) => axes.clone(),
        _ => Vec::new(),
    };
    let rank = i64::try_from(bound.len()).unwrap();
    let reduced = |axis: usize| {
        let axis = i64::try_from(axis).unwrap();
        axes.is_empty() || axes.contains(&axis) || axes.contains(&(axis - rank))
    };
    let sizes = bound.iter().enumerate().filter(|(axis, _)| keepdim || !reduced(*axis));
    let out: Vec<u32> = sizes.map(|(axis, &size)| if reduced(axis) { 1 } else { size }).collect();
    let (dim, keepdim) = (builder.value(dim), builder.value(Value::Bool(keepdim)));
    let out = builder.tensor(if OF_ONE.contains(&name) { DataType::Int32 } else { dtype }, &out);
    if [SUM, MEAN].contains(&name) {
        let none = builder.value(Value::Null);
        builder.call(name, &[x, dim, keepdim, none, out]);
    } else {
        builder.call(name, &[x, dim, keepdim, out]);
    }
    builder.output(out);
    (builder, out)
}

fn floats(name: &str, bound: &[u32], axes: &[i64], keepdim: bool) -> GraphBuilder {
    with(name, FLOAT, bound, dim(name, axes), keepdim).0
}

fn noisy(shape: &[u32]) -> Vec<HostTensor> {
    let count = shape.iter().product::<u32>();
    vec![f32s(shape, noise(u64::from(count) + 7, count as usize))]
}

/// Few distinct numbers, so that there are many ties.
fn tied(shape: &[u32]) -> Vec<HostTensor> {
    let count = shape.iter().product::<u32>() as usize;
    let values = noise_bytes(count as u64 + 3, count).into_iter().map(|byte| [-1.5, -0.0, 0.0, 2.5][usize::from(byte % 4)]);
    vec![f32s(shape, values.collect())]
}

/// Exact results, and sums within the error of reordering.
fn tolerance(name: &str) -> f32 {
    if [SUM, MEAN].contains(&name) { 2e-5 } else { 0.0 }
}

fn all(names: [&'static str; 4]) -> impl Iterator<Item = &'static str> {
    names.into_iter().chain(OF_ONE)
}

#[test]
fn contiguous_rows_of_any_width_agree() {
    for width in [1, 3, 4, 32, 63, 130, 256, 257, 1023, 1028, 4100] {
        for name in all(OF_LISTS) {
            let builder = floats(name, &[9, width], &[-1], width % 2 == 0);
            let calls = [9, 1, 0, 4, 9].map(|rows| if rows == 4 { tied(&[rows, width]) } else { noisy(&[rows, width]) });
            check(&builder, &calls, tolerance(name));
        }
    }
    // More rows than a grid has in one dimension, each of one item.
    check(&floats(SUM, &[300_000, 3], &[1], false), &[noisy(&[300_000, 3]), noisy(&[7, 3]), noisy(&[66_000, 1])], 1e-5);
}

#[test]
fn strided_rows_agree() {
    for (bound, axis) in [([70, 33, 1], 0), ([5, 130, 3], 1), ([3, 40, 65], 1), ([300, 2, 3], 0), ([1, 17, 300], -2)] {
        for name in all(OF_LISTS) {
            let builder = floats(name, &bound, &[axis], true);
            let [a, b, c] = bound;
            let calls = [[a, b, c], [1, 1, 1], [1.max(a / 2), b, 1], [a, b - 1, c], [a, b, c]];
            check(&builder, &calls.map(|shape| tied(&shape)), tolerance(name));
        }
    }
}

#[test]
fn every_set_of_dimensions_of_every_rank_agrees() {
    let bound = [3, 2, 1, 5, 4];
    for rank in 0..=5usize {
        for set in 0..1usize << rank {
            let axes: Vec<i64> = (0..5i64).filter(|axis| set & (1 << axis) != 0).collect();
            let name = OF_LISTS[set % 4];
            let bound = &bound[..rank];
            let builder = floats(name, bound, &axes, set % 3 == 0);
            check(&builder, &[noisy(bound), noisy(&vec![1; bound.len()]), tied(bound)], tolerance(name));
        }
    }
    let deep = [2, 3, 2, 3, 2, 3, 2, 3];
    for axes in [vec![0, 2, 4, 6], vec![1, 3, -3, -1], vec![], vec![-8, 3, 4, 7]] {
        check(&floats(SUM, &deep, &axes, false), &[noisy(&deep), noisy(&[2, 1, 2, 1, 2, 1, 1, 3])], 1e-5);
        check(&floats(AMIN, &deep, &axes, true), &[noisy(&deep)], 0.0);
    }
}

#[test]
fn none_and_empty_list_reduce_all_dimensions() {
    for name in all(OF_LISTS) {
        for keepdim in [false, true] {
            let none = with(name, FLOAT, &[6, 7], Value::Null, keepdim).0;
            check(&none, &[noisy(&[6, 7]), tied(&[1, 3]), noisy(&[6, 7])], tolerance(name));
            for axes in [&[][..], &[0], &[-1]] {
                check(&floats(name, &[], axes, keepdim), &[vec![f32s(&[], vec![-2.5])]], 0.0);
            }
        }
    }
}

#[test]
fn split_rows_agree() {
    for name in all(OF_LISTS) {
        for (bound, axes) in [
            (&[40_000][..], &[][..]),
            (&[3, 33_001], &[1]),
            (&[9000, 6], &[0]),
            (&[2, 5000, 40], &[1]),
            (&[70_000, 1], &[0]),
        ] {
            let builder = floats(name, bound, axes, false);
            let mut dry_run = DryRun::new(&builder).unwrap();
            assert_eq!(dry_run.recipes(0).len(), 2, "{bound:?}");
            let short: Vec<u32> = bound.iter().map(|&size| size.min(37)).collect();
            dry_run.call(&[(&short, &[])]).unwrap();
            assert_eq!(dry_run.recipes(0).len(), 1, "{short:?}");
            check(&builder, &[tied(bound), noisy(&short), noisy(bound)], tolerance(name));
        }
    }
    // Two groups of dimensions, the first of which is split.
    for (bound, axes) in [([9000, 2, 40], [0, 2]), ([30, 3, 9001], [2, 0])] {
        let groups = floats(MEAN, &bound, &axes, false);
        let mut dry_run = DryRun::new(&groups).unwrap();
        assert_eq!(dry_run.recipes(0).len(), 3, "{bound:?}");
        let short = bound.map(|size| size.min(30));
        dry_run.call(&[(&short, &[])]).unwrap();
        assert_eq!(dry_run.recipes(0).len(), 2, "{short:?}");
        let [a, _, c] = bound;
        check(&groups, &[bound, short, [a, 1, c], [1, 2, 1], [1, 2, c]].map(|shape| noisy(&shape)), 1e-5);
    }
}

#[test]
fn long_sums_are_accurate() {
    let count = 1u32 << 21;
    let builder = floats(SUM, &[count], &[0], false);
    let outputs = once(&builder, &[f32s(&[count], vec![0.1; count as usize])]);
    let exact = f64::from(0.1f32) * f64::from(count);
    let HostData::F32(sum) = crate::testing::host_data(outputs.elem, &outputs.bytes) else { panic!("floats are") };
    assert!((f64::from(sum[0]) - exact).abs() < 1e-6 * exact, "{} instead of {exact}", sum[0]);
}

fn once(builder: &GraphBuilder, inputs: &[HostTensor]) -> TensorData<'static> {
    let loaded = builder.load(&LoadOptions::default()).unwrap();
    run(&loaded, &mut loaded.new_state().unwrap(), inputs).unwrap().remove(0)
}

/// PyTorch's results, independent of the reference.
#[test]
fn ties_infinities_and_nan_match_pytorch() {
    let (inf, nan, minus_nan) = (f32::INFINITY, f32::NAN, f32::from_bits(0xffc0_1234));
    let rows = [
        ([1.0, 3.0, 3.0, -2.0, -2.0], [1, 3], [3.0, -2.0]),
        ([-0.0, 0.0, -0.0, 0.0, -0.0], [0, 0], [0.0, 0.0]),
        ([0.0, -0.0, -1e-45, 1e-45, 0.0], [3, 2], [1e-45, -1e-45]),
        ([-inf, inf, -inf, inf, 0.0], [1, 0], [inf, -inf]),
        ([-inf, -inf, -inf, -inf, -inf], [0, 0], [-inf, -inf]),
        ([inf, 1.0, minus_nan, nan, -inf], [2, 2], [nan, nan]),
        ([minus_nan, -inf, 1.0, inf, nan], [0, 0], [nan, nan]),
        ([f32::MAX, f32::MIN, 0.0, f32::MAX, f32::MIN], [0, 1], [f32::MAX, f32::MIN]),
    ];
    let input = f32s(&[8, 5], rows.iter().flat_map(|(row, ..)| *row).collect());
    // The same as rows and as columns.
    let turned = f32s(&[5, 8], (0..5).flat_map(|k| rows.iter().map(move |(row, ..)| row[k])).collect());
    for (axis, input) in [(1, &input), (0, &turned)] {
        for (which, name) in OF_ONE.into_iter().enumerate() {
            let got = once(&floats(name, &input.dims, &[axis], false), std::slice::from_ref(input));
            let want: Vec<i32> = rows.iter().map(|(_, places, _)| places[which]).collect();
            assert_eq!(bytemuck::pod_collect_to_vec::<u8, i32>(&got.bytes), want, "{name} along {axis}");
        }
        for (which, name) in [AMAX, AMIN].into_iter().enumerate() {
            let got = once(&floats(name, &input.dims, &[axis], false), std::slice::from_ref(input));
            let got: Vec<f32> = bytemuck::pod_collect_to_vec(&got.bytes);
            for (got, (row, _, want)) in got.iter().zip(&rows) {
                let want = want[which];
                assert!(*got == want || got.is_nan() && want.is_nan(), "{name} of {row:?} along {axis}: {got}");
            }
        }
        for name in [SUM, MEAN] {
            check(&floats(name, &input.dims, &[axis], false), &[vec![input.clone()]], 1e-6);
        }
    }
}

#[test]
fn argmax_returns_the_first_of_equals_across_segments() {
    let count = 50_000;
    for places in [&[49_999][..], &[20_001, 20_000], &[33_333, 12, 49_999], &[0, 40_000]] {
        let mut values = vec![0.5; count as usize];
        places.iter().for_each(|&place| values[place] = 2.0);
        let got = once(&floats(ARGMAX, &[count], &[], false), &[f32s(&[count], values)]);
        let first = i32::try_from(*places.iter().min().unwrap()).unwrap();
        assert_eq!(bytemuck::pod_collect_to_vec::<u8, i32>(&got.bytes), [first]);
    }
}

#[test]
fn integers_agree() {
    for name in all([SUM, AMAX, AMIN, SUM]) {
        for (bound, axis) in [([9, 12], 1), ([9, 13], 1), ([9, 12], 0), ([2, 20_000], 1)] {
            let builder = with(name, DataType::Int32, &bound, dim(name, &[axis]), false).0;
            let count = (bound[0] * bound[1]) as usize;
            let small = noise_bytes(5, count).into_iter().map(|byte| i32::from(byte % 19) - 9).collect();
            let wide = (0..count).map(|i| [i32::MAX, i32::MIN, 0, -1, 1 << 30][i * 7 % 5]).collect();
            check(&builder, &[vec![i32s(&bound, small)], vec![i32s(&bound, wide)]], 0.0);
        }
    }
}

#[test]
fn reductions_of_no_elements_match_pytorch() {
    // Sums of nothing are 0, means are NaN, and kept dims without elements give empty outputs.
    for name in [SUM, MEAN] {
        let builder = floats(name, &[4, 6, 5], &[1], false);
        check(
            &builder,
            &[noisy(&[4, 6, 5]), noisy(&[4, 0, 5]), noisy(&[0, 6, 5]), noisy(&[3, 0, 2]), noisy(&[4, 6, 5])],
            1e-5,
        );
        check(&floats(name, &[6, 5], &[], false), &[noisy(&[0, 5]), noisy(&[6, 0])], 0.0);
    }
    for name in [AMAX, AMIN, ARGMAX, ARGMIN] {
        let builder = floats(name, &[4, 6], &[1], true);
        check(&builder, &[noisy(&[4, 6]), noisy(&[0, 6]), noisy(&[2, 1])], 0.0);
        let mut dry_run = DryRun::new(&builder).unwrap();
        for shape in [[4, 0], [0, 0]] {
            let error = dry_run.call(&[(&shape, &[])]).unwrap_err().to_string();
            let expected = format!("`self` is {}, which leaves no elements to reduce along `dim`", dims(&shape));
            assert!(error.starts_with(name) && error.contains(&expected), "{error}");
        }
        dry_run.call(&[(&[4, 3], &[])]).unwrap();
        let mut whole = DryRun::new(&with(name, FLOAT, &[4, 6], Value::Null, false).0).unwrap();
        assert!(whole.call(&[(&[0, 6], &[])]).is_err());
    }
}

#[test]
fn scratch_suffices_for_every_shape() {
    let bound = [40, 7, 300, 6, 50];
    for axes in [vec![0], vec![4], vec![0, 2], vec![1, 3], vec![0, 2, 4], vec![2, 3, 4], vec![]] {
        for name in [SUM, ARGMIN] {
            if name == ARGMIN && axes.len() > 1 {
                continue;
            }
            let mut dry_run = DryRun::new(&floats(name, &bound, &axes, true)).unwrap();
            let mut picks = noise_bytes(9, 5 * 400).into_iter().map(u32::from);
            for _ in 0..400 {
                // A plan that exceeds its reservations is an error.
                let live = bound.map(|size| match picks.next().unwrap_or(0) {
                    ..80 => 1,
                    192.. => size,
                    at => 1 + at * size / 256,
                });
                dry_run.call(&[(&live, &[])]).unwrap();
            }
        }
    }
}

#[test]
fn recipe_follows_the_live_shape() {
    let (builder, out) = with(SUM, FLOAT, &[8, 64], dim(SUM, &[1]), false);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![1], vec![8]));
    dry_run.call(&[(&[3, 63], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![0], vec![3]));
    dry_run.call(&[(&[0, 63], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![], vec![0]));
    let (builder, out) = with(MEAN, FLOAT, &[8, 64, 2], dim(MEAN, &[0, -1]), true);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!((dry_run.recipes(0).len(), dry_run.dims(out)), (2, vec![1, 64, 1]));
    // If the dimension between two groups is 1, the remaining groups are contiguous.
    dry_run.call(&[(&[5, 1, 2], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0).len(), dry_run.dims(out)), (1, vec![1, 1, 1]));
}

#[test]
fn bad_arguments_are_rejected() {
    let of = |name, dtype, bound: &[u32], axes: Value| load_error(&with(name, dtype, bound, axes, false).0);
    let list = |axes: &[i64]| Value::IntList(axes.to_vec());
    assert!(of(SUM, FLOAT, &[4, 5], list(&[2])).contains("`dim` has 2, but the tensor has 2 dimensions"));
    assert!(of(AMAX, FLOAT, &[4, 5], list(&[-3])).contains("`dim` has -3"));
    assert!(of(AMAX, FLOAT, &[4, 5], list(&[1, -1])).contains("`dim` is [1, -1], which names dimension 1 more than once"));
    assert!(of(ARGMAX, FLOAT, &[], Value::Int(1)).contains("`dim` has 1"));
    assert!(of(ARGMAX, FLOAT, &[4], Value::SymInt).contains("`dim` is symbolic"));
    assert!(of(ARGMIN, FLOAT, &[4], list(&[0])).contains("`dim` is"));
    assert!(of(SUM, DataType::Bool, &[4], list(&[0])).contains("`out` has elements Bool, but the result's are Bool"));
    assert!(of(MEAN, DataType::Int32, &[4], list(&[0])).contains("`out` has elements I32, supported: [F32]"));
    let mut index = GraphBuilder::new();
    let (x, out) = (index.input(FLOAT, &[4, 5]), index.tensor(FLOAT, &[4]));
    let (dim, keep) = (index.int(1), index.value(Value::Bool(false)));
    index.call(ARGMAX, &[x, dim, keep, out]);
    assert!(load_error(&index).contains("`out` has elements F32, but the result's are I32"));
}

#[test]
fn elements_of_every_type_are_reduced() {
    let shape: &[u32] = &[9, 37];
    for (dtype, sums) in [(DataType::Bool, DataType::Int32), (DataType::UInt8, DataType::Int32), (DataType::Int8, FLOAT)] {
        for axis in [0, 1] {
            let left: &[u32] = if axis == 0 { &[37] } else { &[9] };
            let keep = || flag(false);
            Case::new(SUM, [x(dtype, shape), ints(&[axis]), keep(), none()], (sums, left)).check(&[1, 4], 1e-5);
            Case::new(AMAX, [x(dtype, shape), ints(&[axis]), keep()], (dtype, left)).check(&[1, 4], 0.0);
            Case::new(ARGMIN, [x(dtype, shape), int(axis), keep()], (DataType::Int32, left)).check(&[1, 4], 0.0);
            for name in ["aten.any.dim", "aten.all.dim"] {
                Case::new(name, [x(dtype, shape), int(axis), keep()], (DataType::Bool, left)).check(&[1, 4], 0.0);
            }
            let outs = [(dtype, left), (DataType::Int32, left)];
            Case::listed("aten.max.dim", [x(dtype, shape), int(axis), keep()], &outs).check(&[1, 4], 0.0);
        }
    }
    Case::new(MEAN, [x(DataType::Int32, shape), ints(&[1]), flag(true), none()], (FLOAT, &[9, 1])).check(&[2], 1e-5);
    Case::new("aten.any.default", [x(FLOAT, &[1, 70_001])], (DataType::Bool, &[])).check(&[0], 0.0);
    Case::new("aten.sum.default", [x(DataType::Bool, &[1, 70_001]), none()], (DataType::Int32, &[])).check(&[0], 0.0);
}

/// PyTorch's results, independent of the reference.
#[test]
fn any_and_all_treat_nan_and_zeros_as_pytorch() {
    let rows = [[0.0, -0.0, 0.0], [0.0, f32::NAN, 0.0], [1e-40, -1.0, f32::INFINITY]];
    for (name, want) in [("aten.any.dim", [0, 1, 1]), ("aten.all.dim", [0, 0, 1])] {
        let case = Case::new(name, [x(FLOAT, &[3, 3]), int(1), flag(false)], (DataType::Bool, &[3]));
        let loaded = case.builder().load(&LoadOptions::default()).unwrap();
        let input = f32s(&[3, 3], rows.as_flattened().to_vec());
        let out = run(&loaded, &mut loaded.new_state().unwrap(), &[input]).unwrap().remove(0);
        assert_eq!(out.bytes.as_ref(), want, "{name}");
    }
}
