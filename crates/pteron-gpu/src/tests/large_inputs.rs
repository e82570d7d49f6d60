//! Large inputs are written to memory that is created once, and give the results of small ones.

use super::{load_on, own_gpu};
use crate::engine::{Input, LoadOptions, LoadedGraph, State, TensorData, block_on};
use crate::ir::DataType;
use crate::shape::Dims;
use crate::testing::GraphBuilder;

const MOST: u32 = 100_003;

/// The difference of two inputs of up to [`MOST`] elements.
fn difference() -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let inputs = [0; 2].map(|_| builder.input(DataType::Float32, &[MOST]));
    let (one, out) = (builder.int(1), builder.tensor(DataType::Float32, &[MOST]));
    builder.call("aten.sub.Tensor", &[inputs[0], inputs[1], one, out]);
    builder.output(out);
    builder
}

/// Calls with inputs of `count` elements and compares the difference.
fn check(loaded: &LoadedGraph, state: &mut State, count: u32, shift: f32) {
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    let values = |factor: f32| (0..count).map(|at| at as f32 * factor + shift).collect::<Vec<f32>>();
    let (left, right) = (values(3.0), values(1.0));
    let dims = Dims::new(&[count]).unwrap();
    let inputs = [&left, &right].map(|values| Input::Data(TensorData::f32(dims, values)));
    let outputs = block_on(loaded.call(state, &inputs)).unwrap();
    let expected: Vec<u8> = left.iter().zip(&right).flat_map(|(left, right)| (left - right).to_le_bytes()).collect();
    assert!(outputs[0].bytes == expected, "{count} elements, shifted by {shift}");
}

#[test]
fn large_inputs_of_any_live_shape_reach_the_device_without_new_buffers() {
    let gpu = own_gpu();
    let loaded = load_on(&gpu, &difference(), &LoadOptions::default()).unwrap();
    let mut state = loaded.new_state().unwrap();
    check(&loaded, &mut state, MOST, 0.0);
    let before = gpu.counts();
    for (shift, count) in [MOST, 7, 65_536, 65_535, MOST, 100_001].into_iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        check(&loaded, &mut state, count, shift as f32);
    }
    let after = gpu.counts();
    assert_eq!((after.buffers, after.submits - before.submits), (before.buffers, 6));
}
