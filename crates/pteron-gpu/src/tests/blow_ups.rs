//! Graphs that are expensive by design: the cost of decoding, fusing and planning is bounded by the size of the file, or the
//! graph is rejected.

use std::time::{Duration, Instant};

use crate::budget::{GraphSize, Resource};
use crate::error::{Error, Result};
use crate::fuse::Fusions;
use crate::graph::{DecodedGraph, Role};
use crate::ir::{DataType, Value, ValueId};
use crate::memory::Memory;
use crate::plan::Caps;
use crate::resize::Planned;
use crate::shape::Dims;
use crate::testing::{GraphBuilder, noise, noise_bytes};

/// Quadratic algorithms would take minutes; linear ones take a second or two, even unoptimised and on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

struct Loaded {
    graph: DecodedGraph,
    planned: Planned,
    memory: Memory,
}

/// Everything that happens before a device is used.
fn load(builder: &GraphBuilder) -> Result<Loaded> {
    let begin = Instant::now();
    let load = || {
        // Most results here have no reader.
        let fusions = Fusions { dead_calls: false, ..Fusions::ALL };
        let graph = DecodedGraph::decode_with(builder.graph.clone(), &fusions)?;
        let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
        let planned = Planned::at_bounds(&graph, &bounds, Caps::PORTABLE)?;
        let memory = Memory::plan(&graph, &planned)?;
        assert_eq!(crate::constant_reads::constant_bytes_per_row(&graph) % 4, 0);
        Ok(Loaded { graph, planned, memory })
    };
    let loaded = load();
    let (taken, items) = (begin.elapsed(), GraphSize::of(&builder.graph).items);
    println!("{items} items in {:.2} s", taken.as_secs_f64());
    assert!(taken < LIMIT, "{items} items took {taken:?}");
    loaded
}

/// An input of four numbers and many tensors of the same shape.
struct Many {
    builder: GraphBuilder,
    x: ValueId,
}

impl Many {
    fn new() -> Self {
        let mut builder = GraphBuilder::new();
        let x = builder.input(DataType::Float32, &[4]);
        Self { builder, x }
    }

    fn tensor(&mut self) -> ValueId {
        self.builder.tensor(DataType::Float32, &[4])
    }

    fn unary(&mut self, x: ValueId) -> ValueId {
        let out = self.tensor();
        self.builder.call("aten.neg.default", &[x, out]);
        out
    }

    /// Concatenates the tensors of a list.
    fn join(&mut self, list: ValueId, count: u32, dtype: DataType) {
        let (zero, out) = (self.builder.int(0), self.builder.tensor(dtype, &[4 * count]));
        self.builder.call("aten.cat.default", &[list, zero, out]);
    }
}

fn is_refused(loaded: Result<Loaded>) {
    match loaded.map(|_| ()) {
        Err(Error::Budget { resource: Resource::Bytes, limit, items }) => assert!(limit < items * 600 + (8 << 20)),
        Err(Error::Budget { resource: Resource::Steps, limit, items }) => assert!(limit < items * 600 + (2 << 20)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn shared_list_is_charged_to_every_call() {
    let count = 20_000;
    let mut many = Many::new();
    let list = many.builder.value(Value::ValueList(vec![many.x; count as usize]));
    for _ in 0..1_000 {
        many.join(list, count, DataType::Float32);
    }
    is_refused(load(&many.builder));
    // With a separate list per call, the file is larger.
    let mut many = Many::new();
    for _ in 0..100 {
        let list = many.builder.value(Value::ValueList(vec![many.x; 100]));
        many.join(list, 100, DataType::Float32);
    }
    assert_eq!(load(&many.builder).unwrap().graph.nodes.len(), 100);
}

#[test]
fn shared_list_of_casts_is_charged_before_casting() {
    let count = 20_000;
    let mut many = Many::new();
    let list = many.builder.value(Value::ValueList(vec![many.x; count as usize]));
    for _ in 0..4_000 {
        many.join(list, count, DataType::Int32);
    }
    is_refused(load(&many.builder));
}

/// Constants that are prepacked and written again, one call per constant.
fn rewritten(count: u32) -> Many {
    let mut many = Many::new();
    let constant = many.builder.floats(&[4], &noise(1, 4));
    let buffers: Vec<ValueId> = (0..count).map(|_| many.tensor()).collect();
    for &buffer in &buffers {
        many.builder.call("et_vk.prepack.default", &[constant, buffer]);
    }
    let x = many.x;
    for &buffer in &buffers {
        let (one, sum) = (many.builder.int(1), many.tensor());
        many.builder.call("aten.add.Tensor", &[buffer, x, one, sum]);
        many.builder.call("et_vk.prepack.default", &[sum, buffer]);
    }
    many
}

#[test]
fn many_rewritten_buffers_take_linear_work() {
    let work = |count| {
        let many = rewritten(count);
        let mut budget = GraphSize::of(&many.builder.graph).budget();
        crate::rewrite::rewrite(many.builder.graph, &mut budget).unwrap();
        budget.used()
    };
    let ((few_bytes, few_steps), (many_bytes, many_steps)) = (work(100), work(10_000));
    assert!(many_steps <= 100 * few_steps && many_bytes <= 100 * few_bytes, "{few_steps} and {many_steps} steps");
    let loaded = load(&rewritten(10_000).builder).unwrap();
    assert_eq!(loaded.memory.states.len(), 10_000);
    assert_eq!(loaded.graph.roles.iter().filter(|role| matches!(role, Role::State(_))).count(), 10_000);
}

#[test]
fn buffer_rewritten_many_times_in_shared_lists_is_bounded() {
    let mut many = Many::new();
    let (constant, buffer) = (many.builder.floats(&[4], &noise(1, 4)), many.tensor());
    many.builder.call("et_vk.prepack.default", &[constant, buffer]);
    let list = many.builder.value(Value::ValueList(vec![buffer; 20_000]));
    for _ in 0..4_000 {
        many.builder.call("et_vk.prepack.default", &[many.x, buffer]);
        many.join(list, 20_000, DataType::Float32);
    }
    is_refused(load(&many.builder));
}

#[test]
fn many_simultaneously_live_tensors_are_bounded() {
    let mut many = Many::new();
    let x = many.x;
    let all: Vec<ValueId> = (0..20_000).map(|_| many.unary(x)).collect();
    for pair in all.chunks_exact(2) {
        let (one, sum) = (many.builder.int(1), many.tensor());
        many.builder.call("aten.add.Tensor", &[pair[0], pair[1], one, sum]);
    }
    let memory = load(&many.builder).unwrap().memory;
    assert!(memory.objects.len() >= 20_000 && memory.objects.len() <= 30_000, "{}", memory.objects.len());
}

#[test]
fn many_outputs_and_deep_alias_chains_are_bounded() {
    let mut many = Many::new();
    let x = many.x;
    for _ in 0..20_000 {
        let out = many.unary(x);
        many.builder.output(out);
    }
    let mut last = many.unary(x);
    let sizes = many.builder.value(Value::IntList(vec![4]));
    for _ in 0..20_000 {
        let out = many.tensor();
        many.builder.call("aten.view_copy.default", &[last, sizes, out]);
        last = out;
    }
    // Many sums that all read the end of the chain.
    for _ in 0..20_000 {
        let (one, sum) = (many.builder.int(1), many.tensor());
        many.builder.call("aten.add.Tensor", &[last, x, one, sum]);
    }
    let memory = load(&many.builder).unwrap().memory;
    assert_eq!(memory.aliased.iter().filter(|aliased| **aliased).count(), 20_000);
}

#[test]
fn many_inputs_are_bounded() {
    let mut builder = GraphBuilder::new();
    for _ in 0..20_000 {
        let (x, zero, index) = (builder.input(DataType::Int32, &[1]), builder.int(0), builder.value(Value::SymInt));
        builder.call("et_vk.select_as_symint.default", &[x, zero, zero, index]);
    }
    assert_eq!(load(&builder).unwrap().graph.inputs.len(), 20_000);
}

#[test]
fn value_read_by_many_gates_is_bounded() {
    let mut many = Many::new();
    let (x, gate) = (many.x, many.tensor());
    many.builder.call("aten.neg.default", &[x, gate]);
    for _ in 0..10_000 {
        let (sigmoid, silu, out) = (many.tensor(), many.tensor(), many.tensor());
        many.builder.call("aten.sigmoid.default", &[gate, sigmoid]);
        many.builder.call("aten.mul.Tensor", &[gate, sigmoid, silu]);
        many.builder.call("aten.mul.Tensor", &[silu, x, out]);
    }
    assert_eq!(load(&many.builder).unwrap().graph.nodes.len(), 30_001);
}

/// Linears with one input that could be merged if their group sizes did not alternate.
#[test]
fn many_linears_with_one_input_are_bounded() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[1, 2, 64]);
    let weight = builder.constant(DataType::UInt8, &[6, 32], noise_bytes(1, 192));
    let scales = builder.floats(&[2, 6], &noise(2, 12));
    let (group, none) = (builder.int(32), builder.value(Value::Null));
    for _ in 0..8_000 {
        let out = builder.tensor(DataType::Float32, &[1, 2, 6]);
        builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, none, out]);
    }
    // With six columns no linear can be merged, which is found by trying.
    assert_eq!(load(&builder).unwrap().graph.nodes.len(), 8_000);
}

/// The resources of real programs as a share of their budget: decoding and planning, bytes and steps.
#[test]
fn exported_programs_use_little_of_their_budgets() {
    let mut most = [0.0f64; 4];
    for fixture in super::operators::fixture_graphs() {
        let Ok(Loaded { graph, planned, .. }) = load(&fixture.builder) else { continue };
        let (mut decoding, mut planning) = (graph.size().budget(), graph.size().plan_budget());
        decoding.memory::<crate::graph::Node>(graph.nodes.len()).unwrap();
        for call in &graph.source.calls {
            crate::graph::charge_call(&graph.source, call, &mut decoding).unwrap();
        }
        for recipes in planned.recipes() {
            crate::resize::charge(&mut planning, recipes).unwrap();
        }
        let share = |(used, limit): (u64, u64), free: u64| used as f64 / (limit - free) as f64;
        let shares = [decoding, planning].map(|budget| {
            let ((bytes, steps), (most_bytes, most_steps)) = (budget.used(), budget.limits());
            [share((bytes, most_bytes), 4 << 20), share((steps, most_steps), 1 << 20)]
        });
        for (most, share) in most.iter_mut().zip(shares.concat()) {
            *most = most.max(share);
        }
    }
    println!("shares of decoding and planning: {most:.4?}");
    assert!(most.iter().all(|share| *share < 0.25), "{most:?}");
}
