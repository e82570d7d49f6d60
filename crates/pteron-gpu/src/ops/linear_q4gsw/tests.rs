use crate::ir::{DataType, Value, ValueId};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, check, f32s, load_error, noise, noise_bytes, thinned};

const TOLERANCE: f32 = 1e-4;

/// Weights in an exporter's layout: padding of rows of weights in bytes, and of scales and bias in elements.
struct Weights {
    n: u32,
    k: u32,
    group: u32,
    padding: [u32; 2],
    bias: bool,
}

impl Weights {
    fn new(n: u32, k: u32, group: u32) -> Self {
        Self { n, k, group, padding: [0; 2], bias: false }
    }

    fn builder(&self, rows: &[u32]) -> (GraphBuilder, ValueId) {
        let Self { n, k, group, padding: [bytes, columns], bias } = *self;
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[rows, &[k]].concat());
        let stride = k.div_ceil(2) + bytes;
        let weight = builder.constant(DataType::UInt8, &[n, stride], noise_bytes(1, (n * stride) as usize));
        let (groups, width) = (k / group, n + columns);
        let scales: Vec<f32> = noise(2, (groups * width) as usize).iter().map(|scale| scale * 0.1).collect();
        let scales = builder.floats(&[groups, width], &scales);
        let bias = if bias { builder.floats(&[width], &noise(3, width as usize)) } else { builder.value(Value::Null) };
        let group = builder.int(group.into());
        let out = builder.tensor(DataType::Float32, &[rows, &[n]].concat());
        builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
        builder.output(out);
        (builder, out)
    }

    /// Compares with the reference, at the bounds and with each first dimension in `live`.
    fn check(&self, rows: &[u32], live: &[u32]) {
        let call = |first: u32| {
            let mut dims = [rows, &[self.k]].concat();
            dims[0] = first;
            vec![f32s(&dims, noise(u64::from(first) + 5, dims.iter().product::<u32>() as usize))]
        };
        let calls: Vec<Vec<HostTensor>> = [rows[0]].iter().chain(live).map(|&first| call(first)).collect();
        check(&self.builder(rows).0, &calls, TOLERANCE);
    }
}

#[test]
fn layout_chooses_the_gemv_and_rows_the_recipe() {
    let kernel = |weights: &Weights| {
        let (builder, _) = weights.builder(&[200]);
        let dry_run = DryRun::new(&builder).unwrap();
        dry_run.planned.recipes()[0].list[0].variant.kernel.name
    };
    assert_eq!(kernel(&Weights::new(8, 64, 32)), "linear_q4gsw_gemv_wide");
    assert_eq!(kernel(&Weights { padding: [16, 3], ..Weights::new(9, 64, 32) }), "linear_q4gsw_gemv_wide");
    assert_eq!(kernel(&Weights::new(9, 64, 32)), "linear_q4gsw_gemv");
    assert_eq!(kernel(&Weights::new(8, 64, 16)), "linear_q4gsw_gemv");
    assert_eq!(kernel(&Weights::new(8, 72, 24)), "linear_q4gsw_gemv");

    let (builder, out) = Weights::new(512, 64, 32).builder(&[2, 600]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    for (x, recipe) in [([1, 1, 64], 0), ([1, 7, 64], 3), ([1, 508, 64], 5), ([2, 600, 64], 4)] {
        dry_run.call(&[(&x, &[])]).unwrap();
        assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![recipe], vec![x[0], x[1], 512]));
    }
    dry_run.call(&[(&[0, 5, 64], &[])]).unwrap();
    assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![], vec![0, 5, 512]));
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let (good, _) = Weights::new(6, 64, 32).builder(&[4]);
    let mut builder = good.clone();
    let Value::Int(group) = &mut builder.graph.values[4] else { panic!("the group's place") };
    *group = 64;
    assert!(load_error(&builder).contains("`scales` is [2, 6] for groups of 64, past the weight's [6, 32] bytes"));
    builder.graph.values[4] = Value::Int(0);
    assert!(load_error(&builder).contains("`group_size` is 0, expected at least 1"));
    builder.graph.values[4] = Value::Int(16);
    assert!(load_error(&builder).contains("`x` is [4, 64], but the weights have 32 columns"));
    let mut builder = good;
    builder.graph.calls[0].args[1] = builder.graph.calls[0].args[2];
    assert!(load_error(&builder).contains("`weights` has elements F32, supported: [U8]"));
}

#[test]
fn whole_vectors_at_any_rows_in_any_order() {
    for group in [32, 64, 128, 256] {
        Weights::new(44, 256, group).check(&[70], &[1, 8, 0, 5, 33, 2, 70, 3]);
    }
    Weights { padding: [16, 2], bias: true, ..Weights::new(66, 2080, 32) }.check(&[1, 9], &[]);
    Weights { padding: [0, 1], bias: true, ..Weights::new(7, 2048, 2048) }.check(&[3], &[1, 2]);
}

#[test]
fn any_layout_at_any_rows_in_any_order() {
    // Exporters' groups, groups that are not whole vectors, rows of odd bytes, and padding of each.
    let layouts = [(64, 16), (72, 24), (12, 12), (20, 4), (18, 6), (10, 5), (22, 11), (15, 5), (128, 128), (7, 1)];
    for (k, group) in thinned(layouts, 4) {
        let weights = Weights::new(11, k, group);
        weights.check(&[14], &[1, 6, 2]);
        Weights { padding: [1, 1], bias: true, ..weights }.check(&[14], &[4, 9, 1]);
    }
}

#[test]
fn many_tiles_and_other_ranks() {
    Weights { bias: true, ..Weights::new(2180, 96, 32) }.check(&[260], &[129]);
    Weights::new(65, 32, 32).check(&[2, 3], &[1]);
    Weights::new(5, 32, 32).check(&[2, 2, 3], &[1, 2]);
}

#[test]
fn a_single_row_without_leading_dims() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[64]);
    let weight = builder.constant(DataType::UInt8, &[3, 32], noise_bytes(1, 96));
    let scales = builder.floats(&[2, 3], &noise(2, 6));
    let (group, bias) = (builder.float(32.0), builder.value(Value::Null));
    let out = builder.tensor(DataType::Float32, &[3]);
    builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
    builder.output(out);
    check(&builder, &[vec![f32s(&[64], noise(3, 64))]], TOLERANCE);
}

#[test]
fn weights_may_be_inputs() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[20, 64]);
    let weight = builder.input(DataType::UInt8, &[10, 32]);
    let scales = builder.input(DataType::Float32, &[2, 12]);
    let (group, bias) = (builder.int(32), builder.value(Value::Null));
    let out = builder.tensor(DataType::Float32, &[20, 10]);
    builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
    builder.output(out);
    let bytes = |dims: &[u32]| HostTensor {
        dims: crate::testing::dims(dims),
        data: crate::reference::HostData::U8(noise_bytes(9, dims.iter().product::<u32>() as usize)),
    };
    let floats = |dims: &[u32]| f32s(dims, noise(4, dims.iter().product::<u32>() as usize));
    let call = |m: u32, n: u32, groups: u32| vec![floats(&[m, groups * 32]), bytes(&[n, groups * 16]), floats(&[groups, n])];
    check(&builder, &[call(20, 10, 2), call(3, 10, 1), call(11, 5, 2), call(1, 1, 1)], TOLERANCE);
}

/// Weights with one scale per row; with an odd k the last byte is half used.
fn by_row(rows: u32, n: u32, k: u32) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[rows, k]);
    let weight = builder.constant(DataType::UInt8, &[n, k.div_ceil(2)], noise_bytes(1, (n * k.div_ceil(2)) as usize));
    let scales = builder.floats(&[n], &noise(2, n as usize).iter().map(|scale| scale * 0.1).collect::<Vec<_>>());
    let out = builder.tensor(DataType::Float32, &[rows, n]);
    builder.call("et_vk.linear_qcs4w.default", &[x, weight, scales, out]);
    builder.output(out);
    builder
}

#[test]
fn a_scale_for_each_row() {
    for (n, k) in thinned([(16, 32), (9, 64), (7, 37), (5, 6), (40, 1), (33, 160)], 3) {
        let call = |rows: u32| vec![f32s(&[rows, k], noise(u64::from(rows) + 5, (rows * k) as usize))];
        check(&by_row(40, n, k), &[40, 1, 3, 0, 8, 9, 33].map(call), TOLERANCE);
    }
    let kernel = |builder: &GraphBuilder| DryRun::new(builder).unwrap().planned.recipes()[0].list[0].variant.kernel.name;
    assert_eq!(kernel(&by_row(1, 9, 64)), "linear_q4gsw_gemv_wide");
    assert_eq!(kernel(&by_row(1, 9, 48)), "linear_q4gsw_gemv");
}

#[test]
fn the_first_of_two_columns_is_in_the_high_half() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[1, 2]);
    let weight = builder.constant(DataType::UInt8, &[2, 1], vec![0x9f, 0x08]);
    let scales = builder.floats(&[2], &[1.0, 0.5]);
    let out = builder.tensor(DataType::Float32, &[1, 2]);
    builder.call("et_vk.linear_qcs4w.default", &[x, weight, scales, out]);
    builder.output(out);
    let loaded = builder.load(&crate::engine::LoadOptions::default()).unwrap();
    let output = crate::testing::run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&[1, 2], vec![1.0, 10.0])]).unwrap();
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&output[0].bytes), [71.0, -4.0]);
}
