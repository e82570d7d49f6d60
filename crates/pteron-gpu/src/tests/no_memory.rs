//! Out-of-memory at every allocation: an error, no leaks, and the next load works.

use std::collections::BTreeSet;

use super::own_gpu;
use crate::engine::{Gpu, LoadOptions, LoadedGraph, SharedBudget};
use crate::error::{Error, Result};
use crate::ir::{Constant, ConstantId, ConstantSource, DataType, Value};
use crate::testing::{GraphBuilder, f32s, noise, run, skip};

/// A product with joined and individual constants, caches that are initially zero and not, and two outputs.
fn builder() -> GraphBuilder {
    let mut builder = super::two_caches(8, [0.0, 5.0]);
    let weight = builder.floats(&[4, 4], &noise(1, 16));
    let row = builder.graph.inputs[0];
    let [squared, product] = [(); 2].map(|()| builder.tensor(DataType::Float32, &[1, 1, 1, 4]));
    let none = builder.value(Value::Null);
    builder.call("aten.mul.Tensor", &[row, row, squared]);
    builder.call("aten.linear.default", &[squared, weight, none, product]);
    builder.output(product);
    builder
}

fn options(limit: Option<u64>) -> LoadOptions {
    LoadOptions { memory: SharedBudget::new(limit), max_in_flight: 2, ..LoadOptions::default() }
}

/// Loads, creates two states, one as a copy, and calls.
fn all(gpu: &Gpu, builder: &GraphBuilder, options: &LoadOptions) -> Result<Vec<u8>> {
    let graph: LoadedGraph = builder.load_on(gpu, options)?;
    let state = graph.new_state()?;
    let outputs = run(&graph, &mut graph.clone_state(&state)?, &[f32s(&[1, 1, 1, 4], noise(2, 4))])?;
    Ok(outputs.into_iter().flat_map(|output| output.bytes.into_owned()).collect())
}

/// Bytes allocated on the device, after it has completed all work.
fn allocated(gpu: &Gpu) -> Option<u64> {
    crate::engine::block_on(gpu.wait_idle()).unwrap();
    gpu.allocated().map(|allocated| allocated.used_bytes)
}

#[test]
fn every_failed_allocation_is_an_error_without_leaks() {
    let (gpu, builder) = (own_gpu(), builder());
    let expected = all(&gpu, &builder, &options(None)).unwrap();
    let baseline = allocated(&gpu);
    let mut sites = BTreeSet::new();
    for after in 0.. {
        let budget = options(None);
        gpu.inner.counters.faults.lock().unwrap().after = Some(after);
        let ended = all(&gpu, &builder, &budget);
        let failed = std::mem::take(&mut *gpu.inner.counters.faults.lock().unwrap()).failed;
        assert_eq!(budget.memory.used(), 0, "what was counted is given back");
        assert_eq!(allocated(&gpu), baseline, "{failed:?} left memory behind");
        match ended {
            Err(Error::OutOfMemory(_)) => sites.extend(failed),
            Ok(outputs) => {
                assert_eq!((outputs, failed.len()), (expected.clone(), 0));
                println!("{after} buffers, {} sites: {sites:?}", sites.len());
                assert!(sites.len() >= 12, "{sites:?}");
                return;
            }
            Err(other) => panic!("{other} for {failed:?}"),
        }
        assert_eq!(all(&gpu, &builder, &options(None)).unwrap(), expected, "after {sites:?}");
    }
}

#[test]
fn every_exceeded_budget_is_an_error_without_leaks() {
    let (gpu, builder) = (own_gpu(), builder());
    let expected = all(&gpu, &builder, &options(None)).unwrap();
    let (baseline, made) = (allocated(&gpu), |gpu: &Gpu| gpu.counts().buffers);
    let (mut needs, mut limit) = (BTreeSet::new(), 0);
    loop {
        let (budget, before) = (options(Some(limit)), made(&gpu));
        let ended = all(&gpu, &builder, &budget);
        assert_eq!((budget.memory.used(), allocated(&gpu)), (0, baseline));
        match ended {
            Err(Error::TooLarge { what, need, limit: found, by }) => {
                assert!(found == limit && need > limit && by == "the memory budget", "{what}: {need} of {found} by {by}");
                // Requirements that are known beforehand are rejected before anything is allocated.
                assert!(needs.len() > 1 || made(&gpu) == before || what != "all that is loaded with one state");
                needs.insert((need, what));
                limit = if limit + 64 < need { limit + (need - limit) / 2 } else { limit + 16 };
            }
            Ok(outputs) => {
                assert_eq!(outputs, expected);
                println!("{limit} bytes, {} places: {needs:?}", needs.len());
                let places: Vec<&str> = needs.iter().map(|(_, what)| what.as_str()).collect();
                assert_eq!(places.len(), 3, "loading, a state that starts as something, and one more state: {places:?}");
                return;
            }
            Err(other) => panic!("{other} with {limit} bytes"),
        }
    }
}

#[test]
fn graph_above_device_memory_is_rejected_before_allocation() {
    let gpu = own_gpu();
    let Some(memory) = gpu.memory_bytes() else { return skip("does not report its memory") };
    // Each constant fits a buffer, but all of them do not fit the device.
    let limit = gpu.adapter().limits.max_storage_buffer_binding_size.min(1 << 30);
    let rows = u32::try_from(limit / 16).unwrap();
    let mut builder = GraphBuilder::new();
    for constant in (0..).take(usize::try_from(memory / limit).unwrap() + 2) {
        let [from, to] = [(); 2].map(|()| builder.tensor(DataType::Float32, &[rows, 4]));
        if let Some(Value::Tensor(tensor)) = builder.graph.values.get_mut(from.index()) {
            tensor.constant = Some(ConstantId(constant));
        }
        builder.graph.constants.push(Constant { len: 16 * u64::from(rows), source: ConstantSource::Stored });
        builder.call("aten.neg.default", &[from, to]);
    }
    let before = gpu.counts();
    match builder.load_on(&gpu, &LoadOptions::default()).map(drop) {
        Err(Error::TooLarge { need, limit, by, .. }) => {
            assert!(need > memory && limit == memory && by == "the device's memory", "{need} of {limit} by {by}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(gpu.counts(), before);
}
