//! Checks that a model and the conversion options can become a program.

use crate::config::{ModelConfig, RopeScaling, Weight};
use crate::error::{Error, Result};
use crate::template::{ConvertOptions, WeightFormat};

/// The group sizes that the runtime supports.
const GROUPS: [u32; 4] = [32, 64, 128, 256];
/// The outputs of a 4-bit linear layer are a multiple of this.
const OUTPUT_MULTIPLE: u32 = 4;
/// More layers than any model has. A graph has dozens of values per layer.
const MOST_LAYERS: u32 = 1024;
/// Files store sizes as signed 32-bit integers.
const LARGEST: u32 = i32::MAX as u32;
/// The largest tensor in bytes.
const MOST_BYTES: u64 = i64::MAX as u64;
/// Bytes of the widest element type.
const WIDEST: u64 = 8;

/// Checks every assumption of the graph and program builders.
pub(crate) fn check(config: &ModelConfig, options: &ConvertOptions) -> Result<()> {
    sizes(config)?;
    numbers(config)?;
    lengths(options)?;
    groups(config, options)?;
    bytes(config, options)
}

fn invalid_model<T>(problem: String) -> Result<T> {
    Err(Error::InvalidModel(problem))
}

fn invalid_option<T>(problem: String) -> Result<T> {
    Err(Error::InvalidOption(problem))
}

fn sizes(config: &ModelConfig) -> Result<()> {
    let named = [
        ("vocabulary", config.vocab_size),
        ("width", config.hidden_size),
        ("number of heads", config.num_heads),
        ("number of key and value heads", config.num_kv_heads),
        ("width of a head", config.head_dim),
        ("width of the feed-forward network", config.intermediate_size),
    ];
    for (name, size) in named {
        within(&format!("the model's {name}"), size, 1, LARGEST)?;
    }
    within("the model's number of layers", config.num_layers, 1, MOST_LAYERS)?;
    let ModelConfig { num_heads: heads, num_kv_heads: key_value_heads, head_dim: head_width, .. } = *config;
    if !head_width.is_multiple_of(2) {
        return invalid_model(format!(
            "the model's heads are {head_width} wide, but only heads of even width can be rotated"
        ));
    }
    if !heads.is_multiple_of(key_value_heads) {
        return invalid_model(format!(
            "the model has {heads} heads and {key_value_heads} key and value heads, but each of these must serve equally many"
        ));
    }
    if heads.checked_mul(head_width).is_none_or(|width| width > LARGEST) {
        return invalid_model(format!("the model's {heads} heads of width {head_width} are together wider than {LARGEST}"));
    }
    Ok(())
}

fn within(name: &str, size: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&size) {
        return Ok(());
    }
    invalid_model(format!("{name} is {size}, but must be between {least} and {most}"))
}

fn numbers(config: &ModelConfig) -> Result<()> {
    positive("norm epsilon", config.norm_eps)?;
    positive("rotary base", config.rope.theta)?;
    match &config.rope.scaling {
        None => Ok(()),
        Some(RopeScaling::FrequencyDivisors(divisors)) => divided(divisors, config.head_dim / 2),
        Some(RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context }) => {
            stretched(*factor, *low_frequency_factor, *high_frequency_factor, *original_context)
        }
    }
}

fn divided(divisors: &[f32], frequencies: u32) -> Result<()> {
    if divisors.len() != frequencies as usize {
        return invalid_model(format!("the rotary scaling has {} divisors for {frequencies} frequencies", divisors.len()));
    }
    divisors.iter().try_for_each(|&divisor| positive("rotary scaling's divisor", divisor.into()))
}

fn stretched(factor: f64, low: f64, high: f64, original_context: u32) -> Result<()> {
    positive("rotary scaling factor", factor)?;
    positive("rotary scaling's low frequency factor", low)?;
    positive("rotary scaling's high frequency factor", high)?;
    within("the rotary scaling's original context", original_context, 1, LARGEST)?;
    if low >= high {
        return invalid_model(format!(
            "the rotary scaling's low frequency factor is {low}, but must be less than the high one, {high}"
        ));
    }
    Ok(())
}

fn positive(name: &str, number: f64) -> Result<()> {
    if number.is_finite() && number > 0.0 {
        return Ok(());
    }
    invalid_model(format!("the model's {name} is {number}, but must be a positive number"))
}

fn lengths(options: &ConvertOptions) -> Result<()> {
    if !(1..=LARGEST).contains(&options.max_context_length) {
        let context = options.max_context_length;
        return invalid_option(format!("the context is {context}, but must be between 1 and {LARGEST}"));
    }
    let ConvertOptions { max_seq_length: longest_call, max_context_length: context, .. } = *options;
    if longest_call < 2 {
        return invalid_option(format!(
            "the longest call is {longest_call}, but must be at least 2: it counts one more than its tokens"
        ));
    }
    if options.max_call_tokens() > context {
        return invalid_option(format!(
            "the longest call has {} tokens, but the context has room for {context} only",
            options.max_call_tokens()
        ));
    }
    Ok(())
}

fn groups(config: &ModelConfig, options: &ConvertOptions) -> Result<()> {
    let width = ("width", config.hidden_size);
    if let WeightFormat::Int4 { group } = options.linear_format {
        let inputs = [width, ("width of all heads", config.query_dim()), ("hidden width", config.intermediate_size)];
        group_fits("4-bit projections", group, &inputs)?;
        let outputs = config.kv_dim();
        if !outputs.is_multiple_of(OUTPUT_MULTIPLE) {
            return invalid_option(format!(
                "the model's keys are {outputs} wide together, but 4-bit projections need a multiple of {OUTPUT_MULTIPLE}: use float32"
            ));
        }
    }
    if let WeightFormat::Int4 { group } = options.embedding_format {
        group_fits("a 4-bit embedding", group, &[width])?;
    }
    Ok(())
}

/// Checks that groups of this size divide all columns.
fn group_fits(what: &str, group: u32, columns: &[(&str, u32)]) -> Result<()> {
    let fits = |group: u32| columns.iter().all(|(_, columns)| columns.is_multiple_of(group));
    let problem = if !GROUPS.contains(&group) {
        format!("{what} cannot have groups of {group}")
    } else if let Some((name, columns)) = columns.iter().find(|(_, columns)| !columns.is_multiple_of(group)) {
        format!("groups of {group} do not divide the model's {name} of {columns}, as they must in {what}")
    } else {
        return Ok(());
    };
    let allowed: Vec<_> = GROUPS.into_iter().filter(|&group| fits(group)).map(|group| group.to_string()).collect();
    let advice = if allowed.is_empty() { "use float32".to_owned() } else { format!("allowed are {}", allowed.join(", ")) };
    invalid_option(format!("{problem}: {advice}"))
}

/// Checks that no tensor is too large.
fn bytes(config: &ModelConfig, options: &ConvertOptions) -> Result<()> {
    let rows_of_a_call = [config.vocab_size, config.hidden_size, config.query_dim(), config.intermediate_size];
    let calls = rows_of_a_call.map(|width| ("a call's tensors", options.max_call_tokens(), width));
    let caches = [("the KV cache", options.max_context_length, config.kv_dim())];
    let embedding = config.shape(Weight::Embedding);
    let weights = [
        ("the embedding", embedding.rows, embedding.columns),
        ("the projections", config.intermediate_size, config.hidden_size),
        ("the projections", config.query_dim(), config.hidden_size),
    ];
    for (name, rows, columns) in calls.into_iter().chain(caches).chain(weights) {
        // Twice the size leaves room for padding.
        let bytes = u64::from(rows).checked_mul(columns.into()).and_then(|count| count.checked_mul(2 * WIDEST));
        if bytes.is_none_or(|bytes| bytes > MOST_BYTES) {
            return invalid_option(format!(
                "{name} would have {rows} times {columns} numbers, which is too much for a file"
            ));
        }
    }
    Ok(())
}
