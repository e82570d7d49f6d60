//! Exported models fused and unfused, and the constants that fused operators join.

use std::borrow::Cow;

use super::operators::{demo, fixture_graphs};
use super::own_gpu;
use crate::Error;
use crate::engine::{Gpu, LoadOptions, LoadedGraph, SharedBudget, TensorData, block_on};
use crate::fuse::Fusions;
use crate::graph::DecodedGraph;
use crate::ir::{ConstantId, ConstantSource, DataType, Value, ValueId};
use crate::memory::{Memory, Place};
use crate::reference::HostTensor;
use crate::testing::{DryRun, GraphBuilder, compare_outputs, i32s, noise, noise_bytes, run};

/// Runs the calls of a graph; returns their outputs, and the dispatches of the last.
fn run_all(gpu: &Gpu, graph: &LoadedGraph, calls: &[Vec<HostTensor>]) -> (Vec<Vec<TensorData<'static>>>, u64) {
    let mut state = graph.new_state().unwrap();
    let mut dispatches = 0;
    let call = |inputs: &Vec<HostTensor>| {
        let before = gpu.counts().dispatches;
        let outputs = run(graph, &mut state, inputs).unwrap();
        dispatches = gpu.counts().dispatches - before;
        outputs
    };
    (calls.iter().map(call).collect(), dispatches)
}

#[test]
fn fused_exported_graphs_agree_with_unfused() {
    let mut dispatches = Vec::new();
    for fixture in fixture_graphs().iter().filter(|fixture| !fixture.calls.is_empty()) {
        let decode =
            |fusions| DecodedGraph::decode_with(fixture.builder.graph.clone(), fusions).map(|graph| graph.nodes.len());
        let Ok(plain) = decode(&Fusions::NONE) else { continue };
        if decode(&Fusions::ALL).unwrap() == plain {
            continue;
        }
        let gpu = own_gpu();
        let load = |fusions| fixture.builder.load_fused(&gpu, fusions, &LoadOptions::default()).unwrap();
        let (plain, fused) = (load(&Fusions::NONE), load(&Fusions::ALL));
        let (want, before) = run_all(&gpu, &plain, &fixture.calls);
        let (got, after) = run_all(&gpu, &fused, &fixture.calls);
        for (call, (got, want)) in got.iter().zip(&want).enumerate() {
            compare_outputs(&format!("{}, call {call}", fixture.name), got, want, 1e-5);
        }
        dispatches.push((fixture.name.clone(), before, after));
    }
    // The last call of the sequence is a step of one token: embedding, logits, and for each of two layers norm + QKV,
    // attention, output + sum, norm + SwiGLU, down + sum.
    let tiny = dispatches.iter().find(|(name, ..)| name.starts_with("tiny_4w")).map(|(_, before, after)| (*before, *after));
    assert_eq!(tiny, Some((38, 12)), "{dispatches:?}");
}

/// Calls of a decoder with these numbers of tokens and positions.
fn steps(shapes: &[(u32, i32)]) -> Vec<Vec<HostTensor>> {
    let call = |&(count, at): &(u32, i32)| {
        let tokens = noise_bytes(u64::from(count) + u64::from(at.unsigned_abs()), count as usize);
        vec![i32s(&[1, count], tokens.into_iter().map(i32::from).collect()), i32s(&[1], vec![at])]
    };
    shapes.iter().map(call).collect()
}

/// Prefill in pieces, decode steps, and rewinds, on exported decoders with caches of this many tokens.
#[test]
fn fused_decoders_agree_after_rewinding() {
    let llamas = fixture_graphs().into_iter().filter(|fixture| fixture.name.starts_with("tiny_"));
    let builders: Vec<GraphBuilder> = llamas.map(|fixture| fixture.builder).chain([demo()]).collect();
    assert_eq!(builders.len(), 4);
    let calls = steps(&[(17, 0), (4, 17), (1, 21), (1, 22), (2, 9), (1, 11), (40, 12), (1, 52), (3, 3), (1, 6)]);
    let mut dispatches = Vec::new();
    for (model, builder) in builders.iter().enumerate() {
        let gpu = own_gpu();
        let load = |fusions| builder.load_fused(&gpu, fusions, &LoadOptions::default()).unwrap();
        let (want, before) = run_all(&gpu, &load(&Fusions::NONE), &calls);
        let (got, after) = run_all(&gpu, &load(&Fusions::ALL), &calls);
        for (call, (got, want)) in got.iter().zip(&want).enumerate() {
            compare_outputs(&format!("model {model}, call {call}"), got, want, 1e-4);
        }
        dispatches.push((before, after));
    }
    // The bundled model has eight layers of five dispatches, and two more.
    assert_eq!(dispatches, [(38, 12), (53, 21), (21, 7), (134, 42)]);
}

/// Builds calls of the fused operator.
struct Joining {
    builder: GraphBuilder,
    x: ValueId,
}

impl Joining {
    fn new() -> Self {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[3, 32]);
        Self { builder, x }
    }

    fn weights(&mut self, rows: u32) -> ValueId {
        self.builder.constant(DataType::UInt8, &[rows, 16], noise_bytes(rows.into(), rows as usize * 16))
    }

    fn scales(&mut self, rows: u32) -> ValueId {
        self.builder.floats(&[1, rows], &noise(rows.into(), rows as usize))
    }

    /// A call with these weights, scales and rows.
    fn call(&mut self, weights: &[(ValueId, ValueId, u32)]) {
        let builder = &mut self.builder;
        let (none, no, group) = (builder.value(Value::Null), builder.value(Value::Bool(false)), builder.int(32));
        let outputs: Vec<ValueId> =
            weights.iter().map(|(_, _, rows)| builder.tensor(DataType::Float32, &[3, *rows])).collect();
        outputs.iter().for_each(|&out| builder.output(out));
        let lists = [
            weights.iter().map(|(weight, ..)| *weight).collect(),
            weights.iter().map(|(_, scales, _)| *scales).collect(),
            vec![none; weights.len()],
            outputs,
        ];
        let [weights, scales, biases, out] = lists.map(|list| builder.value(Value::ValueList(list)));
        let args = [self.x, none, none, none, weights, scales, group, biases, none, no, no, out];
        builder.call(crate::ops::fused_linear::NAME, &args);
    }
}

fn memory(dry_run: &DryRun) -> Memory {
    Memory::plan(&dry_run.graph, &dry_run.planned).unwrap()
}

#[test]
fn joined_constants_are_aligned_to_vectors() {
    let (starts, end) = crate::memory::joined([16, 20, 0, 1]);
    assert_eq!((starts, end), (vec![0, 16, 48, 64], 80));
    assert_eq!(crate::memory::joined([]), (vec![], 0));
}

#[test]
fn equal_joined_lists_share_a_buffer() {
    let mut joining = Joining::new();
    let (a, b, scales) = (joining.weights(4), joining.weights(8), [joining.scales(4), joining.scales(8)]);
    joining.call(&[(a, scales[0], 4), (b, scales[1], 8)]);
    joining.call(&[(a, scales[0], 4), (b, scales[1], 8)]);
    joining.call(&[(b, scales[1], 8), (a, scales[0], 4)]);
    // The same bytes under the same key, but another constant.
    let again = joining.weights(8);
    for id in [b, again] {
        let constant =
            joining.builder.graph.value(id).and_then(Value::as_tensor).and_then(|tensor| tensor.constant).unwrap();
        joining.builder.graph.constants[constant.index()].source = ConstantSource::Named("b".into());
    }
    joining.call(&[(a, scales[0], 4), (again, scales[1], 8)]);
    let memory = memory(&DryRun::new(&joining.builder).unwrap());
    assert_eq!((memory.joins.len(), &memory.joined[0], &memory.joined[1]), (4, &memory.joined[0], &memory.joined[0]));
    assert_eq!((memory.joined[2][0] == memory.joined[0][0], &memory.joined[3]), (false, &memory.joined[0]));
}

#[test]
fn constants_are_uploaded_only_where_used() {
    let mut joining = Joining::new();
    let (a, b, alone) = (joining.weights(4), joining.weights(8), joining.weights(12));
    let scales = [4, 8, 12].map(|rows| joining.scales(rows));
    joining.call(&[(a, scales[0], 4), (b, scales[1], 8)]);
    joining.call(&[(alone, scales[2], 12)]);
    // The first of the joined weights is also an output, and the last constant is unused.
    joining.builder.output(a);
    joining.weights(16);
    let asked = std::sync::Mutex::new(Vec::new());
    let bytes = |id: ConstantId| -> Option<Cow<'_, [u8]>> {
        asked.lock().unwrap().push(id.0);
        Some(Cow::Borrowed(joining.builder.constants[id.index()].as_slice()))
    };
    let gpu = own_gpu();
    let graph =
        block_on(LoadedGraph::load(&gpu, joining.builder.decode().unwrap(), &bytes, &LoadOptions::default())).unwrap();
    let mut asked = std::mem::take(&mut *asked.lock().unwrap());
    asked.sort_unstable();
    // a, b, alone, and the scales of each: a once although it has two destinations, the unused constant not at all.
    assert_eq!(asked, [0, 1, 2, 3, 4, 5]);
    let mut state = graph.new_state().unwrap();
    let x = crate::testing::f32s(&[3, 32], noise(1, 96));
    let outputs = run(&graph, &mut state, &[x]).unwrap();
    assert_eq!(outputs[3].bytes, joining.builder.constants[0]);
    // Its joined weights and scales have as many bytes as their parts.
    let error = block_on(LoadedGraph::load(
        &gpu,
        joining.builder.decode().unwrap(),
        &bytes,
        &LoadOptions { memory: SharedBudget::new(Some(300)), ..LoadOptions::default() },
    ));
    assert!(matches!(error, Err(Error::TooLarge { by: "the memory budget", .. })), "{error:?}");
}

#[test]
fn only_constants_are_joined() {
    let mut joining = Joining::new();
    let (a, b, scales) = (joining.weights(8), joining.weights(8), [joining.scales(8), joining.scales(8)]);
    joining.call(&[(a, scales[0], 8), (b, scales[1], 8)]);
    // A buffer that a call stores into is initially a constant, and does not stay one.
    joining.builder.call("pteron.store", &[scales[1], scales[0]]);
    let error = joining.builder.decode().unwrap_err().to_string();
    assert!(error.contains(&format!("has tensor {}, expected a constant", scales[0])), "{error}");
}

#[test]
fn joined_buffer_above_the_binding_limit_is_rejected_before_allocation() {
    let gpu = own_gpu();
    let limit: u64 = gpu.adapter().limits.max_storage_buffer_binding_size;
    let Ok(rows) = u32::try_from(limit / 32 + 4) else {
        return crate::testing::skip("has no limit that a shape can exceed");
    };
    let rows = rows.next_multiple_of(4);
    let mut joining = Joining::new();
    let mut constant = |dtype, dims: &[u32]| {
        let id = joining.builder.tensor(dtype, dims);
        let constant = ConstantId(u32::try_from(joining.builder.graph.constants.len()).unwrap());
        let Some(Value::Tensor(tensor)) = joining.builder.graph.values.get_mut(id.index()) else { panic!("just added") };
        tensor.constant = Some(constant);
        let len = tensor.byte_len().unwrap();
        joining.builder.graph.constants.push(crate::ir::Constant { len, source: ConstantSource::Stored });
        id
    };
    let weights = [constant(DataType::UInt8, &[rows, 16]), constant(DataType::UInt8, &[rows, 16])];
    let scales = [constant(DataType::Float32, &[1, rows]), constant(DataType::Float32, &[1, rows])];
    joining.call(&[(weights[0], scales[0], rows), (weights[1], scales[1], rows)]);
    let before = gpu.counts();
    let graph = joining.builder.decode().unwrap();
    let error = block_on(LoadedGraph::load(&gpu, graph, &|_| None, &LoadOptions::default())).unwrap_err();
    let Error::TooLarge { what, need, by, .. } = &error else { panic!("{error}") };
    assert_eq!(
        (what.as_str(), *need, *by),
        ("joined constants 0", 64 * u64::from(rows.next_multiple_of(16)), "the adapter, for one binding")
    );
    assert_eq!(gpu.counts(), before, "something was made");
    assert!(matches!(memory(&DryRun::new(&joining.builder).unwrap()).joined[0][0], Place::Joined(0)));
}
