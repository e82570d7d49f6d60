//! Guard bytes: a kernel that writes past its buffer is detected, without false positives.

use crate::engine::{Gpu, GpuOptions, Input, LoadOptions, LoadedGraph, TensorData, block_on};
use crate::error::{Error, OpError};
use crate::graph::DecodedGraph;
use crate::ir::DataType;
use crate::kernel::reach::{DispatchView, Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::ops::OpDef;
use crate::params;
use crate::plan::{BoundsCx, Dispatch, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::HostTensors;
use crate::testing::{GraphBuilder, dims, skip};

params! {
    struct Params {
        words: u32,
        past: u32,
    }
}

static CHECKED: KernelDef = KernelDef::new("overrun_checked", include_str!("overrun.wgsl"), Params::FIELDS);
static UNCHECKED: KernelDef =
    KernelDef::new("overrun_unchecked", include_str!("overrun.wgsl"), Params::FIELDS).proven(reach);
static DEF: OpDef =
    OpDef { names: &["test.overrun"], internal: &[], kernels: &[&CHECKED, &UNCHECKED], decode: |_| unreachable!() };

/// The reach of a correct kernel.
fn reach(call: &DispatchView<'_>) -> Option<Reached> {
    let words = count(call.params::<Params>()?.words);
    Some(Reached::new().array(words, 4).array(words, 4))
}

/// Copies a tensor and writes a word `past` its end.
#[derive(Debug)]
struct Overrun {
    input: TensorId,
    out: TensorId,
    past: u32,
    kernel: &'static KernelDef,
}

impl Op for Overrun {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(self.kernel), [self.input.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let dims = cx.dims(self.input);
        let words = u32::try_from(dims.count()).unwrap();
        Ok(Plan::new(self.out, dims, Dispatch::groups(0, &Params { words, past: self.past }, 1)?))
    }

    fn reference(&self, _: &PlanCx<'_>, _: &mut HostTensors) -> Result<(), OpError> {
        unreachable!("it is wrong")
    }
}

/// A graph whose second operator writes `past` words past the end of its output.
fn overrunning(kernel: &'static KernelDef, past: u32) -> DecodedGraph {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[16]);
    let [middle, y] = [0, 1].map(|_| builder.tensor(DataType::Float32, &[16]));
    builder.call("aten.sigmoid.default", &[x, middle]);
    builder.call("aten.sigmoid.default", &[middle, y]);
    builder.output(y);
    let mut graph = builder.decode().unwrap();
    let node = &mut graph.nodes[1];
    (node.def, node.name) = (&DEF, "test.overrun");
    node.op = Box::new(Overrun { input: TensorId(middle.0), out: TensorId(y.0), past, kernel });
    graph
}

fn gpu(guard_bytes: bool) -> Gpu {
    let adapter = std::env::var("PTERON_ADAPTER").ok();
    block_on(Gpu::open(&GpuOptions { adapter, guard_bytes: Some(guard_bytes), ..GpuOptions::default() })).unwrap()
}

fn load(gpu: &Gpu, graph: DecodedGraph) -> LoadedGraph {
    let options = LoadOptions { max_in_flight: 1, ..LoadOptions::default() };
    block_on(LoadedGraph::load(gpu, graph, &|_| None, &options)).unwrap()
}

fn ones() -> [Input<'static>; 1] {
    [TensorData::f32(dims(&[16]), &[1.0; 16]).into()]
}

#[test]
fn write_past_a_buffer_is_detected() {
    let gpu = gpu(true);
    for past in [0, 1, 100, 255] {
        let graph = load(&gpu, overrunning(&UNCHECKED, past));
        let mut state = graph.new_state().unwrap();
        // Guards are restored afterwards, so the second call reports the same as the first.
        for call in 0..2 {
            let Err(Error::GuardBytes { buffer, place, operators }) = block_on(graph.call(&mut state, &ones())) else {
                panic!("call {call}: nothing was found {past} words past the end");
            };
            assert_eq!((buffer.as_str(), operators.as_str()), ("output 0", "test.overrun (call 1)"));
            assert_eq!(place, format!("{} bytes after its end", 4 * past));
        }
        let started = graph.start(&mut state, &ones(), 0).unwrap();
        assert!(matches!(block_on(started.wait()), Err(Error::GuardBytes { .. })), "in a call that was started");
    }
}

/// Tests of reach functions bind no more than the declared reach: software adapters drop further accesses, which shows in
/// the output.
#[test]
fn write_past_the_reach_is_dropped_when_the_binding_ends_there() {
    let gpu = gpu(true);
    if !gpu.adapter().software {
        return skip("need not clamp accesses to the bound range");
    }
    for (gpu, found) in [(gpu.clone(), true), (gpu.binding_reach(), false)] {
        let graph = load(&gpu, overrunning(&UNCHECKED, 0));
        let outputs = block_on(graph.call(&mut graph.new_state().unwrap(), &ones()));
        assert_eq!(matches!(outputs, Err(Error::GuardBytes { .. })), found);
    }
}

#[test]
fn bounds_checked_kernels_cannot_reach_guards() {
    let gpu = gpu(true);
    for past in [0, 1, 255] {
        let graph = load(&gpu, overrunning(&CHECKED, past));
        let outputs = block_on(graph.call(&mut graph.new_state().unwrap(), &ones())).unwrap();
        assert_eq!(outputs[0].bytes.len(), 64);
    }
}

#[test]
fn guards_are_counted_and_free_when_off() {
    let graph = |past| overrunning(&CHECKED, past);
    let [with, without] = [true, false].map(|guards| {
        let gpu = gpu(guards);
        assert_eq!(gpu.has_guard_bytes(), guards);
        let loaded = load(&gpu, graph(0));
        let outputs = block_on(loaded.call(&mut loaded.new_state().unwrap(), &ones())).unwrap();
        (outputs, gpu.counts(), loaded.memory_bytes(), gpu.guard_checks())
    });
    assert_eq!((&with.0, with.1, with.2), (&without.0, without.1, without.2), "guards change no output and no figure");
    // The input, the memory object between the operators, the output and the step block.
    assert_eq!((with.3, without.3), (4, 0));
}
