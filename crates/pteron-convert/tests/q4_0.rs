//! 4-bit blocks of a GGUF file are passed through: the weights of the program equal those of the file, bit for bit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pteron_convert::template::{ConstantData, ScaleOrder, WeightFormat};
use pteron_convert::{ConvertOptions, Gguf, LayerWeight, ProgramTemplate, ScaleMethod, Source, Weight, convert};
use pteron_format::Pte;

const GROUP: u32 = 32;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/convert/gguf/llama")
}

/// The GGUF name of a weight.
fn name(weight: Weight) -> String {
    let part = |part| match part {
        LayerWeight::Query => "attn_q",
        LayerWeight::Key => "attn_k",
        LayerWeight::Value => "attn_v",
        LayerWeight::AttentionOutput => "attn_output",
        LayerWeight::Gate => "ffn_gate",
        LayerWeight::Up => "ffn_up",
        LayerWeight::Down => "ffn_down",
        other => panic!("{other:?} is no matrix"),
    };
    match weight {
        Weight::Embedding => "token_embd.weight".to_owned(),
        Weight::Layer(layer, of) => format!("blk.{layer}.{}.weight", part(of)),
        other => panic!("{other:?} is no matrix of a tied model"),
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn blocks_of_4_bits_are_taken_as_they_are() {
    let source = Gguf::open(folder().join("model.gguf")).unwrap();
    let options = ConvertOptions::new(128)
        .with_max_seq_length(128)
        .with_linear_format(WeightFormat::Int4 { group: GROUP })
        .with_embedding_format(WeightFormat::Int4 { group: GROUP })
        .with_full_logits(false)
        .with_float16(false);
    let template = ProgramTemplate::new(source.config(), &options, &source.metadata()).unwrap();
    let constant_data = template.constant_data.clone();
    let path = std::env::temp_dir().join(format!("pteron-q4_0-{}.pte", std::process::id()));
    let report = convert(&source, template, ScaleMethod::Search, &path, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(report.weights.iter().all(|weight| weight.lossless), "{report:?}");

    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    let (place, blob) = pte.graphs().next().unwrap();
    let bytes = |index: usize| pte.constant_bytes(place, &blob.graph.constants[index]).unwrap();
    let mut nibbles: BTreeMap<Weight, &[u8]> = BTreeMap::new();
    let mut scales: BTreeMap<(Weight, bool), Vec<f32>> = BTreeMap::new();
    for (index, content) in constant_data.iter().enumerate() {
        match *content {
            ConstantData::Int4 { weight, .. } => drop(nibbles.insert(weight, bytes(index))),
            ConstantData::Scales { weight, order, .. } => {
                scales.insert((weight, order == ScaleOrder::GroupMajor), floats(bytes(index)));
            }
            _ => {}
        }
    }
    assert_eq!(nibbles.len(), 1 + 7 * source.config().num_layers as usize, "the embedding and all projections");

    for ((weight, groups_first), scales) in scales {
        let matrix = source.config().shape(weight);
        let (rows, columns) = (matrix.rows as usize, matrix.columns as usize);
        let groups = columns / GROUP as usize;
        // Rows of scales may be padded.
        let pitch = scales.len() / groups;
        let value = |row: usize, column: usize| {
            let byte = nibbles[&weight][row * columns / 2 + column / 2];
            let nibble = if column.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
            let group = column / GROUP as usize;
            let scale = if groups_first { scales[group * pitch + row] } else { scales[row * groups + group] };
            (f32::from(nibble) - 8.0) * scale
        };
        let expected = floats(&std::fs::read(folder().join(format!("{}.bin", name(weight)))).unwrap());
        assert_eq!(expected.len(), rows * columns);
        for (index, expected) in expected.iter().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let own = value(row, column);
            // Zero times a scale below zero is −0, which is equal.
            assert!(own.to_bits() == expected.to_bits() || (own == 0.0 && *expected == 0.0), "{weight:?} [{row}, {column}]");
        }
    }
}
