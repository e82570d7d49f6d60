use crate::ir::{DataType, Value, ValueId};
use crate::reference::{HostData, HostTensor};
use crate::testing::{DryRun, GraphBuilder, check, dims, f32s, load_error, noise, noise_bytes, thinned};

const TOLERANCE: f32 = 1e-4;

/// Weights `[n, k]`, and padding of rows of weights in bytes and of scales, sums and bias in elements.
struct Weights {
    n: u32,
    k: u32,
    group: u32,
    padding: [u32; 2],
    bias: bool,
}

impl Weights {
    fn builder(&self, m: u32) -> (GraphBuilder, ValueId) {
        let Self { n, k, group, padding: [bytes, columns], bias } = *self;
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[1, m, k]);
        let scale = builder.input(DataType::Float32, &[1, m]);
        let zero_point = builder.input(DataType::Int8, &[1, m]);
        let (groups, width, stride) = (k / group, n + columns, k.div_ceil(2) + bytes);
        let weight = noise_bytes(1, (n * stride) as usize);
        let mut sums = vec![0i32; (groups * width) as usize];
        for row in 0..n {
            for column in 0..k {
                let byte = weight[(row * stride + column / 2) as usize];
                let value = if column % 2 == 0 { byte & 0xf } else { byte >> 4 };
                sums[(column / group * width + row) as usize] += i32::from(value) - 8;
            }
        }
        let weight = builder.constant(DataType::UInt8, &[n, stride], weight);
        let sums = builder.constant(DataType::Int32, &[groups, width], bytemuck::cast_slice(&sums).to_vec());
        let scales: Vec<f32> = noise(2, (groups * width) as usize).iter().map(|scale| scale * 0.1).collect();
        let scales = builder.floats(&[groups, width], &scales);
        let bias = if bias { builder.floats(&[width], &noise(3, width as usize)) } else { builder.value(Value::Null) };
        let group = builder.int(group.into());
        let out = builder.tensor(DataType::Float32, &[1, m, n]);
        builder.call("et_vk.linear_dq8ca_q4gsw.default", &[x, scale, zero_point, weight, sums, scales, group, bias, out]);
        builder.output(out);
        (builder, out)
    }

    /// Activations away from rounding ties, some out of range, with any zero point.
    fn call(&self, m: u32) -> Vec<HostTensor> {
        let count = (m * self.k) as usize;
        let scale: Vec<f32> = noise(7, m as usize).iter().map(|scale| 0.01 + 0.005 * scale).collect();
        let row = |i: usize| scale[i / self.k as usize];
        let whole = noise(u64::from(m) + 5, count).into_iter().map(|x| (x * 150.0).round());
        let x = whole.enumerate().map(|(i, whole)| (whole + if i % 2 == 0 { 0.3 } else { -0.3 }) * row(i)).collect();
        let zero_point = HostTensor { dims: dims(&[1, m]), data: HostData::U8(noise_bytes(8, m as usize)) };
        vec![f32s(&[1, m, self.k], x), f32s(&[1, m], scale.clone()), zero_point]
    }

    fn check(&self, calls: &[u32]) {
        let bound = calls.iter().max().copied().unwrap();
        let calls: Vec<_> = calls.iter().map(|&m| self.call(m)).collect();
        check(&self.builder(bound).0, &calls, TOLERANCE);
    }
}

fn plain(n: u32, k: u32, group: u32) -> Weights {
    Weights { n, k, group, padding: [0; 2], bias: false }
}

#[test]
fn layout_chooses_the_gemv_and_rows_the_recipe() {
    let (builder, out) = plain(512, 64, 32).builder(600);
    let mut dry_run = DryRun::new(&builder).unwrap();
    assert_eq!(dry_run.planned.recipes()[0].list[0].variant.kernel.name, "linear_dq8ca_q4gsw_gemv_wide");
    for (m, recipe) in [(1, 0), (3, 2), (8, 3), (9, 5), (600, 5)] {
        dry_run.call(&[(&[1, m, 64], &[]), (&[1, m], &[]), (&[1, m], &[])]).unwrap();
        assert_eq!((dry_run.recipes(0), dry_run.dims(out)), (vec![recipe], vec![1, m, 512]));
    }
    let error = dry_run.call(&[(&[1, 5, 64], &[]), (&[1, 4], &[]), (&[1, 5], &[])]).unwrap_err().to_string();
    assert!(error.contains("`input_scales` is [1, 4], expected one for each of the input's 5 rows"), "{error}");
    let error = dry_run.call(&[(&[1, 5, 64], &[]), (&[1, 5], &[]), (&[1, 6], &[])]).unwrap_err().to_string();
    assert!(error.contains("`input_zp` is [1, 6]"), "{error}");
}

#[test]
fn sums_of_another_shape_are_refused() {
    let (mut builder, _) = plain(6, 64, 32).builder(4);
    let sums = builder.constant(DataType::Int32, &[1, 6], vec![0; 24]);
    builder.graph.calls[0].args[4] = sums;
    assert!(load_error(&builder).contains("`weight_sums` is [1, 6], expected a sum for each of 6 rows in each of 2 groups"));
}

#[test]
fn any_rows_in_any_order() {
    plain(44, 128, 32).check(&[70, 1, 8, 0, 5, 33, 2, 3]);
    Weights { padding: [16, 2], bias: true, ..plain(66, 2080, 32) }.check(&[9, 1]);
    plain(2180, 32, 32).check(&[260, 129]);
}

#[test]
fn any_layout() {
    for (k, group) in thinned([(64, 16), (72, 24), (18, 6), (10, 5), (15, 5), (256, 256)], 3) {
        let weights = Weights { padding: [1, 1], bias: true, ..plain(11, k, group) };
        weights.check(&[14, 1, 6, 2]);
    }
}

#[test]
fn rows_with_multipliers_take_scales_of_weights_row_by_row() {
    for (n, k, group) in thinned([(12, 64, 32), (11, 96, 96), (7, 15, 15), (70, 256, 64)], 2) {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[20, k]);
        let multipliers = builder.input(DataType::Float32, &[20, 1]);
        let zero_points = builder.input(DataType::Int8, &[20, 1]);
        let stride = k.div_ceil(2);
        let weight = builder.constant(DataType::UInt8, &[n, stride], noise_bytes(1, (n * stride) as usize));
        let scales: Vec<f32> = noise(2, (n * k / group) as usize).iter().map(|scale| scale * 0.1).collect();
        let scales = builder.floats(&[n, k / group, 1], &scales);
        let (group, bias) = (builder.int(group.into()), builder.floats(&[n], &noise(3, n as usize)));
        let out = builder.tensor(DataType::Float32, &[20, n]);
        builder.call(super::MULTIPLIERS, &[x, multipliers, zero_points, weight, scales, group, bias, out]);
        builder.output(out);
        let call = |m: u32| {
            let multipliers: Vec<f32> = noise(7, m as usize).iter().map(|value| 100.0 + value * 20.0).collect();
            let zero_points = HostTensor { dims: dims(&[m, 1]), data: HostData::U8(noise_bytes(8, m as usize)) };
            vec![f32s(&[m, k], noise(m.into(), (m * k) as usize)), f32s(&[m, 1], multipliers), zero_points]
        };
        check(&builder, &[20, 1, 3, 9].map(call), TOLERANCE);
    }
}
