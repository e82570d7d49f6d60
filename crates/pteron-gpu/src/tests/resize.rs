//! Random graphs through random sequences of live shapes: a resized graph equals a fresh one, and a rejected resize changes
//! nothing.

use super::random::{MOST, Random, RandomGraph, TABLE_ROWS};
use super::{load_on, own_gpu};
use crate::engine::{Gpu, LoadOptions, LoadedGraph, State, TensorData};
use crate::graph::DecodedGraph;
use crate::live::{Live, Scalar};
use crate::plan::Caps;
use crate::reference::{HostData, HostTensor};
use crate::resize::{LiveInput, Planned};
use crate::shape::Dims;
use crate::testing::{DryRun, f32s, i32s, run};

/// Random live dims of a call, preferring the largest and the smallest.
fn live_dims(random: &mut Random) -> [u32; 2] {
    MOST.map(|most| match random.below(8) {
        0 => most,
        1 => 1,
        2 if random.below(4) == 0 => 0,
        _ => 1 + random.below(most),
    })
}

#[test]
fn resized_graph_agrees_bitwise_with_a_fresh_one() {
    let gpu = own_gpu();
    let (mut succeeded, mut rejected) = (0, 0);
    for seed in 0..20 {
        let graph = RandomGraph::new(seed, 14, MOST);
        let loaded =
            load_on(&gpu, &graph.builder, &LoadOptions::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut state = loaded.new_state().unwrap();
        let mut random = Random::new(seed + 1000);
        for call in 0..5 {
            let live = live_dims(&mut random);
            let inputs = graph.inputs(&mut random, live);
            let fresh = RandomGraph::new(seed, 14, live.map(|dim| dim.max(1)));
            let fresh = load_on(&gpu, &fresh.builder, &LoadOptions::default()).unwrap();
            let want = run(&fresh, &mut fresh.new_state().unwrap(), &inputs);
            match (run(&loaded, &mut state, &inputs), want) {
                (Ok(got), Ok(want)) => {
                    assert_eq!(got, want, "seed {seed}, call {call} at {live:?}: resized and fresh differ");
                }
                (Err(got), Err(want)) => assert_eq!(got.to_string(), want.to_string(), "seed {seed}, call {call}"),
                (got, want) => panic!("seed {seed}, call {call} at {live:?}: {got:?} resized, {want:?} fresh"),
            }
            match run(&loaded, &mut state, &inputs) {
                Ok(before) => {
                    succeeded += 1;
                    rejected_calls_leave_no_trace(
                        &gpu,
                        &loaded,
                        &mut state,
                        &inputs,
                        &before,
                        &format!("seed {seed}, call {call}"),
                    );
                }
                Err(_) => rejected += 1,
            }
        }
    }
    // Graphs that select the last token reject calls without tokens; most others succeed.
    assert!(succeeded > 80 && rejected > 0, "{succeeded} succeeded, {rejected} rejected");
}

/// Calls that must be rejected, derived from a valid one.
fn bad_calls(good: &[HostTensor]) -> Vec<Vec<HostTensor>> {
    let with = |index: usize, tensor: HostTensor| {
        let mut inputs = good.to_vec();
        inputs[index] = tensor;
        inputs
    };
    let width = good[2].dims.last();
    let rows = MOST[0] + 1;
    let too_long = f32s(&[rows, width], vec![0.5; (rows * width) as usize]);
    let mut wrong_length = good[2].clone();
    wrong_length.data = HostData::F32(vec![0.5; wrong_length.data.len() + 1]);
    vec![
        good[..3].to_vec(),
        [good, &good[..1]].concat(),
        vec![],
        with(0, f32s(&[1, 1], vec![0.0])),
        with(2, i32s(&[1, width], vec![0; width as usize])),
        with(2, f32s(&[1, width, 1], vec![0.0; width as usize])),
        with(2, too_long),
        with(2, wrong_length),
        with(2, f32s(&[1, width + 1], vec![0.0; width as usize + 1])),
        with(0, i32s(&[1, 1], vec![i32::try_from(TABLE_ROWS).unwrap()])),
        with(0, i32s(&[1, 2], vec![0, -1])),
        with(1, i32s(&[1], vec![i32::try_from(TABLE_ROWS).unwrap()])),
        with(1, i32s(&[0], vec![])),
    ]
}

fn rejected_calls_leave_no_trace(
    gpu: &Gpu,
    loaded: &LoadedGraph,
    state: &mut State,
    inputs: &[HostTensor],
    before: &[TensorData<'static>],
    what: &str,
) {
    let counts = gpu.counts();
    for (index, bad) in bad_calls(inputs).iter().enumerate() {
        assert!(run(loaded, state, bad).is_err(), "{what}: bad call {index} was taken");
    }
    assert_eq!(gpu.counts(), counts, "{what}: rejected calls did something");
    assert_eq!(run(loaded, state, inputs).unwrap(), before, "{what}: other outputs after rejected calls");
    // Parameters and per-step words are unchanged, so only the inputs had to be written.
    let bytes: usize = [0, 2, 3].iter().map(|&index| inputs[index].data.len() * 4).sum();
    let written = gpu.counts().written_bytes - counts.written_bytes;
    assert!(written <= bytes as u64, "{what}: {written} bytes were written, inputs are {bytes}");
}

fn live_inputs(inputs: &[HostTensor]) -> Vec<LiveInput<'_>> {
    inputs
        .iter()
        .map(|input| LiveInput {
            dims: input.dims,
            values: if let HostData::I32(values) = &input.data { Some(values.as_slice()) } else { None },
        })
        .collect()
}

/// The operators that read a value that differs between two sets of live values.
fn readers_of_changes(graph: &DecodedGraph, before: &Live, after: &Live) -> Vec<usize> {
    let reads_change = |node: &usize| {
        let flow = &graph.nodes[*node].flow;
        flow.reads.iter().chain(&flow.mutates).any(|&tensor| before.dims(tensor) != after.dims(tensor))
            || flow.scalar_reads.iter().any(|&id| before.scalar(Scalar::Live(id)) != after.scalar(Scalar::Live(id)))
            || flow.host_reads.iter().any(|&tensor| before.host_values(tensor) != after.host_values(tensor))
    };
    (0..graph.nodes.len()).filter(reads_change).collect()
}

#[test]
fn resize_plans_each_affected_operator_once() {
    let (mut planned, mut untouched) = (0, 0);
    for seed in 0..150 {
        let graph = RandomGraph::new(seed, 20, MOST);
        let mut dry_run = DryRun::new(&graph.builder).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut random = Random::new(seed + 2000);
        let mut live = MOST;
        for call in 0..8 {
            // Often only one dim changes, or the position, or nothing.
            let next = live_dims(&mut random);
            live = random.of(&[next, [live[0], next[1]], [next[0], live[1]], live]);
            let inputs = graph.inputs(&mut random, live);
            let before = dry_run.planned.live().clone();
            let (plans, what) = (dry_run.planned.plans().to_vec(), format!("seed {seed}, call {call} at {live:?}"));
            let change = match dry_run.planned.resize(&dry_run.graph, &live_inputs(&inputs)) {
                Ok(change) => change,
                Err(_) => {
                    assert_eq!((dry_run.planned.live(), dry_run.planned.plans()), (&before, plans.as_slice()), "{what}");
                    continue;
                }
            };
            let affected: Vec<usize> = change.affected().collect();
            let differ = dry_run.planned.commit(change);
            assert_eq!(affected, readers_of_changes(&dry_run.graph, &before, dry_run.planned.live()), "{what}");
            for (node, plan) in plans.iter().enumerate() {
                assert_eq!(plan != &dry_run.planned.plans()[node], differ.contains(&node), "{what}: operator {node}");
            }
            planned += affected.len();
            untouched += plans.len() - affected.len();
            assert_eq!(dry_run.planned.plans(), planned_at_once(&dry_run.graph, &inputs).plans(), "{what}");
            let again = dry_run.planned.resize(&dry_run.graph, &live_inputs(&inputs)).unwrap();
            assert_eq!(again.affected().count(), 0, "{what}: the same call again");
        }
    }
    assert!(planned > 1000 && untouched > 1000, "{planned} planned, {untouched} not");
}

/// A graph that is resized from its bounds directly to these inputs.
fn planned_at_once(graph: &DecodedGraph, inputs: &[HostTensor]) -> Planned {
    let bounds: Vec<Dims> = graph.inputs.iter().map(|&input| graph.info(input).bound).collect();
    let mut planned = Planned::at_bounds(graph, &bounds, Caps::PORTABLE).unwrap();
    let change = planned.resize(graph, &live_inputs(inputs)).unwrap();
    planned.commit(change);
    planned
}
