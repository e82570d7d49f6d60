use crate::ir::{DataType, Value, ValueId};
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise};

struct Case<'a> {
    x: &'a [u32],
    block: &'a [i64],
    out: &'a [u32],
    keepdim: bool,
    zero_point: DataType,
    range: [i64; 2],
    eps: Option<f64>,
}

impl<'a> Case<'a> {
    fn new(x: &'a [u32], block: &'a [i64], out: &'a [u32]) -> Self {
        Self { x, block, out, keepdim: false, zero_point: DataType::Int8, range: [-128, 127], eps: None }
    }

    fn builder(&self) -> (GraphBuilder, [ValueId; 2]) {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, self.x);
        let mapping = builder.value(Value::String("ASYMMETRIC".into()));
        let block = builder.value(Value::IntList(self.block.to_vec()));
        let none = builder.value(Value::Null);
        let [least, most] = self.range.map(|value| builder.int(value));
        let eps = self.eps.map_or(none, |eps| builder.float(eps));
        let keepdim = builder.value(Value::Bool(self.keepdim));
        let scale = builder.tensor(DataType::Float32, self.out);
        let zero_point = builder.tensor(self.zero_point, self.out);
        let outputs = builder.value(Value::ValueList(vec![scale, zero_point]));
        let args = [x, mapping, block, none, least, most, eps, none, none, keepdim, outputs];
        builder.call("torchao.choose_qparams_affine.default", &args);
        builder.output(scale);
        builder.output(zero_point);
        (builder, [scale, zero_point])
    }

    fn check(&self, calls: &[&[u32]]) {
        let values = |x: &[u32]| {
            let noise = noise(u64::from(x[0]) + 1, x.iter().product::<u32>() as usize);
            // Some blocks are all positive, some all negative.
            let shifted = noise.iter().enumerate().map(|(i, value)| value + [0.0, 3.0, -3.0][i / 50 % 3]).collect();
            vec![f32s(x, shifted)]
        };
        let calls: Vec<_> = calls.iter().map(|&x| values(x)).collect();
        check(&self.builder().0, &calls, 0.0);
    }
}

#[test]
fn outputs_follow_blocks_and_live_rows() {
    let (builder, [scale, zero_point]) = Case::new(&[1, 127, 256], &[1, 1, 256], &[1, 127]).builder();
    let mut dry_run = DryRun::new(&builder).unwrap();
    for rows in [127, 1, 30] {
        dry_run.call(&[(&[1, rows, 256], &[])]).unwrap();
        assert_eq!((dry_run.dims(scale), dry_run.dims(zero_point)), (vec![1, rows], vec![1, rows]));
    }
    dry_run.call(&[(&[1, 0, 256], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(scale)), (vec![], vec![1, 0]));
}

#[test]
fn unsupported_arguments_are_rejected_by_name() {
    let good = || Case::new(&[6, 8], &[1, 8], &[6]);
    let said = |case: Case<'_>| load_error(&case.builder().0);
    assert!(said(Case { block: &[2, 8], x: &[5, 8], ..good() }).contains("`block_size` is [2, 8] for an input of [5, 8]"));
    assert!(said(Case { block: &[2, 4], ..good() }).contains("lie together"));
    assert!(said(Case { block: &[8], ..good() }).contains("a size for each dimension"));
    assert!(said(Case { range: [-129, 127], ..good() }).contains("`quant_min` is -129, which I8 zero points cannot hold"));
    assert!(said(Case { range: [3, 3], ..good() }).contains("`quant_max` is 3"));
    assert!(said(Case { zero_point: DataType::Float32, ..good() }).contains("a zero point of F32"));
    let (mut builder, _) = good().builder();
    builder.graph.values[1] = Value::String("SYMMETRIC".into());
    assert!(load_error(&builder).contains("`mapping_type` is \"SYMMETRIC\", supported: \"ASYMMETRIC\""));
}

#[test]
fn rows_in_any_number() {
    let case = Case::new(&[1, 40, 50], &[1, 1, 50], &[1, 40]);
    case.check(&[&[1, 40, 50], &[1, 1, 50], &[1, 7, 50], &[1, 0, 50], &[1, 6, 50]]);
    Case::new(&[3, 1000], &[1, 1000], &[3]).check(&[&[3, 1000], &[2, 1000]]);
}

#[test]
fn other_blocks_types_and_ranges() {
    let case = Case::new(&[4, 100], &[1, 50], &[4, 2]);
    case.check(&[&[4, 100], &[3, 100]]);
    Case { keepdim: true, block: &[1, 100], out: &[4, 1], ..Case::new(&[4, 100], &[], &[]) }.check(&[&[4, 100]]);
    Case::new(&[2, 5, 10], &[2, 5, 10], &[]).check(&[&[2, 5, 10]]);
    Case { zero_point: DataType::Int32, range: [-8, 7], ..Case::new(&[5, 50], &[1, 50], &[5]) }.check(&[&[5, 50], &[2, 50]]);
    Case { zero_point: DataType::UInt8, range: [0, 255], ..Case::new(&[5, 50], &[1, 50], &[5]) }.check(&[&[5, 50]]);
}

#[test]
fn equal_values_take_the_smallest_scale() {
    for eps in [None, Some(0.5)] {
        let case = Case { eps, ..Case::new(&[2, 20], &[1, 20], &[2]) };
        check(&case.builder().0, &[vec![f32s(&[2, 20], vec![0.0; 40])], vec![f32s(&[2, 20], noise(1, 40))]], 1e-6);
    }
}

#[test]
fn multipliers_are_255_by_the_range() {
    for (shape, inner, out) in [
        (vec![3, 5, 40], 1, vec![3, 5, 1]),
        (vec![2, 3, 4, 6], 3, vec![2, 1, 1, 1]),
        // Enough rows for every way in which a quotient is rounded: a step on a border follows its last bit.
        (vec![400, 3], 1, vec![400, 1]),
    ] {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &shape);
        let inner = builder.int(inner);
        let multipliers = builder.tensor(DataType::Float32, &out);
        let zero_points = builder.tensor(DataType::Int8, &out);
        builder.call(super::MULTIPLIERS, &[x, inner, multipliers, zero_points]);
        builder.output(multipliers);
        builder.output(zero_points);
        let count = shape.iter().product::<u32>() as usize;
        let mut mixed = noise(5, count);
        // Rows of zeros, and of one sign.
        mixed[..40.min(count / 2)].fill(0.0);
        mixed[count / 2..].iter_mut().for_each(|x| *x = x.abs());
        check(&builder, &[vec![f32s(&shape, mixed)], vec![f32s(&shape, noise(9, count))]], 0.0);
    }
}
