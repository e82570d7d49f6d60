//! Templates equal exports that are too many or too large to store: their digests are stored instead.
//!
//! Each was made by ExecuTorch 1.5.1's `export_llama` with `--vulkan -kv --use_sdpa_with_kv_cache -d fp32`, the sizes of [`base`]
//! in `params.json`, and the changes of its row: `-qmode 4w -G …`, `--embedding-quantize 4,…`, `--generate_full_logits`,
//! `--vulkan-force-fp16`, `--max_context_length`, `--max_seq_length`, and `attention_qkv_bias`, `use_qk_norm` with
//! `qk_norm_before_rope`, `head_dim` in `params.json`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use common::text;
use pteron_convert::config::{AttentionBias, ModelConfig, RopeConfig, RopeStyle};
use pteron_convert::source::CheckpointMetadata;
use pteron_convert::template::{ConvertOptions, ProgramTemplate, WeightFormat};
use sha2::{Digest, Sha256};

fn base() -> Case {
    let config = ModelConfig {
        vocab_size: 256,
        hidden_size: 64,
        num_layers: 2,
        num_heads: 4,
        num_kv_heads: 2,
        head_dim: 16,
        intermediate_size: 128,
        norm_eps: 1e-5,
        rope: RopeConfig { theta: 5e5, scaling: None, style: RopeStyle::Interleaved },
        qk_norm: false,
        attention_bias: AttentionBias::None,
        tied_embeddings: false,
        max_position_embeddings: 128,
    };
    let options = ConvertOptions::new(128)
        .with_max_seq_length(128)
        .with_linear_format(WeightFormat::Int4 { group: 32 })
        .with_embedding_format(WeightFormat::Int4 { group: 32 })
        .with_full_logits(false)
        .with_float16(false);
    Case { config, options }
}

/// The inputs of an export: a decoder and conversion options.
struct Case {
    config: ModelConfig,
    options: ConvertOptions,
}

impl Case {
    fn floats(&mut self) -> &mut Self {
        (self.options.linear_format, self.options.embedding_format) = (WeightFormat::Float32, WeightFormat::Float32);
        self
    }

    fn half(&mut self) -> &mut Self {
        self.options.float16 = true;
        self
    }

    fn full_logits(&mut self) -> &mut Self {
        self.options.full_logits = true;
        self
    }

    fn lengths(&mut self, context: u32, longest_call: u32) -> &mut Self {
        (self.options.max_context_length, self.options.max_seq_length) = (context, longest_call);
        self
    }

    fn biases(&mut self, biases: AttentionBias) -> &mut Self {
        self.config.attention_bias = biases;
        self
    }

    fn head_norms(&mut self) -> &mut Self {
        self.config.qk_norm = true;
        self
    }

    fn head_width(&mut self, width: u32) -> &mut Self {
        self.config.head_dim = width;
        self
    }

    fn heads(&mut self, heads: u32) -> &mut Self {
        self.config.num_heads = heads;
        self
    }

    fn width(&mut self, width: u32) -> &mut Self {
        self.config.hidden_size = width;
        self
    }

    fn key_value_heads(&mut self, heads: u32) -> &mut Self {
        self.config.num_kv_heads = heads;
        self
    }

    fn layers(&mut self, layers: u32) -> &mut Self {
        self.config.num_layers = layers;
        self
    }

    fn vocabulary(&mut self, vocabulary: u32) -> &mut Self {
        self.config.vocab_size = vocabulary;
        self
    }

    fn hidden(&mut self, hidden: u32) -> &mut Self {
        self.config.intermediate_size = hidden;
        self
    }

    /// All that a layer can have.
    fn everything(&mut self) -> &mut Self {
        self.biases(AttentionBias::Qkv).head_norms().head_width(32)
    }

    /// Twice as wide, for larger groups.
    fn groups(&mut self, linears: u32, embedding: u32) -> &mut Self {
        (self.config.hidden_size, self.config.head_dim, self.config.intermediate_size) = (128, 32, 256);
        self.options.linear_format = WeightFormat::Int4 { group: linears };
        self.options.embedding_format = WeightFormat::Int4 { group: embedding };
        self
    }

    fn embedding(&mut self, embedding: WeightFormat) -> &mut Self {
        self.options.embedding_format = embedding;
        self
    }

    fn linears(&mut self, linears: WeightFormat) -> &mut Self {
        self.options.linear_format = linears;
        self
    }
}

type Change = fn(&mut Case) -> &mut Case;

/// How an export differs from [`base`], and the beginning of its graph's digest.
const RECORDED: &[(Change, &str)] = &[
    (|case| case, "6d6235c1a549b2b7"),
    (|case| case.groups(64, 64), "4ff3812b9b9c02eb"),
    (|case| case.groups(128, 32), "075739804f045aae"),
    (|case| case.embedding(WeightFormat::Float32), "860168281259cc60"),
    (|case| case.linears(WeightFormat::Float32), "36e977e8d7e72d78"),
    (|case| case.floats(), "32608b2be9853b58"),
    (|case| case.full_logits(), "1b5ed59aaf2c710d"),
    (|case| case.floats().full_logits(), "6c0466e45fad5d45"),
    (|case| case.key_value_heads(4), "e2cb7964dec0c960"),
    (|case| case.key_value_heads(1), "ae5923fb1188a9da"),
    (|case| case.layers(1).heads(1).key_value_heads(1).head_width(32), "3e4af0c0f415b9fe"),
    (
        |case| {
            case.heads(3).key_value_heads(3).head_width(32).width(96);
            case.hidden(96).vocabulary(100).layers(3).lengths(50, 17)
        },
        "bea919551a8d7f8d",
    ),
    (|case| case.head_width(32), "85296c712ea7b391"),
    (|case| case.head_norms(), "2e15861e18acc896"),
    (|case| case.biases(AttentionBias::Qkv), "4086f9d26ed8af29"),
    (|case| case.biases(AttentionBias::Qkv).floats(), "582c41d3dce2ed33"),
    // The exporter's model has no bias after attention; these exports were made with one added.
    (|case| case.biases(AttentionBias::All), "36601f574e06e34c"),
    (|case| case.biases(AttentionBias::All).floats(), "7210809e0a900843"),
    (|case| case.everything(), "4ca1b0ad52cdbc2c"),
    (|case| case.everything().floats(), "52a25b4676dacee6"),
    (|case| case.everything().half(), "2d116345a54b0257"),
    (|case| case.embedding(WeightFormat::Float32).half(), "afd0474229702f2c"),
    (|case| case.floats().half(), "baebf87e7b78b1ba"),
    // Too large for textures: caches, tables, logits, weights.
    (|case| case.lengths(4096, 128), "fb51963b5103f461"),
    (|case| case.lengths(4096, 4096), "6ca43b7dd233de20"),
    (|case| case.lengths(4096, 128).half(), "9a62c1e16a1a73bb"),
    (|case| case.lengths(20_000, 128), "23894985d2f8f71f"),
    (|case| case.lengths(20_000, 128).half(), "01c7fbfbb6cc6197"),
    (|case| case.vocabulary(65_540), "f97c42739aa57a60"),
    (|case| case.vocabulary(65_540).full_logits(), "de1d553c8872fd32"),
    (|case| case.vocabulary(65_540).floats(), "c40895f78df66db9"),
    (|case| case.vocabulary(65_540).half(), "954005f77b98e128"),
    // Deeper than the exporter looks ahead.
    (|case| case.vocabulary(17_000).layers(8), "e6208913e193fe1d"),
    (|case| case.vocabulary(17_000).layers(7).floats(), "667879209ee2db22"),
    (|case| case.vocabulary(17_000).layers(5).hidden(16_416).embedding(WeightFormat::Float32).half(), "adfe2af3651ba75c"),
    (
        |case| {
            case.vocabulary(17_000).layers(4).hidden(16_416).head_norms().lengths(2100, 64);
            case.linears(WeightFormat::Float32).full_logits()
        },
        "7b086dc9c17cd235",
    ),
    (|case| case.hidden(65_664).layers(1), "64b65bdc85dd625a"),
    (
        |case| case.everything().vocabulary(65_540).linears(WeightFormat::Float32).full_logits().lengths(4096, 4096),
        "c40907ee42b9c98a",
    ),
];

#[test]
fn graphs_equal_those_recorded() {
    for (change, recorded) in RECORDED {
        let mut case = base();
        let Case { config, options } = change(&mut case);
        let graph = ProgramTemplate::new(config, options, &CheckpointMetadata::default()).unwrap().graph;
        let digest: String = Sha256::digest(text(&graph)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(digest.starts_with(recorded), "{digest} is not {recorded}: {config:?}, {options:?}");
    }
}
