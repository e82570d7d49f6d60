//! Tests that every constant is written once, with the right bytes and name.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use pteron_format::Pte;
use pteron_format::vulkan::{ConstantSource, Value};
use sha2::{Digest, Sha256};

use super::sample::{self, CONTEXT, Checkpoint, Folder};
use super::{going_on, write};
use crate::config::{LayerWeight, ModelConfig, RopeScaling, Weight};
use crate::quantise::{ScaleMethod, quantise_row};
use crate::rope::RopeTable;
use crate::source::Source;
use crate::synthetic::{Synthetic, parse};
use crate::template::WeightFormat;
use crate::template::{ConstantData, ProgramTemplate, ScaleOrder};
use crate::write::{Progress, convert};

/// The bytes of each constant, in the order of the template.
fn constants(file: &[u8]) -> Vec<Vec<u8>> {
    let pte = Pte::read(file).unwrap();
    for entry in pte.program().named_data.iter().flatten() {
        let bytes = pte.bytes(*pte.program().named_segment(&entry.key).unwrap());
        let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(entry.key, hash);
    }
    let (place, blob) = pte.graphs().next().unwrap();
    blob.graph.constants.iter().map(|constant| pte.constant_bytes(place, constant).unwrap().to_vec()).collect()
}

/// The rows of a weight as a program has them: nibbles and scales.
fn rows(source: &dyn Source, weight: Weight, group: u32) -> Vec<(Vec<u8>, Vec<f32>)> {
    let matrix = source.config().shape(weight);
    let row = |row| {
        let row = source.config().checkpoint_row(weight, row);
        if let Some(stored) = source.int4_row(weight, row, group) {
            return (stored.nibbles.into_owned(), stored.scales);
        }
        let mut numbers = vec![0.0; matrix.columns as usize];
        source.row(weight, row, &mut numbers).unwrap();
        let (mut nibbles, mut scales) = (vec![0; numbers.len() / 2], vec![0.0; numbers.len() / group as usize]);
        quantise_row(ScaleMethod::Search, &numbers, group as usize, &mut nibbles, &mut scales).unwrap();
        (nibbles, scales)
    };
    (0..matrix.rows).map(row).collect()
}

/// A content's bytes, the slow way.
fn expected(source: &dyn Source, content: ConstantData) -> Option<Vec<u8>> {
    let bytes = |numbers: &mut dyn Iterator<Item = f32>| numbers.flat_map(f32::to_le_bytes).collect();
    Some(match content {
        ConstantData::Int4 { weight, group } => {
            rows(source, weight, group).into_iter().flat_map(|(nibbles, _)| nibbles).collect()
        }
        ConstantData::Scales { weight, group, order: ScaleOrder::RowMajor } => {
            bytes(&mut rows(source, weight, group).into_iter().flat_map(|(_, scales)| scales))
        }
        ConstantData::Scales { weight, group, order: ScaleOrder::GroupMajor } => {
            let rows = rows(source, weight, group);
            let groups = rows[0].1.len();
            bytes(&mut (0..groups).flat_map(|group| rows.iter().map(move |(_, scales)| scales[group])))
        }
        ConstantData::Sums { weight, group } => {
            let rows = rows(source, weight, group);
            let (groups, bytes) = (rows[0].1.len(), group as usize / 2);
            let sum = |nibbles: &[u8]| -> i32 {
                nibbles.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).map(|value| i32::from(value) - 8).sum()
            };
            let sums = (0..groups).flat_map(|group| rows.iter().map(move |(all, _)| sum(&all[group * bytes..][..bytes])));
            sums.flat_map(i32::to_le_bytes).collect()
        }
        ConstantData::Float(weight) => {
            let matrix = source.config().shape(weight);
            let mut row = vec![0.0; matrix.columns as usize];
            let mut numbers = (0..matrix.rows).flat_map(|index| {
                source.row(weight, source.config().checkpoint_row(weight, index), &mut row).unwrap();
                row.clone()
            });
            bytes(&mut numbers)
        }
        ConstantData::RopeCos | ConstantData::RopeSin => return None,
        ConstantData::Zeros => vec![0; usize::try_from(CONTEXT).unwrap() * source.config().kv_dim() as usize * 4],
    })
}

fn check(source: &dyn Source, template: ProgramTemplate) -> Vec<u8> {
    let folder = Folder::new();
    let constant_data = template.constant_data.clone();
    let report = write(source, template, &folder.join("model.pte")).unwrap();
    let file = std::fs::read(folder.join("model.pte")).unwrap();
    assert_eq!(report.bytes, file.len() as u64);
    let found = constants(&file);
    assert_eq!(found.len(), constant_data.len());
    for (found, content) in found.iter().zip(constant_data) {
        let Some(expected) = expected(source, content) else { continue };
        assert!(*found == expected, "{content:?}: {} bytes, expected {}", found.len(), expected.len());
    }
    file
}

#[test]
fn every_constant_of_a_checkpoint() {
    let config = sample::config();
    check(&Checkpoint::new(config.clone()), sample::template(&config, 32));
}

/// Rows of queries and keys are found where the checkpoint has them; biases and norms of heads too.
#[test]
fn every_constant_of_a_decoder_with_all_parts() {
    let mut config = parse("layers=1,width=64,heads=4,kv=1,head=32,hidden=64,vocab=40,biases=all,head_norms=true").unwrap();
    config.rope.style = crate::config::RopeStyle::HalfSplit;
    check(&Synthetic::new(config.clone(), 1), sample::template(&config, 64));
    let floats = config.weights().map(ConstantData::Float).collect();
    check(&Synthetic::new(config.clone(), 1), sample::with_contents(&config, floats));
}

/// Nibbles and scales that take several blocks.
#[test]
fn constants_larger_than_a_block() {
    let config = parse("layers=1,width=128,heads=2,hidden=128,vocab=300000,tied=true").unwrap();
    let source = Synthetic::new(config.clone(), 3);
    let (weight, group) = (Weight::Embedding, 32);
    let constant_data = vec![
        ConstantData::Scales { weight, group, order: ScaleOrder::RowMajor },
        ConstantData::Int4 { weight, group },
        ConstantData::Sums { weight, group },
        ConstantData::Scales { weight, group, order: ScaleOrder::GroupMajor },
    ];
    check(&source, sample::with_contents(&config, constant_data));
    let only_scales = vec![ConstantData::Scales { weight, group, order: ScaleOrder::GroupMajor }];
    check(&source, sample::with_contents(&config, only_scales));
}

#[test]
fn equal_bytes_are_stored_once_and_equal_contents_computed_once() {
    let config = sample::config();
    let folder = Folder::new();
    let source = Checkpoint::new(config.clone());
    let template = sample::template(&config, 32);
    let report = write(&source, template.clone(), &folder.join("model.pte")).unwrap();

    let rows: u64 = config.weights().map(|weight| u64::from(config.shape(weight).rows)).sum();
    assert_eq!(source.asked.load(Ordering::Relaxed), rows);

    // Seven matrices a layer and the embedding with nibbles and scales, its scales twice; one norm, one cache, two tables.
    assert_eq!(report.constants, template.constant_data.len());
    assert_eq!(report.stored, 2 * 7 * 2 + 3 + 1 + 1 + 2);
    let file = std::fs::read(folder.join("model.pte")).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    assert_eq!(pte.program().named_data.as_ref().unwrap().len(), report.stored);
    let graph = &pte.graphs().next().unwrap().1.graph;
    let keys: BTreeSet<_> = graph.named_keys().collect();
    assert_eq!(keys.len(), report.stored);
    assert_eq!((pte.program().segments[0].len, pte.program().segments.len()), (0, report.stored + 2));
}

/// Bytes of an item that was dropped as a duplicate do not remain between segments or at the end.
#[test]
fn padding_between_segments_is_zero() {
    let config = sample::config();
    let constant_data = vec![
        ConstantData::Float(Weight::Layer(0, LayerWeight::QueryNorm)),
        ConstantData::Float(Weight::FinalNorm),
        ConstantData::Float(Weight::Layer(0, LayerWeight::AttentionNorm)),
        ConstantData::Float(Weight::Layer(1, LayerWeight::KeyNorm)),
    ];
    let file = check(&Checkpoint::new(config.clone()), sample::with_contents(&config, constant_data));
    let pte = Pte::read(file.as_slice()).unwrap();
    let segments = &pte.program().segments;
    assert_eq!(segments.len(), 4);
    for pair in segments.windows(2) {
        let (end, next) = (pair[0].start + pair[0].len, pair[1].start);
        let between = &file[usize::try_from(end).unwrap()..usize::try_from(next).unwrap()];
        assert!(between.iter().all(|&byte| byte == 0));
    }
    assert_eq!(file.len() as u64, segments[3].start + segments[3].len);
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let config = sample::config();
    let source = Checkpoint::new(config.clone());
    let written = [1, 2, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let folder = Folder::new();
        let report = pool.install(|| write(&source, sample::template(&config, 32), &folder.join("model.pte"))).unwrap();
        (std::fs::read(folder.join("model.pte")).unwrap(), report)
    });
    assert!(written[0] == written[1] && written[0] == written[2]);
}

#[test]
fn progress_ends_at_its_total() {
    let config = sample::config();
    let (folder, mut steps) = (Folder::new(), Vec::new());
    let mut progress = |step: Progress| {
        steps.push(step);
        going_on(step)
    };
    let source = Checkpoint::new(config.clone());
    convert(&source, sample::template(&config, 32), ScaleMethod::MaxAbs, &folder.join("model.pte"), &mut progress).unwrap();
    assert!(steps.windows(2).all(|pair| pair[0].done < pair[1].done && pair[0].total == pair[1].total));
    assert_eq!(steps.last().map(|step| step.done), steps.last().map(|step| step.total));
    assert_eq!(steps[0].weight, Some(Weight::Layer(0, LayerWeight::Query)));
}

#[test]
fn the_report_lists_quantised_weights() {
    let config = sample::config();
    let folder = Folder::new();
    let report = write(&Checkpoint::new(config.clone()), sample::template(&config, 32), &folder.join("a.pte")).unwrap();
    assert_eq!(report.weights.len(), config.weights().count());
    let of = |weight| report.weights.iter().find(|converted| converted.weight == weight).unwrap();
    let (query, norm) = (of(Weight::Layer(0, LayerWeight::Query)), of(Weight::FinalNorm));
    assert_eq!((query.form, query.numbers, query.lossless), (WeightFormat::Int4 { group: 32 }, 64 * 64, false));
    assert!(query.max_error > 0.0 && (0.01..0.2).contains(&query.relative_error), "{query:?}");
    assert_eq!((norm.form, norm.lossless, norm.relative_error), (WeightFormat::Float32, true, 0.0));
    assert!((0.01..0.2).contains(&report.relative_error));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["weights"][0]["weight"], "layers.0.query");
    assert_eq!(json["weights"][0]["form"]["four_bits"]["group"], 32);

    let exact = write(&Synthetic::new(config.clone(), 1), sample::template(&config, 32), &folder.join("a.pte")).unwrap();
    assert!(exact.weights.iter().all(|converted| converted.lossless) && exact.relative_error == 0.0);
}

/// The tables of a real export, with the scaling of Llama 3.2.
#[test]
fn rope_tables_equal_the_exporters() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama/tiny_4w/program.pte");
    let file = std::fs::read(path).unwrap();
    let pte = Pte::read(file.as_slice()).unwrap();
    let (place, blob) = pte.graphs().next().unwrap();
    let graph = &blob.graph;
    let prepacked = graph.chain.iter().filter(|call| call.name == "et_vk.prepack.default");
    let tables: Vec<_> = prepacked
        .map(|call| {
            let Some(Value::Tensor(tensor)) = graph.value(call.args[0]) else { panic!("a tensor is prepacked") };
            let constant = &graph.constants[tensor.constant.unwrap().index()];
            assert!(matches!(constant.source, ConstantSource::Named(_)));
            pte.constant_bytes(place, constant).unwrap()
        })
        .collect();

    let mut config: ModelConfig = parse("llama-3.2-1b").unwrap();
    config.head_dim = 16;
    let ours = RopeTable::new(&config);
    assert_eq!(tables.len(), 2);
    for (wave, theirs) in [crate::rope::Wave::Cosine, crate::rope::Wave::Sine].into_iter().zip(tables) {
        let mut row = [0; 32];
        for (position, theirs) in theirs.as_chunks::<32>().0.iter().enumerate() {
            ours.row(wave, position, &mut row);
            for (ours, theirs) in row.as_chunks().0.iter().zip(theirs.as_chunks().0) {
                let (ours, theirs) = (f32::from_le_bytes(*ours), f32::from_le_bytes(*theirs));
                assert!((ours - theirs).abs() <= f32::EPSILON, "{wave:?} at {position}: {ours}, expected {theirs}");
            }
        }
    }
}

#[test]
fn frequency_divisors_are_applied() {
    let mut config = parse("llama-2-7b,head=8").unwrap();
    let plain = RopeTable::new(&config).frequencies().to_vec();
    config.rope.scaling = Some(RopeScaling::FrequencyDivisors(vec![1.0, 2.0, 4.0, 8.0]));
    let divided: Vec<_> = plain.iter().zip([1.0, 2.0, 4.0, 8.0]).map(|(frequency, divisor)| frequency / divisor).collect();
    assert_eq!(RopeTable::new(&config).frequencies(), divided);
}
