//! Kernels without bounds checks stay within their buffers, whatever a file contains: every plan is checked against them,
//! and one that would reach further is rejected.

mod graphs;

use super::random::Random;
use crate::engine::LoadOptions;
use crate::error::{Error, OpError};
use crate::fuse::Fusions;
use crate::graph::{DecodedGraph, Role};
use crate::ir::{ConstantSource, DataType, Value, ValueId};
use crate::kernel::reach::{Reached, count};
use crate::kernel::{KernelDef, Variant};
use crate::live::TensorId;
use crate::memory::{Memory, Place, joined, padded};
use crate::ops::OpDef;
use crate::params;
use crate::plan::{Bind, BoundsCx, Caps, Dispatch, MatrixSide, Op, Plan, PlanCx, Recipe, Recipes};
use crate::reference::{HostTensor, HostTensors};
use crate::resize::{LiveInput, Planned};
use crate::shape::Dims;
use crate::testing::{GraphBuilder, dims, f32s, i32s, noise, run, serial_gpu, with_and_without_subgroups};
use graphs::{Valid, any};

const SUBGROUPS: Caps = Caps { subgroups: true, subgroup_size: (32, 32), ..Caps::PORTABLE };

/// Devices that select different kernels.
fn devices() -> Vec<Caps> {
    let of = |lanes| Caps { subgroup_size: (lanes, lanes), ..SUBGROUPS };
    let coop_matrix = Caps { cooperative_matrix: true, f16: true, workgroup_memory: 48 * 1024, ..SUBGROUPS };
    let software = Caps { software: true, ..of(8) };
    let filled = |fill_percent| Caps { fill_percent, ..SUBGROUPS };
    let matrices = |matrix_side, matrix_subgroup_size| Caps { matrix_side, matrix_subgroup_size, ..coop_matrix };
    let others = [matrices(MatrixSide::Eight, (32, 32)), matrices(MatrixSide::Sixteen, (32, 64))];
    let usual = [Caps::PORTABLE, of(4), of(8), of(16), of(32), of(64), coop_matrix, software, filled(25), filled(400)];
    let varying = [(8, 32), (32, 64)].map(|subgroup_size| Caps { subgroup_size, ..SUBGROUPS });
    usual.into_iter().chain(others).chain(varying).collect()
}

/// The bytes of a binding's buffer, from the memory plan of the engine.
fn allocated(graph: &DecodedGraph, planned: &Planned, memory: &Memory, node: usize, bind: Bind) -> u64 {
    let bytes = |tensor: TensorId| graph.info(tensor).elem.bytes(planned.bounds()[tensor.index()].count());
    let of_constant = |constant: u32| {
        let first = |id: &usize| matches!(graph.roles[*id], Role::Constant(other) if graph.first_equal(other) == graph.first_equal(constant));
        let id = (0..graph.roles.len()).find(first).unwrap();
        bytes(TensorId(u32::try_from(id).unwrap()))
    };
    let place = match bind {
        Bind::Tensor(tensor) => memory.tensors[tensor.index()].unwrap(),
        Bind::Scratch(index) => memory.scratch[node][index],
        Bind::Joined(index) => memory.joined[node][index],
        Bind::Step => return padded(4 * planned.recipes().iter().map(|recipes| recipes.step_words as u64).sum::<u64>()),
    };
    padded(match place {
        Place::Constant(constant) => of_constant(constant),
        Place::Joined(index) => joined(memory.joins[index].parts.iter().map(|part| part.bytes(bytes(part.tensor)))).1,
        Place::State(index) => bytes(memory.states[index]),
        Place::Input(index) => bytes(graph.inputs[index]),
        Place::Output(index) => bytes(graph.outputs[index]),
        Place::Object(index) => memory.objects[index],
    })
}

/// Compares the reach of every dispatch of the current plans with memory. Returns the number of unchecked dispatches.
fn assert_within(graph: &DecodedGraph, planned: &Planned) -> usize {
    let memory = Memory::plan(graph, planned).unwrap();
    let mut unchecked = 0;
    for (node, plan) in planned.plans().iter().enumerate().filter(|&(node, _)| !memory.aliased[node]) {
        let recipes = &planned.recipes()[node];
        let mut written: Vec<(TensorId, u64)> = Vec::new();
        for step in &plan.steps {
            let recipe = &recipes.list[step.recipe];
            if recipe.variant.kernel.is_checked() {
                continue;
            }
            let reached = planned.reached(node, plan, step).unwrap();
            assert_eq!(reached.bindings(), recipe.binds.len(), "{}", recipe.variant.label);
            for (&bind, &bytes) in recipe.binds.iter().zip(reached.bytes()) {
                let length = allocated(graph, planned, &memory, node, bind);
                assert!(bytes <= length, "{} reaches {bytes} of {length} bytes of {bind:?}", recipe.variant.label);
                if let Bind::Tensor(tensor) = bind {
                    written.push((tensor, bytes));
                }
            }
            unchecked += 1;
        }
        // An unchecked kernel writes its output up to the last element, so its reach is at least that.
        let all = plan.steps.iter().all(|step| !recipes.list[step.recipe].variant.kernel.is_checked());
        for &(out, dims) in plan.outputs.iter().filter(|(_, dims)| all && !plan.steps.is_empty() && dims.count() > 0) {
            let reached = written.iter().filter(|(tensor, _)| *tensor == out).map(|(_, bytes)| *bytes).max();
            let live = graph.info(out).elem.bytes(dims.count());
            assert!(reached >= Some(live), "{}: {out} has {live} bytes, reached are {reached:?}", graph.nodes[node].name);
        }
    }
    unchecked
}

fn plan(
    builder: &GraphBuilder,
    fusions: &Fusions,
    caps: Caps,
    bounds: &[Option<Dims>],
) -> crate::Result<(DecodedGraph, Planned)> {
    let graph = DecodedGraph::decode_with(builder.graph.clone(), fusions)?;
    let own = |(index, input): (usize, &TensorId)| bounds.get(index).copied().flatten().unwrap_or(graph.info(*input).bound);
    let bounds: Vec<Dims> = graph.inputs.iter().enumerate().map(own).collect();
    let planned = Planned::at_bounds(&graph, &bounds, caps)?;
    Ok((graph, planned))
}

fn call(graph: &DecodedGraph, planned: &mut Planned, inputs: &[(Vec<u32>, Vec<i32>)]) -> crate::Result<()> {
    let live: Vec<LiveInput<'_>> =
        inputs.iter().map(|(shape, values)| LiveInput { dims: dims(shape), values: Some(values) }).collect();
    let change = planned.resize(graph, &live)?;
    planned.commit(change);
    Ok(())
}

#[test]
fn plans_of_every_live_shape_stay_within_their_buffers() {
    let mut unchecked = 0;
    for seed in 0..60 {
        let valid = any(&mut Random::new(seed));
        for (caps, fusions) in devices().into_iter().flat_map(|caps| [(caps, Fusions::NONE), (caps, Fusions::ALL)]) {
            let (graph, mut planned) = plan(&valid.builder, &fusions, caps, &[]).unwrap();
            unchecked += assert_within(&graph, &planned);
            for inputs in &valid.calls {
                call(&graph, &mut planned, inputs).unwrap_or_else(|error| panic!("seed {seed}, {inputs:?}: {error}"));
                unchecked += assert_within(&graph, &planned);
            }
        }
    }
    assert!(unchecked > 5000, "{unchecked} dispatches of unchecked kernels");
}

/// A device that binds no more than the declared reach gives the same outputs as one that binds everything. If a kernel
/// touched more, software adapters would read zeros and drop writes.
#[test]
fn kernels_touch_no_more_than_their_reach() {
    let [best, portable] = with_and_without_subgroups();
    let devices = [best, portable, serial_gpu()].map(|gpu| (gpu.binding_reach(), gpu));
    for seed in 0..15 {
        let valid = any(&mut Random::new(seed));
        let (exact, gpu) = &devices[usize::try_from(seed % 3).unwrap()];
        let fusions = [Fusions::NONE, Fusions::ALL][usize::from(seed % 2 == 0)];
        let [mut graph, mut tight] = [gpu, exact].map(|gpu| {
            let graph = valid.builder.load_fused(gpu, &fusions, &LoadOptions::default()).unwrap();
            let state = graph.new_state().unwrap();
            (graph, state)
        });
        for (call, inputs) in valid.calls.iter().enumerate() {
            let inputs: Vec<HostTensor> = (0..).zip(inputs).map(|(at, input)| filled(at, input)).collect();
            let [want, got] = [&mut graph, &mut tight].map(|(graph, state)| run(graph, state, &inputs).unwrap());
            assert_eq!(got, want, "seed {seed}, call {call}");
        }
    }
}

/// Values for an input of these dims; integers are given.
fn filled(seed: u64, (shape, values): &(Vec<u32>, Vec<i32>)) -> HostTensor {
    match values.as_slice() {
        [] => f32s(shape, noise(seed, shape.iter().product::<u32>() as usize)),
        values => i32s(shape, values.to_vec()),
    }
}

/// Damages a graph: dims, numbers, and its list of inputs.
fn damage(builder: &mut GraphBuilder, random: &mut Random) {
    let values = &mut builder.graph.values;
    let at = random.below(u32::try_from(values.len()).unwrap()) as usize;
    let sizes = [0, 1, 2, 3, 4, 7, 31, 64, 300, 65_536, 1 << 30, u32::MAX];
    match &mut values[at] {
        Value::Tensor(tensor) => match random.below(6) {
            0 => {
                tensor.dims.pop();
            }
            1 => tensor.dims.push(random.of(&sizes)),
            2 => builder.graph.inputs.push(ValueId(u32::try_from(at).unwrap())),
            3 => tensor.constant = None,
            _ => {
                if let Some(dim) = tensor.dims.last_mut() {
                    *dim = random.of(&sizes);
                }
            }
        },
        Value::Int(value) => *value = random.of(&[0, -1, 1, 3, 32, 64, i64::from(u32::MAX), i64::MAX, i64::MIN]),
        Value::Double(_) | Value::Null | Value::Bool(_) => {
            let rows = builder.graph.inputs.len();
            if let Some(Value::Tensor(tensor)) =
                builder.graph.values.get_mut(random.below(u32::try_from(rows + 1).unwrap()) as usize)
                && let Some(dim) = tensor.dims.first_mut()
            {
                *dim = random.of(&sizes);
            }
        }
        _ => {}
    }
}

/// Some of the dims, made smaller.
fn smaller(dims: &[u32], random: &mut Random) -> Option<Dims> {
    let mut less = |dim: u32| if random.below(4) == 0 { random.below(dim.clamp(1, 100) + 1) } else { dim };
    Dims::new(&dims.iter().map(|&dim| less(dim)).collect::<Vec<_>>())
}

#[test]
fn hostile_graphs_are_rejected_or_stay_within_their_buffers() {
    let (mut refused, mut planned_ones, mut called) = (0, 0, 0);
    for seed in 0..3000u64 {
        let mut random = Random::new(seed);
        let Valid { mut builder, calls } = any(&mut random);
        for _ in 0..=random.below(3) {
            damage(&mut builder, &mut random);
        }
        let caps = random.of(&devices());
        let fusions = random.of(&[Fusions::NONE, Fusions::ALL]);
        // Some inputs have smaller bounds than the file's dims, as a caller may request.
        let tensors = builder.graph.inputs.iter().map(|id| builder.graph.value(*id).and_then(Value::as_tensor));
        let bounds: Vec<Option<Dims>> = tensors.map(|tensor| smaller(&tensor?.dims, &mut random)).collect();
        let bounds = if seed % 3 == 0 { bounds } else { Vec::new() };
        let Ok((graph, mut planned)) = plan(&builder, &fusions, caps, &bounds) else {
            refused += 1;
            continue;
        };
        planned_ones += 1;
        assert_within(&graph, &planned);
        for inputs in &calls {
            let mut inputs = inputs.clone();
            inputs.resize(graph.inputs.len(), (vec![random.below(9)], vec![0]));
            if let Some((shape, values)) = inputs.get_mut(random.below(u32::try_from(graph.inputs.len()).unwrap()) as usize)
            {
                if let Some(dim) = shape.first_mut() {
                    *dim = random.of(&[0, 1, *dim, 17]);
                }
                values.iter_mut().for_each(|value| *value = random.of(&[0, 1, -1, i32::MAX, *value + 1]));
            }
            called += usize::from(call(&graph, &mut planned, &inputs).is_ok());
            assert_within(&graph, &planned);
        }
    }
    assert!(
        refused > 300 && planned_ones > 200 && called > 200,
        "{refused} refused, {planned_ones} planned, {called} called"
    );
}

/// Weights that are both a constant of the file and an input of the graph would be as long as the call's input.
#[test]
fn constants_that_are_inputs_are_rejected() {
    let mut builder = GraphBuilder::new();
    let x = builder.input(DataType::Float32, &[4, 64]);
    let weight = builder.constant(DataType::UInt8, &[256, 32], vec![0; 256 * 32]);
    let scales = builder.floats(&[2, 256], &[1.0; 512]);
    let (group, bias) = (builder.int(32), builder.value(Value::Null));
    let out = builder.tensor(DataType::Float32, &[4, 256]);
    builder.call("et_vk.linear_q4gsw.default", &[x, weight, scales, group, bias, out]);
    builder.graph.inputs.extend([weight, scales]);
    builder.output(out);
    let bounds = [None, Some(dims(&[1, 32])), Some(dims(&[2, 1]))];
    for caps in devices() {
        let error = plan(&builder, &Fusions::ALL, caps, &bounds).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Input { index: 1, .. }), "{error}");
    }
}

/// Two constants with one key but different lengths share a buffer, which is as long as one of them.
#[test]
fn constants_of_one_key_share_the_shortest_length() {
    for order in [[64, 4], [4, 64]] {
        let mut builder = GraphBuilder::new();
        let tables = order.map(|length| builder.floats(&[length], &vec![1.0; length as usize]));
        builder.graph.constants.iter_mut().for_each(|constant| constant.source = ConstantSource::Named("same".to_owned()));
        let one = builder.int(1);
        for (table, length) in tables.into_iter().zip(order) {
            let x = builder.input(DataType::Float32, &[length]);
            let out = builder.tensor(DataType::Float32, &[length]);
            builder.call("aten.add.Tensor", &[x, table, one, out]);
            builder.output(out);
        }
        if let Ok((graph, planned)) = plan(&builder, &Fusions::NONE, Caps::PORTABLE, &[]) {
            assert_within(&graph, &planned);
        }
    }
}

params! {
    struct Params {
        words: u32,
    }
}

static CLAIM: KernelDef = KernelDef::new("claim", "", Params::FIELDS).proven(|call| {
    let words = count(call.params::<Params>()?.words);
    Some(Reached::new().array(words, 4).array(words, 4))
});
static DEF: OpDef = OpDef { names: &["test.claim"], internal: &[], kernels: &[&CLAIM], decode: |_| unreachable!() };

/// An operator whose plans claim any number of words.
#[derive(Debug)]
struct Claim {
    input: TensorId,
    out: TensorId,
    words: u32,
    params: usize,
}

impl Op for Claim {
    fn recipes(&self, _: &BoundsCx<'_>) -> Result<Recipes, OpError> {
        Ok(Recipes::of([Recipe::new(Variant::new(&CLAIM), [self.input.into(), self.out.into()])]))
    }

    fn plan(&self, cx: &PlanCx<'_>) -> Result<Plan, OpError> {
        let mut step = Dispatch::groups(0, &Params { words: self.words }, 1)?;
        step.iter_mut().for_each(|step| step.params.truncate(self.params));
        Ok(Plan::new(self.out, cx.dims(self.input), step))
    }

    fn reference(&self, _: &PlanCx<'_>, _: &mut HostTensors) -> Result<(), OpError> {
        unreachable!("it computes nothing")
    }
}

#[test]
fn plan_that_reaches_past_a_buffer_is_rejected() {
    let claim = |words, params| {
        let mut builder = GraphBuilder::new();
        let (x, y) = (builder.input(DataType::Float32, &[8]), builder.tensor(DataType::Float32, &[8]));
        builder.call("aten.sigmoid.default", &[x, y]);
        builder.output(y);
        let mut graph = builder.decode().unwrap();
        graph.nodes[0].def = &DEF;
        graph.nodes[0].op = Box::new(Claim { input: TensorId(x.0), out: TensorId(y.0), words, params });
        Planned::at_bounds(&graph, &[dims(&[8])], Caps::PORTABLE).map(|_| ())
    };
    assert!(claim(8, 4).is_ok());
    for words in [9, 1 << 20, u32::MAX] {
        let Err(Error::OutOfBounds { kernel, binding, reach, length, .. }) = claim(words, 4) else {
            panic!("{words} words were taken");
        };
        assert_eq!((kernel, binding, reach, length), ("claim", 1, 4 * u64::from(words), 32));
    }
    // Parameters that cannot be parsed have an unknown reach.
    assert!(matches!(claim(8, 2), Err(Error::OutOfBounds { binding: 0, reach: u64::MAX, .. })));
}

/// The shaders compare the index of a vector before they multiply it: near 2³² elements `i * 4u` would wrap in the surplus
/// workgroups of a folded grid.
#[test]
fn surplus_workgroups_of_large_byte_tensors_do_nothing() {
    let mut builder = GraphBuilder::new();
    let shape = [4, (1 << 30) - 1];
    let (x, y) = (builder.input(DataType::Bool, &shape), builder.tensor(DataType::Bool, &shape));
    builder.call("aten.logical_not.default", &[x, y]);
    builder.output(y);
    let (_, planned) = plan(&builder, &Fusions::NONE, Caps::PORTABLE, &[]).unwrap();
    let step = &planned.plans()[0].steps[0];
    let (count, groups) = (u32::MAX - 3, u32::try_from(step.grid.groups()).unwrap());
    let last = groups * 256 - 1;
    assert!(last > count.div_ceil(4) && last.wrapping_mul(4) < count, "the multiplied place would pass");
    assert!(last > (count - 1) / 4, "the compared one does not");
    let names = ["aten.neg.default", "aten.add.Tensor", "aten.where.self"];
    for kernel in names.map(|name| crate::ops::find(name).unwrap().kernels[0]) {
        let source = Variant::every(kernel)[0].source(crate::kernel::Target::Native);
        assert!(source.contains("if i > (params.count - 1u) / 4u {"), "{}", kernel.name);
    }
}
