mod floats;
mod int8_dot;
mod int8_rows;
mod matrices;

use super::NAME;
use super::coop_matrix::EVERY_TILE;
use crate::engine::{Gpu, LoadOptions, LoadedGraph, Precision};
use crate::ir::{DataType, Value, ValueId};
use crate::plan::Caps;
use crate::reference::HostTensor;
use crate::testing::{
    DryRun, GraphBuilder, check_on, check_with, coop_matrix_gpu, f32s, gpu, load_error, noise, noise_bytes, run, serial_gpu,
    thinned, varying_subgroups_gpu, with_and_without_subgroups,
};

const TOLERANCE: f32 = 1e-4;
/// With values quantised to 8 bits, some of which may be rounded otherwise.
const STEP_TOLERANCE: f32 = 1e-2;
/// With factors rounded to 16 bits.
const MATRIX_TOLERANCE: f32 = 4e-3;

/// Options that allow cooperative matrices and other rounded factors.
fn fast() -> LoadOptions {
    LoadOptions { precision: Precision::Fast, ..LoadOptions::default() }
}

/// A call of the operator on rows of k values, with all optional parts.
#[derive(Clone)]
struct Call {
    widths: Vec<u32>,
    k: u32,
    group: u32,
    /// Padding bytes after each row of weights, and padding scales after each group.
    padding: [u32; 2],
    norm: bool,
    /// Whether rows are quantised to 8 bits.
    int8: bool,
    /// The type of float weights.
    floats: Option<DataType>,
    /// Which of the weights have a bias, as bit flags.
    biases: u32,
    addend: bool,
    swiglu: bool,
    last_row: bool,
}

impl Call {
    fn new(widths: &[u32], k: u32) -> Self {
        let [norm, int8, addend, swiglu, last_row] = [false; 5];
        let floats = None;
        Self {
            widths: widths.to_vec(),
            k,
            group: 32,
            padding: [0; 2],
            norm,
            int8,
            floats,
            biases: 0,
            addend,
            swiglu,
            last_row,
        }
    }

    fn builder(&self, rows: &[u32]) -> GraphBuilder {
        let Self { k, group, padding: [bytes, columns], .. } = *self;
        let mut builder = GraphBuilder::new();
        let none = builder.value(Value::Null);
        let x = builder.input(DataType::Float32, &[rows, &[k]].concat());
        let (norm, eps) =
            if self.norm { (builder.floats(&[k], &noise(7, k as usize)), builder.float(1e-5)) } else { (none, none) };
        let int8_eps = if self.int8 { builder.float(1e-5) } else { none };
        let [mut weights, mut scales, mut biases] = [(); 3].map(|()| Vec::new());
        for (part, &n) in (0u32..).zip(&self.widths) {
            let (stride, groups, width) = (k / 2 + bytes, k / group, n + columns);
            let seed = 10 * u64::from(part);
            let bias = self.biases >> part & 1 == 1;
            // Exporters pad biases, too.
            biases.push(if bias { builder.floats(&[n + 1], &noise(seed + 3, n as usize + 1)) } else { none });
            if let Some(dtype) = self.floats {
                weights.push(floats::weight(&mut builder, dtype, [n, k], seed + 1));
                continue;
            }
            let data = noise_bytes(seed + 1, (n * stride) as usize);
            weights.push(builder.constant(DataType::UInt8, &[n, stride], data));
            let values: Vec<f32> = noise(seed + 2, (groups * width) as usize).iter().map(|scale| scale * 0.02).collect();
            scales.push(builder.floats(&[groups, width], &values));
        }
        let group = builder.int(if self.floats.is_some() { 0 } else { group.into() });
        let outputs = if self.swiglu { &self.widths[..1] } else { &self.widths };
        let outputs: Vec<ValueId> =
            outputs.iter().map(|&n| builder.tensor(DataType::Float32, &[rows, &[n]].concat())).collect();
        let addend = if self.addend { builder.input(DataType::Float32, &[rows, &[self.widths[0]]].concat()) } else { none };
        let [swiglu, last_row] = [self.swiglu, self.last_row].map(|flag| builder.value(Value::Bool(flag)));
        let [weights, scales, biases, out] =
            [weights, scales, biases, outputs.clone()].map(|list| builder.value(Value::ValueList(list)));
        builder.call(NAME, &[x, norm, eps, int8_eps, weights, scales, group, biases, addend, swiglu, last_row, out]);
        outputs.into_iter().for_each(|out| builder.output(out));
        builder
    }

    fn inputs(&self, rows: u32) -> Vec<HostTensor> {
        let tensor = |seed: u64, width: u32| f32s(&[rows, width], noise(seed + u64::from(rows), (rows * width) as usize));
        let mut inputs = vec![tensor(20, self.k)];
        if self.addend {
            inputs.push(tensor(40, self.widths[0]));
        }
        inputs
    }

    /// Values that are quantised after a norm may be rounded to a neighbour of the reference's.
    fn tolerance(&self) -> f32 {
        if self.norm && self.int8 { STEP_TOLERANCE } else { TOLERANCE }
    }

    /// Compares with the reference on every kind of device, at the bound and at these rows.
    fn check(&self, bound: u32, live: &[u32]) {
        let calls: Vec<_> = [bound].iter().chain(live).map(|&rows| self.inputs(rows)).collect();
        for gpu in with_and_without_subgroups().into_iter().chain([serial_gpu()]) {
            check_on(&gpu, &self.builder(&[bound]), &calls, self.tolerance());
        }
        if let Some(gpu) = coop_matrix_gpu() {
            check_with(&gpu, &fast(), &self.builder(&[bound]), &calls, self.tolerance().max(MATRIX_TOLERANCE));
        }
    }
}

/// Valid combinations of widths: any three, or two equal ones for SwiGLU.
fn shapes() -> Vec<(Vec<u32>, bool)> {
    vec![(vec![12], false), (vec![8, 4], false), (vec![16, 4, 8], false), (vec![12, 12], true)]
}

#[test]
fn every_combination_matches_at_few_and_many_rows() {
    let mut calls = Vec::new();
    for (widths, swiglu) in shapes() {
        for bits in 0..8u32 {
            let [norm, biased, addend] = [0, 1, 2].map(|bit| bits >> bit & 1 == 1);
            if addend && widths.len() > 1 && !swiglu {
                continue;
            }
            // All biases, or only that of the second weights.
            let biases = if biased { [0b111, 0b010][bits as usize % 2] } else { 0 };
            calls.push(Call { norm, biases, addend, swiglu, ..Call::new(&widths, 96) });
        }
    }
    for call in thinned(calls, 5) {
        call.check(70, &thinned([1, 8, 0, 5, 9, 2, 70], 2));
    }
}

#[test]
fn every_tile_of_matrices() {
    let Some(gpu) = coop_matrix_gpu() else { return };
    for (widths, swiglu) in [(vec![104, 60, 40], false), (vec![104, 104], true)] {
        for (fill_percent, rows) in EVERY_TILE {
            let call = Call { norm: true, biases: 0b011, swiglu, addend: swiglu, ..Call::new(&widths, 352) };
            let gpu = gpu.with_caps(Caps { fill_percent, ..gpu.caps() });
            check_with(&gpu, &fast(), &call.builder(&[rows]), &[call.inputs(rows), call.inputs(9)], MATRIX_TOLERANCE);
        }
    }
}

#[test]
fn subgroups_whose_size_varies() {
    let Some(gpu) = varying_subgroups_gpu() else { return };
    for int8 in [false, true] {
        let gpu = gpu.with_caps(Caps { int8_dot: int8, ..gpu.caps() });
        let call = Call { norm: true, biases: 0b11, int8, ..Call::new(&[24, 16], 288) };
        check_on(&gpu, &call.builder(&[6]), &[6, 1, 3].map(|rows| call.inputs(rows)), call.tolerance());
    }
    let gpu = gpu.with_caps(Caps { int8_dot: true, ..gpu.caps() });
    let call = Call { norm: true, swiglu: true, ..Call::new(&[24; 2], 288) };
    check_with(&gpu, &fast(), &call.builder(&[3]), &[3, 1].map(|rows| call.inputs(rows)), 1e-3);
}

#[test]
fn the_last_row_alone() {
    for (widths, swiglu) in shapes() {
        let addend = swiglu || widths.len() == 1;
        Call { norm: true, biases: 0b111, addend, swiglu, last_row: true, ..Call::new(&widths, 96) }
            .check(70, &[1, 8, 9, 2, 70]);
    }
    let call = Call { addend: true, last_row: true, ..Call::new(&[8], 64) };
    let builder = call.builder(&[70]);
    let mut dry_run = DryRun::new(&builder).unwrap();
    // An addend with another number of rows has its own last row.
    for (x, addend) in [(70, 70), (1, 9), (20, 1)] {
        dry_run.call(&[(&[x, 64], &[]), (&[addend, 8], &[])]).unwrap();
        assert_eq!(
            (dry_run.dims(builder.graph.outputs[0]), kernels(&dry_run)),
            (vec![1, 8], vec!["fused_linear_q4gsw_gemv"])
        );
    }
    let error = dry_run.call(&[(&[0, 64], &[]), (&[3, 8], &[])]).unwrap_err().to_string();
    assert!(error.contains("`x` is [0, 64], expected one batch of at least one row"), "{error}");
    assert!(load_error(&call.builder(&[2, 3])).contains("`x` is [2, 3, 64], expected one batch of at least one row"));
}

#[test]
fn groups_and_padding_of_any_size_in_whole_vectors() {
    for (k, group) in [(64, 64), (192, 64), (256, 128), (192, 96)] {
        let call = Call { group, padding: [16, 4], norm: true, biases: 0b101, ..Call::new(&[20, 36, 4], k) };
        call.check(33, &[1, 3, 12]);
    }
    Call { group: 2080, norm: true, addend: true, ..Call::new(&[8], 2080) }.check(2, &[1]);
    Call { group: 32, swiglu: true, biases: 0b01, ..Call::new(&[4, 4], 4128) }.check(1, &[]);
}

#[test]
fn workgroups_of_every_size() {
    // Few columns select a large workgroup, many a small one.
    for k in [1024, 2048, 4128] {
        Call { norm: true, biases: 0b1, ..Call::new(&[8], k) }.check(5, &[1]);
    }
    for columns in [2 * 4096, 8 * 4096] {
        for (norm, rows) in [(true, 1), (false, 5)] {
            let parts = Call { norm, biases: 0b111, ..Call::new(&[columns - 12, 4, 8], 32) };
            parts.check(rows, &[]);
        }
        let call = Call { norm: true, swiglu: true, addend: true, biases: 0b11, ..Call::new(&[columns; 2], 32) };
        call.check(2, &[1]);
        Call { addend: true, ..Call::new(&[columns + 4], 64) }.check(8, &[]);
    }
}

#[test]
fn large_tiles_of_many_rows() {
    Call { norm: true, biases: 0b100, ..Call::new(&[600, 400, 500], 64) }.check(600, &[130]);
    Call { swiglu: true, addend: true, ..Call::new(&[700; 2], 32) }.check(560, &[300]);
}

#[test]
fn matrices_of_every_tile() {
    // The last two select the large, the small and the smallest tile, with partial tiles.
    Call { norm: true, biases: 0b101, padding: [16, 4], ..Call::new(&[20, 36, 4], 128) }.check(33, &[9, 32]);
    Call { swiglu: true, norm: true, biases: 0b11, ..Call::new(&[44; 2], 192) }.check(70, &[64, 17]);
    Call { addend: true, ..Call::new(&[2100], 64) }.check(700, &[300, 100, 9]);
    Call { swiglu: true, addend: true, ..Call::new(&[4100; 2], 64) }.check(300, &[129, 64, 30]);
}

#[test]
fn rows_of_any_size_fit_16_bits() {
    let (exact, Some(matrices)) = (gpu(), coop_matrix_gpu()) else { return };
    for (norm, scale) in [(false, 1e-20), (false, 1e9), (true, 1e12), (true, 1e-12)] {
        let call = Call { norm, ..Call::new(&[64], 64) };
        let loaded = |gpu: &Gpu, options| call.builder(&[16]).load_on(gpu, &options).unwrap();
        let rows = f32s(&[16, 64], noise(5, 1024).iter().map(|x| x * scale).collect());
        let graphs = [loaded(&exact, LoadOptions::default()), loaded(&matrices, fast())];
        let output = |graph: &LoadedGraph| -> Vec<f32> {
            let outputs = run(graph, &mut graph.new_state().unwrap(), std::slice::from_ref(&rows)).unwrap();
            bytemuck::pod_collect_to_vec(&outputs[0].bytes)
        };
        let [want, got] = graphs.each_ref().map(output);
        let largest = want.iter().fold(0.0, |high: f32, x| high.max(x.abs()));
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() <= MATRIX_TOLERANCE * largest, "{got}, expected {want} of {largest} × {scale}");
        }
    }
}

#[test]
fn other_ranks_and_numbers_that_are_none() {
    for gpu in with_and_without_subgroups().into_iter().chain([serial_gpu()]) {
        let call = Call { norm: true, biases: 0b1, ..Call::new(&[4, 8], 64) };
        let x = |dims: &[u32]| vec![f32s(dims, noise(3, dims.iter().product::<u32>() as usize))];
        check_on(&gpu, &call.builder(&[]), &[x(&[64])], TOLERANCE);
        check_on(&gpu, &call.builder(&[2, 3, 2]), &[x(&[2, 3, 2, 64]), x(&[1, 2, 1, 64]), x(&[1, 3, 2, 64])], TOLERANCE);
        // A row of zeros, one with NaN, and one with an infinite and a finite value.
        let mut values = noise(4, 192);
        values[..64].fill(0.0);
        values[100] = f32::NAN;
        check_on(
            &gpu,
            &Call { norm: true, ..Call::new(&[4], 64) }.builder(&[3]),
            &[vec![f32s(&[3, 64], values.clone())]],
            1e-4,
        );
        values[100] = f32::INFINITY;
        if gpu.caps().int8_dot {
            // Infinite or NaN: see `int8_dot_products_of_numbers_of_any_size`.
            continue;
        }
        check_on(
            &gpu,
            &Call { swiglu: true, ..Call::new(&[4; 2], 64) }.builder(&[3]),
            &[vec![f32s(&[3, 64], values)]],
            1e-4,
        );
    }
}

/// Scales of 16 bits in the file are converted before they are packed.
#[test]
fn f16_scales_are_those_that_f32_holds() {
    let values: Vec<half::f16> = noise(2, 3 * 20).into_iter().map(|scale| half::f16::from_f32(scale * 0.1)).collect();
    let output = |dtype: DataType| -> Vec<f32> {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[3, 96]);
        let weight = builder.constant(DataType::UInt8, &[20, 48], noise_bytes(1, 20 * 48));
        let bytes = values.iter().flat_map(|value| match dtype {
            DataType::Float16 => value.to_le_bytes().to_vec(),
            _ => value.to_f32().to_le_bytes().to_vec(),
        });
        let scales = builder.constant(dtype, &[3, 20], bytes.collect());
        let out = builder.tensor(DataType::Float32, &[3, 20]);
        let (none, no, group) = (builder.value(Value::Null), builder.value(Value::Bool(false)), builder.int(32));
        let [weights, scales, biases, outputs] =
            [weight, scales, none, out].map(|value| builder.value(Value::ValueList(vec![value])));
        builder.call(NAME, &[x, none, none, none, weights, scales, group, biases, none, no, no, outputs]);
        builder.output(out);
        let graph = builder.load_on(&serial_gpu(), &LoadOptions::default()).unwrap();
        let rows = [f32s(&[3, 96], noise(3, 288))];
        bytemuck::pod_collect_to_vec(&run(&graph, &mut graph.new_state().unwrap(), &rows).unwrap()[0].bytes)
    };
    let exact = output(DataType::Float32);
    assert!(exact.iter().any(|value| value.abs() > 0.1));
    assert_eq!(output(DataType::Float16), exact);
}

fn kernels(dry_run: &DryRun) -> Vec<&'static str> {
    dry_run.recipes(0).iter().map(|&recipe| dry_run.planned.recipes()[0].list[recipe].variant.kernel.name).collect()
}

#[test]
fn few_rows_take_one_dispatch_and_many_up_to_three() {
    let swiglu = Call { norm: true, swiglu: true, ..Call::new(&[12; 2], 64) };
    let mut dry_run = DryRun::new(&swiglu.builder(&[70])).unwrap();
    assert_eq!(kernels(&dry_run), ["rms_norm", "fused_linear_q4gsw_gemm", "fused_linear_q4gsw_swiglu"]);
    for rows in [1, 3, 8] {
        dry_run.call(&[(&[rows, 64], &[])]).unwrap();
        assert_eq!(
            (kernels(&dry_run), dry_run.planned.plans()[0].scratch.len()),
            (vec!["fused_linear_q4gsw_gemv"], 0),
            "{rows} rows"
        );
    }
    dry_run.call(&[(&[9, 64], &[])]).unwrap();
    assert_eq!((kernels(&dry_run).len(), &dry_run.planned.plans()[0].scratch[..]), (3, &[9 * 256, 9 * 48, 9 * 48][..]));
    dry_run.call(&[(&[0, 64], &[])]).unwrap();
    assert_eq!(kernels(&dry_run), [""; 0]);

    let plain = DryRun::new(&Call::new(&[12, 8, 4], 64).builder(&[70])).unwrap();
    assert_eq!(kernels(&plain), ["fused_linear_q4gsw_gemm"]);
    // If no call can have many rows, there are no recipes for them.
    let few = DryRun::new(&swiglu.builder(&[8])).unwrap();
    assert_eq!((few.planned.recipes()[0].list.len(), &few.planned.recipes()[0].scratch[..3]), (4, &[0, 0, 0][..]));
}

#[test]
fn many_rows_take_two_dispatches_where_matrices_are_multiplied() {
    let caps = Caps { subgroups: true, subgroup_size: (32, 32), cooperative_matrix: true, ..Caps::PORTABLE };
    let swiglu = Call { norm: true, swiglu: true, ..Call::new(&[12; 2], 64) };
    let mut dry_run = DryRun::on(&swiglu.builder(&[70]), caps).unwrap();
    assert_eq!(kernels(&dry_run), ["fused_linear_q4gsw_pack_f16", "fused_linear_q4gsw_split_k"]);
    assert_eq!(dry_run.planned.plans()[0].scratch, [80 * 128, 70 * 4, 0]);
    dry_run.call(&[(&[8, 64], &[])]).unwrap();
    assert_eq!(kernels(&dry_run), ["fused_linear_q4gsw_gemv_subgroups"]);
    // k is not a multiple of the depth of a slice.
    let odd = DryRun::on(&Call::new(&[12], 96).builder(&[70]), caps).unwrap();
    assert_eq!(kernels(&odd), ["fused_linear_q4gsw_pack_f16", "fused_linear_q4gsw_split_k"]);
    assert_eq!(odd.planned.plans()[0].scratch, [80 * 256, 70 * 4, 0]);
    // On a GPU of few processors large tiles are faster, and so are matrices for few rows.
    let mut dry_run = DryRun::on(&Call::new(&[256], 256).builder(&[300]), Caps { fill_percent: 1, ..caps }).unwrap();
    assert_eq!(kernels(&dry_run), ["fused_linear_q4gsw_pack_f16", "fused_linear_q4gsw_coop_matrix"]);
    let mut few = |rows: u32| {
        dry_run.call(&[(&[rows, 256], &[])]).unwrap();
        kernels(&dry_run).len() == 1
    };
    assert_eq!([1, 2, 4, 8].map(&mut few), [true, true, false, false]);
}

#[test]
fn scales_and_biases_share_a_buffer() {
    let lists = |call: Call| {
        let dry = DryRun::new(&call.builder(&[4])).unwrap();
        dry.planned.recipes()[0].joined.iter().map(|joined| joined.parts.len()).collect()
    };
    let lists: [Vec<usize>; 4] = [
        lists(Call::new(&[8], 64)),
        lists(Call { biases: 1, ..Call::new(&[8], 64) }),
        lists(Call::new(&[8, 4], 64)),
        lists(Call { biases: 0b110, ..Call::new(&[8, 4, 4], 64) }),
    ];
    assert_eq!(lists, [vec![1, 1], vec![1, 2], vec![2, 2], vec![3, 5]]);
}

#[test]
fn unsupported_layouts_are_rejected_by_argument() {
    let text = |call: Call| load_error(&call.builder(&[4]));
    assert!(text(Call { group: 16, ..Call::new(&[8], 64) }).contains("`weights` has rows of 64 values in groups of 16"));
    assert!(text(Call { padding: [8, 0], ..Call::new(&[8], 64) }).contains("40 bytes a row"));
    assert!(text(Call { padding: [0, 2], ..Call::new(&[8], 64) }).contains("10 scales a group"));
    assert!(
        text(Call { padding: [0, 2], ..Call::new(&[6], 64) }).contains("`weights` has 6 rows, expected a multiple of 4")
    );
    assert!(text(Call { swiglu: true, ..Call::new(&[8, 4], 64) }).contains("`swiglu` is true for weights of [8, 4] rows"));
    assert!(text(Call { swiglu: true, ..Call::new(&[8], 64) }).contains("`swiglu` is true for weights of [8] rows"));
    assert!(text(Call { addend: true, ..Call::new(&[8, 4], 64) }).contains("`addend` comes with 2 outputs, expected one"));
    assert!(text(Call::new(&[4; 4], 64)).contains("`weights` has 4 tensors, expected 1 to 3"));
    assert!(text(Call::new(&[], 64)).contains("`weights` has 0 tensors"));
}

/// A graph with one argument of its call changed.
fn changed(call: &Call, argument: usize, change: impl Fn(&mut GraphBuilder) -> ValueId) -> String {
    let mut builder = call.builder(&[4]);
    let value = change(&mut builder);
    builder.graph.calls[0].args[argument] = value;
    load_error(&builder)
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let call = Call { norm: true, biases: 0b1, ..Call::new(&[8], 64) };
    let list = |builder: &mut GraphBuilder, id| builder.value(Value::ValueList(vec![id]));
    let none = |builder: &mut GraphBuilder| builder.value(Value::Null);
    let input = |builder: &mut GraphBuilder, dtype, dims: &[u32]| {
        let id = builder.input(dtype, dims);
        list(builder, id)
    };
    assert!(changed(&call, 1, none).contains("`eps` must be given with `norm`, and only then"));
    assert!(changed(&call, 2, |builder| builder.float(-1.0)).contains("`eps` is -1"));
    assert!(changed(&call, 1, |builder| builder.floats(&[32], &[1.0; 32])).contains("`norm` is [32], expected [64]"));
    assert!(
        changed(&call, 0, |builder| builder.input(DataType::Float32, &[4, 32])).contains("`x` is [4, 32], but the weights")
    );
    let weights = changed(&call, 4, |builder| input(builder, DataType::UInt8, &[8, 32]));
    assert!(weights.contains("`weights` has tensor") && weights.contains("expected a constant"), "{weights}");
    assert!(changed(&call, 4, |builder| input(builder, DataType::Float32, &[8, 32])).contains("`weights` has elements F32"));
    assert!(changed(&call, 5, |builder| input(builder, DataType::Float32, &[2, 8])).contains("`scales` has tensor"));
    assert!(changed(&call, 7, |builder| input(builder, DataType::Float32, &[8])).contains("`biases` has tensor"));
    let short = |builder: &mut GraphBuilder| {
        let bias = builder.floats(&[7], &[0.0; 7]);
        list(builder, bias)
    };
    assert!(changed(&call, 7, short).contains("`biases` has [7], but the output has 8 columns"));
    assert!(
        changed(&call, 7, |builder| builder.value(Value::ValueList(vec![]))).contains("`biases` has 0 tensors, expected 1")
    );
    let addend = changed(&call, 8, |builder| builder.input(DataType::Float32, &[1, 8]));
    assert!(addend.contains("`addend` is [1, 8], expected [4, 8]"), "{addend}");
    let two = Call::new(&[8, 4], 64);
    let apart = changed(&two, 4, |builder| {
        let first = builder.constant(DataType::UInt8, &[8, 32], noise_bytes(1, 256));
        let second = builder.constant(DataType::UInt8, &[4, 16], noise_bytes(1, 64));
        builder.value(Value::ValueList(vec![first, second]))
    });
    assert!(apart.contains("past the weight's [4, 16] bytes"), "{apart}");
}

#[test]
fn an_empty_addend_gives_an_empty_output() {
    let call = Call { addend: true, ..Call::new(&[8], 64) };
    let builder = call.builder(&[4]);
    let out = builder.graph.outputs[0];
    let mut dry_run = DryRun::new(&builder).unwrap();
    dry_run.call(&[(&[1, 64], &[]), (&[0, 8], &[])]).unwrap();
    assert_eq!((dry_run.dims(out), dry_run.recipes(0)), (vec![0, 8], vec![]));
    assert!(dry_run.call(&[(&[3, 64], &[]), (&[1, 8], &[])]).unwrap_err().to_string().contains("`addend` is [1, 8]"));
}
