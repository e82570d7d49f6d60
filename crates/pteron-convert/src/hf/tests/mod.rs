//! Test folders with models of two small layers.

mod adapter;
mod config;
mod hostile;
mod metadata;
mod weights;

use std::collections::BTreeMap;

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::HuggingFace;
use crate::config::{LayerWeight, Weight};
use crate::testing::Temporary;

pub(super) const CLASSES: [(&str, &str); 4] = [
    ("LlamaForCausalLM", "llama"),
    ("MistralForCausalLM", "mistral"),
    ("Qwen2ForCausalLM", "qwen2"),
    ("Qwen3ForCausalLM", "qwen3"),
];

pub(super) struct Tensor {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

/// A number of a tensor. It has so few digits that every type holds it.
pub(super) fn number(name: &str, index: usize) -> f32 {
    let seed: usize = name.bytes().enumerate().map(|(at, byte)| (at + 1) * usize::from(byte)).sum();
    let step = u8::try_from((seed * 31 + index * 7) % 251).unwrap();
    (f32::from(step) - 125.0) / 64.0
}

impl Tensor {
    pub(super) fn new(name: &str, dtype: Dtype, shape: &[usize]) -> Self {
        let numbers = (0..shape.iter().product()).map(|index| number(name, index));
        let bytes = match dtype {
            Dtype::BF16 => numbers.flat_map(|number| bf16::from_f32(number).to_le_bytes()).collect(),
            Dtype::F16 => numbers.flat_map(|number| f16::from_f32(number).to_le_bytes()).collect(),
            Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
            other => vec![0; numbers.count() * other.bitsize() / 8],
        };
        Self { dtype, shape: shape.to_vec(), bytes }
    }
}

/// A model to be written into a folder.
pub(super) struct Model {
    pub(super) config: Value,
    pub(super) tensors: BTreeMap<String, Tensor>,
    pub(super) weights: Vec<(String, Weight)>,
}

/// Vocabulary 10, width 8, 4 heads for queries and 2 for keys, each of 4 numbers, 12 numbers in between.
impl Model {
    pub(super) fn new(class: &str) -> Self {
        let model_type = CLASSES.iter().find(|(name, _)| *name == class).unwrap().1;
        let config = json!({
            "architectures": [class], "model_type": model_type, "vocab_size": 10, "hidden_size": 8, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 12,
            "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
        });
        let mut model = Self { config, tensors: BTreeMap::new(), weights: Vec::new() };
        model.add("model.embed_tokens.weight", Weight::Embedding, &[10, 8]);
        model.add("model.norm.weight", Weight::FinalNorm, &[8]);
        model.add("lm_head.weight", Weight::Output, &[10, 8]);
        model.add_parts(&[
            ("input_layernorm.weight", LayerWeight::AttentionNorm, &[8]),
            ("self_attn.q_proj.weight", LayerWeight::Query, &[16, 8]),
            ("self_attn.k_proj.weight", LayerWeight::Key, &[8, 8]),
            ("self_attn.v_proj.weight", LayerWeight::Value, &[8, 8]),
            ("self_attn.o_proj.weight", LayerWeight::AttentionOutput, &[8, 16]),
            ("post_attention_layernorm.weight", LayerWeight::FeedForwardNorm, &[8]),
            ("mlp.gate_proj.weight", LayerWeight::Gate, &[12, 8]),
            ("mlp.up_proj.weight", LayerWeight::Up, &[12, 8]),
            ("mlp.down_proj.weight", LayerWeight::Down, &[8, 12]),
        ]);
        match model_type {
            "qwen2" => model.add_input_biases(),
            "qwen3" => model.add_parts(&[
                ("self_attn.q_norm.weight", LayerWeight::QueryNorm, &[4]),
                ("self_attn.k_norm.weight", LayerWeight::KeyNorm, &[4]),
            ]),
            _ => {}
        }
        model
    }

    pub(super) fn add_input_biases(&mut self) {
        self.add_parts(&[
            ("self_attn.q_proj.bias", LayerWeight::QueryBias, &[16]),
            ("self_attn.k_proj.bias", LayerWeight::KeyBias, &[8]),
            ("self_attn.v_proj.bias", LayerWeight::ValueBias, &[8]),
        ]);
    }

    pub(super) fn add_parts(&mut self, parts: &[(&str, LayerWeight, &[usize])]) {
        for layer in 0..2 {
            for (name, part, shape) in parts {
                self.add(&format!("model.layers.{layer}.{name}"), Weight::Layer(layer, *part), shape);
            }
        }
    }

    fn add(&mut self, name: &str, weight: Weight, shape: &[usize]) {
        self.put(name, Dtype::BF16, shape);
        self.weights.push((name.to_owned(), weight));
    }

    /// Adds or replaces a tensor.
    pub(super) fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize]) {
        self.tensors.insert(name.to_owned(), Tensor::new(name, dtype, shape));
    }

    pub(super) fn set(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    pub(super) fn without(mut self, tensor: &str) -> Self {
        assert!(self.tensors.remove(tensor).is_some());
        self.weights.retain(|(name, _)| name != tensor);
        self
    }

    /// The bytes of a safetensors file with some of the tensors.
    pub(super) fn safetensors(&self, wanted: impl Fn(&str) -> bool) -> Vec<u8> {
        serialised(self.tensors.iter().filter(|(name, _)| wanted(name)))
    }

    /// A folder with all of it in one file.
    pub(super) fn folder(&self) -> Temporary {
        let folder = Temporary::new();
        folder.write("config.json", self.config.to_string());
        folder.write("model.safetensors", self.safetensors(|_| true));
        folder
    }

    pub(super) fn open(&self) -> HuggingFace {
        HuggingFace::open(self.folder().path()).unwrap()
    }

    pub(super) fn read_error(&self) -> String {
        read_error(&self.folder())
    }
}

/// The bytes of a safetensors file.
pub(super) fn serialised<'a>(tensors: impl Iterator<Item = (&'a String, &'a Tensor)>) -> Vec<u8> {
    let view = |tensor: &'a Tensor| TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.bytes).unwrap();
    safetensors::serialize(tensors.map(|(name, tensor)| (name, view(tensor))), None).unwrap()
}

/// The message that a folder is rejected with.
pub(super) fn read_error(folder: &Temporary) -> String {
    HuggingFace::open(folder.path()).err().expect("the folder should be refused").to_string()
}
