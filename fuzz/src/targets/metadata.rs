//! Small JSON files beside a program: the sidecar `pteron.json` and `tokenizer_config.json`.

use std::path::Path;

use pteron_llm::metadata::Constant;
use pteron_llm::{ChatTemplate, PartialMetadata, TokenizerConfig};

use crate::generate::Choices;
use crate::mutate;
use crate::oracle;
use crate::seeds::{self, Input};
use crate::target::{Outcome, Target};

/// `pteron.json`, `tokenizer_config.json`, and the constant methods of a program.
pub const TARGET: Target = Target {
    name: "metadata",
    attacks: "pteron-llm: pteron.json, tokenizer_config.json and constant methods",
    run,
    seeds,
    mutate: mutate::json_changed,
    max_len: 2048,
    dictionary: &[
        "\"context_length\":",
        "\"max_prefill\":",
        "\"vocab_size\":",
        "\"bos_id\":",
        "\"eos_ids\":",
        "\"kv_cache\":",
        "\"dynamic_shape\":",
        "\"chat_template\":",
        "\"bos_token\":",
        "\"content\":",
        "\"name\":",
        "\"template\":",
    ],
    smoke: 50_000,
    ..Target::DEFAULT
};

fn seeds(root: &Path) -> Vec<Input> {
    let mut inputs = seeds::with_extension(root, &["fixtures/convert", "models/demo"], &["json"], 4096);
    inputs.push(Input::new(
        "sidecar",
        r#"{"context_length": 128, "max_prefill": 127, "vocab_size": 512, "bos_id": 1, "eos_ids": [2, 3], "kv_cache": true, "dynamic_shape": false}"#,
    ));
    inputs.push(Input::new(
        "config",
        r#"{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "default", "template": "{{ messages }}"}]}"#,
    ));
    inputs
}

fn run(bytes: &[u8]) -> Outcome {
    constants(bytes);
    let facts = oracle::bounded_heap(bytes.len(), 16, 64 << 10, || PartialMetadata::from_sidecar(bytes));
    oracle::outcome(&facts);
    if let Ok(facts) = facts {
        resolved(facts);
    }
    let config = oracle::bounded_heap(bytes.len(), 200, 64 << 10, || TokenizerConfig::from_json(bytes));
    if let Ok(config) = &config
        && let Err(error) = ChatTemplate::from_config(config)
    {
        oracle::error_text(&error);
    }
    oracle::outcome(&config)
}

fn resolved(facts: PartialMetadata) {
    match facts.resolve() {
        Err(error) => oracle::error_text(&error),
        Ok(metadata) => {
            assert!(metadata.max_prefill >= 1 && metadata.max_prefill <= metadata.context_length);
            assert!(metadata.eos_ids.iter().chain(&metadata.bos_id).all(|&id| id < metadata.vocab_size));
        }
    }
}

/// The same bytes as values of constant methods.
fn constants(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let names = [
        "get_max_context_len",
        "get_max_seq_len",
        "get_vocab_size",
        "get_bos_id",
        "get_eos_ids",
        "use_kv_cache",
        "enable_dynamic_shape",
        "other",
    ];
    let mut methods = Vec::new();
    for _ in 0..8 {
        let name = *choices.pick(&names);
        let values = (0..choices.below(4)).map(|_| match choices.byte() % 4 {
            0 => Constant::Bool(true),
            1 => Constant::Other,
            _ => Constant::Int(choices.signed()),
        });
        methods.push((name, values.collect::<Vec<_>>()));
    }
    match PartialMetadata::from_constants(methods) {
        Ok(facts) => resolved(facts),
        Err(error) => oracle::error_text(&error),
    }
}
