//! Pipelined calls and feedback.

use super::own_gpu;
use crate::engine::{Feedback, Gpu, Input, LoadOptions, LoadedGraph, PendingCall, State, TensorData, block_on};
use crate::error::Error;
use crate::ir::DataType;
use crate::testing::{GraphBuilder, dims};

/// A graph that doubles a number and adds another, both of them inputs.
fn counter() -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let [x, y] = [(); 2].map(|()| builder.input(DataType::Int32, &[1, 1]));
    let (one, [double, out]) = (builder.int(1), [(); 2].map(|()| builder.tensor(DataType::Int32, &[1, 1])));
    builder.call("aten.add.Tensor", &[x, x, one, double]);
    builder.call("aten.add.Tensor", &[double, y, one, out]);
    builder.output(out);
    builder
}

const FEEDBACK: Feedback = Feedback { output: 0, input: 0 };

fn load_on(gpu: &Gpu, max_in_flight: usize) -> LoadedGraph {
    let options = LoadOptions { max_in_flight, feedback: vec![FEEDBACK], ..LoadOptions::default() };
    super::load_on(gpu, &counter(), &options).unwrap()
}

fn load(max_in_flight: usize) -> (LoadedGraph, State) {
    let loaded = load_on(&own_gpu(), max_in_flight);
    let state = loaded.new_state().unwrap();
    (loaded, state)
}

fn given(value: &[i32]) -> Input<'_> {
    TensorData::i32(dims(&[1, 1]), value).into()
}

fn fed() -> Input<'static> {
    Input::Feedback(dims(&[1, 1]))
}

fn number(pending: PendingCall) -> i32 {
    let readback = block_on(pending.wait()).unwrap();
    assert!(readback.gpu_seconds.is_none_or(|seconds| (0.0..60.0).contains(&seconds)), "{readback:?}");
    i32::from_le_bytes(readback.output.bytes.as_ref().try_into().unwrap())
}

/// The expected values of a state that starts with `first`, step by step.
fn expected(first: i32, steps: i32) -> Vec<i32> {
    let next = |x: &mut i32, step| {
        *x = *x * 2 + step;
        Some(*x)
    };
    (0..steps).scan(first, next).collect()
}

#[test]
fn each_call_starts_from_the_fed_back_output() {
    let (graph, mut state) = load(3);
    let mut pending = std::collections::VecDeque::new();
    let mut found = Vec::new();
    for step in 0..20 {
        let first = if step == 0 { given(&[1]) } else { fed() };
        pending.push_back(graph.start(&mut state, &[first, given(&[step])], 0).unwrap());
        if pending.len() == 3 {
            found.push(number(pending.pop_front().unwrap()));
        }
    }
    found.extend(pending.into_iter().map(number));
    assert_eq!(found, expected(1, 20));
    let outputs = block_on(graph.call(&mut state, &[fed(), given(&[0])])).unwrap();
    assert_eq!(outputs[0].bytes.as_ref(), (found[19] * 2).to_le_bytes(), "a plain call takes it as well");
}

#[test]
fn states_with_calls_in_flight_interleave() {
    let graph = load_on(&own_gpu(), 6);
    let mut states: Vec<State> = (0..3).map(|_| graph.new_state().unwrap()).collect();
    let mut found = vec![Vec::new(); 3];
    let mut pending: Vec<std::collections::VecDeque<PendingCall>> = (0..3).map(|_| Default::default()).collect();
    for step in 0..12 {
        for (index, state) in states.iter_mut().enumerate() {
            let first = [i32::try_from(index).unwrap() + 1];
            let first = if step == 0 { given(&first) } else { fed() };
            pending[index].push_back(graph.start(state, &[first, given(&[step])], 0).unwrap());
            if pending[index].len() == 2 {
                found[index].push(number(pending[index].pop_front().unwrap()));
            }
        }
    }
    for (index, pending) in pending.into_iter().enumerate() {
        found[index].extend(pending.into_iter().map(number));
        assert_eq!(found[index], expected(i32::try_from(index).unwrap() + 1, 12), "state {index}");
    }
}

/// Starts a group of calls that begins with a given or a fed-back value.
fn group(graph: &LoadedGraph, state: &mut State, first: Option<&[i32]>, numbers: &[i32]) -> Vec<PendingCall> {
    let inputs = |(index, number)| {
        let first = match first {
            Some(first) if index == 0 => given(first),
            _ => Input::Feedback(dims(&[1, 1])),
        };
        [first, given(std::slice::from_ref(number))]
    };
    let calls: Vec<[Input<'_>; 2]> = numbers.iter().enumerate().map(inputs).collect();
    let calls: Vec<&[Input<'_>]> = calls.iter().map(|call| call.as_slice()).collect();
    graph.start_group(state, &calls, 0).unwrap()
}

#[test]
fn a_group_computes_what_single_calls_do() {
    let gpu = own_gpu();
    let graph = load_on(&gpu, 3);
    let mut states = [graph.new_state().unwrap(), graph.new_state().unwrap()];
    let mut found = [Vec::new(), Vec::new()];
    let mut next = [0, 0];
    for round in 0..4 {
        // Two groups of different states in flight, of different sizes.
        let before = gpu.counts();
        let started: Vec<Vec<PendingCall>> = (0..2usize)
            .map(|index| {
                let numbers: Vec<i32> = (next[index]..).take(2 + index + round % 2).collect();
                let first = [i32::try_from(index).unwrap() + 1];
                let calls = group(&graph, &mut states[index], (round == 0).then_some(&first), &numbers);
                assert_eq!(calls.len(), numbers.len());
                next[index] += i32::try_from(calls.len()).unwrap();
                calls
            })
            .collect();
        let after = gpu.counts();
        assert_eq!((after.submits - before.submits, after.writes - before.writes, after.passes - before.passes), (2, 2, 2));
        assert_eq!(
            (after.buffers, after.bind_groups, after.pipelines),
            (before.buffers, before.bind_groups, before.pipelines)
        );
        for (found, calls) in found.iter_mut().zip(started) {
            found.extend(calls.into_iter().map(number));
        }
    }
    for (index, found) in found.iter().enumerate() {
        let steps = i32::try_from(found.len()).unwrap();
        assert_eq!(*found, expected(i32::try_from(index).unwrap() + 1, steps), "state {index}");
    }
}

#[test]
fn a_group_ends_before_a_call_that_cannot_join() {
    let (graph, mut state) = load(2);
    let value = |values: &'static [i32]| Input::from(TensorData::i32(dims(&[1, 1]), values));
    let [given, other, wrong] =
        [[value(&[1]), value(&[2])], [value(&[5]), value(&[2])], [fed(), TensorData::i32(dims(&[1, 2]), &[1, 2]).into()]];
    for last in [&other, &wrong] {
        let calls = [&given[..], &[fed(), value(&[3])], last];
        let started = graph.start_group(&mut state, &calls, 0).unwrap();
        assert_eq!(started.into_iter().map(number).collect::<Vec<_>>(), [4, 11]);
        assert_eq!(number(graph.start(&mut state, &[fed(), value(&[0])], 0).unwrap()), 22, "the state continues");
    }
    let long: Vec<[Input<'_>; 2]> = (0..crate::engine::MAX_GROUP + 3).map(|_| [fed(), value(&[0])]).collect();
    let long: Vec<&[Input<'_>]> = long.iter().map(|call| call.as_slice()).collect();
    assert_eq!(graph.start_group(&mut state, &long, 0).unwrap().len(), crate::engine::MAX_GROUP);
    assert!(graph.start_group(&mut state, &[&wrong[..], &given], 0).is_err(), "the first call's error is the group's");
    // Outputs of a group may be read in any order, or not at all.
    let mut calls = graph.start_group(&mut state, &[&given[..], &[fed(), value(&[3])]], 0).unwrap();
    assert_eq!(number(calls.pop().unwrap()), 11);
    drop(calls);
    assert_eq!(number(graph.start(&mut state, &given, 0).unwrap()), 4);
}

#[test]
fn a_copied_state_has_the_fed_back_value_and_a_reset_one_does_not() {
    let (graph, mut state) = load(2);
    assert!(!state.has_feedback(0));
    assert_eq!(number(graph.start(&mut state, &[given(&[5]), given(&[1])], 0).unwrap()), 11);
    let mut copy = graph.clone_state(&state).unwrap();
    assert_eq!(number(graph.start(&mut state, &[fed(), given(&[2])], 0).unwrap()), 24);
    assert_eq!(number(graph.start(&mut copy, &[fed(), given(&[3])], 0).unwrap()), 25);
    graph.reset(&mut copy).unwrap();
    let error = graph.start(&mut copy, &[fed(), given(&[3])], 0).unwrap_err();
    assert!(matches!(&error, Error::Input { index: 0, reason } if reason.contains("fed-back")), "{error}");
}

#[test]
fn nothing_is_made_after_the_first_call() {
    let gpu = own_gpu();
    let graph = load_on(&gpu, 2);
    let mut state = graph.new_state().unwrap();
    block_on(graph.start(&mut state, &[given(&[1]), given(&[2])], 0).unwrap().wait()).unwrap();
    let before = gpu.counts();
    for value in 3..8 {
        block_on(graph.start(&mut state, &[fed(), given(&[value])], 0).unwrap().wait()).unwrap();
    }
    let after = gpu.counts();
    assert_eq!((after.buffers, after.bind_groups, after.pipelines), (before.buffers, before.bind_groups, before.pipelines));
    assert_eq!((after.submits - before.submits, after.writes - before.writes, after.passes - before.passes), (5, 5, 5));
    // What the device has is not uploaded again.
    block_on(graph.start(&mut state, &[fed(), given(&[7])], 0).unwrap().wait()).unwrap();
    let again = gpu.counts();
    assert_eq!((again.submits - after.submits, again.writes - after.writes), (1, 0));
}

#[test]
fn inputs_are_uploaded_again_where_the_device_has_others() {
    let (graph, mut state) = load(2);
    let run = |state: &mut State, first: i32, second: i32| {
        number(graph.start(state, &[given(&[first]), given(&[second])], 0).unwrap())
    };
    assert_eq!(
        [run(&mut state, 5, 1), run(&mut state, 5, 1), run(&mut state, 5, 2), run(&mut state, 5, 1)],
        [11, 11, 12, 11]
    );
    // A kernel replaces the second input between the calls of a group.
    let group = graph.start_group(&mut state, &[&[given(&[5]), given(&[1])][..], &[fed(), given(&[3])]], 0).unwrap();
    assert_eq!(group.into_iter().map(number).collect::<Vec<_>>(), [11, 25]);
    assert_eq!(run(&mut state, 5, 1), 11);
    // Each state has its own first input.
    let mut other = graph.new_state().unwrap();
    assert_eq!([run(&mut other, 6, 1), run(&mut state, 5, 1), run(&mut other, 6, 1)], [13, 11, 13]);
}

#[test]
fn refused_calls_change_nothing() {
    let (graph, mut state) = load(1);
    let inputs = || [given(&[5]), given(&[1])];
    let first = graph.start(&mut state, &inputs(), 0).unwrap();
    let error = graph.start(&mut state, &inputs(), 0).unwrap_err();
    assert!(matches!(&error, Error::Misuse(reason) if reason.contains("1 calls are in flight")), "{error}");
    assert_eq!(number(first), 11);
    let error = graph.start(&mut state, &inputs(), 1).unwrap_err();
    assert!(matches!(&error, Error::Misuse(reason) if reason.contains("no output 1")), "{error}");
    drop(graph.start(&mut state, &inputs(), 0).unwrap());
    let again = graph.start(&mut state, &inputs(), 0).expect("a dropped call frees its readback slot");
    assert_eq!(number(again), 11);
    let mut other = load(1).1;
    let error = graph.start(&mut other, &inputs(), 0).unwrap_err();
    assert!(matches!(&error, Error::Misuse(reason) if reason.contains("another graph")), "{error}");
}

#[test]
fn feedback_that_cannot_be_is_refused_at_load() {
    for (feedback, text) in [
        (vec![Feedback { output: 3, input: 0 }], "no such output"),
        (vec![Feedback { output: 0, input: 9 }], "no such output or input"),
        (vec![FEEDBACK, FEEDBACK], "another output is fed back"),
    ] {
        let options = LoadOptions { feedback, ..LoadOptions::default() };
        let error = super::load_on(&own_gpu(), &counter(), &options).unwrap_err();
        assert!(matches!(&error, Error::Misuse(reason) if reason.contains(text)), "{error}");
    }
}

#[test]
fn an_input_that_plans_depend_on_takes_no_feedback() {
    let mut builder = GraphBuilder::new();
    let (x, position) = (builder.input(DataType::Float32, &[8]), builder.input(DataType::Int32, &[1]));
    let (zero, at) = (builder.int(0), builder.value(crate::ir::Value::SymInt));
    let [out, next] =
        [(DataType::Float32, &[][..]), (DataType::Int32, &[1])].map(|(dtype, dims)| builder.tensor(dtype, dims));
    builder.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    builder.call("aten.select_copy.int", &[x, zero, at, out]);
    let one = builder.int(1);
    builder.call("aten.add.Tensor", &[position, position, one, next]);
    builder.output(out);
    builder.output(next);
    let options = LoadOptions { feedback: vec![Feedback { output: 1, input: 1 }], ..LoadOptions::default() };
    let error = builder.load(&options).unwrap_err();
    assert!(matches!(&error, Error::Misuse(reason) if reason.contains("plans depend on")), "{error}");
}
