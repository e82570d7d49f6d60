//! Small graphs on a device, compared with the operators' reference implementations.

mod exactness;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use pteron_format::fuzzing::verify_graph;
use pteron_format::vulkan::DataType;
use pteron_gpu::engine::{self, Gpu, GpuOptions, LoadOptions, LoadedGraph, TensorData, block_on};
use pteron_gpu::fuse::Fusions;
use pteron_gpu::graph::{DecodedGraph, Elem, Role};
use pteron_gpu::ir::ConstantId;
use pteron_gpu::live::TensorId;
use pteron_gpu::plan::Caps;
use pteron_gpu::reference::{HostData, HostTensor, HostTensors};
use pteron_gpu::resize::{LiveInput, Planned};
use pteron_gpu::shape::Dims;

use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{CACHE_ROWS, Content, Dim, Input, MOST};
use crate::generate::graph::{self, GraphBuilder, builder};
use crate::seeds;
use crate::target::{Outcome, Target};
use exactness::Exactness;

/// The most calls of operators, so that one execution is short.
const MOST_CALLS: usize = 4;
/// Largest deviation of a float from the reference, relative to the largest value of its tensor.
const TOLERANCE: f32 = 2e-3;
/// Executions between two checks of the device's memory.
const LEAK_CHECK: u64 = 64;
/// Bytes that may stay allocated between executions: buffers whose last use the device has not seen yet.
const LEAK_SLACK: u64 = 64 << 20;

/// The device with its own capabilities, without subgroups, and with those of a large GPU. `PTERON_ADAPTER` chooses the adapter.
static DEVICES: LazyLock<[Gpu; 3]> = LazyLock::new(|| {
    let adapter = std::env::var("PTERON_ADAPTER").ok();
    let options = GpuOptions::default().with_adapter(adapter).with_guard_bytes(true);
    let gpu = block_on(Gpu::open(&options)).expect("the target needs an adapter; mesa-vulkan-drivers has one in software");
    let exact = Caps { cooperative_matrix: false, ..gpu.caps() };
    let portable = gpu.with_caps(Caps { subgroups: false, software: false, ..exact });
    let large = gpu.with_caps(Caps { software: false, ..exact });
    [gpu.with_caps(exact), portable, large]
});

/// The target.
pub const TARGET: Target = Target {
    name: "gpu",
    attacks: "pteron-gpu: kernels and the engine, on any adapter",
    run,
    seeds: seeds::entropy,
    max_len: 256,
    heap: 1 << 30,
    // The first execution compiles kernels.
    time: Duration::from_secs(60),
    gpu: true,
    smoke: 500,
    minimum: 10_000,
    ..Target::DEFAULT
};

/// Held during an execution, so that memory left on the device afterwards is a leak.
static ONE: Mutex<()> = Mutex::new(());

/// The name of the adapter that graphs run on.
#[must_use]
pub fn adapter() -> &'static str {
    &DEVICES[0].adapter().name
}

/// Makes a graph of bytes and runs it at several shapes.
///
/// # Panics
/// If outputs differ from the reference or from a graph that was never resized, or if a device fails.
pub fn run(bytes: &[u8]) -> Outcome {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
    let mut cursor = Cursor::new(bytes);
    let (gpu, fusions, builder) = made(&mut cursor);
    let outcome = at_shapes(&DEVICES[gpu], &builder, &fusions, &mut cursor);
    if EXECUTIONS.fetch_add(1, Ordering::Relaxed) % LEAK_CHECK == LEAK_CHECK - 1 {
        check_leaks();
    }
    outcome
}

/// Returns index of the device, fusions and graph.
fn made(cursor: &mut Cursor<'_>) -> (usize, Fusions, GraphBuilder) {
    // Mostly one of them: each compiles kernels of its own.
    let gpu = [0, 0, 0, 0, 0, 0, 1, 2][cursor.below(8)];
    let fusions = if cursor.flip() { Fusions::ALL } else { Fusions::NONE };
    (gpu, fusions, builder(cursor, false, MOST_CALLS))
}

/// The graph of an input as text.
#[must_use]
pub fn describe(bytes: &[u8]) -> String {
    let (gpu, fusions, builder) = made(&mut Cursor::new(bytes));
    format!("device {gpu}, fused {}\n{}", fusions == Fusions::ALL, graph::describe(&builder.graph))
}

/// Checks that earlier executions left nothing on the device.
fn check_leaks() {
    let gpu = &DEVICES[0];
    block_on(gpu.wait_idle()).unwrap_or_else(|error| panic!("the device failed: {error}"));
    let used = gpu.allocated().map_or(0, |allocated| allocated.used_bytes);
    assert!(used <= LEAK_SLACK, "{used} bytes are used while no graph is loaded");
}

fn at_shapes(gpu: &Gpu, builder: &GraphBuilder, fusions: &Fusions, cursor: &mut Cursor<'_>) -> Outcome {
    if verify_graph(&builder.graph, u64::MAX).is_err() {
        return "refused";
    }
    let Ok(graph) = builder.decode(&Fusions::NONE) else { return "refused" };
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let Ok(planned) = Planned::at_bounds(&graph, &bounds, Caps::PORTABLE) else { return "refused" };
    let Some(loaded) = load(gpu, builder, fusions, Vec::new()) else { return "refused" };
    let mut state = loaded.new_state().unwrap_or_else(|error| panic!("no state: {error}"));
    let mut reference = Reference { tensors: constants(builder, &graph), graph, planned };
    let stateless = !reference.graph.roles.iter().any(|role| matches!(role, Role::State(_)));
    let mut outcome = "every call refused";
    for call in 0..3 {
        let inputs = inputs(builder, cursor);
        let outputs = block_on(loaded.call(&mut state, &call_inputs(&reference.graph, &inputs)));
        match (outputs, reference.run(&inputs)) {
            (Ok(outputs), Some(exactness)) => {
                outcome = "agreed";
                reference.compare(&outputs, &exactness);
                if stateless && call == 0 {
                    compare_fresh(gpu, builder, fusions, &reference.graph, &inputs, &outputs);
                }
            }
            (Err(error), None) => check_refusal(&error),
            // Indices that name nothing are refused where the host sees them; references would have clamped them.
            (Err(pteron_gpu::Error::Input { .. }), Some(_)) => {}
            (Ok(_), None) => panic!("the device ran what the reference refuses"),
            (Err(error), Some(_)) => panic!("the device refuses what the reference runs: {error}"),
        }
    }
    outcome
}

fn check_refusal(error: &pteron_gpu::Error) {
    use pteron_gpu::Error as E;
    let fault = matches!(error, E::Device(_) | E::Lost(_) | E::OutOfMemory(_) | E::GuardBytes { .. });
    assert!(!fault, "the device failed: {error}");
}

/// A loaded graph; `None` if it is refused.
fn load(gpu: &Gpu, builder: &GraphBuilder, fusions: &Fusions, input_bounds: Vec<Option<Dims>>) -> Option<LoadedGraph> {
    let bytes = |id: ConstantId| builder.contents.get(id.index()).map(|content| Cow::Owned(content.bytes()));
    let graph = builder.decode(fusions).ok()?;
    let options = LoadOptions { input_bounds, ..LoadOptions::default() };
    match block_on(LoadedGraph::load(gpu, graph, &bytes, &options)) {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            check_refusal(&error);
            None
        }
    }
}

/// Checks that a graph built for just this shape gives the same bits.
fn compare_fresh(
    gpu: &Gpu,
    builder: &GraphBuilder,
    fusions: &Fusions,
    graph: &DecodedGraph,
    inputs: &[HostTensor],
    outputs: &[TensorData<'_>],
) {
    let tight = inputs.iter().map(|input| (input.dims.count() > 0).then_some(input.dims)).collect();
    let Some(fresh) = load(gpu, builder, fusions, tight) else { return };
    let mut state = fresh.new_state().unwrap_or_else(|error| panic!("no state: {error}"));
    let again = block_on(fresh.call(&mut state, &call_inputs(graph, inputs)));
    let again = again.unwrap_or_else(|error| panic!("a fresh graph refuses what a resized one ran: {error}"));
    assert!(again == outputs, "a resized and a fresh graph differ");
}

/// The inputs as a call takes them.
fn call_inputs<'a>(graph: &DecodedGraph, inputs: &'a [HostTensor]) -> Vec<engine::Input<'a>> {
    let input = |(tensor, &id): (&'a HostTensor, &TensorId)| match &tensor.data {
        HostData::F32(values) => TensorData::f32(tensor.dims, values).into(),
        HostData::I32(values) => TensorData::i32(tensor.dims, values).into(),
        HostData::U8(values) => TensorData::new(tensor.dims, graph.info(id).elem, values).into(),
    };
    assert_eq!(inputs.len(), graph.inputs.len(), "inputs");
    inputs.iter().zip(&graph.inputs).map(input).collect()
}

/// The graph as the references run it.
struct Reference {
    graph: DecodedGraph,
    planned: Planned,
    tensors: HostTensors,
}

impl Reference {
    /// Runs one call and returns which tensors can be compared; `None` if the call is rejected.
    fn run(&mut self, inputs: &[HostTensor]) -> Option<Exactness> {
        let live: Vec<LiveInput<'_>> = inputs
            .iter()
            .map(|input| {
                let values = if let HostData::I32(values) = &input.data { Some(values.as_slice()) } else { None };
                LiveInput { dims: input.dims, values }
            })
            .collect();
        let change = self.planned.resize(&self.graph, &live).ok()?;
        self.planned.commit(change);
        for (&tensor, input) in self.graph.inputs.iter().zip(inputs) {
            self.tensors.set(tensor, input.dims, input.data.clone());
        }
        let mut exactness = Exactness::new(&self.graph);
        for (index, node) in self.graph.nodes.iter().enumerate() {
            exactness.look_at(node, &self.tensors);
            let cx = self.planned.cx(index);
            let done = node.op.reference(&cx, &mut self.tensors);
            done.unwrap_or_else(|error| panic!("a reference refuses what was planned: {error}"));
        }
        Some(exactness)
    }

    fn compare(&self, outputs: &[TensorData<'_>], exactness: &Exactness) {
        assert_eq!(outputs.len(), self.graph.outputs.len(), "outputs");
        for (index, (got, &output)) in outputs.iter().zip(&self.graph.outputs).enumerate() {
            let want = self.tensors.get(output).expect("every output is computed");
            assert_eq!(got.dims, want.dims, "dims of output {index}");
            if exactness.comparable(output) {
                compare(index, got, &want.data);
            }
        }
    }
}

fn compare(output: usize, got: &TensorData<'_>, want: &HostData) {
    match (want, host_data(got.elem, &got.bytes)) {
        (HostData::F32(want), HostData::F32(got)) => {
            assert_eq!(got.len(), want.len(), "elements of output {output}");
            let largest = want.iter().filter(|value| value.is_finite()).fold(1.0f32, |most, value| most.max(value.abs()));
            for (index, (got, want)) in got.iter().zip(want).enumerate() {
                let near = want.is_finite() && (got - want).abs() <= TOLERANCE * largest;
                let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                // A value near the largest float may overflow.
                let huge = want.abs() > 1e37 && (got.abs() > 1e37 || got.is_nan());
                assert!(near || same || huge, "output {output}, element {index} is {got}, expected {want}");
            }
        }
        (want, got) => assert!(&got == want, "output {output} is {got:.200?}, expected {want:.200?}"),
    }
}

fn host_data(elem: Elem, bytes: &[u8]) -> HostData {
    let words = || bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
    match elem {
        Elem::F32 => HostData::F32(words().map(f32::from_le_bytes).collect()),
        Elem::I32 => HostData::I32(words().map(i32::from_le_bytes).collect()),
        _ => HostData::U8(bytes.to_vec()),
    }
}

fn constants(builder: &GraphBuilder, graph: &DecodedGraph) -> HostTensors {
    let mut tensors = HostTensors::default();
    for (id, role) in graph.roles.iter().enumerate() {
        if let Role::Constant(constant) | Role::State(constant) = role {
            let tensor = TensorId(id as u32);
            let info = graph.info(tensor);
            tensors.set(tensor, info.bound, host_data(info.elem, &builder.contents[*constant as usize].bytes()));
        }
    }
    tensors
}

/// Inputs at live dims, with values that mostly make sense.
fn inputs(builder: &GraphBuilder, cursor: &mut Cursor<'_>) -> Vec<HostTensor> {
    let live = MOST.map(|most| if cursor.one_in(10) { 0 } else { 1 + cursor.below(most as usize) as u32 });
    let most = if cursor.one_in(12) { CACHE_ROWS } else { CACHE_ROWS - MOST[0] };
    let position = cursor.below(most as usize) as i32;
    builder.inputs.iter().map(|input| one_input(input, live, position, cursor)).collect()
}

fn one_input(input: &Input, live: [u32; 2], position: i32, cursor: &mut Cursor<'_>) -> HostTensor {
    let size = |dim: &Dim| match *dim {
        Dim::Fixed(size) => size,
        Dim::Live(at) => live[at],
    };
    let sizes: Vec<u32> = input.dims.iter().map(size).collect();
    let dims = Dims::new(&sizes).expect("decoded with as many");
    let below = input.below.unwrap_or(8).max(1);
    let content = Content { dtype: input.dtype, count: dims.count(), below, seed: cursor.byte() };
    let mut data = host_data(elem(input.dtype), &content.bytes());
    if let (HostData::I32(values), true) = (&mut data, input.position) {
        values.fill(position);
    }
    HostTensor { dims, data }
}

fn elem(dtype: DataType) -> Elem {
    match dtype {
        DataType::Float32 => Elem::F32,
        DataType::Int32 => Elem::I32,
        _ => Elem::U8,
    }
}
