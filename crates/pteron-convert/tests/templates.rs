//! Every accepted decoder has a program that can be written and read, with a sound memory plan.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::collections::HashMap;

use common::{Reader, live};
use proptest::prelude::*;
use pteron_convert::Error;
use pteron_convert::config::{AttentionBias, LayerWeight, ModelConfig, RopeConfig, RopeScaling, RopeStyle, Weight};
use pteron_convert::source::CheckpointMetadata;
use pteron_convert::template::{ConstantData, ConvertOptions, ProgramTemplate, WeightFormat};
use pteron_format::program::{NamedData, SegmentId};
use pteron_format::vulkan::{ConstantSource, Graph, Value, ValueId, write_blob};
use pteron_format::{Program, Pte};

fn small() -> (ModelConfig, ConvertOptions, CheckpointMetadata) {
    let rotary = RopeConfig { theta: 5e5, scaling: None, style: RopeStyle::HalfSplit };
    let config = ModelConfig {
        vocab_size: 101,
        hidden_size: 64,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        intermediate_size: 96,
        norm_eps: 1e-6,
        rope: rotary,
        qk_norm: true,
        attention_bias: AttentionBias::All,
        tied_embeddings: false,
        max_position_embeddings: 64,
    };
    let options = ConvertOptions::new(64)
        .with_max_seq_length(33)
        .with_linear_format(WeightFormat::Int4 { group: 32 })
        .with_embedding_format(WeightFormat::Int4 { group: 64 })
        .with_full_logits(false)
        .with_float16(false);
    (config, options, CheckpointMetadata { bos_token: Some(1), eos_tokens: vec![2], sidecars: Vec::new() })
}

/// Llama 3.1's 8B.
fn large() -> (ModelConfig, ConvertOptions, CheckpointMetadata) {
    let (config, options, metadata) = small();
    let sizes =
        ModelConfig { vocab_size: 128_256, hidden_size: 4096, num_layers: 32, num_heads: 32, num_kv_heads: 8, ..config };
    let config = ModelConfig {
        head_dim: 128,
        intermediate_size: 14336,
        qk_norm: false,
        attention_bias: AttentionBias::None,
        ..sizes
    };
    (
        config,
        {
            let mut changed = options;
            changed.max_context_length = 8192;
            changed.with_max_seq_length(2049)
        },
        metadata,
    )
}

/// The whole program with zeros for all constants, under names that say which they are.
fn fill(template: &ProgramTemplate) -> (Program<Vec<u8>>, Graph) {
    let (mut program, mut graph) = (template.program.clone(), template.graph.clone());
    let mut named: Vec<(String, u64)> = Vec::new();
    for (content, constant) in template.constant_data.iter().zip(&mut graph.constants) {
        let name = format!("{content:?}");
        constant.source = ConstantSource::Named(name.clone());
        if !named.iter().any(|(other, _)| *other == name) {
            named.push((name, constant.len));
        }
    }
    program.segments = vec![Vec::new(), write_blob(&graph, &[]).unwrap()];
    program.segments.extend(named.iter().map(|(_, len)| vec![0; usize::try_from(*len).unwrap()]));
    let entries = (2..).map(SegmentId).zip(named).map(|(segment, (key, _))| NamedData { key, segment });
    program.named_data = Some(entries.collect());
    (program, graph)
}

fn check(config: &ModelConfig, options: &ConvertOptions, metadata: &CheckpointMetadata) {
    let template = ProgramTemplate::new(config, options, metadata).unwrap();
    live::check(&template.graph).unwrap();
    let (program, graph) = fill(&template);
    let pte = Pte::read(pteron_format::write(&program).unwrap()).unwrap();
    assert_eq!(pte.program().plans, program.plans);
    assert_eq!(pte.graphs().map(|(_, blob)| &blob.graph).collect::<Vec<_>>(), [&graph]);
    // Every weight is a constant, its scales beside it; a tied embedding serves twice.
    let mut uses: HashMap<Weight, usize> = HashMap::new();
    for content in &template.constant_data {
        if let ConstantData::Int4 { weight, .. } | ConstantData::Float(weight) = content {
            *uses.entry(*weight).or_default() += 1;
        }
    }
    for weight in config.weights() {
        let expected = if weight == Weight::Embedding && config.tied_embeddings { 2 } else { 1 };
        assert_eq!(uses.remove(&weight), Some(expected), "{weight:?}");
    }
    assert_eq!(uses, HashMap::new());
}

prop_compose! {
    fn decoders()(
        vocabulary in 1u32..200, pieces in 1u32..4, layers in 1u32..4, groups in 1u32..4, key_value_heads in 1u32..4,
        half_head in 1u32..5, hidden in 1u32..4, biases in 0usize..3, head_norms: bool, tied: bool, scaled: bool,
    ) -> ModelConfig {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low_frequency_factor: 1.0, high_frequency_factor: 4.0, original_context: 8192 };
        let biases = [AttentionBias::None, AttentionBias::Qkv, AttentionBias::All][biases];
        let sizes = ModelConfig { vocab_size: vocabulary, hidden_size: 32 * pieces, num_layers: layers, num_kv_heads: key_value_heads, qk_norm: head_norms, tied_embeddings: tied, attention_bias: biases, ..small().0 };
        let rotary = RopeConfig { scaling: scaled.then_some(scaling), ..sizes.rope };
        ModelConfig { num_heads: 4 * groups * key_value_heads, head_dim: 8 * half_head, intermediate_size: 32 * hidden, rope: rotary, ..sizes }
    }
}

prop_compose! {
    fn wishes()(context in 1u32..40, call in 1u32..40, floats: bool, words: bool, full_logits: bool, half: bool, int8: bool) -> ConvertOptions {
        let linears = if floats { WeightFormat::Float32 } else { WeightFormat::Int4 { group: 32 } };
        let embedding = if words { WeightFormat::Float32 } else { WeightFormat::Int4 { group: 32 } };
        ConvertOptions::new(context).with_max_seq_length(1 + call.min(context)).with_linear_format(linears).with_embedding_format(embedding).with_full_logits(full_logits).with_float16(half).with_int8_activations(int8)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_decoder_has_a_program(config in decoders(), options in wishes(), begin: Option<u16>, ends: Vec<u16>) {
        let metadata = CheckpointMetadata { bos_token: begin.map(u32::from), eos_tokens: ends.into_iter().map(u32::from).collect(), sidecars: Vec::new() };
        check(&config, &options, &metadata);
    }

    /// Floats need no groups, so that sizes can be anything.
    #[test]
    fn odd_sizes_have_programs_of_floats(
        config in decoders(), options in wishes(), width in 1u32..20, hidden in 1u32..20, groups in 1u32..4, half_head in 1u32..4,
    ) {
        let heads = groups * config.num_kv_heads;
        let config = ModelConfig { hidden_size: width, intermediate_size: hidden, num_heads: heads, head_dim: 2 * half_head, ..config };
        let options = options.with_linear_format(WeightFormat::Float32).with_embedding_format(WeightFormat::Float32);
        check(&config, &options, &CheckpointMetadata::default());
    }

    /// Sizes at which tensors stop fitting textures, so that copies come in between.
    #[test]
    fn plans_of_memory_are_sound_at_any_size(
        config in decoders(), options in wishes(), vocabulary in 16_000u32..70_000, hidden in 500u32..530, context in 2000u32..20_000,
    ) {
        let config = ModelConfig { vocab_size: vocabulary, intermediate_size: 32 * hidden, ..config };
        let template = ProgramTemplate::new(&config, &{ let mut changed = options; changed.max_context_length = context; changed }, &CheckpointMetadata::default()).unwrap();
        prop_assert_eq!(live::check(&template.graph), Ok(()));
    }
}

#[test]
fn a_small_decoder_has_a_program() {
    let (config, options, metadata) = small();
    check(&config, &options, &metadata);
}

#[test]
fn a_large_decoder_has_a_program() {
    let (config, options, metadata) = large();
    let template = ProgramTemplate::new(&config, &options, &metadata).unwrap();
    live::check(&template.graph).unwrap();
    let parameters: u64 = config.weights().map(|weight| config.shape(weight).count()).sum();
    assert_eq!(parameters, 8_030_261_248);
    let (norms, embedding) = (65 * 4096, 128_256 * 4096);
    // Four bits and a scale for every 32 numbers; of the embedding, for every 64.
    let weights = (parameters - norms - embedding) * 5 / 8 + embedding * 9 / 16 + norms * 4;
    let (caches, tables) = (2 * 32 * 8192 * 1024 * 4, 2 * 8192 * 64 * 4);
    let bytes: u64 = template.graph.constants.iter().map(|constant| constant.len).sum();
    assert_eq!(bytes, weights + caches + tables);
}

/// A program has no constant methods for tokens that are not known.
#[test]
fn tokens_that_are_not_known_have_no_methods() {
    let (config, options, _) = small();
    let program = ProgramTemplate::new(&config, &options, &CheckpointMetadata::default()).unwrap().program;
    assert!(program.plan("get_bos_id").is_none() && program.plan("get_eos_ids").is_none());
    assert!(program.plan("get_vocab_size").is_some());
}

/// The parts of a layer are where a forward pass needs them: which matrix meets which operator.
#[test]
fn weights_are_where_they_belong() {
    let (config, options, metadata) = small();
    let template = ProgramTemplate::new(&config, &options, &metadata).unwrap();
    let flow = Flow { graph: Reader(&template.graph), constant_data: &template.constant_data };
    let attentions = flow.calls("sdpa_with_kv_cache.default");
    let gates = flow.calls("aten.sigmoid.default");
    assert_eq!((attentions.len(), gates.len()), (2, 2));
    for (layer, (attention, gate)) in (0..).zip(attentions.iter().zip(&gates)) {
        let part = |part| vec![Weight::Layer(layer, part)];
        let rotated = [
            part(LayerWeight::QueryNorm),
            part(LayerWeight::QueryBias),
            part(LayerWeight::Query),
            part(LayerWeight::AttentionNorm),
        ];
        assert_eq!(flow.path(attention[0], 4), rotated.concat());
        assert_eq!(flow.path(attention[1], 3)[..2], [part(LayerWeight::KeyNorm), part(LayerWeight::KeyBias)].concat());
        assert_eq!(flow.path(attention[2], 2), [part(LayerWeight::ValueBias), part(LayerWeight::Value)].concat());
        assert_eq!(flow.path(gate[0], 2), [part(LayerWeight::Gate), part(LayerWeight::FeedForwardNorm)].concat());
    }
    let products = flow.calls("aten.mul.Tensor");
    assert_eq!(flow.path(products[1][1], 1), [Weight::Layer(0, LayerWeight::Up)]);
    let sums = flow.calls("aten.add.Tensor");
    let output = [Weight::Layer(0, LayerWeight::AttentionOutputBias), Weight::Layer(0, LayerWeight::AttentionOutput)];
    assert_eq!(flow.path(sums[0][1], 2), output);
    assert_eq!(flow.path(sums[1][1], 1), [Weight::Layer(0, LayerWeight::Down)]);
    assert_eq!(flow.path(template.graph.outputs[0], 2), [Weight::Output, Weight::FinalNorm]);
}

struct Flow<'a> {
    graph: Reader<'a>,
    constant_data: &'a [ConstantData],
}

impl Flow<'_> {
    fn calls(&self, name: &str) -> Vec<Vec<ValueId>> {
        self.graph.0.chain.iter().filter(|call| call.name == name).map(|call| call.args.clone()).collect()
    }

    /// The first weights on the way back from a value, following first arguments. Biases come before their matrices.
    fn path(&self, mut value: ValueId, count: usize) -> Vec<Weight> {
        let mut weights = Vec::new();
        while weights.len() < count {
            let makes = |out: ValueId| match self.graph.value(out) {
                Value::ValueList(items) => items.iter().position(|&item| item == value),
                _ => (out == value).then_some(0),
            };
            let found = self.graph.0.chain.iter().find_map(|call| Some((call, makes(*call.args.last().unwrap())?)));
            let Some((call, item)) = found else { break };
            let constants = call.args[1..].iter().rev().filter_map(|&arg| self.graph.value(arg).as_tensor()?.constant);
            for constant in constants {
                if let ConstantData::Float(weight) | ConstantData::Int4 { weight, .. } = self.constant_data[constant.index()]
                {
                    weights.push(weight);
                }
            }
            value = call.args[item];
        }
        weights.truncate(count);
        weights
    }
}

#[test]
fn invalid_models_and_options_are_rejected_by_name() {
    type Change = fn(&mut ModelConfig, &mut ConvertOptions);
    let cases: [(Change, &str); 21] = [
        (|d, _| d.vocab_size = 0, "vocabulary is 0"),
        (|d, _| d.hidden_size = 1 << 31, "width is 2147483648, but must be between 1 and 2147483647"),
        (|d, _| d.num_layers = 0, "number of layers is 0"),
        (|d, _| d.num_layers = 5000, "must be between 1 and 1024"),
        (|d, _| d.head_dim = 15, "heads are 15 wide"),
        (|d, _| d.num_kv_heads = 3, "4 heads and 3 key and value heads"),
        (|d, _| (d.num_heads, d.head_dim) = (1 << 20, 1 << 20), "together wider"),
        (|d, _| d.norm_eps = 0.0, "norm epsilon is 0"),
        (|d, _| d.norm_eps = f64::NAN, "norm epsilon is NaN"),
        (|d, _| d.rope.theta = -1.0, "rotary base is -1"),
        (|d, _| d.rope.scaling = scaling(f64::INFINITY, 1.0, 4.0), "scaling factor is inf"),
        (|d, _| d.rope.scaling = scaling(8.0, 4.0, 4.0), "low frequency factor is 4, but must be less"),
        (|_, o| o.max_context_length = 0, "the context is 0"),
        (|_, o| o.max_seq_length = 1, "the longest call is 1, but must be at least 2"),
        (|_, o| o.max_seq_length = 66, "has 65 tokens, but the context has room for 64"),
        (
            |_, o| o.linear_format = WeightFormat::Int4 { group: 48 },
            "4-bit projections cannot have groups of 48: allowed are 32",
        ),
        (
            |_, o| o.linear_format = WeightFormat::Int4 { group: 64 },
            "groups of 64 do not divide the model's hidden width of 96, as they must in 4-bit projections: allowed are 32",
        ),
        (
            |_, o| o.embedding_format = WeightFormat::Int4 { group: 128 },
            "the model's width of 64, as they must in a 4-bit embedding: allowed are 32, 64",
        ),
        (|d, _| (d.num_heads, d.num_kv_heads, d.head_dim) = (16, 1, 2), "keys are 2 wide together"),
        (
            |d, _| d.hidden_size = 80,
            "groups of 32 do not divide the model's width of 80, as they must in 4-bit projections: use float32",
        ),
        (
            |d, o| {
                (d.num_kv_heads, d.num_heads, d.head_dim, o.max_context_length) =
                    (1 << 14, 1 << 14, 1 << 16, i32::MAX as u32);
            },
            "the KV cache",
        ),
    ];
    for (change, expected) in cases {
        let (mut config, mut options, metadata) = small();
        change(&mut config, &mut options);
        match ProgramTemplate::new(&config, &options, &metadata) {
            Err(Error::InvalidOption(problem) | Error::InvalidModel(problem)) => {
                assert!(problem.contains(expected), "{problem} does not say {expected:?}");
            }
            Err(other) => panic!("{expected}: {other}"),
            Ok(_) => panic!("{expected}: was accepted"),
        }
    }
}

fn scaling(factor: f64, low_frequency_factor: f64, high_frequency_factor: f64) -> Option<RopeScaling> {
    Some(RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context: 8192 })
}
