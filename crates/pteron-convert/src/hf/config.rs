//! Parses `config.json`.

use super::architecture::{Architecture, BiasRule, WindowRule};
use super::fields::Fields;
use super::rope;
use crate::config::{AttentionBias, ModelConfig};
use crate::error::{Error, Result};

/// The file's name.
pub(super) const FILE: &str = "config.json";

/// A parsed `config.json`.
#[derive(Debug, PartialEq)]
pub(super) struct Config {
    pub(super) architecture: &'static Architecture,
    pub(super) model: ModelConfig,
    pub(super) window: Option<SlidingWindow>,
}

/// The length of the attention window in tokens, including the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlidingWindow(pub(super) u32);

impl SlidingWindow {
    /// Checks a context length. Programs attend to the whole context, which is equivalent while it fits the window.
    pub(super) fn check(self, context: u32) -> Result<()> {
        let Self(window) = self;
        if context <= window {
            return Ok(());
        }
        Err(Error::InvalidOption(format!(
            "sliding_window = {window} in {FILE}: the model looks back on {window} tokens, and a context of {context} would show \
             it more: choose a context of at most {window}"
        )))
    }
}

impl Config {
    pub(super) fn read(config: &Fields) -> Result<Self> {
        let architecture = Architecture::of(config)?;
        refuse(config)?;
        let model = model(config, architecture)?;
        let window = window(config, architecture, model.num_layers)?;
        Ok(Self { architecture, model, window })
    }
}

/// Rejects features that need other operators or readers.
fn refuse(config: &Fields) -> Result<()> {
    if let Some(quantisation) = config.object("quantization_config")? {
        let unquantised = ["weights that are not quantised"];
        return Err(match quantisation.text("quant_method")? {
            Some(_) => quantisation.unsupported("quant_method", &unquantised),
            None => config.unsupported("quantization_config", &unquantised),
        });
    }
    if config.text("hidden_act")?.is_some_and(|name| !["silu", "swish"].contains(&name)) {
        return Err(config.unsupported("hidden_act", &["silu", "swish"]));
    }
    if config.flag("mlp_bias")? == Some(true) {
        return Err(config.unsupported("mlp_bias", &["false"]));
    }
    Ok(())
}

/// The defaults are those of `transformers`: a field that has its default may be left out of the file.
fn model(config: &Fields, architecture: &Architecture) -> Result<ModelConfig> {
    let width = config.count("hidden_size")?.unwrap_or(4_096);
    let heads = config.count("num_attention_heads")?.unwrap_or(32);
    let key_value_heads = key_value_heads(config, architecture, heads)?;
    let head_width = head_width(config, architecture, width, heads)?;
    let trained_context = config.count("max_position_embeddings")?.unwrap_or(architecture.context);
    Ok(ModelConfig {
        vocab_size: config.count("vocab_size")?.unwrap_or(architecture.vocabulary),
        hidden_size: width,
        num_layers: config.count("num_hidden_layers")?.unwrap_or(32),
        num_heads: heads,
        num_kv_heads: key_value_heads,
        head_dim: head_width,
        intermediate_size: config.count("intermediate_size")?.unwrap_or(architecture.hidden),
        norm_eps: config.number("rms_norm_eps")?.unwrap_or(1e-6),
        rope: rope::read(config)?,
        qk_norm: architecture.head_norms,
        attention_bias: match architecture.biases {
            BiasRule::Never => AttentionBias::None,
            BiasRule::Qkv => AttentionBias::Qkv,
            BiasRule::Configurable if config.flag("attention_bias")? == Some(true) => AttentionBias::All,
            BiasRule::Configurable => AttentionBias::None,
        },
        // The base class defaults to true; all of these classes override it.
        tied_embeddings: config.flag("tie_word_embeddings")?.unwrap_or(false),
        max_position_embeddings: trained_context,
    })
}

fn key_value_heads(config: &Fields, architecture: &Architecture, heads: u32) -> Result<u32> {
    let field = "num_key_value_heads";
    let default = if config.is_null(field) { None } else { architecture.key_value_heads };
    let count = config.count(field)?.or(default).unwrap_or(heads);
    if !heads.is_multiple_of(count) {
        return Err(config.wrong(field, count, &format!("should divide num_attention_heads = {heads}")));
    }
    Ok(count)
}

fn head_width(config: &Fields, architecture: &Architecture, width: u32, heads: u32) -> Result<u32> {
    let head_width = match config.count("head_dim")?.or(architecture.head_width) {
        Some(head_width) => head_width,
        None if width.is_multiple_of(heads) => width / heads,
        None => {
            return Err(config.wrong(
                "hidden_size",
                width,
                &format!("should be a multiple of num_attention_heads = {heads}"),
            ));
        }
    };
    // RoPE rotates pairs.
    if !head_width.is_multiple_of(2) {
        return Err(config.wrong("head_dim", head_width, "should be even"));
    }
    if heads.checked_mul(head_width).is_none() {
        return Err(config.wrong("head_dim", head_width, &format!("is too large for num_attention_heads = {heads}")));
    }
    Ok(head_width)
}

fn window(config: &Fields, architecture: &Architecture, layers: u32) -> Result<Option<SlidingWindow>> {
    const FULL: &str = "full_attention";
    const SLIDING: &str = "sliding_attention";
    let size = match architecture.window {
        WindowRule::Never => None,
        WindowRule::Configurable if config.flag("use_sliding_window")? != Some(true) => None,
        _ if config.is_null("sliding_window") => None,
        _ => Some(config.count("sliding_window")?.unwrap_or(4_096)),
    };
    let types = config.texts("layer_types")?;
    let sliding = match (&types, &architecture.window) {
        (Some(types), _) => types.contains(&SLIDING),
        (None, WindowRule::Configurable) => config.count("max_window_layers")?.unwrap_or(28) < layers,
        (None, _) => true,
    };
    let known = |name: &&str| *name == FULL || *name == SLIDING && size.is_some();
    if !types.iter().flatten().all(known) {
        return Err(config.unsupported("layer_types", &[FULL]));
    }
    Ok(size.filter(|_| sliding).map(SlidingWindow))
}
