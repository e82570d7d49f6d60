//! LoRA adapters against programs converted from merged weights.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]
#![allow(clippy::cast_possible_truncation, reason = "small counts of a test")]

mod engine;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use pteron::{Gpu, GpuOptions, LoadOptions, Method, Precision, Program, SequenceRows, block_on};
use pteron_convert::config::{ModelConfig, RopeStyle};
use pteron_convert::source::CheckpointMetadata;
use pteron_convert::template::{ConvertOptions, WeightFormat};
use pteron_convert::{LayerWeight, ProgramTemplate, ScaleMethod, Source, Synthetic, Weight, synthetic};
use pteron_llm::{
    AdapterId, AdapterOptions, GpuSampling, LoraAdapter, LowRankUpdate, ModelOptions, PagedModel, PagedSample, PagedSizes,
    PagedStep, PagedToken, Projection, Projections, TokenId, token_inputs,
};

static GPU: LazyLock<Gpu> = LazyLock::new(|| {
    let options = GpuOptions::default().with_adapter(std::env::var("PTERON_ADAPTER").ok());
    block_on(Gpu::open(&options)).expect("tests need an adapter; the test command installs one in software")
});

/// A model whose queries and keys have split halves, as Hugging Face's, so that the converter reorders their rows.
fn config() -> ModelConfig {
    let mut config = synthetic::parse("layers=2,width=64,heads=4,kv=2,head=16,hidden=96,vocab=40").unwrap();
    config.rope.style = RopeStyle::HalfSplit;
    config
}

/// Synthetic weights with an adapter merged into them.
struct Merged {
    base: Synthetic,
    adapter: Option<LoraAdapter>,
}

fn weight_of(projection: Projection) -> LayerWeight {
    match projection {
        Projection::Query => LayerWeight::Query,
        Projection::Key => LayerWeight::Key,
        Projection::Value => LayerWeight::Value,
        Projection::AttentionOutput => LayerWeight::AttentionOutput,
        Projection::Gate => LayerWeight::Gate,
        Projection::Up => LayerWeight::Up,
        Projection::Down => LayerWeight::Down,
    }
}

impl Source for Merged {
    fn config(&self) -> &ModelConfig {
        self.base.config()
    }

    fn row(&self, weight: Weight, row: u32, out: &mut [f32]) -> pteron_convert::Result<()> {
        self.base.row(weight, row, out)?;
        for update in self.adapter.iter().flat_map(LoraAdapter::updates) {
            if Weight::Layer(update.layer, weight_of(update.projection)) != weight {
                continue;
            }
            let b = &update.b[(row * update.rank) as usize..][..update.rank as usize];
            for (a, b) in update.a.chunks_exact(update.columns as usize).zip(b) {
                out.iter_mut().zip(a).for_each(|(out, a)| *out += update.scale * b * a);
            }
        }
        Ok(())
    }

    fn int4_row(&self, weight: Weight, row: u32, group: u32) -> Option<pteron_convert::source::Int4Row<'_>> {
        if self.adapter.is_some() { None } else { self.base.int4_row(weight, row, group) }
    }

    fn metadata(&self) -> CheckpointMetadata {
        CheckpointMetadata::default()
    }
}

fn program(adapter: Option<&LoraAdapter>, linears: WeightFormat) -> Program {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("pteron-adapters-{}-{}.pte", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path: PathBuf = std::env::temp_dir().join(name);
    let source = Merged { base: Synthetic::new(config(), 5), adapter: adapter.cloned() };
    let options = ConvertOptions::new(96).with_embedding_format(WeightFormat::Float32).with_linear_format(linears);
    let template = ProgramTemplate::new(source.config(), &options, &source.metadata()).unwrap();
    let report =
        pteron_convert::convert(&source, template, ScaleMethod::default(), &path, &mut |_| ControlFlow::Continue(()));
    report.unwrap();
    let program = Program::from_bytes(std::fs::read(&path).unwrap(), Vec::new()).unwrap();
    std::fs::remove_file(&path).unwrap();
    program
}

/// An adapter with random matrices.
fn adapter(seed: u32, rank: u32, projections: &[Projection]) -> LoraAdapter {
    let config = config();
    let update = |layer: u32, projection: Projection| {
        let shape = config.shape(Weight::Layer(layer, weight_of(projection)));
        let mut state = u64::from(seed * 100 + layer * 10 + projection as u32);
        let mut random = |count: u32, spread: f32| -> Vec<f32> {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * spread
            };
            (0..count).map(|_| next()).collect()
        };
        let (rows, columns) = (shape.rows, shape.columns);
        let (a, b) = (random(rank * columns, 0.2), random(rows * rank, 0.3));
        LowRankUpdate { layer, projection, rank, columns, rows, scale: 0.5, a, b }
    };
    // One of them updates one layer alone.
    let layers = if seed == 2 { 1..2 } else { 0..2 };
    LoraAdapter::new(
        layers
            .flat_map(|layer| projections.iter().map(move |&own| (layer, own)))
            .map(|(layer, own)| update(layer, own))
            .collect(),
    )
    .unwrap()
}

fn four_adapters() -> [LoraAdapter; 4] {
    use Projection::{AttentionOutput, Down, Query, Value};
    [
        adapter(1, 4, &Projection::ALL),
        adapter(2, 8, &[Query, Value]),
        adapter(3, 3, &[AttentionOutput, Down]),
        adapter(4, 6, &Projection::ALL),
    ]
}

fn room(slots: u32) -> AdapterOptions {
    AdapterOptions { slots, max_rank: 8, projections: Projections::ALL }
}

fn load(program: &Program, adapters: Option<AdapterOptions>) -> PagedModel {
    let sizes = PagedSizes::new(64, 40).with_max_sequences(8).with_adapters(adapters);
    let options = ModelOptions::default().with_precision(Precision::Full);
    block_on(PagedModel::load(&GPU, program, sizes, &options)).unwrap()
}

fn reference(adapter: Option<&LoraAdapter>) -> Method {
    let program = program(adapter, WeightFormat::Float32);
    block_on(program.load(&GPU, "forward", &LoadOptions::default())).unwrap()
}

/// The logits after tokens, computed alone.
fn alone(method: &Method, tokens: &[TokenId]) -> Vec<f32> {
    let mut state = method.new_state().unwrap();
    let inputs = token_inputs(method.inputs(), tokens, 0).unwrap();
    block_on(method.call(&mut state, &inputs)).unwrap().remove(0).to_f32().unwrap()
}

#[track_caller]
fn assert_close(got: &[f32], expected: &[f32], context: &str) {
    assert_eq!(got.len(), expected.len(), "{context}");
    let difference = difference(got, expected);
    assert!(difference <= 2e-3, "{context}: logits differ by {difference} of the largest");
}

/// The largest difference as a share of the largest logit.
fn difference(got: &[f32], expected: &[f32]) -> f32 {
    let largest = expected.iter().fold(1.0f32, |largest, x| largest.max(x.abs()));
    got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / largest
}

fn tokens(seed: u32, count: u32) -> Vec<TokenId> {
    (0..count).map(|index| (seed * 13 + index * 7 + index * index) % 40).collect()
}

/// Runs texts as sequences of one step, each with its adapter, and returns their logits. Blocks are three per sequence, from `first` on.
fn run(model: &mut PagedModel, texts: &[(Vec<TokenId>, Option<AdapterId>)], position: u32) -> Vec<Vec<f32>> {
    let (mut known, mut sequences, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for (index, (text, _)) in (0..).zip(texts) {
        let first_row = known.len() as u32;
        let own = SequenceRows { first_row, row_count: text.len() as u32, position, block_table_offset: 3 * index };
        sequences.push(own);
        known.extend(text.iter().map(|&token| PagedToken::Known(token)));
        samples.push(PagedSample { row: known.len() as u32 - 1, sampling: GpuSampling::GREEDY });
    }
    let block_tables: Vec<u32> = (0..3 * texts.len() as u32).collect();
    let adapters: Vec<_> = texts.iter().map(|(_, adapter)| *adapter).collect();
    let step = PagedStep {
        tokens: &known,
        sequences: &sequences,
        block_tables: &block_tables,
        samples: &samples,
        adapters: &adapters,
        ..PagedStep::default()
    };
    block_on(model.run_with_logits(&step)).unwrap().1
}

/// Four adapters and none in one step: prompts, then decode steps.
fn check_mix(linears: WeightFormat) {
    let adapters = four_adapters();
    let mut model = load(&program(None, linears), Some(room(4)));
    let ids: Vec<_> = adapters.iter().map(|adapter| model.load_adapter(adapter).unwrap()).collect();
    let methods: Vec<Method> = [None].into_iter().chain(adapters.iter().map(Some)).map(reference).collect();
    let lengths = [5, 1, 19, 8, 12, 3];
    let own = |index: usize| if index == 5 { 1 } else { index };
    let id = |index: usize| own(index).checked_sub(1).map(|index| ids[index]);
    let mut texts: Vec<Vec<TokenId>> = (1..).zip(lengths).map(|(seed, length)| tokens(seed, length)).collect();
    let prompts: Vec<_> = texts.iter().enumerate().map(|(index, text)| (text.clone(), id(index))).collect();
    let logits = run(&mut model, &prompts, 0);
    let mut changed = 0;
    for (index, (text, logits)) in texts.iter().zip(&logits).enumerate() {
        let expected = alone(&methods[own(index)], text);
        assert_close(logits, &expected, &format!("sequence {index}"));
        changed += usize::from(difference(&alone(&methods[0], text), &expected) > 0.05);
    }
    assert_eq!(changed, 5, "adapters change the logits");
    // One row per sequence, in the order of their blocks: sequences that are as long as others run in separate steps.
    for (index, text) in texts.iter_mut().enumerate() {
        text.push(7);
        let step = PagedStep {
            tokens: &[PagedToken::Known(7)],
            sequences: &[SequenceRows {
                first_row: 0,
                row_count: 1,
                position: text.len() as u32 - 1,
                block_table_offset: 0,
            }],
            block_tables: &[3 * index as u32, 3 * index as u32 + 1, 3 * index as u32 + 2],
            samples: &[PagedSample { row: 0, sampling: GpuSampling::GREEDY }],
            adapters: &[id(index)],
            ..PagedStep::default()
        };
        let logits = block_on(model.run_with_logits(&step)).unwrap().1;
        assert_close(&logits[0], &alone(&methods[own(index)], text), &format!("sequence {index} after a token"));
    }
}

#[test]
fn rows_with_adapters_equal_merged_weights() {
    check_mix(WeightFormat::Float32);
}

#[test]
fn so_do_rows_of_programs_with_4_bit_weights() {
    // Synthetic weights are exact in 4 bits.
    check_mix(WeightFormat::Int4 { group: 32 });
}

#[test]
fn adapters_are_replaced_and_unloaded_while_steps_are_in_flight() {
    let [first, second, ..] = four_adapters();
    let mut model = load(&program(None, WeightFormat::Float32), Some(room(2)));
    let text = tokens(3, 9);
    let [base, of_first, of_second] = [None, Some(&first), Some(&second)].map(|adapter| alone(&reference(adapter), &text));
    let one = |model: &mut PagedModel, id| run(model, &[(text.clone(), id)], 0).remove(0);
    let id = model.load_adapter(&first).unwrap();
    assert_close(&one(&mut model, None), &base, "without an adapter");
    assert_close(&one(&mut model, Some(id)), &of_first, "the first adapter");

    // A step in flight keeps the adapter that it was started with.
    let known: Vec<PagedToken> = text.iter().map(|&token| PagedToken::Known(token)).collect();
    let step = PagedStep {
        tokens: &known,
        sequences: &[SequenceRows { first_row: 0, row_count: 9, position: 0, block_table_offset: 0 }],
        block_tables: &[0],
        samples: &[PagedSample { row: 8, sampling: GpuSampling::GREEDY }],
        adapters: &[Some(id)],
        ..PagedStep::default()
    };
    let pending = model.start(&step).unwrap();
    let replaced = model.replace_adapter(id, &second).unwrap();
    let argmax = |logits: &[f32]| (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as TokenId;
    assert_eq!(block_on(pending.wait()).unwrap().tokens, [Some(argmax(&of_first))]);
    assert_close(&one(&mut model, Some(replaced)), &of_second, "the second adapter");
    let error = model.start(&step).unwrap_err().to_string();
    assert!(error.contains("was unloaded"), "{error}");

    let other = model.load_adapter(&first).unwrap();
    let error = model.load_adapter(&first).unwrap_err().to_string();
    assert!(error.contains("all 2 slots hold an adapter"), "{error}");
    model.unload_adapter(replaced).unwrap();
    assert!(model.unload_adapter(replaced).is_err());
    let again = model.load_adapter(&second).unwrap();
    let logits = run(&mut model, &[(text.clone(), Some(again)), (text.clone(), Some(other)), (text.clone(), None)], 0);
    for (logits, expected) in logits.iter().zip([&of_second, &of_first, &base]) {
        assert_close(logits, expected, "after a slot was used again");
    }
}

#[test]
fn adapters_that_do_not_fit_are_rejected_and_change_nothing() {
    let attention = AdapterOptions { projections: Projections::ATTENTION, ..room(2) };
    let mut model = load(&program(None, WeightFormat::Float32), Some(attention));
    let [all, attention, ..] = four_adapters();
    let edited = |edit: &dyn Fn(&mut LowRankUpdate)| {
        let mut updates = attention.updates().to_vec();
        updates.iter_mut().for_each(edit);
        LoraAdapter::new(updates).unwrap()
    };
    let longer = edited(&|own| (own.rows, own.b) = (own.rows + 16, vec![1.0; ((own.rows + 16) * own.rank) as usize]));
    let cases = [
        (all, "gate_proj of layer 0, which the model does not have or was not loaded to update"),
        (adapter(1, 9, &[Projection::Query]), "rank is 9, but the model was loaded for ranks up to 8"),
        (edited(&|own| own.layer = 2), "q_proj of layer 2, which the model does not have"),
        (longer, "q_proj of layer 1 as [80, 64], but the model's is [64, 64]"),
    ];
    for (adapter, reason) in cases {
        let error = model.load_adapter(&adapter).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let id = model.load_adapter(&attention).unwrap();
    let text = tokens(8, 11);
    let logits = run(&mut model, &[(text.clone(), Some(id)), (text.clone(), None)], 0);
    assert_close(&logits[0], &alone(&reference(Some(&attention)), &text), "with an adapter");
    assert_close(&logits[1], &alone(&reference(None), &text), "without an adapter");
    let step = PagedStep { adapters: &[Some(id)], ..PagedStep::default() };
    assert!(model.start(&step).unwrap_err().to_string().contains("names 1 adapters for 0 sequences"));

    let mut without = load(&program(None, WeightFormat::Float32), None);
    assert!(without.load_adapter(&attention).unwrap_err().to_string().contains("all 0 slots"));
    let rows = [SequenceRows { first_row: 0, row_count: 1, position: 0, block_table_offset: 0 }];
    let step = PagedStep {
        tokens: &[PagedToken::Known(1)],
        sequences: &rows,
        block_tables: &[0],
        adapters: &[Some(id)],
        ..PagedStep::default()
    };
    assert!(without.start(&step).unwrap_err().to_string().contains("without room for adapters"));
}
