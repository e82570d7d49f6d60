//! Constants that arrive in pieces.

use std::borrow::Cow;

use super::two_caches;
use crate::engine::{LoadOptions, LoadedGraph, PreparedGraph, ProgressCounter, TensorData, block_on};
use crate::error::Error;
use crate::fuse::Fusions;
use crate::graph::DecodedGraph;
use crate::ir::{ConstantId, DataType};
use crate::testing::{GraphBuilder, dims, gpu};
use proptest::prelude::*;

/// A sum of the input and constants of every type, one of them twice under different ids.
fn sums() -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let floats: Vec<u8> = (0..7u8).flat_map(|at| (f32::from(at) * 0.5).to_le_bytes()).collect();
    let halves: Vec<u8> = (0..7u8).flat_map(|at| half::f16::from_f32(f32::from(at)).to_le_bytes()).collect();
    let mut last = builder.input(DataType::Float32, &[7]);
    for (dtype, bytes) in [(DataType::Float32, floats.clone()), (DataType::Float16, halves), (DataType::Float32, floats)] {
        let constant = builder.constant(dtype, &[7], bytes);
        let (one, next) = (builder.float(1.0), builder.tensor(DataType::Float32, &[7]));
        builder.call("aten.add.Tensor", &[last, constant, one, next]);
        last = next;
    }
    builder.output(last);
    builder
}

fn prepared(builder: &GraphBuilder) -> PreparedGraph {
    let graph = DecodedGraph::decode_with(builder.graph.clone(), &Fusions::NONE).unwrap();
    PreparedGraph::new(&gpu(), graph, &LoadOptions::default()).unwrap()
}

fn call_once(loaded: &LoadedGraph) -> Vec<u8> {
    let mut state = loaded.new_state().unwrap();
    let inputs = [TensorData::f32(dims(&[7]), &[1.0; 7]).into()];
    block_on(loaded.call(&mut state, &inputs)).unwrap().remove(0).bytes.into_owned()
}

fn whole(builder: &GraphBuilder) -> LoadedGraph {
    let constants = |id: ConstantId| builder.constants.get(id.index()).map(|bytes| Cow::Borrowed(bytes.as_slice()));
    block_on(prepared(builder).load(&constants, &ProgressCounter::default())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Outputs are independent of the pieces, and of how often a constant is restarted.
    #[test]
    fn streamed_constants_give_the_outputs_of_a_whole_load(cuts in prop::collection::vec(1usize..12, 1..8), again in 0usize..30) {
        let builder = sums();
        let mut streaming = block_on(prepared(&builder).load_streaming(&ProgressCounter::default())).unwrap();
        let wanted: Vec<(ConstantId, u64)> = streaming.constants().collect();
        for (id, len) in wanted {
            let bytes = &builder.constants[id.index()];
            prop_assert_eq!(len, bytes.len() as u64);
            let damaged = vec![0xff; again.min(bytes.len())];
            streaming.write(id, &damaged).unwrap();
            streaming.restart(id);
            let (mut from, mut cut) = (0, cuts.iter().cycle());
            while from < bytes.len() {
                let to = bytes.len().min(from + cut.next().unwrap());
                streaming.write(id, &bytes[from..to]).unwrap();
                from = to;
            }
            streaming.write(id, &[9; 20]).unwrap();
        }
        block_on(gpu().wait_idle()).unwrap();
        prop_assert_eq!(call_once(&streaming.finish().unwrap()), call_once(&whole(&builder)));
    }
}

#[test]
fn a_constant_that_is_not_whole_is_named() {
    let builder = sums();
    let mut streaming = block_on(prepared(&builder).load_streaming(&ProgressCounter::default())).unwrap();
    let ids: Vec<ConstantId> = streaming.constants().map(|(id, _)| id).collect();
    for id in &ids {
        streaming.write(*id, &builder.constants[id.index()]).unwrap();
    }
    streaming.restart(ids[1]);
    streaming.write(ids[1], &builder.constants[ids[1].index()][..13]).unwrap();
    assert!(matches!(streaming.finish(), Err(Error::MissingConstant { .. })));
}

#[test]
fn before_constants_come_they_are_zeros() {
    let streaming = block_on(prepared(&sums()).load_streaming(&ProgressCounter::default())).unwrap();
    let zeros: Vec<u8> = [1.0f32; 7].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(call_once(streaming.incomplete()), zeros);
}

/// Two states, one with a nonzero initial value. Damaged pieces leave no trace, in memory either.
#[test]
fn states_start_as_the_file_has_them_after_damage_too() {
    let builder = two_caches(64, [0.5, 0.0]);
    let outputs = |loaded: &LoadedGraph| {
        let inputs = [TensorData::f32(dims(&[1, 1, 1, 4]), &[1.0; 4]).into()];
        block_on(loaded.call(&mut loaded.new_state().unwrap(), &inputs)).unwrap()
    };
    let mut streaming = block_on(prepared(&builder).load_streaming(&ProgressCounter::default())).unwrap();
    let ids: Vec<ConstantId> = streaming.constants().map(|(id, _)| id).collect();
    for _ in 0..3 {
        streaming.write(ids[0], &[7; 1024]).unwrap();
        streaming.restart(ids[0]);
    }
    for id in ids {
        builder.constants[id.index()].chunks(100).for_each(|piece| streaming.write(id, piece).unwrap());
    }
    let (filled, whole) = (streaming.finish().unwrap(), whole(&builder));
    assert_eq!(filled.memory_bytes(), whole.memory_bytes());
    assert_eq!(outputs(&filled), outputs(&whole));
}
