//! The model classes of Hugging Face's `transformers` that can be converted, and their defaults.

use super::fields::Fields;
use crate::error::{Error, Result};

/// A model class and its defaults for fields missing from `config.json`.
#[derive(Debug, PartialEq)]
pub(super) struct Architecture {
    /// Its name in `architectures`.
    pub(super) class: &'static str,
    /// Its name in `model_type`.
    pub(super) model_type: &'static str,
    pub(super) vocabulary: u32,
    pub(super) hidden: u32,
    /// `None`: as many as query heads.
    pub(super) key_value_heads: Option<u32>,
    /// `None`: the hidden size divided by the number of heads.
    pub(super) head_width: Option<u32>,
    pub(super) context: u32,
    pub(super) biases: BiasRule,
    pub(super) head_norms: bool,
    pub(super) window: WindowRule,
    pub(super) bos_token: Option<u32>,
    pub(super) eos_token: Option<u32>,
}

/// The attention biases of a class.
#[derive(Debug, PartialEq)]
pub(super) enum BiasRule {
    Never,
    /// On queries, keys and values, always.
    Qkv,
    /// On all attention projections if `attention_bias` is set.
    Configurable,
}

/// Whether attention is limited to `sliding_window` tokens.
#[derive(Debug, PartialEq)]
pub(super) enum WindowRule {
    Never,
    /// Unless `sliding_window` is null.
    Always,
    /// If `use_sliding_window` is set, in layers from `max_window_layers` on.
    Configurable,
}

/// All supported classes. Shared defaults are where the field is read.
pub(super) static ARCHITECTURES: [Architecture; 4] = [
    Architecture {
        class: "LlamaForCausalLM",
        model_type: "llama",
        vocabulary: 32_000,
        hidden: 11_008,
        key_value_heads: None,
        head_width: None,
        context: 2_048,
        biases: BiasRule::Configurable,
        head_norms: false,
        window: WindowRule::Never,
        bos_token: Some(1),
        eos_token: Some(2),
    },
    Architecture {
        class: "MistralForCausalLM",
        model_type: "mistral",
        vocabulary: 32_000,
        hidden: 14_336,
        key_value_heads: Some(8),
        head_width: None,
        context: 131_072,
        biases: BiasRule::Never,
        head_norms: false,
        window: WindowRule::Always,
        bos_token: Some(1),
        eos_token: Some(2),
    },
    Architecture {
        class: "Qwen2ForCausalLM",
        model_type: "qwen2",
        vocabulary: 151_936,
        hidden: 22_016,
        key_value_heads: Some(32),
        head_width: None,
        context: 32_768,
        biases: BiasRule::Qkv,
        head_norms: false,
        window: WindowRule::Configurable,
        bos_token: None,
        eos_token: None,
    },
    Architecture {
        class: "Qwen3ForCausalLM",
        model_type: "qwen3",
        vocabulary: 151_936,
        hidden: 22_016,
        key_value_heads: Some(32),
        head_width: Some(128),
        context: 32_768,
        biases: BiasRule::Configurable,
        head_norms: true,
        window: WindowRule::Configurable,
        bos_token: None,
        eos_token: None,
    },
];

impl Architecture {
    /// Returns the class that a configuration names.
    pub(super) fn of(config: &Fields) -> Result<&'static Self> {
        let classes = config.texts("architectures")?.unwrap_or_default();
        let model_type = config.text("model_type")?;
        let find = |matches: &dyn Fn(&Self) -> bool| ARCHITECTURES.iter().find(|architecture| matches(architecture));
        let found = match (classes.first(), model_type) {
            (Some(class), _) => find(&|architecture| architecture.class == *class)
                .ok_or_else(|| unsupported(config, "architectures", |architecture| architecture.class)),
            (None, Some(model_type)) => find(&|architecture| architecture.model_type == model_type)
                .ok_or_else(|| unsupported(config, "model_type", |architecture| architecture.model_type)),
            (None, None) => Err(config.missing("architectures")),
        }?;
        match model_type {
            Some(model_type) if model_type != found.model_type => {
                let expected = format!("should be {:?}, since architectures has {}", found.model_type, found.class);
                Err(config.wrong("model_type", format!("{model_type:?}"), &expected))
            }
            _ => Ok(found),
        }
    }
}

fn unsupported(config: &Fields, field: &str, name: impl Fn(&Architecture) -> &'static str) -> Error {
    config.unsupported(field, &ARCHITECTURES.each_ref().map(name))
}
