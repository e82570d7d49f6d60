//! Tests of the distribution of random weights, and of the published shapes.

use super::*;
use crate::config::{AttentionBias, RopeScaling};

fn small() -> Synthetic {
    Synthetic::new(parse("layers=2,width=256,heads=4,kv=2,hidden=512,vocab=1000,biases=all,head_norms=true").unwrap(), 7)
}

/// The models' own pages say how many parameters they have.
#[test]
fn shapes_have_as_many_parameters_as_their_models() {
    let expected: [(&str, u64); 14] = [
        ("llama-2-7b", 6_738_415_616),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("mistral-7b", 7_248_023_552),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("smollm2-135m", 134_515_008),
        ("smollm2-360m", 361_821_120),
        ("smollm2-1.7b", 1_711_376_384),
    ];
    assert!(names().eq(expected.iter().map(|(name, _)| *name)));
    for (name, parameters) in expected {
        let config = parse(name).unwrap();
        let found: u64 = config.weights().map(|weight| config.shape(weight).count()).sum();
        assert_eq!(found, parameters, "{name}");
    }
}

#[test]
fn shapes_from_numbers() {
    let config = parse("layers=16, width=2048, heads=32, kv=8, hidden=8192, vocab=128256, head=64, tied=true").unwrap();
    let model = parse("llama-3.2-1b").unwrap();
    let sizes = |config: &ModelConfig| config.weights().map(|weight| config.shape(weight)).collect::<Vec<_>>();
    assert_eq!(sizes(&config), sizes(&model));

    let least = parse("layers=1,width=64,heads=4,hidden=32,vocab=9").unwrap();
    assert_eq!((least.num_kv_heads, least.head_dim), (4, 16));

    let changed = parse("Qwen3-8B,layers=2,biases=inputs,theta=2e4").unwrap();
    assert_eq!(
        (changed.num_layers, changed.intermediate_size, changed.attention_bias, changed.rope.theta),
        (2, 12_288, AttentionBias::Qkv, 2e4)
    );
    assert!(matches!(model.rope.scaling, Some(RopeScaling::Llama3 { factor: 32.0, .. })));
}

#[test]
fn shapes_that_are_refused_say_why() {
    let numbers = "layers=1,width=64,heads=4,hidden=32,vocab=9";
    let cases = [
        ("llama-9".to_owned(), "the shape `llama-9` is not supported: supported are llama-2-7b, llama-3.1-8b"),
        (format!("{numbers},depth=3"), "shapes have no `depth`; there are layers, width, heads, kv"),
        (format!("{numbers},llama-2-7b"), "`llama-2-7b` in the shape `layers=1"),
        (format!("{numbers},kv=two"), "`kv` of a shape is a whole number, not `two`"),
        (format!("{numbers},tied=yes"), "`tied` of a shape is true or false, not `yes`"),
        (format!("{numbers},biases=some"), "`biases` of a shape is none, inputs or all, not `some`"),
        (format!("{numbers},layers=-1"), "`layers` of a shape is a whole number, not `-1`"),
        ("layers=1,width=64,heads=4,hidden=32".to_owned(), "the shape has no `vocab`, or it is 0"),
        (format!("{numbers},kv=3"), "the shape has 4 heads, which 3 heads of keys (`kv`) cannot share evenly"),
        (format!("{numbers},head=7"), "the shape has `head=7`; numbers are stored and rotated in pairs"),
        (format!("{numbers},heads=65536,kv=1,head=65536"), "the shape is larger than any model there is"),
        (format!("{numbers},vocab=4294967295,width=4294967288"), "the shape is larger than any model there is"),
        (format!("{numbers},layers=4294967295"), "the shape is larger than any model there is"),
        (String::new(), "the shape `` is not supported"),
    ];
    for (text, expected) in cases {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn floats_equal_dequantised_nibbles() {
    let source = small();
    for weight in source.config().weights() {
        let matrix = source.config().shape(weight);
        let mut row = vec![0.0; matrix.columns as usize];
        source.row(weight, matrix.rows - 1, &mut row).unwrap();
        for group in [8, 32, 64] {
            let stored = source.int4_row(weight, matrix.rows - 1, group);
            assert_eq!(stored.is_none(), matrix.columns == 1, "{weight}");
            let Some(stored) = stored else { continue };
            let mut numbers = vec![0.0; row.len()];
            dequantise_row(&stored.nibbles, &stored.scales, &mut numbers);
            assert_eq!(numbers, row, "{weight}, groups of {group}");
        }
        assert!(source.int4_row(weight, 0, 48).is_none());
    }
}

#[test]
fn rows_differ_by_seed_weight_and_row() {
    let rows = [
        (7, Weight::Embedding, 0),
        (7, Weight::Embedding, 1),
        (8, Weight::Embedding, 0),
        (7, Weight::Output, 0),
        (7, Weight::Layer(0, LayerWeight::Query), 0),
        (7, Weight::Layer(1, LayerWeight::Query), 0),
        (7, Weight::Layer(0, LayerWeight::Key), 0),
    ];
    let nibbles = rows.map(|(seed, weight, row)| Synthetic::new(small().config, seed).row_of_nibbles(weight, row).0);
    for (index, nibble) in nibbles.iter().enumerate() {
        assert!(!nibbles[..index].contains(nibble), "{:?}", rows[index]);
    }
}

/// A projection of inputs with variance 1 has outputs with variance 1, and rows have no bias to one sign.
#[test]
fn projections_neither_grow_nor_shrink() {
    let source = small();
    let mut row = vec![0.0; 512];
    let (mut sum, mut squares) = (0.0, 0.0);
    for index in 0..256 {
        source.row(Weight::Layer(0, LayerWeight::Down), index, &mut row).unwrap();
        sum += row.iter().map(|&number| f64::from(number)).sum::<f64>();
        squares += row.iter().map(|&number| f64::from(number).powi(2)).sum::<f64>();
    }
    assert!((squares / 256.0 - 1.0).abs() < 0.1, "{squares}");
    assert!(sum.abs() / 256.0 < 0.2, "{sum}");
}

#[test]
fn norms_are_near_one_and_biases_near_zero() {
    let source = small();
    let number = |weight| (0..32).map(move |row| small().number(weight, row));
    assert!(number(Weight::FinalNorm).all(|number| (0.875..1.125).contains(&number)));
    assert!(number(Weight::Layer(1, LayerWeight::KeyBias)).all(|number| number.abs() <= 0.125));
    let mut out = [0.0];
    source.row(Weight::FinalNorm, 5, &mut out).unwrap();
    assert_eq!(out[0], source.number(Weight::FinalNorm, 5));
}
