//! Any decoder that is not refused has a program that can be written and read, with a sound plan of memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::collections::HashMap;

use common::{Reader, live};
use proptest::prelude::*;
use pteron_convert::Error;
use pteron_convert::blueprint::{Blueprint, Content, Form, Options};
use pteron_convert::decoder::{Biases, Decoder, Pairs, Part, Rotary, Scaling, Weight};
use pteron_convert::source::Facts;
use pteron_format::program::{NamedData, SegmentId};
use pteron_format::vulkan::{ConstantSource, Graph, Value, ValueId, write_blob};
use pteron_format::{Program, Pte};

fn small() -> (Decoder, Options, Facts) {
    let rotary = Rotary { theta: 5e5, scaling: None, pairs: Pairs::Halves };
    let decoder = Decoder {
        vocabulary: 101,
        width: 64,
        layers: 2,
        heads: 4,
        key_value_heads: 2,
        head_width: 16,
        hidden: 96,
        norm_epsilon: 1e-6,
        rotary,
        head_norms: true,
        biases: Biases::All,
        tied: false,
        trained_context: 64,
    };
    let options = Options {
        context: 64,
        longest_call: 33,
        linears: Form::FourBits { group: 32 },
        embedding: Form::FourBits { group: 64 },
        full_logits: false,
        half: false,
    };
    (decoder, options, Facts { begin: Some(1), ends: vec![2], sidecars: Vec::new() })
}

/// Llama 3.1's 8B.
fn large() -> (Decoder, Options, Facts) {
    let (decoder, options, facts) = small();
    let sizes = Decoder { vocabulary: 128_256, width: 4096, layers: 32, heads: 32, key_value_heads: 8, ..decoder };
    let decoder = Decoder { head_width: 128, hidden: 14336, head_norms: false, biases: Biases::None, ..sizes };
    (decoder, Options { context: 8192, longest_call: 2049, ..options }, facts)
}

/// The whole program with zeros for all constants, under names that say which they are.
fn fill(blueprint: &Blueprint) -> (Program<Vec<u8>>, Graph) {
    let (mut program, mut graph) = (blueprint.program.clone(), blueprint.graph.clone());
    let mut named: Vec<(String, u64)> = Vec::new();
    for (content, constant) in blueprint.contents.iter().zip(&mut graph.constants) {
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

fn check(decoder: &Decoder, options: &Options, facts: &Facts) {
    let blueprint = Blueprint::new(decoder, options, facts).unwrap();
    live::check(&blueprint.graph).unwrap();
    let (program, graph) = fill(&blueprint);
    let pte = Pte::read(pteron_format::write(&program).unwrap()).unwrap();
    assert_eq!(pte.program().plans, program.plans);
    assert_eq!(pte.graphs().map(|(_, blob)| &blob.graph).collect::<Vec<_>>(), [&graph]);
    // Every weight is a constant, its scales beside it; a tied embedding serves twice.
    let mut uses: HashMap<Weight, usize> = HashMap::new();
    for content in &blueprint.contents {
        if let Content::Nibbles { weight, .. } | Content::Floats(weight) = content {
            *uses.entry(*weight).or_default() += 1;
        }
    }
    for weight in decoder.weights() {
        let expected = if weight == Weight::Embedding && decoder.tied { 2 } else { 1 };
        assert_eq!(uses.remove(&weight), Some(expected), "{weight:?}");
    }
    assert_eq!(uses, HashMap::new());
}

prop_compose! {
    fn decoders()(
        vocabulary in 1u32..200, pieces in 1u32..4, layers in 1u32..4, groups in 1u32..4, key_value_heads in 1u32..4,
        half_head in 1u32..5, hidden in 1u32..4, biases in 0usize..3, head_norms: bool, tied: bool, scaled: bool,
    ) -> Decoder {
        let scaling = Scaling::Llama3 { factor: 8.0, low_frequency_factor: 1.0, high_frequency_factor: 4.0, original_context: 8192 };
        let biases = [Biases::None, Biases::Inputs, Biases::All][biases];
        let sizes = Decoder { vocabulary, width: 32 * pieces, layers, key_value_heads, head_norms, tied, biases, ..small().0 };
        let rotary = Rotary { scaling: scaled.then_some(scaling), ..sizes.rotary };
        Decoder { heads: 4 * groups * key_value_heads, head_width: 8 * half_head, hidden: 32 * hidden, rotary, ..sizes }
    }
}

prop_compose! {
    fn wishes()(context in 1u32..40, call in 1u32..40, floats: bool, words: bool, full_logits: bool, half: bool) -> Options {
        let linears = if floats { Form::Float32 } else { Form::FourBits { group: 32 } };
        let embedding = if words { Form::Float32 } else { Form::FourBits { group: 32 } };
        Options { context, longest_call: 1 + call.min(context), linears, embedding, full_logits, half }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_decoder_has_a_program(decoder in decoders(), options in wishes(), begin: Option<u16>, ends: Vec<u16>) {
        let facts = Facts { begin: begin.map(u32::from), ends: ends.into_iter().map(u32::from).collect(), sidecars: Vec::new() };
        check(&decoder, &options, &facts);
    }

    /// Floats need no groups, so that sizes can be anything.
    #[test]
    fn odd_sizes_have_programs_of_floats(
        decoder in decoders(), options in wishes(), width in 1u32..20, hidden in 1u32..20, groups in 1u32..4, half_head in 1u32..4,
    ) {
        let heads = groups * decoder.key_value_heads;
        let decoder = Decoder { width, hidden, heads, head_width: 2 * half_head, ..decoder };
        let options = Options { linears: Form::Float32, embedding: Form::Float32, ..options };
        check(&decoder, &options, &Facts::default());
    }

    /// Sizes at which tensors stop fitting textures, so that copies come in between.
    #[test]
    fn plans_of_memory_are_sound_at_any_size(
        decoder in decoders(), options in wishes(), vocabulary in 16_000u32..70_000, hidden in 500u32..530, context in 2000u32..20_000,
    ) {
        let decoder = Decoder { vocabulary, hidden: 32 * hidden, ..decoder };
        let blueprint = Blueprint::new(&decoder, &Options { context, ..options }, &Facts::default()).unwrap();
        prop_assert_eq!(live::check(&blueprint.graph), Ok(()));
    }
}

#[test]
fn a_small_decoder_has_a_program() {
    let (decoder, options, facts) = small();
    check(&decoder, &options, &facts);
}

#[test]
fn a_large_decoder_has_a_program() {
    let (decoder, options, facts) = large();
    let blueprint = Blueprint::new(&decoder, &options, &facts).unwrap();
    live::check(&blueprint.graph).unwrap();
    let parameters: u64 = decoder.weights().map(|weight| decoder.matrix(weight).count()).sum();
    assert_eq!(parameters, 8_030_261_248);
    let (norms, embedding) = (65 * 4096, 128_256 * 4096);
    // Four bits and a scale for every 32 numbers; of the embedding, for every 64.
    let weights = (parameters - norms - embedding) * 5 / 8 + embedding * 9 / 16 + norms * 4;
    let (caches, tables) = (2 * 32 * 8192 * 1024 * 4, 2 * 8192 * 64 * 4);
    let bytes: u64 = blueprint.graph.constants.iter().map(|constant| constant.len).sum();
    assert_eq!(bytes, weights + caches + tables);
}

/// What a program does not know it does not claim.
#[test]
fn tokens_that_are_not_known_have_no_methods() {
    let (decoder, options, _) = small();
    let program = Blueprint::new(&decoder, &options, &Facts::default()).unwrap().program;
    assert!(program.plan("get_bos_id").is_none() && program.plan("get_eos_ids").is_none());
    assert!(program.plan("get_vocab_size").is_some());
}

/// The parts of a layer are where a forward pass needs them: which matrix meets which operator.
#[test]
fn weights_are_where_they_belong() {
    let (decoder, options, facts) = small();
    let blueprint = Blueprint::new(&decoder, &options, &facts).unwrap();
    let flow = Flow { graph: Reader(&blueprint.graph), contents: &blueprint.contents };
    let attentions = flow.calls("sdpa_with_kv_cache.default");
    let gates = flow.calls("aten.sigmoid.default");
    assert_eq!((attentions.len(), gates.len()), (2, 2));
    for (layer, (attention, gate)) in (0..).zip(attentions.iter().zip(&gates)) {
        let part = |part| vec![Weight::Layer(layer, part)];
        let rotated = [part(Part::QueryNorm), part(Part::QueryBias), part(Part::Query), part(Part::AttentionNorm)];
        assert_eq!(flow.path(attention[0], 4), rotated.concat());
        assert_eq!(flow.path(attention[1], 3)[..2], [part(Part::KeyNorm), part(Part::KeyBias)].concat());
        assert_eq!(flow.path(attention[2], 2), [part(Part::ValueBias), part(Part::Value)].concat());
        assert_eq!(flow.path(gate[0], 2), [part(Part::Gate), part(Part::FeedForwardNorm)].concat());
    }
    let products = flow.calls("aten.mul.Tensor");
    assert_eq!(flow.path(products[1][1], 1), [Weight::Layer(0, Part::Up)]);
    let sums = flow.calls("aten.add.Tensor");
    let output = [Weight::Layer(0, Part::AttentionOutputBias), Weight::Layer(0, Part::AttentionOutput)];
    assert_eq!(flow.path(sums[0][1], 2), output);
    assert_eq!(flow.path(sums[1][1], 1), [Weight::Layer(0, Part::Down)]);
    assert_eq!(flow.path(blueprint.graph.outputs[0], 2), [Weight::Output, Weight::FinalNorm]);
}

struct Flow<'a> {
    graph: Reader<'a>,
    contents: &'a [Content],
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
                if let Content::Floats(weight) | Content::Nibbles { weight, .. } = self.contents[constant.index()] {
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
fn what_does_not_fit_is_refused_by_name() {
    type Change = fn(&mut Decoder, &mut Options);
    let cases: [(Change, &str); 21] = [
        (|d, _| d.vocabulary = 0, "vocabulary is 0"),
        (|d, _| d.width = 1 << 31, "width is 2147483648, but must be between 1 and 2147483647"),
        (|d, _| d.layers = 0, "number of layers is 0"),
        (|d, _| d.layers = 5000, "must be between 1 and 1024"),
        (|d, _| d.head_width = 15, "heads are 15 wide"),
        (|d, _| d.key_value_heads = 3, "4 heads and 3 key and value heads"),
        (|d, _| (d.heads, d.head_width) = (1 << 20, 1 << 20), "together wider"),
        (|d, _| d.norm_epsilon = 0.0, "norm epsilon is 0"),
        (|d, _| d.norm_epsilon = f64::NAN, "norm epsilon is NaN"),
        (|d, _| d.rotary.theta = -1.0, "rotary base is -1"),
        (|d, _| d.rotary.scaling = scaling(f64::INFINITY, 1.0, 4.0), "scaling factor is inf"),
        (|d, _| d.rotary.scaling = scaling(8.0, 4.0, 4.0), "low frequency factor is 4, but must be less"),
        (|_, o| o.context = 0, "the context is 0"),
        (|_, o| o.longest_call = 1, "the longest call is 1, but must be at least 2"),
        (|_, o| o.longest_call = 66, "has 65 tokens, but the context has room for 64"),
        (|_, o| o.linears = Form::FourBits { group: 48 }, "4-bit projections cannot have groups of 48: allowed are 32"),
        (
            |_, o| o.linears = Form::FourBits { group: 64 },
            "groups of 64 do not divide the model's hidden width of 96, as they must in 4-bit projections: allowed are 32",
        ),
        (
            |_, o| o.embedding = Form::FourBits { group: 128 },
            "the model's width of 64, as they must in a 4-bit embedding: allowed are 32, 64",
        ),
        (|d, _| (d.heads, d.key_value_heads, d.head_width) = (16, 1, 2), "keys are 2 wide together"),
        (
            |d, _| d.width = 80,
            "groups of 32 do not divide the model's width of 80, as they must in 4-bit projections: use float32",
        ),
        (
            |d, o| (d.key_value_heads, d.heads, d.head_width, o.context) = (1 << 14, 1 << 14, 1 << 16, i32::MAX as u32),
            "the KV cache",
        ),
    ];
    for (change, expected) in cases {
        let (mut decoder, mut options, facts) = small();
        change(&mut decoder, &mut options);
        match Blueprint::new(&decoder, &options, &facts) {
            Err(Error::Option(problem)) => assert!(problem.contains(expected), "{problem} does not say {expected:?}"),
            Err(other) => panic!("{expected}: {other}"),
            Ok(_) => panic!("{expected}: was accepted"),
        }
    }
}

fn scaling(factor: f64, low_frequency_factor: f64, high_frequency_factor: f64) -> Option<Scaling> {
    Some(Scaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context: 8192 })
}
