//! Limits: sizes too large for an adapter, folded grids, and empty tensors.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{load_on, own_gpu};
use crate::Error;
use crate::engine::{LoadOptions, LoadedGraph, block_on};
use crate::ir::{Constant, ConstantId, ConstantSource, DataType, Value};
use crate::plan::Grid;
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
