use crate::ir::{DataType, ValueId};
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

fn builder(bound: &[u32], weight: &[u32], eps: f64) -> (GraphBuilder, ValueId) {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, bound);
    let values = noise(5, weight.iter().product::<u32>() as usize);
    let weight = builder.floats(weight, &values);
    let eps = builder.float(eps);
    let out = builder.tensor(DataType::Float32, bound);
    builder.call("et_vk.rms_norm.default", &[x, weight, eps, out]);
    builder.output(out);
    (builder, out)
}

#[test]
fn rows_of_any_width() {
    for width in [1, 3, 4, 32, 64, 130, 255, 257, 896, 1023, 1024, 1028, 2050] {
        let (builder, _) = builder(&[1, 9, width], &[width], 1e-5);
        let call = |rows: u32| vec![f32s(&[1, rows, width], noise(rows.into(), (rows * width) as usize))];
        check(&builder, &[9, 1, 0, 4, 9].map(call), 1e-5);
    }
}

#[test]
fn any_rank_and_extreme_rows() {
    let (flat, _) = builder(&[8], &[8], 1e-6);
    check(&flat, &[vec![f32s(&[8], noise(2, 8))], vec![f32s(&[8], vec![0.0; 8])]], 1e-5);
    let (deep, _) = builder(&[2, 3, 2, 1, 5], &[5], 0.0);
    let values: Vec<f32> = noise(2, 60).iter().map(|x| x * 1e15).collect();
    check(&deep, &[vec![f32s(&[2, 3, 2, 1, 5], values)]], 1e-5);
}

#[test]
fn the_recipe_follows_the_width_and_the_grid_the_rows() {
    for (width, recipe) in [(64, 0), (130, 1)] {
        let (builder, out) = builder(&[2, 7, width], &[width], 1e-5);
        let mut dry_run = DryRun::new(&builder).unwrap();
        assert_eq!(dry_run.recipes(0), [recipe]);
        assert_eq!(dry_run.planned.plans()[0].steps[0].grid.groups(), 14);
        dry_run.call(&[(&[1, 3, width], &[])]).unwrap();
        assert_eq!((dry_run.dims(out), dry_run.recipes(0)), (vec![1, 3, width], vec![recipe]));
        assert_eq!(dry_run.planned.plans()[0].steps[0].grid.groups(), 3);
        // A weight of another length is rejected, and the graph does not change.
        let error = dry_run.call(&[(&[1, 3, width - 1], &[])]).unwrap_err().to_string();
        assert!(error.contains("`weight` is") && error.contains(&format!("expected [{}]", width - 1)), "{error}");
        assert_eq!(dry_run.dims(out), [1, 3, width]);
    }
}

#[test]
fn bad_arguments_are_rejected() {
    assert!(load_error(&builder(&[2, 8], &[2, 8], 1e-5).0).contains("`weight` is [2, 8], expected [8]"));
    assert!(load_error(&builder(&[], &[1], 1e-5).0).contains("`input` is a scalar"));
    assert!(load_error(&builder(&[8], &[8], -1.0).0).contains("`eps` is -1"));
    assert!(load_error(&builder(&[8], &[8], f64::NAN).0).contains("`eps` is NaN"));
}
