//! Limits: sizes too large for an adapter, folded grids, and empty tensors.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{load_on, own_gpu};
use crate::Error;
use crate::batch::{self, BatchSlices};
use crate::engine::{LoadOptions, LoadedGraph, block_on};
use crate::fuse::Fusions;
use crate::graph::DecodedGraph;
use crate::ir::{Constant, ConstantId, ConstantSource, DataType, Value};
use crate::plan::{Caps, Grid};
use crate::testing::{DryRun, GraphBuilder, check, f32s, i32s, noise, run, skip};

/// A graph that negates `rows` rows of 1,024 floats: an input, or a constant without bytes.
fn large(rows: u32, constant: bool) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.tensor(DataType::Float32, &[rows, 1024]);
    if constant {
        let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(x.index()) else { unreachable!("just added") };
        tensor.constant = Some(ConstantId(0));
        builder.graph.constants.push(Constant { len: u64::from(rows) * 4096, source: ConstantSource::Stored });
    } else {
        builder.graph.inputs.push(x);
    }
    let (zero, last) = (builder.int(0), builder.int(-1));
    let row = builder.tensor(DataType::Float32, &[1024]);
    builder.call("aten.select_copy.int", &[x, zero, last, row]);
    builder.output(row);
    builder
}

#[test]
fn tensor_above_the_binding_limit_is_rejected_before_allocation() {
    let gpu = own_gpu();
    let limit: u64 = gpu.adapter().limits.max_storage_buffer_binding_size;
    let Ok(rows) = u32::try_from(limit / 4096 + 1) else { return skip("has no limit that a shape can exceed") };
    if u64::from(rows) * 4096 > u64::from(u32::MAX) {
        return skip("binds more than kernels index, which decoding rejects");
    }
    for constant in [false, true] {
        let asked = AtomicBool::new(false);
        let bytes = |_: ConstantId| -> Option<Cow<'_, [u8]>> {
            asked.store(true, Ordering::Relaxed);
            None
        };
        let before = gpu.counts();
        let graph = large(rows, constant).decode().unwrap();
        let error = block_on(LoadedGraph::load(&gpu, graph, &bytes, &LoadOptions::default())).unwrap_err();
        match &error {
            Error::TooLarge { need, limit: allowed, by, .. } => {
                assert_eq!((*need, *allowed, *by), (u64::from(rows) * 4096, limit, "the adapter, for one binding"));
            }
            other => panic!("{other:?}"),
        }
        let text = error.to_string();
        assert!(text.contains(&limit.to_string()) && text.contains(&(u64::from(rows) * 4096).to_string()), "{text}");
        assert!(!asked.load(Ordering::Relaxed), "bytes of a constant that cannot be held were asked for");
        assert_eq!(gpu.counts(), before, "something was made");
    }
}

#[test]
fn smaller_input_bounds_fit_a_large_graph() {
    let gpu = own_gpu();
    let limit: u64 = gpu.adapter().limits.max_storage_buffer_binding_size;
    let Ok(rows) = u32::try_from((limit / 4096 + 1).min(1 << 19)) else { return };
    let tight = LoadOptions { input_bounds: vec![Some(crate::testing::dims(&[3, 1024]))], ..LoadOptions::default() };
    let loaded = load_on(&gpu, &large(rows, false), &tight).unwrap();
    let values = noise(5, 3 * 1024);
    let outputs = run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&[3, 1024], values.clone())]).unwrap();
    assert_eq!(outputs[0].bytes, bytemuck::cast_slice::<f32, u8>(&values[2048..]));
    let error = run(&loaded, &mut loaded.new_state().unwrap(), &[f32s(&[4, 1024], vec![0.0; 4096])]).unwrap_err();
    assert_eq!(error.to_string(), "input 0 has shape [4, 1024], allowed is up to [3, 1024]");
}

#[test]
fn one_workgroup_per_row_folds_past_the_grid_limit() {
    let rows = Grid::LIMIT + 2;
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[rows, 4]);
    let weight = builder.floats(&[4], &[1.0, -2.0, 0.5, 3.0]);
    let eps = builder.float(1e-5);
    let out = builder.tensor(DataType::Float32, &[rows, 4]);
    builder.call("et_vk.rms_norm.default", &[x, weight, eps, out]);
    builder.output(out);
    let grid = DryRun::new(&builder).unwrap().planned.plans()[0].steps[0].grid;
    assert_eq!((grid.x, grid.y), (rows.div_ceil(2), 2));
    // Folded, not folded, folded again, and one workgroup past a whole grid.
    let calls = [rows, 3, rows - 1, Grid::LIMIT].map(|rows| vec![f32s(&[rows, 4], noise(rows.into(), rows as usize * 4))]);
    check(&builder, &calls, 1e-5);
}

#[test]
fn one_thread_per_element_folds_past_the_grid_limit() {
    // The output is small: only intermediates are large.
    let count = Grid::LIMIT * 256 + 1000;
    let mut builder = GraphBuilder::new();
    let numbers = [0, i64::from(count), 1].map(|number| builder.int(number));
    let (none, zero, one) = (builder.value(Value::Null), builder.int(0), builder.int(1));
    let (start, end) = (builder.int(-300), builder.int(i64::MAX));
    let all = builder.tensor(DataType::Int32, &[count]);
    let last = builder.tensor(DataType::Int32, &[300]);
    builder.call("aten.arange.start_step", &[&numbers[..], &[none; 4], &[all]].concat());
    builder.call("aten.slice_copy.Tensor", &[all, zero, start, end, one, last]);
    builder.output(last);
    let grid = DryRun::new(&builder).unwrap().planned.plans()[0].steps[0].grid;
    assert!(grid.y == 2 && grid.groups() >= u64::from(count.div_ceil(256)), "{grid:?}");
    let loaded = builder.load(&LoadOptions::default()).unwrap();
    let outputs = run(&loaded, &mut loaded.new_state().unwrap(), &[]).unwrap();
    let expected: Vec<u32> = (count - 300..count).collect();
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, u32>(&outputs[0].bytes), expected);
}

#[test]
fn empty_tensors_run_and_leave_state_unchanged() {
    let mut builder = GraphBuilder::new();
    let tokens = builder.input(DataType::Int32, &[1, 9]);
    let table = builder.floats(&[7, 8], &noise(3, 56));
    let weight = builder.floats(&[8], &noise(4, 8));
    let matrix = builder.floats(&[5, 8], &noise(5, 40));
    let (minus, no, eps, none) =
        (builder.int(-1), builder.value(Value::Bool(false)), builder.float(1e-5), builder.value(Value::Null));
    let (one, two, four) = (builder.int(1), builder.int(2), builder.int(4));
    let size = builder.value(Value::SymInt);
    let sizes = builder.value(Value::ValueList(vec![one, size, two, four]));
    let mut tensor = |dims: &[u32]| builder.tensor(DataType::Float32, dims);
    let (rows, normed) = (tensor(&[1, 9, 8]), tensor(&[1, 9, 8]));
    let (product, heads, squared) = (tensor(&[1, 9, 5]), tensor(&[1, 9, 2, 4]), tensor(&[1, 9, 2, 4]));
    builder.call("aten.embedding.default", &[table, tokens, minus, no, no, rows]);
    builder.call("et_vk.rms_norm.default", &[rows, weight, eps, normed]);
    builder.call("aten.linear.default", &[normed, matrix, none, product]);
    builder.call("sym_size.int", &[tokens, one, size]);
    builder.call("aten.view_copy.default", &[normed, sizes, heads]);
    builder.call("aten.mul.Tensor", &[heads, heads, squared]);
    [product, squared].into_iter().for_each(|output| builder.output(output));
    let calls = [4, 0, 9, 0, 1]
        .map(|count: i32| vec![i32s(&[1, count.unsigned_abs()], (0..count).map(|at| (at * 5) % 7).collect())]);
    check(&builder, &calls, 1e-4);
}

/// A small U-Net: convolution, activation, pool, upsampling and concatenation along the channels, or along the batch.
fn small_unet(batch: u32, size: u32, axis: i64) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[batch, 4, size, size]);
    let weights = noise(3, 8 * 4 * 9);
    let weight = builder.floats(&[8, 4, 3, 3], &weights);
    let none = builder.value(Value::Null);
    let [zeros, ones, twos] = [0, 1, 2].map(|number| builder.value(Value::IntList(vec![number; 2])));
    let no = builder.value(Value::Bool(false));
    let (one, axis_value) = (builder.int(1), builder.int(axis));
    let [convolved, active, upsampled] = [0; 3].map(|_| builder.tensor(DataType::Float32, &[batch, 8, size, size]));
    builder.call("aten.convolution.default", &[x, weight, none, ones, ones, ones, no, zeros, one, convolved]);
    builder.call("aten.relu.default", &[convolved, active]);
    let pooled = builder.tensor(DataType::Float32, &[batch, 8, size / 2, size / 2]);
    builder.call("aten.max_pool2d.default", &[active, twos, twos, zeros, ones, no, pooled]);
    let factors = builder.value(Value::DoubleList(vec![2.0; 2]));
    builder.call("aten.upsample_nearest2d.vec", &[pooled, none, factors, upsampled]);
    let joined = if axis == 0 { [2 * batch, 8, size, size] } else { [batch, 16, size, size] };
    let joined = builder.tensor(DataType::Float32, &joined);
    let tensors = builder.value(Value::ValueList(vec![active, upsampled]));
    builder.call("aten.cat.default", &[tensors, axis_value, joined]);
    builder.output(joined);
    builder
}

#[test]
fn batches_above_the_binding_limit_run_in_slices() {
    let whole = crate::testing::gpu();
    // Two rows of the concatenation fit.
    let sliced = whole.with_caps(Caps { max_binding: 2 * 4096 + 100, ..whole.caps() });
    for fusions in [Fusions::NONE, Fusions::default()] {
        let load = |gpu| small_unet(5, 8, 1).load_fused(gpu, &fusions, &LoadOptions::default()).unwrap();
        let graphs = [load(&whole), load(&sliced)];
        assert!(graphs[1].memory_needed().activation_bytes < graphs[0].memory_needed().activation_bytes);
        let mut states = [0, 1].map(|graph: usize| graphs[graph].new_state().unwrap());
        for batch in [5, 1, 2, 3, 4, 0] {
            let input = f32s(&[batch, 4, 8, 8], noise(batch.into(), batch as usize * 256));
            let [want, got] = [0, 1].map(|at| run(&graphs[at], &mut states[at], std::slice::from_ref(&input)).unwrap());
            assert_eq!(got[0].dims, crate::testing::dims(&[batch, 16, 8, 8]));
            assert_eq!(got, want, "{batch} rows");
        }
        let error = run(&graphs[1], &mut states[1], &[f32s(&[6, 4, 8, 8], noise(1, 6 * 256))]).unwrap_err().to_string();
        assert!(error.contains("[6, 4, 8, 8]") && error.contains("[5, 4, 8, 8]"), "{error}");
    }
}

#[test]
fn batches_whose_rows_are_mixed_stay_whole() {
    let graph = small_unet(5, 8, 0).decode().unwrap();
    let bounds: Vec<_> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    assert!(BatchSlices::new(&graph, &bounds, 2 * 4096).is_none());
    let graph = small_unet(5, 8, 1).decode().unwrap();
    assert_eq!(BatchSlices::new(&graph, &bounds, 2 * 4096).unwrap().rows, 2);
    assert!(BatchSlices::new(&graph, &bounds, 4095).is_none(), "one row is too large");
    assert!(BatchSlices::new(&graph, &bounds, 5 * 4096).is_none(), "nothing is too large");
}

#[test]
fn batches_that_kernels_cannot_index_run_in_slices() {
    // 2^30 floats in the concatenation.
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[32, 64, 512, 512]);
    let joined = builder.tensor(DataType::Float32, &[32, 128, 512, 512]);
    let (tensors, one) = (builder.value(Value::ValueList(vec![x, x])), builder.int(1));
    builder.call("aten.cat.default", &[tensors, one, joined]);
    builder.output(joined);
    let graph = builder.decode().unwrap();
    let bounds: Vec<_> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let slices = BatchSlices::new(&graph, &bounds, (1 << 31) - 16).unwrap();
    assert_eq!(slices.rows, 11, "three slices of at most 15 rows");
    let error = DryRun::new(&builder).err().unwrap().to_string();
    assert!(error.contains("has 1073741824 elements, more than kernels index"), "{error}");
}

#[test]
fn fused_batches_that_kernels_cannot_index_run_in_slices() {
    let plan = |axis| {
        let mut builder = small_unet(32, 1456, axis);
        // Another pool, so that the concatenation is no output: with channels last, nothing uses the one with channels first.
        let joined = builder.graph.outputs.pop().unwrap();
        let [zeros, ones, twos] = [0, 1, 2].map(|number| builder.value(Value::IntList(vec![number; 2])));
        let no = builder.value(Value::Bool(false));
        let pooled = if axis == 0 { [64, 8, 728, 728] } else { [32, 16, 728, 728] };
        let pooled = builder.tensor(DataType::Float32, &pooled);
        builder.call("aten.max_pool2d.default", &[joined, twos, twos, zeros, ones, no, pooled]);
        builder.output(pooled);
        let graph = DecodedGraph::decode_with(builder.graph, &Fusions::default()).unwrap();
        let touched =
            |node: &crate::graph::Node| [&node.flow.reads, &node.flow.writes].into_iter().flatten().any(|t| t.0 == joined.0);
        assert!(!graph.nodes.iter().any(touched), "the concatenation still has channels first");
        let bounds: Vec<_> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        batch::plan(&graph, &bounds, Caps::PORTABLE, (1 << 31) - 16)
            .map(|(planned, rows)| (planned.live().dims(graph.outputs[0]).to_vec(), rows))
    };
    assert_eq!(plan(1).unwrap(), (vec![11, 16, 728, 728], Some(11)));
    let mixed = plan(0).unwrap_err().to_string();
    assert!(mixed.contains("has 1085407232 elements, more than kernels index"), "{mixed}");
}
