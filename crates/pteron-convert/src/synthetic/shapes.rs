//! Model shapes by name, or by sizes.

use crate::config::{AttentionBias, LayerWeight, ModelConfig, RopeConfig, RopeScaling, RopeStyle, Weight};
use crate::error::{Error, Result};

/// Parameters that the models of a family share.
#[derive(Clone, Copy)]
struct Family {
    epsilon: f64,
    theta: f64,
    /// The RoPE scaling factor of Llama 3.1 and later.
    rope_factor: Option<f64>,
    head_norms: bool,
    biases: AttentionBias,
    context: u32,
}

const LLAMA_2: Family =
    Family { epsilon: 1e-5, theta: 1e4, rope_factor: None, head_norms: false, biases: AttentionBias::None, context: 4096 };
const LLAMA_3_1: Family = Family { theta: 5e5, rope_factor: Some(8.0), context: 131_072, ..LLAMA_2 };
const LLAMA_3_2: Family = Family { rope_factor: Some(32.0), ..LLAMA_3_1 };
/// Version 0.3, which has no sliding window.
const MISTRAL: Family = Family { theta: 1e6, context: 32_768, ..LLAMA_2 };
const QWEN_2_5: Family = Family { epsilon: 1e-6, theta: 1e6, biases: AttentionBias::Qkv, context: 32_768, ..LLAMA_2 };
const QWEN_3: Family = Family { biases: AttentionBias::None, head_norms: true, context: 40_960, ..QWEN_2_5 };
const SMOLLM_2: Family = Family { theta: 1e5, context: 8192, ..LLAMA_2 };

/// A model: name, family, tied embeddings; then vocabulary, hidden size, layers, heads, KV heads, head size and intermediate size.
type Shape = (&'static str, Family, bool, [u32; 7]);

/// The published configurations.
static SHAPES: &[Shape] = &[
    ("llama-2-7b", LLAMA_2, false, [32_000, 4096, 32, 32, 32, 128, 11_008]),
    ("llama-3.1-8b", LLAMA_3_1, false, [128_256, 4096, 32, 32, 8, 128, 14_336]),
    ("llama-3.2-1b", LLAMA_3_2, true, [128_256, 2048, 16, 32, 8, 64, 8192]),
    ("llama-3.2-3b", LLAMA_3_2, true, [128_256, 3072, 28, 24, 8, 128, 8192]),
    ("mistral-7b", MISTRAL, false, [32_768, 4096, 32, 32, 8, 128, 14_336]),
    ("qwen2.5-0.5b", QWEN_2_5, true, [151_936, 896, 24, 14, 2, 64, 4864]),
    ("qwen2.5-1.5b", QWEN_2_5, true, [151_936, 1536, 28, 12, 2, 128, 8960]),
    ("qwen3-0.6b", QWEN_3, true, [151_936, 1024, 28, 16, 8, 128, 3072]),
    ("qwen3-1.7b", QWEN_3, true, [151_936, 2048, 28, 16, 8, 128, 6144]),
    ("qwen3-4b", QWEN_3, true, [151_936, 2560, 36, 32, 8, 128, 9728]),
    ("qwen3-8b", QWEN_3, false, [151_936, 4096, 36, 32, 8, 128, 12_288]),
    ("smollm2-135m", SMOLLM_2, true, [49_152, 576, 30, 9, 3, 64, 1536]),
    ("smollm2-360m", SMOLLM_2, true, [49_152, 960, 32, 15, 5, 64, 2560]),
    ("smollm2-1.7b", Family { theta: 1.3e5, ..SMOLLM_2 }, true, [49_152, 2048, 24, 32, 32, 64, 8192]),
];

/// Larger shapes are typing errors, and would fill memory before anything is written.
const MOST_LAYERS: u32 = 10_000;
const MOST_WEIGHTS: u128 = 1 << 42;

/// Sets a value; `None` if it cannot be parsed.
type Set = fn(&mut ModelConfig, &str) -> Option<()>;

/// The keys of a shape, and the kind of value each takes.
static KEYS: &[(&str, &str, Set)] = &[
    ("layers", "a whole number", |config, value| set(&mut config.num_layers, value)),
    ("width", "a whole number", |config, value| set(&mut config.hidden_size, value)),
    ("heads", "a whole number", |config, value| set(&mut config.num_heads, value)),
    ("kv", "a whole number", |config, value| set(&mut config.num_kv_heads, value)),
    ("head", "a whole number", |config, value| set(&mut config.head_dim, value)),
    ("hidden", "a whole number", |config, value| set(&mut config.intermediate_size, value)),
    ("vocab", "a whole number", |config, value| set(&mut config.vocab_size, value)),
    ("context", "a whole number", |config, value| set(&mut config.max_position_embeddings, value)),
    ("theta", "a number", |config, value| set(&mut config.rope.theta, value)),
    ("epsilon", "a number", |config, value| set(&mut config.norm_eps, value)),
    ("tied", "true or false", |config, value| set(&mut config.tied_embeddings, value)),
    ("head_norms", "true or false", |config, value| set(&mut config.qk_norm, value)),
    ("biases", "none, inputs or all", |config, value| {
        config.attention_bias = match value {
            "none" => AttentionBias::None,
            "inputs" => AttentionBias::Qkv,
            "all" => AttentionBias::All,
            _ => return None,
        };
        Some(())
    }),
];

fn set<T: std::str::FromStr>(field: &mut T, value: &str) -> Option<()> {
    *field = value.parse().ok()?;
    Some(())
}

/// Returns the known names.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|(name, ..)| *name)
}

/// Parses a shape: a name (`llama-3.2-1b`), numbers (`layers=2,width=256,heads=4,kv=2,hidden=512,vocab=1000,head=64`), or a name and
/// numbers that differ from it (`qwen3-8b,layers=2`). Without `kv` there are as many KV heads as heads; without `head`
/// the heads divide the width.
///
/// # Errors
/// An unknown name or key, a missing size, or sizes that do not fit together. The message says what to change.
pub fn parse(text: &str) -> Result<ModelConfig> {
    let mut items = text.split(',').map(str::trim).peekable();
    let named = items.next_if(|item| !item.contains('='));
    let mut config = match named {
        None => blank(),
        Some(name) => by_name(name)?,
    };
    for item in items {
        let Some((key, value)) = item.split_once('=') else {
            return Err(Error::InvalidOption(format!("`{item}` in the shape `{text}` is no `key=value`")));
        };
        let Some((_, kind, set)) = KEYS.iter().find(|(known, ..)| *known == key) else {
            let known: Vec<_> = KEYS.iter().map(|(key, ..)| *key).collect();
            return Err(Error::InvalidOption(format!("shapes have no `{key}`; there are {}", known.join(", "))));
        };
        if set(&mut config, value).is_none() {
            return Err(Error::InvalidOption(format!("`{key}` of a shape is {kind}, not `{value}`")));
        }
    }
    complete(&mut config);
    check(&config)?;
    Ok(config)
}

fn by_name(name: &str) -> Result<ModelConfig> {
    let shape = SHAPES.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).ok_or_else(|| Error::Unsupported {
        what: format!("the shape `{name}`"),
        alternatives: names().map(str::to_owned).chain(["layers=…,width=…,heads=…,hidden=…,vocab=…".to_owned()]).collect(),
    })?;
    Ok(config(shape))
}

/// Returns a configuration without sizes or RoPE scaling.
fn blank() -> ModelConfig {
    config(&("", Family { rope_factor: None, ..LLAMA_3_1 }, false, [0; 7]))
}

fn config(&(_, family, tied, sizes): &Shape) -> ModelConfig {
    let [vocabulary, width, layers, heads, key_value_heads, head_width, hidden] = sizes;
    let scaling = family.rope_factor.map(|factor| RopeScaling::Llama3 {
        factor,
        low_frequency_factor: 1.0,
        high_frequency_factor: 4.0,
        original_context: 8192,
    });
    ModelConfig {
        vocab_size: vocabulary,
        hidden_size: width,
        num_layers: layers,
        num_heads: heads,
        num_kv_heads: key_value_heads,
        head_dim: head_width,
        intermediate_size: hidden,
        norm_eps: family.epsilon,
        // Synthetic weights are generated in the program's order.
        rope: RopeConfig { theta: family.theta, scaling, style: RopeStyle::Interleaved },
        qk_norm: family.head_norms,
        attention_bias: family.biases,
        tied_embeddings: tied,
        max_position_embeddings: family.context,
    }
}

/// Fills in sizes that follow from others.
fn complete(config: &mut ModelConfig) {
    if config.num_kv_heads == 0 {
        config.num_kv_heads = config.num_heads;
    }
    if config.head_dim == 0 {
        config.head_dim = config.hidden_size.checked_div(config.num_heads).unwrap_or(0);
    }
}

fn check(config: &ModelConfig) -> Result<()> {
    let refuse = |problem: String| Err(Error::InvalidOption(format!("the shape {problem}")));
    let ModelConfig {
        num_heads: heads,
        num_kv_heads: key_value_heads,
        head_dim: head_width,
        hidden_size: width,
        intermediate_size: hidden,
        ..
    } = *config;
    let sizes = [
        ("layers", config.num_layers),
        ("width", width),
        ("heads", heads),
        ("kv", key_value_heads),
        ("head", head_width),
        ("hidden", hidden),
        ("vocab", config.vocab_size),
        ("context", config.max_position_embeddings),
    ];
    if let Some((key, _)) = sizes.iter().find(|(_, size)| *size == 0) {
        return refuse(format!("has no `{key}`, or it is 0"));
    }
    if !heads.is_multiple_of(key_value_heads) {
        return refuse(format!("has {heads} heads, which {key_value_heads} heads of keys (`kv`) cannot share evenly"));
    }
    if let Some((key, size)) =
        [("head", head_width), ("width", width), ("hidden", hidden)].iter().find(|(_, size)| size % 2 != 0)
    {
        return refuse(format!("has `{key}={size}`; numbers are stored and rotated in pairs, so it must be even"));
    }
    if config.num_layers > MOST_LAYERS || heads.checked_mul(head_width).is_none() || count(config) > MOST_WEIGHTS {
        return refuse("is larger than any model there is".to_owned());
    }
    Ok(())
}

/// Returns the number of parameters.
fn count(config: &ModelConfig) -> u128 {
    let numbers = |weight| u128::from(config.shape(weight).count());
    let layer: u128 = LayerWeight::ALL.into_iter().map(|part| numbers(Weight::Layer(0, part))).sum();
    u128::from(config.num_layers) * layer + 2 * numbers(Weight::Embedding)
}
