//! Checkpoints of Hugging Face: configuration, index, and the headers of safetensors.

use std::collections::BTreeMap;
use std::path::Path;

use pteron_convert::{HuggingFace, Source};
use serde_json::{Map, Value, json};

use crate::mutate;
use crate::oracle;
use crate::seeds::Input;
use crate::target::{Outcome, Target};

/// A folder with all files of a checkpoint, written as one JSON object.
pub const TARGET: Target = Target {
    name: "checkpoint",
    attacks: "pteron-convert: config.json, generation_config.json, the safetensors index and headers, then every row",
    run: |bytes| files(bytes).map_or("no JSON", |files| opened(&files)),
    seeds,
    mutate: mutate::json_changed,
    max_len: 4096,
    dictionary: &[
        "\"config.json\":",
        "\"model.safetensors\":",
        "\"model.safetensors.index.json\":",
        "\"weight_map\":",
        "\"header\":",
        "\"data\":",
        "\"data_offsets\":",
        "\"shape\":",
        "\"dtype\":",
        "\"BF16\"",
        "\"F16\"",
        "\"F32\"",
        "\"rope_scaling\":",
        "\"architectures\":",
        "\"LlamaForCausalLM\"",
        "\"Qwen2ForCausalLM\"",
        "\"Qwen3ForCausalLM\"",
        "\"MistralForCausalLM\"",
        "model.layers.0.self_attn.q_proj.weight",
        "\"tie_word_embeddings\":",
        "\"head_dim\":",
        "\"sliding_window\":",
    ],
    ..Target::DEFAULT
};

/// The bytes of weights that a file may claim here.
const MAX_DATA: u64 = 64 << 10;

/// The bytes of a safetensors file.
pub const SAFETENSORS: Target = Target {
    name: "safetensors",
    attacks: "pteron-convert: the bytes of a safetensors file",
    run: |bytes| {
        let mut files = BTreeMap::from([("config.json".to_owned(), config("LlamaForCausalLM").to_string().into_bytes())]);
        files.insert("model.safetensors".to_owned(), bytes.to_vec());
        opened(&files)
    },
    seeds: |_| {
        vec![
            Input::new("model", safetensors(&json!({"header": header(), "data": 1 << 20}))),
            Input::new("empty", *b"\x02\0\0\0\0\0\0\0{}"),
        ]
    },
    mutate: mutate::bytes_changed,
    max_len: 32 << 10,
    dictionary: &["\"data_offsets\":[0,", "\"dtype\":\"F32\"", "\"shape\":[", "\"__metadata__\":", "\"lm_head.weight\":"],
    ..Target::DEFAULT
};

/// The files that a JSON object describes: bytes as text, JSON as itself, and weights as header and number of zeros.
fn files(bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let file = |(name, value): (&String, &Value)| {
        let bytes = match value {
            Value::String(text) => text.clone().into_bytes(),
            value if name.ends_with(".safetensors") => safetensors(value),
            value => value.to_string().into_bytes(),
        };
        (name.clone(), bytes)
    };
    Some(value.as_object()?.iter().map(file).collect())
}

/// A safetensors file of `{"header": …, "data": bytes}`. A number instead of a header is the length that a cut file claims.
fn safetensors(value: &Value) -> Vec<u8> {
    let header = value.get("header").map_or_else(String::new, Value::to_string);
    let claimed = value.get("length").and_then(Value::as_u64).unwrap_or(header.len() as u64);
    let all = header_len(value.get("header"));
    let data = value.get("data").and_then(Value::as_u64).unwrap_or(0).min(MAX_DATA).min(all.max(1));
    let mut bytes = claimed.to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + usize::try_from(data).unwrap_or(0), 0);
    bytes
}

/// The end of the last tensor, as the header says.
fn header_len(header: Option<&Value>) -> u64 {
    let tensors = header.and_then(Value::as_object).into_iter().flat_map(Map::values);
    tensors.filter_map(|tensor| tensor["data_offsets"][1].as_u64()).max().unwrap_or(0)
}

fn opened(files: &BTreeMap<String, Vec<u8>>) -> Outcome {
    let len: usize = files.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
    let model = oracle::bounded_heap(len, 64, 256 << 10, || HuggingFace::from_files(files));
    let model = match model {
        Ok(model) => model,
        Err(error) => return super::gguf::refused(&error, len),
    };
    if let Err(error) = model.check_context(1 << 20) {
        oracle::error_text(&error);
    }
    let config = model.config();
    for weight in config.weights() {
        let matrix = config.shape(weight);
        let mut numbers = vec![0.0; matrix.columns as usize];
        for row in 0..matrix.rows {
            model.row(weight, row, &mut numbers).expect("a weight that was found has its rows");
        }
    }
    "accepted"
}

fn config(architecture: &str) -> Value {
    json!({
        "architectures": [architecture], "model_type": "llama", "hidden_act": "silu", "hidden_size": 16, "intermediate_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 8,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
        "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": [2, 3],
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32},
    })
}

/// The tensors of that model.
fn header() -> Value {
    let mut tensors = Map::new();
    let mut end = 0;
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    for (name, shape) in [
        ("model.embed_tokens.weight".to_owned(), vec![8, 16]),
        (layer("self_attn.q_proj"), vec![16, 16]),
        (layer("self_attn.k_proj"), vec![8, 16]),
        (layer("self_attn.v_proj"), vec![8, 16]),
        (layer("self_attn.o_proj"), vec![16, 16]),
        (layer("mlp.gate_proj"), vec![16, 16]),
        (layer("mlp.up_proj"), vec![16, 16]),
        (layer("mlp.down_proj"), vec![16, 16]),
        (layer("input_layernorm"), vec![16]),
        (layer("post_attention_layernorm"), vec![16]),
        ("model.norm.weight".to_owned(), vec![16]),
        ("lm_head.weight".to_owned(), vec![8, 16]),
    ] {
        let len = shape.iter().product::<u64>() * 2;
        tensors.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [end, end + len]}));
        end += len;
    }
    Value::Object(tensors)
}

fn seeds(root: &Path) -> Vec<Input> {
    let weights = json!({"header": header(), "data": 1 << 20});
    let whole = json!({"config.json": config("LlamaForCausalLM"), "model.safetensors": weights,
                       "generation_config.json": {"bos_token_id": 1, "eos_token_id": [2]},
                       "tokenizer_config.json": {"add_bos_token": true, "bos_token": "<s>"}});
    let map: Map<String, Value> =
        header().as_object().into_iter().flatten().map(|(name, _)| (name.clone(), json!("a.safetensors"))).collect();
    let sharded = json!({"config.json": config("LlamaForCausalLM"), "a.safetensors": weights,
                         "model.safetensors.index.json": {"metadata": {}, "weight_map": map}});
    let mut inputs = vec![Input::new("whole", whole.to_string()), Input::new("sharded", sharded.to_string())];
    for file in crate::seeds::with_extension(root, &["fixtures/convert"], &["json"], 4096) {
        if let (true, Ok(config)) = (file.name.ends_with("/config.json"), serde_json::from_slice::<Value>(&file.bytes)) {
            inputs.push(Input::new(file.name, json!({"config.json": config, "model.safetensors": weights}).to_string()));
        }
    }
    inputs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_checkpoints() {
        for seed in seeds(Path::new("")) {
            let files = files(&seed.bytes).expect("JSON");
            assert_eq!(HuggingFace::from_files(&files).err().map(|error| error.to_string()), None, "{}", seed.name);
        }
    }
}
