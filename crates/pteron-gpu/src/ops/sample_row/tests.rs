use super::{NAME, ROWS_NAME};
use crate::engine::{LoadOptions, LoadedGraph, State};
use crate::ir::DataType;
use crate::reference::HostTensor;
use crate::testing::{GraphBuilder, check, f32s, i32s, load_error, noise, run};

fn builder(bound: &[u32]) -> GraphBuilder {
    let mut builder = GraphBuilder::new();
    let (logits, sampling) = (builder.input(DataType::Float32, bound), builder.input(DataType::Int32, &[4]));
    let out = builder.tensor(DataType::Int32, &[1, 1]);
    builder.call(NAME, &[logits, sampling, out]);
    builder.output(out);
    builder
}

/// The inverse temperature, seed and draw.
fn sampling(scale: f32, seed: i32, draw: i32) -> HostTensor {
    i32s(&[4], vec![scale.to_bits().cast_signed(), seed, seed.wrapping_mul(77), draw])
}

#[test]
fn greedy_takes_the_first_maximum_of_the_last_row() {
    let calls = [(1u32, 7000u32), (3, 7000), (2, 1), (3, 2049), (1, 300)].map(|(rows, width)| {
        let mut values = noise(u64::from(rows + width), (rows * width) as usize);
        let last = values.len() - width as usize;
        values[last + width as usize / 2] = 4.0;
        values[last + width as usize / 3] = 4.0;
        vec![f32s(&[rows, width], values), sampling(0.0, 1, 2)]
    });
    check(&builder(&[3, 7000]), &calls, 0.0);
}

#[test]
fn infinities_zeros_and_nan() {
    let rows = [
        vec![f32::NEG_INFINITY, -1e30, f32::NEG_INFINITY],
        vec![-0.0, 0.0, -1.0],
        vec![1.0, f32::INFINITY, f32::INFINITY],
        vec![1.0, f32::NAN, f32::INFINITY],
        vec![f32::NEG_INFINITY; 3],
    ];
    let calls = rows.map(|row| vec![f32s(&[1, 3], row), sampling(0.0, 0, 0)]);
    check(&builder(&[1, 3]), &calls, 0.0);
    assert!(
        load_error(&{
            let mut builder = GraphBuilder::new();
            let (logits, sampling) = (builder.input(DataType::Float32, &[3]), builder.input(DataType::Int32, &[2]));
            let out = builder.tensor(DataType::Int32, &[1, 1]);
            builder.call(NAME, &[logits, sampling, out]);
            builder
        })
        .contains("`sampling` is [2], expected 4 elements")
    );
}

#[test]
fn samples_equal_the_reference() {
    let calls: Vec<_> = (0..20).map(|draw| vec![f32s(&[1, 500], noise(9, 500)), sampling(1.5, 42, draw)]).collect();
    check(&builder(&[1, 500]), &calls, 0.0);
}

fn draw(graph: &LoadedGraph, state: &mut State, logits: &[f32], scale: f32, seed: i32, draw: i32) -> usize {
    let inputs = [f32s(&[1, u32::try_from(logits.len()).unwrap()], logits.to_vec()), sampling(scale, seed, draw)];
    let outputs = run(graph, state, &inputs).unwrap();
    usize::try_from(i32::from_le_bytes(outputs[0].bytes.as_ref().try_into().unwrap())).unwrap()
}

#[test]
fn samples_follow_the_softmax() {
    let logits = [2.0f32, 1.0, 0.0, -1.0, 0.5, 0.5];
    for scale in [1.0f32, 0.5] {
        let graph = builder(&[1, 6]).load(&LoadOptions::default()).unwrap();
        let mut state = graph.new_state().unwrap();
        let weights: Vec<f64> = logits.iter().map(|logit| f64::from(logit * scale).exp()).collect();
        let total: f64 = weights.iter().sum();
        let draws = 2000;
        let mut counts = [0.0f64; 6];
        for index in 0..draws {
            counts[draw(&graph, &mut state, &logits, scale, 7, index)] += 1.0;
        }
        let expected = |weight: &f64| weight / total * f64::from(draws);
        let chi: f64 = counts.iter().zip(&weights).map(|(n, w)| (n - expected(w)).powi(2) / expected(w)).sum();
        // The 99.9th percentile for five degrees of freedom; the seed is fixed, so this passes always or never.
        assert!(chi < 20.5, "{chi}: {counts:?}");
    }
}

#[test]
fn samples_depend_on_the_seed_alone() {
    let graph = builder(&[1, 64]).load(&LoadOptions::default()).unwrap();
    let mut state = graph.new_state().unwrap();
    let mut draws = |seed| (0..24).map(|index| draw(&graph, &mut state, &[0.0; 64], 1.0, seed, index)).collect::<Vec<_>>();
    assert_eq!(draws(3), draws(3));
    assert_ne!(draws(3), draws(4));
}

#[test]
fn every_row_is_sampled_with_its_own_parameters() {
    let mut builder = GraphBuilder::new();
    let logits = builder.input(DataType::Float32, &[1, 5, 5000]);
    let sampling = builder.input(DataType::Int32, &[5, 4]);
    let out = builder.tensor(DataType::Int32, &[5]);
    builder.call(ROWS_NAME, &[logits, sampling, out]);
    builder.output(out);
    let call = |rows: u32| {
        let words = (0..rows).flat_map(|row| {
            let scale = if row % 2 == 0 { 0.0f32 } else { 3.0 };
            [scale.to_bits().cast_signed(), row.cast_signed() * 7, 3, row.cast_signed()]
        });
        let logits = f32s(&[1, rows, 5000], noise(rows.into(), rows as usize * 5000));
        vec![logits, i32s(&[rows, 4], words.collect())]
    };
    check(&builder, &[call(5), call(1), call(3), call(0)], 0.0);
}
