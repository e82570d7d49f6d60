//! Shared code of operator tests: graphs written by hand, run on a GPU and by the references, and compared.

pub(crate) mod case;

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::coop_matrix::emulation::Emulation;
use crate::engine::{Gpu, GpuOptions, Input, LoadOptions, LoadedGraph, State, TensorData, block_on};
use crate::fuse::Fusions;
use crate::graph::{DecodedGraph, Elem, Role};
use crate::ir::{self, Call, Constant, ConstantId, ConstantSource, DataType, Tensor, Value, ValueId};
use crate::live::TensorId;
use crate::plan::{COOPERATIVE_MATRIX_MEMORY, Caps, MatrixSide};
use crate::reference::{self, HostData, HostTensor, HostTensors};
use crate::resize::{LiveInput, Planned};
use crate::shape::Dims;

/// One device for all tests of a process. `PTERON_ADAPTER` selects an adapter.
static GPU: LazyLock<Gpu> = LazyLock::new(|| {
    let options = GpuOptions { adapter: std::env::var("PTERON_ADAPTER").ok(), ..GpuOptions::default() };
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
});

/// The device with 32-bit precision throughout and GPU kernels, whatever it is.
pub(crate) fn gpu() -> Gpu {
    static EXACT: LazyLock<Gpu> =
        LazyLock::new(|| GPU.with_caps(Caps { cooperative_matrix: false, software: false, ..GPU.caps() }));
    EXACT.clone()
}

/// Returns every `n`-th of some cases on SwiftShader, and all elsewhere. SwiftShader takes seconds for workgroups with barriers; it
/// runs each kernel at fewer shapes, and lavapipe all of them.
pub(crate) fn thinned<T>(cases: impl IntoIterator<Item = T>, n: usize) -> Vec<T> {
    cases.into_iter().step_by(if is_swiftshader() { n } else { 1 }).collect()
}

pub(crate) fn is_swiftshader() -> bool {
    GPU.adapter().name.contains("SwiftShader")
}

/// Reports the running test, or its part for some devices, as skipped on this adapter.
#[track_caller]
pub(crate) fn skip(reason: &str) {
    pteron_files::testing::skip(format!("{} {reason}", GPU.adapter().name));
}

/// The device with its own capabilities, and one without subgroups. Each compiles a kernel once for all tests.
#[track_caller]
pub(crate) fn with_and_without_subgroups() -> [Gpu; 2] {
    if !GPU.caps().subgroups {
        skip("has no subgroups: only portable kernels ran");
    }
    static PORTABLE: LazyLock<Gpu> = LazyLock::new(|| gpu().with_caps(Caps { subgroups: false, ..gpu().caps() }));
    [gpu(), PORTABLE.clone()]
}

/// The device as a software adapter, for kernels with a serial variant.
pub(crate) fn serial_gpu() -> Gpu {
    static SERIAL: LazyLock<Gpu> = LazyLock::new(|| gpu().with_caps(Caps { software: true, ..gpu().caps() }));
    SERIAL.clone()
}

/// The device as if its driver chose among subgroup sizes, of which the one it has is the largest.
#[track_caller]
pub(crate) fn varying_subgroups_gpu() -> Option<Gpu> {
    let found = gpu().caps().lanes().filter(|lanes| lanes.are_whole() && lanes.count >= 8);
    if found.is_none() {
        skip("has no subgroups of one size of at least 8 lanes");
    }
    found.map(|lanes| gpu().with_caps(Caps { subgroup_size: (lanes.count / 2, lanes.count), ..gpu().caps() }))
}

/// The device with emulated cooperative matrices of this size, and subgroups of the sizes that it reports and the one it runs with. It has
/// the workgroup memory that kernels ask for.
#[track_caller]
pub(crate) fn emulated_matrix_gpu(
    matrix_side: MatrixSide,
    matrix_subgroup_size: (u32, u32),
    lanes: u32,
    fill_percent: u32,
) -> Option<Gpu> {
    let caps = GPU.caps();
    if !caps.f16 || caps.lanes().is_none() {
        skip("has no 16-bit floats or subgroups to prepare the factors of emulated cooperative matrices with");
        return None;
    }
    let workgroup_memory = COOPERATIVE_MATRIX_MEMORY;
    let caps = Caps { cooperative_matrix: true, software: false, workgroup_memory, fill_percent, ..caps };
    let caps = Caps { matrix_side, matrix_subgroup_size, subgroup_barrier: matrix_subgroup_size == (32, 32), ..caps };
    Some(GPU.emulating_matrices(caps, Emulation { lanes }))
}

/// The dims of a call's inputs, as bounds that leave no room.
fn tight_bounds(inputs: &[HostTensor]) -> Vec<Option<Dims>> {
    inputs.iter().map(|input| (input.dims.count() > 0).then_some(input.dims)).collect()
}

fn live(inputs: &[HostTensor]) -> Vec<LiveInput<'_>> {
    inputs
        .iter()
        .map(|input| LiveInput { dims: input.dims, values: if let HostData::I32(v) = &input.data { Some(v) } else { None } })
        .collect()
}

/// The device if it has cooperative matrices.
#[track_caller]
pub(crate) fn coop_matrix_gpu() -> Option<Gpu> {
    let found = GPU.caps().cooperative_matrix.then(|| GPU.clone());
    if found.is_none() {
        skip("has no cooperative matrices");
    }
    found
}

/// The device if it supports 16-bit floats in kernels.
#[track_caller]
pub(crate) fn f16_gpu() -> Option<Gpu> {
    let found = GPU.caps().f16.then(gpu);
    if found.is_none() {
        skip("has no f16");
    }
    found
}

pub(crate) fn dims(dims: &[u32]) -> Dims {
    Dims::new(dims).unwrap()
}

/// A graph written by hand.
#[derive(Clone, Default)]
pub(crate) struct GraphBuilder {
    pub(crate) graph: ir::Graph,
    pub(crate) constants: Vec<Vec<u8>>,
}

impl GraphBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn value(&mut self, value: Value) -> ValueId {
        self.graph.add(value)
    }

    pub(crate) fn int(&mut self, value: i64) -> ValueId {
        self.value(Value::Int(value))
    }

    pub(crate) fn float(&mut self, value: f64) -> ValueId {
        self.value(Value::Double(value))
    }

    pub(crate) fn tensor(&mut self, dtype: DataType, bound: &[u32]) -> ValueId {
        self.value(Value::Tensor(Tensor::new(dtype, bound)))
    }

    pub(crate) fn input(&mut self, dtype: DataType, bound: &[u32]) -> ValueId {
        let id = self.tensor(dtype, bound);
        self.graph.inputs.push(id);
        id
    }

    pub(crate) fn constant(&mut self, dtype: DataType, dims: &[u32], bytes: Vec<u8>) -> ValueId {
        let id = self.tensor(dtype, dims);
        let constant = ConstantId(u32::try_from(self.constants.len()).unwrap());
        let Some(Value::Tensor(tensor)) = self.graph.values.get_mut(id.index()) else { unreachable!("just added") };
        assert_eq!(tensor.byte_len(), Some(bytes.len() as u64), "a constant's bytes are as long as its dims say");
        tensor.constant = Some(constant);
        self.graph.constants.push(Constant { len: bytes.len() as u64, source: ConstantSource::Stored });
        self.constants.push(bytes);
        id
    }

    pub(crate) fn floats(&mut self, dims: &[u32], values: &[f32]) -> ValueId {
        let id = self.constant(DataType::Float32, dims, bytemuck::cast_slice(values).to_vec());
        if let &[value] = values {
            let constant = ConstantId(u32::try_from(self.constants.len() - 1).unwrap());
            self.graph.scalars.insert(constant, value.into());
        }
        id
    }

    pub(crate) fn call(&mut self, name: &str, args: &[ValueId]) {
        let call = Call::named(name, args.to_vec()).unwrap_or_else(|| panic!("{name} is no operator"));
        self.graph.calls.push(call.at(self.graph.calls.len()));
    }

    pub(crate) fn output(&mut self, id: ValueId) {
        self.graph.outputs.push(id);
    }

    pub(crate) fn decode(&self) -> crate::Result<DecodedGraph> {
        DecodedGraph::decode(self.graph.clone())
    }

    pub(crate) fn load(&self, options: &LoadOptions) -> crate::Result<LoadedGraph> {
        self.load_on(&gpu(), options)
    }

    pub(crate) fn load_on(&self, gpu: &Gpu, options: &LoadOptions) -> crate::Result<LoadedGraph> {
        self.load_fused(gpu, &Fusions::NONE, options)
    }

    pub(crate) fn load_fused(&self, gpu: &Gpu, fusions: &Fusions, options: &LoadOptions) -> crate::Result<LoadedGraph> {
        let constants = |id: ConstantId| self.constants.get(id.index()).map(|bytes| Cow::Borrowed(bytes.as_slice()));
        let graph = DecodedGraph::decode_with(self.graph.clone(), fusions)?;
        block_on(LoadedGraph::load(gpu, graph, &constants, options))
    }

    /// The constants and state in the references' form.
    pub(crate) fn host_tensors(&self, graph: &DecodedGraph) -> HostTensors {
        let mut tensors = HostTensors::default();
        for (id, role) in graph.roles.iter().enumerate() {
            if let Role::Constant(constant) | Role::State(constant) = role {
                let tensor = TensorId(u32::try_from(id).unwrap());
                let info = graph.info(tensor);
                tensors.set(tensor, info.bound, host_data(info.elem, &self.constants[*constant as usize]));
            }
        }
        tensors
    }
}

pub(crate) fn host_data(elem: Elem, bytes: &[u8]) -> HostData {
    match elem {
        Elem::F32 => HostData::F32(bytemuck::pod_collect_to_vec(bytes)),
        Elem::I32 => HostData::I32(bytemuck::pod_collect_to_vec(bytes)),
        _ => HostData::U8(bytes.to_vec()),
    }
}

/// Deterministic pseudo-random floats in −1..1.
pub(crate) fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Deterministic pseudo-random bytes.
pub(crate) fn noise_bytes(seed: u64, count: usize) -> Vec<u8> {
    noise(seed, count).iter().map(|value| value.to_bits().to_le_bytes()[1]).collect()
}

pub(crate) fn f32s(shape: &[u32], values: Vec<f32>) -> HostTensor {
    HostTensor { dims: dims(shape), data: HostData::F32(values) }
}

pub(crate) fn i32s(shape: &[u32], values: Vec<i32>) -> HostTensor {
    HostTensor { dims: dims(shape), data: HostData::I32(values) }
}

/// Deterministic pseudo-random Booleans.
pub(crate) fn bools(shape: &[u32], seed: u64) -> HostTensor {
    let count = shape.iter().map(|&dim| dim as usize).product();
    let bytes = noise_bytes(seed, count).iter().map(|byte| byte & 1).collect();
    HostTensor { dims: dims(shape), data: HostData::U8(bytes) }
}

/// Converts a host tensor to an input of a call.
pub(crate) fn input(tensor: &HostTensor) -> Input<'_> {
    Input::Data(match &tensor.data {
        HostData::F32(values) => TensorData::f32(tensor.dims, values),
        HostData::I32(values) => TensorData::i32(tensor.dims, values),
        HostData::U8(values) => TensorData::new(tensor.dims, Elem::U8, values),
    })
}

/// Runs one call on the GPU.
pub(crate) fn run(graph: &LoadedGraph, state: &mut State, inputs: &[HostTensor]) -> crate::Result<Vec<TensorData<'static>>> {
    let inputs: Vec<_> = inputs.iter().map(input).collect();
    block_on(graph.call(state, &inputs))
}

/// Runs the calls in order on one graph and one state, on the GPU and by the references. Every output must agree, and a
/// graph loaded fresh for each call's shapes must give the same bits as the resized one (if the graph keeps no state).
pub(crate) fn check(builder: &GraphBuilder, calls: &[Vec<HostTensor>], tolerance: f32) {
    check_on(&gpu(), builder, calls, tolerance);
}

/// As [`check`], on another device.
pub(crate) fn check_on(gpu: &Gpu, builder: &GraphBuilder, calls: &[Vec<HostTensor>], tolerance: f32) {
    check_with(gpu, &LoadOptions::default(), builder, calls, tolerance);
}

/// As [`check`], with other load options.
pub(crate) fn check_with(gpu: &Gpu, how: &LoadOptions, builder: &GraphBuilder, calls: &[Vec<HostTensor>], tolerance: f32) {
    let loaded = builder.load_on(gpu, how).unwrap();
    let mut state = loaded.new_state().unwrap();
    // References compute with the types of the file.
    let graph = &builder.decode().unwrap();
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let mut planned = Planned::at_bounds(graph, &bounds, gpu.caps()).unwrap();
    let mut tensors = builder.host_tensors(graph);
    for (index, inputs) in calls.iter().enumerate() {
        let outputs = run(&loaded, &mut state, inputs).unwrap();
        let expected = expected(graph, &mut planned, &mut tensors, inputs);
        assert_eq!(outputs.len(), expected.len(), "call {index}: outputs");
        for (output, (got, want)) in outputs.iter().zip(&expected).enumerate() {
            compare(&format!("call {index}, output {output}"), got, want, tolerance);
        }
        // Emulated kernels are slow, and resizing is the same for all.
        if gpu.emulation().is_none() && !graph.roles.iter().any(|role| matches!(role, Role::State(_))) {
            let options = LoadOptions { input_bounds: tight_bounds(inputs), ..how.clone() };
            let fresh = builder.load_on(gpu, &options).unwrap();
            let again = run(&fresh, &mut fresh.new_state().unwrap(), inputs).unwrap();
            assert_eq!(outputs, again, "call {index}: resized and freshly built differ");
        }
    }
}

fn expected(
    graph: &DecodedGraph,
    planned: &mut Planned,
    tensors: &mut HostTensors,
    inputs: &[HostTensor],
) -> Vec<HostTensor> {
    let change = planned.resize(graph, &live(inputs)).unwrap();
    planned.commit(change);
    for (&tensor, input) in graph.inputs.iter().zip(inputs) {
        tensors.set(tensor, input.dims, input.data.clone());
    }
    reference::run(graph, planned, tensors).unwrap();
    graph.outputs.iter().map(|&output| tensors.get(output).cloned().unwrap()).collect()
}

/// Compares the outputs of two graphs.
pub(crate) fn compare_outputs(what: &str, got: &[TensorData<'static>], want: &[TensorData<'static>], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{what}: outputs");
    for (output, (got, want)) in got.iter().zip(want).enumerate() {
        let want = HostTensor { dims: want.dims, data: host_data(want.elem, &want.bytes) };
        compare(&format!("{what}, output {output}"), got, &want, tolerance);
    }
}

pub(crate) fn compare(what: &str, got: &TensorData<'static>, want: &HostTensor, tolerance: f32) {
    assert_eq!(got.dims, want.dims, "{what}: dims");
    match (&want.data, host_data(got.elem, &got.bytes)) {
        (HostData::F32(want), HostData::F32(got)) => {
            assert_eq!(got.len(), want.len(), "{what}: elements");
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                // Any number is within a fraction of infinity, so results that are not finite must be equal.
                let near = want.is_finite() && (got - want).abs() <= tolerance * want.abs().max(1.0);
                let close = near || got.to_bits() == want.to_bits();
                assert!(close || (got.is_nan() && want.is_nan()), "{what}, element {i}: {got}, expected {want}");
            }
        }
        (want, got) => assert_eq!(&got, want, "{what}"),
    }
}

/// A graph planned without a GPU.
pub(crate) struct DryRun {
    pub(crate) graph: DecodedGraph,
    pub(crate) planned: Planned,
}

impl DryRun {
    pub(crate) fn new(builder: &GraphBuilder) -> crate::Result<Self> {
        Self::on(builder, Caps::PORTABLE)
    }

    pub(crate) fn on(builder: &GraphBuilder, caps: Caps) -> crate::Result<Self> {
        let graph = builder.decode()?;
        let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        let planned = Planned::at_bounds(&graph, &bounds, caps)?;
        Ok(Self { graph, planned })
    }

    /// Plans a call with inputs of these dims and integers. Returns the operators that were planned again, and those whose
    /// plans differ from before.
    pub(crate) fn call(&mut self, inputs: &[(&[u32], &[i32])]) -> crate::Result<(Vec<usize>, Vec<usize>)> {
        let live = |&(shape, values): &(&[u32], _)| LiveInput { dims: dims(shape), values: Some(values) };
        let inputs: Vec<LiveInput<'_>> = inputs.iter().map(live).collect();
        let change = self.planned.resize(&self.graph, &inputs)?;
        let affected = change.affected().collect();
        Ok((affected, self.planned.commit(change)))
    }

    pub(crate) fn dims(&self, tensor: ValueId) -> Vec<u32> {
        self.planned.live().dims(TensorId(tensor.0)).to_vec()
    }

    /// The recipes an operator's plan dispatches.
    pub(crate) fn recipes(&self, node: usize) -> Vec<usize> {
        self.planned.plans()[node].steps.iter().map(|step| step.recipe).collect()
    }
}

/// The error of a graph that decoding or planning rejects.
pub(crate) fn load_error(builder: &GraphBuilder) -> String {
    match DryRun::new(builder) {
        Ok(_) => panic!("the graph was accepted"),
        Err(error) => error.to_string(),
    }
}

/// Checks that naga validates a kernel with these capabilities and writes SPIR-V for it, where no adapter can compile it.
pub(crate) fn check_spirv(variant: &crate::kernel::Variant, allowed: naga::valid::Capabilities) {
    let (module, info) = validated(variant, allowed);
    let words = naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
    assert!(words.len() > 1000, "{} words", words.len());
}

/// The same for the Metal shading language, which loads and stores matrices through pointers to scalars. naga does not check that.
pub(crate) fn check_msl(variant: &crate::kernel::Variant, allowed: naga::valid::Capabilities) {
    use naga::back::msl;
    let (module, info) = validated(variant, allowed);
    let options = msl::Options { lang_version: (2, 4), fake_missing_bindings: true, ..msl::Options::default() };
    let (text, _) = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default()).unwrap();
    assert!(text.contains("simdgroup_multiply_accumulate") && text.contains("simdgroup_store("), "{text}");
    let scalars = |array: &naga::GlobalVariable| match module.types[array.ty].inner {
        naga::TypeInner::Array { base, .. } => matches!(module.types[base].inner, naga::TypeInner::Scalar(_)),
        _ => true,
    };
    let loaded = |name: &str| text.contains(&format!("NagaCooperativeLoad(&{name}["));
    for (_, array) in module.global_variables.iter() {
        let name = array.name.as_deref().unwrap_or_default();
        assert!(scalars(array) || !(array.space == naga::AddressSpace::WorkGroup || loaded(name)), "{name}");
    }
}

/// A kernel with its constants, as a driver gets it.
pub(crate) fn validated(
    variant: &crate::kernel::Variant,
    allowed: naga::valid::Capabilities,
) -> (naga::Module, naga::valid::ModuleInfo) {
    use naga::valid::{ValidationFlags, Validator};
    let source = variant.source(crate::kernel::Target::Native);
    let module = naga::front::wgsl::parse_str(&source).unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source)));
    let info = Validator::new(ValidationFlags::all(), allowed).validate(&module);
    let info = info.unwrap_or_else(|error| panic!("{}", error.emit_to_string(&source)));
    let constants = variant.constants.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
    let entry = Some((naga::ShaderStage::Compute, "main"));
    let (module, info) = naga::back::pipeline_constants::process_overrides(&module, &info, entry, &constants).unwrap();
    (module.into_owned(), info.into_owned())
}
