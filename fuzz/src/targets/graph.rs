//! Graphs from decoding to memory.

pub mod memory;

use pteron_format::fuzzing::verify_graph;
use pteron_format::vulkan;
use pteron_gpu::fuse::Fusions;
use pteron_gpu::graph::{DecodedGraph, Elem};
use pteron_gpu::live::{Scalar, ScalarId, TensorId};
use pteron_gpu::memory::Memory;
use pteron_gpu::ops::find_in_files;
use pteron_gpu::plan::Caps;
use pteron_gpu::resize::{LiveInput, Planned};
use pteron_gpu::shape::Dims;

use crate::generate::cursor::Cursor;
use crate::generate::graph::builder::{CACHE_ROWS, Dim, MOST};
use crate::generate::graph::{self, GraphBuilder, MOST_CALLS, builder};
use crate::oracle::{allocations, error_text};
use crate::seeds;
use crate::target::{Outcome, Target};
use memory::{check_memory, check_plans};

/// Heap bytes per byte of a graph's encoding.
const HEAP_FACTOR: u64 = 64;
/// Heap bytes beyond that.
const HEAP_SLACK: u64 = 1 << 20;
/// Heap bytes per dispatch of the plans at the bounds: the target holds up to four plans at a time, two of each graph.
const HEAP_PER_DISPATCH: u64 = 4 * 256;
/// Allocations per byte of a graph's encoding.
const WORK_FACTOR: u64 = 16;
/// Allocations beyond that.
const WORK_SLACK: u64 = 1 << 16;
/// Inputs of integers up to this long come with their values.
const MOST_VALUES: u64 = 256;

const SUBGROUPS: Caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };

/// Devices that plans are made for.
const DEVICES: [Caps; 8] = [
    Caps::PORTABLE,
    Caps { subgroup_size: (4, 4), int8_dot: true, ..SUBGROUPS },
    Caps { subgroup_size: (8, 8), f16: true, ..SUBGROUPS },
    Caps { f16: true, int8_dot: true, rounded_factors: true, ..SUBGROUPS },
    Caps { cooperative_matrix: true, f16: true, workgroup_memory: 64 * 1024, max_binding: u32::MAX as u64, ..SUBGROUPS },
    Caps { subgroup_size: (16, 32), fill_percent: 400, ..SUBGROUPS },
    Caps { software: true, ..SUBGROUPS },
    Caps { software: true, fill_percent: 1, max_binding: 1 << 16, ..Caps::PORTABLE },
];

/// The target.
pub const TARGET: Target = Target {
    name: "graph",
    attacks: "pteron-gpu: decoding, fusing, planning, resizing, memory",
    run,
    seeds: seeds::entropy,
    max_len: 1024,
    ..Target::DEFAULT
};

/// Makes a graph of bytes and takes it from decoding to memory, at several shapes.
///
/// # Panics
/// If a property does not hold.
pub fn run(bytes: &[u8]) -> Outcome {
    let mut cursor = Cursor::new(bytes);
    let builder = made(&mut cursor);
    if verify_graph(&builder.graph, u64::MAX).is_err() {
        return "refused by the reader";
    }
    let said = said(&builder.graph);
    let (mut outcome, mut dispatches) = ("", 0);
    let used = allocations(|| outcome = planned_at_shapes(&builder, &mut cursor, &mut dispatches));
    let heap = HEAP_SLACK + HEAP_FACTOR * said + HEAP_PER_DISPATCH * dispatches;
    let work = WORK_SLACK + WORK_FACTOR * said;
    assert!(
        used.bytes_max <= heap,
        "{} bytes on the heap for a graph of {said} and {dispatches} dispatches",
        used.bytes_max
    );
    assert!(used.count_total <= work, "{} allocations for a graph of {said}", used.count_total);
    outcome
}

fn made(cursor: &mut Cursor<'_>) -> GraphBuilder {
    let hostile = !cursor.one_in(4);
    builder(cursor, hostile, MOST_CALLS)
}

/// The graph of an input as text.
#[must_use]
pub fn describe(bytes: &[u8]) -> String {
    graph::describe(&made(&mut Cursor::new(bytes)).graph)
}

/// Returns the least number of bytes that encode a graph.
fn said(graph: &vulkan::Graph) -> u64 {
    let value = |value: &vulkan::Value| match value {
        vulkan::Value::Tensor(tensor) => 16 + 4 * tensor.dims.len(),
        vulkan::Value::IntList(items) => 8 * items.len(),
        vulkan::Value::ValueList(items) => 4 * items.len(),
        _ => 8,
    };
    let calls = graph.chain.iter().map(|call| 8 + 4 * call.args.len());
    graph.values.iter().map(value).chain(calls).sum::<usize>() as u64
}

/// A set of fusions.
fn fusions(cursor: &mut Cursor<'_>) -> Fusions {
    if cursor.flip() {
        return Fusions::ALL;
    }
    let [pack_linears, merge_linears, swiglu, residual, norm, last_row, rotary] = [(); 7].map(|()| cursor.flip());
    let [dead_calls, recognise, permutes, channels_last, convolution] = [(); 5].map(|()| cursor.flip());
    let largest_binding = cursor.of(&[u64::MAX, 1 << 27, 4096, 0]);
    Fusions {
        dead_calls,
        recognise,
        pack_linears,
        merge_linears,
        swiglu,
        residual,
        norm,
        last_row,
        rotary,
        permutes,
        channels_last,
        convolution,
        largest_binding,
    }
}

/// The inputs of one call.
struct CallInputs {
    dims: Vec<Dims>,
    values: Vec<Option<Vec<i32>>>,
}

impl CallInputs {
    /// Inputs at live dims: those of the builder where an input is unchanged, anything within bounds otherwise.
    fn new(graph: &DecodedGraph, builder: &GraphBuilder, cursor: &mut Cursor<'_>) -> Self {
        let live = MOST.map(|most| if cursor.one_in(8) { 0 } else { 1 + cursor.below(most as usize) as u32 });
        let position = cursor.below(CACHE_ROWS as usize) as i32;
        let mut inputs = Self { dims: Vec::new(), values: Vec::new() };
        for (index, &tensor) in graph.inputs.iter().enumerate() {
            let info = graph.info(tensor);
            let known = builder.inputs.get(index).filter(|input| input.dims.len() == info.bound.len());
            let wild = builder.hostile && cursor.one_in(12);
            let size = |axis: usize, bound: u32, cursor: &mut Cursor<'_>| match known.map(|known| known.dims[axis]) {
                _ if wild => cursor.edge_size().min(bound),
                Some(Dim::Live(at)) => live[at].min(bound),
                _ => bound,
            };
            let sizes: Vec<u32> = info.bound.iter().enumerate().map(|(axis, &bound)| size(axis, bound, cursor)).collect();
            let dims = Dims::new(&sizes).expect("as many as the bound has");
            let value = |cursor: &mut Cursor<'_>| match known.filter(|_| !wild) {
                Some(known) if known.position => position,
                _ if wild => cursor.integer() as i32,
                _ => cursor.below(8) as i32,
            };
            let known = info.elem == Elem::I32 && dims.count() <= MOST_VALUES;
            inputs.values.push(known.then(|| (0..dims.count()).map(|_| value(cursor)).collect()));
            inputs.dims.push(dims);
        }
        inputs
    }

    fn live(&self) -> Vec<LiveInput<'_>> {
        self.dims.iter().zip(&self.values).map(|(&dims, values)| LiveInput { dims, values: values.as_deref() }).collect()
    }

    /// Whether nothing is left of the integers of an earlier call.
    fn whole(&self, graph: &DecodedGraph) -> bool {
        graph.inputs.iter().zip(&self.values).all(|(&input, values)| graph.info(input).elem != Elem::I32 || values.is_some())
    }
}

fn bounds(graph: &DecodedGraph) -> Vec<Dims> {
    graph.inputs.iter().map(|&input| graph.info(input).bound).collect()
}

fn output_dims(graph: &DecodedGraph, planned: &Planned) -> Vec<Dims> {
    graph.outputs.iter().map(|&output| planned.live().dims(output)).collect()
}

/// Checks that an operator itself rejected the graph. The bounds check of unchecked kernels is the last line of defence: an error
/// from it is a bug, unless a later operator would reject the graph.
fn refused(error: &pteron_gpu::Error, later: bool) {
    error_text(error);
    assert!(later || !matches!(error, pteron_gpu::Error::OutOfBounds { .. }), "{error}");
}

fn planned_at_shapes(builder: &GraphBuilder, cursor: &mut Cursor<'_>, dispatches: &mut u64) -> Outcome {
    let fusions = fusions(cursor);
    // A call whose results nothing reads may refuse a live shape, so it is removed from both graphs or from neither.
    let plain = Fusions { dead_calls: fusions.dead_calls, ..Fusions::NONE };
    let graph = match builder.decode(&plain) {
        Ok(graph) => graph,
        Err(error) => {
            refused(&error, false);
            return "refused by decoding";
        }
    };
    let internal = builder.graph.chain.iter().find(|call| find_in_files(&call.name).is_none());
    assert!(internal.is_none(), "a file calls {internal:?}, which is no operator of files");
    let fused = builder.decode(&fusions);
    let fused = fused.unwrap_or_else(|error| panic!("refused once it is fused: {error}"));
    let caps = cursor.of(&DEVICES);
    let planned = match Planned::at_bounds(&graph, &bounds(&graph), caps) {
        Ok(planned) => planned,
        Err(error) => {
            refused(&error, builder.hostile);
            return "refused at its bounds";
        }
    };
    let both = Planned::at_bounds(&fused, &bounds(&fused), caps);
    let both = both.unwrap_or_else(|error| panic!("refused at its bounds once it is fused: {error}"));
    *dispatches = planned.plans().iter().map(|plan| plan.steps.len() as u64).sum();
    let (mut plain, mut both) = (Case::new(&graph, planned, caps), Case::new(&fused, both, caps));
    let first = CallInputs::new(&graph, builder, cursor);
    let second = CallInputs::new(&graph, builder, cursor);
    for inputs in [&first, &second, &first] {
        let (dims, fused_dims) = (plain.resize(inputs), both.resize(inputs));
        assert_eq!(dims, fused_dims, "dims of the outputs, fused and unfused");
    }
    "planned"
}

/// A graph at its current shape.
struct Case<'a> {
    graph: &'a DecodedGraph,
    planned: Planned,
    memory: Memory,
    caps: Caps,
}

impl<'a> Case<'a> {
    fn new(graph: &'a DecodedGraph, planned: Planned, caps: Caps) -> Self {
        let memory = Memory::plan(graph, &planned).unwrap_or_else(|error| panic!("no memory for a planned graph: {error}"));
        check_memory(graph, &planned, &memory);
        check_plans(graph, &planned, &memory);
        Self { graph, planned, memory, caps }
    }

    /// Brings the graph to a shape as a call does, and compares it with one that was never at another. `None` if it is refused.
    fn resize(&mut self, inputs: &CallInputs) -> Option<Vec<Dims>> {
        let change = match self.planned.resize(self.graph, &inputs.live()) {
            Ok(change) => change,
            Err(error) => {
                refused(&error, false);
                return None;
            }
        };
        self.planned.commit(change);
        check_plans(self.graph, &self.planned, &self.memory);
        if inputs.whole(self.graph) {
            let mut fresh = Planned::at_bounds(self.graph, &bounds(self.graph), self.caps).expect("planned before");
            let change = fresh.resize(self.graph, &inputs.live());
            let change = change.unwrap_or_else(|error| panic!("refused by a fresh graph only: {error}"));
            fresh.commit(change);
            assert!(fresh.plans() == self.planned.plans(), "resized and fresh plans differ");
            self.compare_live(&fresh);
            self.compare_tight(inputs);
        }
        Some(output_dims(self.graph, &self.planned))
    }

    /// Every tensor's dims and every symbolic integer are those of a fresh graph.
    fn compare_live(&self, fresh: &Planned) {
        for id in 0..self.graph.tensors.len() as u32 {
            let (tensor, scalar) = (TensorId(id), Scalar::Live(ScalarId(id)));
            assert_eq!(self.planned.live().dims(tensor), fresh.live().dims(tensor), "dims of {id}, resized and fresh");
            assert_eq!(self.planned.live().scalar(scalar), fresh.live().scalar(scalar), "scalar {id}, resized and fresh");
        }
    }

    /// A graph that was built for just this shape has outputs of the same dims.
    fn compare_tight(&self, inputs: &CallInputs) {
        let Ok(mut tight) = Planned::at_bounds(self.graph, &inputs.dims, self.caps) else { return };
        let Ok(change) = tight.resize(self.graph, &inputs.live()) else { return };
        tight.commit(change);
        let (wide, tight) = (output_dims(self.graph, &self.planned), output_dims(self.graph, &tight));
        assert_eq!(wide, tight, "dims of a graph that was built for them");
    }
}
