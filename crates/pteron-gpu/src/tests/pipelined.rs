//! Calls that are started and not waited for.

use super::{load_on, own_gpu};
use crate::engine::{HostView, InputView, LoadOptions, LoadedGraph, PendingCall, StartOptions, State, block_on};
use crate::ir::DataType;
use crate::testing::{Sketch, dims};

/// A graph that doubles a number and adds another, both of them inputs.
fn counter() -> Sketch {
    let mut sketch = Sketch::new();
    let [x, y] = [(); 2].map(|()| sketch.input(DataType::Int32, &[1, 1]));
    let (one, [double, out]) = (sketch.int(1), [(); 2].map(|()| sketch.tensor(DataType::Int32, &[1, 1])));
    sketch.call("aten.add.Tensor", &[x, x, one, double]);
    sketch.call("aten.add.Tensor", &[double, y, one, out]);
    sketch.output(out);
    sketch
}

fn load(max_in_flight: usize) -> (LoadedGraph, State) {
    let loaded = load_on(&own_gpu(), &counter(), &LoadOptions { max_in_flight, ..LoadOptions::default() }).unwrap();
    let state = loaded.new_state().unwrap();
    (loaded, state)
}

fn view(data: HostView<'_>) -> InputView<'_> {
    InputView { dims: dims(&[1, 1]), data }
}

fn number(pending: PendingCall) -> i32 {
    let answer = block_on(pending.wait()).unwrap();
    assert!(answer.gpu_seconds.is_none_or(|seconds| (0.0..60.0).contains(&seconds)), "{answer:?}");
    i32::from_le_bytes(answer.bytes.try_into().unwrap())
}

#[test]
fn each_call_begins_with_what_the_last_one_left() {
    let (graph, state) = load(3);
    let after = StartOptions { read: 0, feedback: Some((0, 0)) };
    let mut pending = std::collections::VecDeque::new();
    let mut found = Vec::new();
    for step in 0..20 {
        let first = if step == 0 { HostView::I32(&[1]) } else { HostView::Kept };
        pending.push_back(graph.start(&state, &[view(first), view(HostView::I32(&[step]))], after).unwrap());
        if pending.len() == 3 {
            found.push(number(pending.pop_front().unwrap()));
        }
    }
    found.extend(pending.into_iter().map(number));
    let expected = (0..20).scan(1, |x, step| {
        *x = *x * 2 + step;
        Some(*x)
    });
    assert_eq!(found, expected.collect::<Vec<i32>>());
    let outputs = block_on(graph.call(&state, &[view(HostView::Kept), view(HostView::I32(&[0]))])).unwrap();
    assert_eq!(outputs[0].bytes, (found[19] * 2).to_le_bytes(), "a plain call takes it as well");
}

#[test]
fn nothing_is_made_after_the_first_call() {
    let gpu = own_gpu();
    let graph = load_on(&gpu, &counter(), &LoadOptions { max_in_flight: 2, ..LoadOptions::default() }).unwrap();
    let state = graph.new_state().unwrap();
    let inputs = [view(HostView::I32(&[1])), view(HostView::I32(&[2]))];
    block_on(graph.start(&state, &inputs, StartOptions::default()).unwrap().wait()).unwrap();
    let before = gpu.counts();
    for _ in 0..5 {
        block_on(graph.start(&state, &inputs, StartOptions { read: 0, feedback: Some((0, 1)) }).unwrap().wait()).unwrap();
    }
    let after = gpu.counts();
    assert_eq!((after.buffers, after.bind_groups, after.pipelines), (before.buffers, before.bind_groups, before.pipelines));
    assert_eq!(after.submits - before.submits, 5);
}

#[test]
fn what_cannot_be_started_is_refused_and_changes_nothing() {
    let (graph, state) = load(1);
    let inputs = || [view(HostView::I32(&[5])), view(HostView::I32(&[1]))];
    let first = graph.start(&state, &inputs(), StartOptions::default()).unwrap();
    let error = graph.start(&state, &inputs(), StartOptions::default()).unwrap_err().to_string();
    assert!(error.contains("1 calls are under way"), "{error}");
    assert_eq!(number(first), 11);
    for (after, text) in [
        (StartOptions { read: 1, feedback: None }, "no output 1"),
        (StartOptions { read: 0, feedback: Some((3, 0)) }, "no output 3"),
        (StartOptions { read: 0, feedback: Some((0, 9)) }, "input 9 has no room"),
    ] {
        let error = graph.start(&state, &inputs(), after).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    drop(graph.start(&state, &inputs(), StartOptions::default()).unwrap());
    let again = graph.start(&state, &inputs(), StartOptions::default()).expect("an answer given up leaves its place");
    assert_eq!(number(again), 11);
}

#[test]
fn a_value_that_plans_depend_on_cannot_be_kept() {
    let mut sketch = Sketch::new();
    let (x, position) = (sketch.input(DataType::Float32, &[8]), sketch.input(DataType::Int32, &[1]));
    let (zero, at) = (sketch.int(0), sketch.value(crate::ir::Value::SymInt));
    let out = sketch.tensor(DataType::Float32, &[]);
    sketch.call("et_vk.select_as_symint.default", &[position, zero, zero, at]);
    sketch.call("aten.select_copy.int", &[x, zero, at, out]);
    sketch.output(out);
    let graph = sketch.load(&LoadOptions::default()).unwrap();
    let state = graph.new_state().unwrap();
    let x = InputView { dims: dims(&[8]), data: HostView::F32(&[0.5; 8]) };
    let error = block_on(graph.call(&state, &[x, InputView { dims: dims(&[1]), data: HostView::Kept }])).unwrap_err();
    assert!(error.to_string().contains("its value is needed before the graph runs"), "{error}");
}
