use crate::engine::LoadOptions;
use crate::ir::{DataType, Value};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise, run};

const NAMES: [&str; 2] = ["aten._softmax.default", "aten._log_softmax.default"];

fn builder(name: &str, bound: &[u32], axis: i64, to_float: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, bound);
    let (axis, to_float) = (builder.int(axis), builder.value(Value::Bool(to_float)));
    let out = builder.tensor(DataType::Float32, bound);
    builder.call(name, &[x, axis, to_float, out]);
    builder.output(out);
    builder
}

fn noisy(shape: &[u32], scale: f32) -> Vec<HostTensor> {
    let count = shape.iter().product::<u32>();
    vec![f32s(shape, noise(count.into(), count as usize).into_iter().map(|x| x * scale).collect())]
}

#[test]
fn rows_of_any_width_agree() {
    for name in NAMES {
        for width in [1, 3, 4, 64, 129, 256, 1022, 1028, 4100] {
            let calls = [9, 1, 0, 4, 9].map(|rows| noisy(&[rows, width], 12.0));
            check(&builder(name, &[9, width], -1, false), &calls, 1e-5);
        }
    }
}

#[test]
fn any_dimension_of_any_rank_agrees() {
    for name in NAMES {
        check(&builder(name, &[], 0, false), &[noisy(&[], 3.0)], 0.0);
        check(&builder(name, &[], -1, true), &[noisy(&[], 3.0)], 0.0);
        check(&builder(name, &[7], 0, false), &[noisy(&[7], 3.0), noisy(&[1], 3.0), noisy(&[0], 3.0)], 1e-5);
        for axis in 0..4 {
            let calls = [[3, 5, 2, 6], [1, 1, 1, 1], [3, 1, 2, 5], [2, 5, 0, 6], [3, 5, 2, 6]];
            check(&builder(name, &[3, 5, 2, 6], axis, false), &calls.map(|shape| noisy(&shape, 5.0)), 1e-5);
        }
        for (bound, axis) in [([40, 70, 1], 0), ([3, 200, 33], 1), ([2, 6, 300], -2), ([150, 1, 3], -3)] {
            let [a, b, c] = bound;
            let calls = [[a, b, c], [1, b, c], [a, b.max(2) - 1, 1], [a, b, c]];
            check(&builder(name, &bound, axis, false), &calls.map(|shape| noisy(&shape, 5.0)), 1e-5);
        }
    }
}

#[test]
fn split_rows_agree() {
    for name in NAMES {
        for (bound, axis) in [([1, 40_000], 1), ([3, 33_001], 1), ([9000, 6], 0), ([70_000, 1], 0)] {
            let builder = builder(name, &bound, axis, false);
            let mut dry_run = DryRun::new(&builder).unwrap();
            let wide = usize::from(bound == [1, 40_000] || bound == [70_000, 1]);
            assert_eq!(dry_run.recipes(0), [2 + wide, 4 + wide], "{bound:?}");
            let short = bound.map(|size| size.min(31));
            dry_run.call(&[(&short, &[])]).unwrap();
            assert_eq!(dry_run.recipes(0), [0], "{short:?}");
            check(&builder, &[noisy(&bound, 9.0), noisy(&short, 9.0), noisy(&bound, 90.0)], 2e-5);
        }
    }
}

/// PyTorch's results, independent of the reference.
#[test]
fn infinities_nan_and_large_values_match_pytorch() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows = [
        ([-inf, -inf, -inf, -inf], [nan; 4]),
        ([inf, 1.0, -inf, 0.0], [nan; 4]),
        ([1.0, nan, -inf, 0.0], [nan; 4]),
        ([-inf, 5.0, -inf, 5.0], [0.0, 0.5, 0.0, 0.5]),
        ([3.0e38, -3.0e38, 3.0e38, -inf], [0.5, 0.0, 0.5, 0.0]),
        ([f32::MIN, -inf, -inf, -inf], [1.0, 0.0, 0.0, 0.0]),
        ([f32::MIN, f32::MAX, f32::from_bits(0xff80_0001), 1.0], [nan; 4]),
        ([1000.0, 1000.0, 1000.0, 1000.0], [0.25; 4]),
        ([-1000.0, -1000.0, -2000.0, -2000.0], [0.5, 0.5, 0.0, 0.0]),
    ];
    // Rows of whole vectors, rows of one element more, columns, and split rows: the rest is −infinity.
    for (name, log) in NAMES.into_iter().zip([false, true]) {
        for (length, columns) in [(4, false), (5, false), (4, true), (9001, false), (8192, false)] {
            let place = |row: usize, k: usize| if columns { k * 9 + row } else { row * length + k };
            let mut values = vec![-inf; 9 * length];
            for (index, (row, _)) in rows.iter().enumerate() {
                (0..4).for_each(|k| values[place(index, k * (length / 4))] = row[k]);
            }
            let width = u32::try_from(length).unwrap();
            let (shape, axis) = if columns { ([width, 9], 0) } else { ([9, width], 1) };
            let builder = builder(name, &shape, axis, false);
            let loaded = builder.load(&LoadOptions::default()).unwrap();
            let out = run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&shape, values)]).unwrap().remove(0);
            let got: Vec<f32> = bytemuck::pod_collect_to_vec(&out.bytes);
            for (index, (row, want)) in rows.iter().enumerate() {
                for k in 0..4 {
                    let got = got[place(index, k * (length / 4))];
                    // Finite numbers far below the maximum have a logarithm of about their distance to it.
                    let want = match (log, want[k]) {
                        (true, 0.0) if row[k].is_finite() => row[k] - row.iter().copied().fold(f32::MIN, f32::max),
                        (true, want) => want.ln(),
                        (false, want) => want,
                    };
                    let close =
                        got == want || (got - want).abs() <= 1e-5 + 1e-3 * want.abs() || got.is_nan() && want.is_nan();
                    assert!(close, "{name} of {row:?} in {length}, columns {columns}: {got}, expected {want}");
                }
            }
        }
    }
}

#[test]
fn scratch_suffices_for_every_shape() {
    let bound = [30, 900, 70];
    for axis in 0..3 {
        let mut dry_run = DryRun::new(&builder(NAMES[0], &bound, axis, false)).unwrap();
        for a in [1, 3, 29, 30] {
            for b in [1, 31, 128, 257, 896, 900] {
                for c in [1, 2, 4, 31, 33, 64, 70] {
                    dry_run.call(&[(&[a, b, c], &[])]).unwrap();
                }
            }
        }
    }
}

#[test]
fn bad_arguments_are_rejected() {
    assert!(load_error(&builder(NAMES[0], &[4, 5], 2, false)).contains("`dim` is 2, but the tensor has 2 dimensions"));
    assert!(load_error(&builder(NAMES[1], &[4, 5], -3, false)).contains("`dim` is -3"));
}
