//! Reads the model configuration from a file's metadata.

use super::cursor::shown;
use super::metadata::{Metadata, Value};
use crate::config::{AttentionBias, ModelConfig, RopeConfig, RopeStyle};
use crate::error::{Error, Result};

/// The default RoPE base.
const DEFAULT_THETA: f64 = 10_000.0;
/// The largest size that a model can have.
const LARGEST: u32 = 1 << 24;

/// A supported architecture.
#[derive(Debug)]
pub(super) struct Architecture {
    pub(super) name: &'static str,
    pairs: RopeStyle,
    head_norms: bool,
    /// The biases that every model of the architecture has; some models have more.
    pub(super) biases: AttentionBias,
    /// Whether a tensor may hold frequency divisors.
    pub(super) divisors: bool,
}

const ARCHITECTURES: [Architecture; 3] = [
    Architecture {
        name: "llama",
        pairs: RopeStyle::Interleaved,
        head_norms: false,
        biases: AttentionBias::None,
        divisors: true,
    },
    Architecture {
        name: "qwen2",
        pairs: RopeStyle::HalfSplit,
        head_norms: false,
        biases: AttentionBias::Qkv,
        divisors: false,
    },
    Architecture {
        name: "qwen3",
        pairs: RopeStyle::HalfSplit,
        head_norms: true,
        biases: AttentionBias::None,
        divisors: false,
    },
];

/// Keys of features that are not supported, and the value besides 0 that turns each off.
const UNSUPPORTED: [(&str, &str, f64); 13] = [
    ("expert_count", "a mixture of experts", 0.0),
    ("logit_scale", "scaling of logits", 1.0),
    ("residual_scale", "scaling of residuals", 1.0),
    ("embedding_scale", "scaling of embeddings", 1.0),
    ("attention.scale", "a scale of attention of its own", 0.0),
    ("attention.clamp_kqv", "clamping of queries, keys and values", 0.0),
    ("attention.max_alibi_bias", "ALiBi", 0.0),
    ("attention.temperature_scale", "attention whose temperature depends on the position", 0.0),
    ("attn_logit_softcapping", "soft capping of attention", 0.0),
    ("final_logit_softcapping", "soft capping of logits", 0.0),
    ("nextn_predict_layers", "layers that predict several tokens", 0.0),
    ("n_deepstack_layers", "layers for images", 0.0),
    ("rope.scale_linear", "linear scaling of positions", 1.0),
];

/// Reads the configuration from the metadata. Fields that depend on tensors (vocabulary, tied embeddings, further biases,
/// frequency divisors) are completed later.
pub(super) fn config(metadata: &Metadata<'_>) -> Result<(&'static Architecture, ModelConfig)> {
    let keys = Keys { metadata, architecture: architecture(metadata)? };
    keys.check_unsupported()?;
    let width = keys.size("embedding_length")?;
    let heads = keys.size("attention.head_count")?;
    let head_width = keys.head_width(width, heads)?;
    let config = ModelConfig {
        vocab_size: 0,
        hidden_size: width,
        num_layers: keys.size("block_count")?,
        num_heads: heads,
        num_kv_heads: keys.key_value_heads(heads)?,
        head_dim: head_width,
        intermediate_size: keys.size("feed_forward_length")?,
        norm_eps: keys.needed_float("attention.layer_norm_rms_epsilon", 0.0..1.0)?,
        rope: RopeConfig { theta: keys.theta(head_width)?, scaling: None, style: keys.architecture.pairs },
        qk_norm: keys.architecture.head_norms,
        attention_bias: keys.architecture.biases,
        tied_embeddings: true,
        max_position_embeddings: keys.size("context_length")?,
    };
    keys.check_window(config.max_position_embeddings)?;
    Ok((keys.architecture, config))
}

fn architecture(metadata: &Metadata<'_>) -> Result<&'static Architecture> {
    let key = "general.architecture";
    let name = metadata.needed(key, metadata.text(key))?;
    ARCHITECTURES.iter().find(|architecture| architecture.name == name).ok_or_else(|| Error::Unsupported {
        what: format!("the architecture {}", shown(name)),
        alternatives: ARCHITECTURES.iter().map(|architecture| architecture.name.to_owned()).collect(),
    })
}

fn refused(what: impl Into<String>, alternatives: &[&str]) -> Error {
    let alternatives = alternatives.iter().map(|&name| name.to_owned()).collect();
    Error::Unsupported { what: what.into(), alternatives }
}

/// The keys with the architecture's prefix.
struct Keys<'m, 'a> {
    metadata: &'m Metadata<'a>,
    architecture: &'static Architecture,
}

impl Keys<'_, '_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name)
    }

    /// Returns a size, or a default if it is missing.
    fn size_or(&self, name: &str, default: u32) -> Result<u32> {
        let key = self.key(name);
        if let Some(Value::Array(_)) = self.metadata.get(&key) {
            return Err(refused(format!("another {key} for each layer"), &["one for all layers"]));
        }
        let size = self.metadata.number(&key)?.unwrap_or(default);
        if (1..=LARGEST).contains(&size) {
            return Ok(size);
        }
        Err(self.metadata.fault(&key, format!("{size} is not between 1 and {LARGEST}")))
    }

    fn size(&self, name: &str) -> Result<u32> {
        let key = self.key(name);
        if self.metadata.get(&key).is_none() {
            return Err(self.metadata.missing(&key));
        }
        self.size_or(name, 0)
    }

    fn key_value_heads(&self, heads: u32) -> Result<u32> {
        let name = "attention.head_count_kv";
        let count = self.size_or(name, heads)?;
        if heads.is_multiple_of(count) {
            return Ok(count);
        }
        Err(self.metadata.fault(&self.key(name), format!("{heads} heads of queries cannot share {count}")))
    }

    fn head_width(&self, width: u32, heads: u32) -> Result<u32> {
        let key = self.key("attention.key_length");
        let head_width = self.size_or("attention.key_length", (width / heads).max(1))?;
        let values = self.size_or("attention.value_length", head_width)?;
        if values != head_width {
            let what = format!("attention with keys of {head_width} numbers and values of {values}");
            return Err(refused(what, &["the same for both"]));
        }
        if !head_width.is_multiple_of(2) {
            return Err(self.metadata.fault(&key, format!("heads of {head_width} numbers cannot be rotated in pairs")));
        }
        // Programs store the width of all heads in 32 bits.
        if heads.checked_mul(head_width).is_none() {
            return Err(self.metadata.fault(&key, format!("{heads} heads of {head_width} numbers are too many")));
        }
        Ok(head_width)
    }

    fn needed_float(&self, name: &str, range: std::ops::Range<f64>) -> Result<f64> {
        let key = self.key(name);
        let value = self.metadata.needed(&key, self.metadata.float(&key))?;
        if range.contains(&value) {
            return Ok(value);
        }
        Err(self.metadata.fault(&key, format!("{value} is not from {} to {}", range.start, range.end)))
    }

    fn theta(&self, head_width: u32) -> Result<f64> {
        let rotated = self.size_or("rope.dimension_count", head_width)?;
        if rotated != head_width {
            let what = format!("rotation of {rotated} of a head's {head_width} numbers");
            return Err(refused(what, &["all of them"]));
        }
        if let Some(Value::Array(_)) = self.metadata.get(&self.key("rope.dimension_sections")) {
            return Err(refused("rotation in sections", &["one for all numbers of a head"]));
        }
        self.check_scaling()?;
        let key = self.key("rope.freq_base");
        let theta = self.metadata.float(&key)?.unwrap_or(DEFAULT_THETA);
        if theta.is_finite() && theta > 0.0 {
            return Ok(theta);
        }
        Err(self.metadata.fault(&key, format!("{theta} is no base of frequencies")))
    }

    fn check_scaling(&self) -> Result<()> {
        // A factor alone is linear scaling.
        let kind = self.metadata.text(&self.key("rope.scaling.type"))?.unwrap_or("linear");
        let factor = self.metadata.float(&self.key("rope.scaling.factor"))?.unwrap_or(1.0);
        match kind {
            "none" => Ok(()),
            "linear" if factor == 0.0 || factor == 1.0 => Ok(()),
            _ => {
                let what = format!("the scaling {} of positions", shown(kind));
                Err(refused(what, &["none", "Llama 3's in the tensor rope_freqs.weight"]))
            }
        }
    }

    fn check_unsupported(&self) -> Result<()> {
        for (name, what, neutral) in UNSUPPORTED {
            let value = self.metadata.float(&self.key(name))?.unwrap_or(neutral);
            if value != 0.0 && value != neutral {
                return Err(refused(format!("{what} ({} = {value})", self.key(name)), &[]));
            }
        }
        if self.metadata.flag(&self.key("attention.causal"))? == Some(false) {
            return Err(refused("attention to later tokens", &[]));
        }
        Ok(())
    }

    /// Rejects sliding windows that are shorter than the context.
    fn check_window(&self, context: u32) -> Result<()> {
        let key = self.key("attention.sliding_window");
        let sliding = match self.metadata.get(&key) {
            Some(Value::Array(_)) => true,
            _ => self.metadata.number(&key)?.is_some_and(|window| window > 0 && window < context),
        };
        if sliding { Err(refused(format!("sliding-window attention ({key})"), &["full attention"])) } else { Ok(()) }
    }
}
