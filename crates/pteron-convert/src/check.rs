//! Whether a decoder and what is wanted of it can become a program.

use crate::blueprint::{Form, Options};
use crate::decoder::{Decoder, Scaling, Weight};
use crate::error::{Error, Result};

/// Numbers that can share a scale.
const GROUPS: [u32; 4] = [32, 64, 128, 256];
/// Keys and values of 4-bit projections come in pieces of so many.
const OUTPUT_PIECE: u32 = 4;
/// More layers than any decoder has; a graph has some dozens of values for each.
const MOST_LAYERS: u32 = 1024;
/// Files store sizes as signed numbers of 32 bits.
const LARGEST: u32 = i32::MAX as u32;
/// What no tensor may exceed, in bytes.
const MOST_BYTES: u64 = i64::MAX as u64;
/// Bytes of the widest number.
const WIDEST: u64 = 8;

/// Checks everything that a blueprint takes for granted.
pub(crate) fn check(decoder: &Decoder, options: &Options) -> Result<()> {
    sizes(decoder)?;
    numbers(decoder)?;
    lengths(options)?;
    groups(decoder, options)?;
    bytes(decoder, options)
}

fn refuse<T>(problem: String) -> Result<T> {
    Err(Error::Option(problem))
}

fn sizes(decoder: &Decoder) -> Result<()> {
    let named = [
        ("vocabulary", decoder.vocabulary),
        ("width", decoder.width),
        ("number of heads", decoder.heads),
        ("number of key and value heads", decoder.key_value_heads),
        ("width of a head", decoder.head_width),
        ("width of the feed-forward network", decoder.hidden),
    ];
    for (name, size) in named {
        within(&format!("the model's {name}"), size, 1, LARGEST)?;
    }
    within("the model's number of layers", decoder.layers, 1, MOST_LAYERS)?;
    let Decoder { heads, key_value_heads, head_width, .. } = *decoder;
    if !head_width.is_multiple_of(2) {
        return refuse(format!("the model's heads are {head_width} wide, but only heads of even width can be rotated"));
    }
    if !heads.is_multiple_of(key_value_heads) {
        return refuse(format!(
            "the model has {heads} heads and {key_value_heads} key and value heads, but each of these must serve equally many"
        ));
    }
    if heads.checked_mul(head_width).is_none_or(|width| width > LARGEST) {
        return refuse(format!("the model's {heads} heads of width {head_width} are together wider than {LARGEST}"));
    }
    Ok(())
}

fn within(name: &str, size: u32, least: u32, most: u32) -> Result<()> {
    if (least..=most).contains(&size) {
        return Ok(());
    }
    refuse(format!("{name} is {size}, but must be between {least} and {most}"))
}

fn numbers(decoder: &Decoder) -> Result<()> {
    positive("norm epsilon", decoder.norm_epsilon)?;
    positive("rotary base", decoder.rotary.theta)?;
    match &decoder.rotary.scaling {
        None => Ok(()),
        Some(Scaling::Divisors(divisors)) => divided(divisors, decoder.head_width / 2),
        Some(Scaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context }) => {
            stretched(*factor, *low_frequency_factor, *high_frequency_factor, *original_context)
        }
    }
}

fn divided(divisors: &[f32], frequencies: u32) -> Result<()> {
    if divisors.len() != frequencies as usize {
        return refuse(format!("the rotary scaling has {} divisors for {frequencies} frequencies", divisors.len()));
    }
    divisors.iter().try_for_each(|&divisor| positive("rotary scaling's divisor", divisor.into()))
}

fn stretched(factor: f64, low: f64, high: f64, original_context: u32) -> Result<()> {
    positive("rotary scaling factor", factor)?;
    positive("rotary scaling's low frequency factor", low)?;
    positive("rotary scaling's high frequency factor", high)?;
    within("the rotary scaling's original context", original_context, 1, LARGEST)?;
    if low >= high {
        return refuse(format!(
            "the rotary scaling's low frequency factor is {low}, but must be less than the high one, {high}"
        ));
    }
    Ok(())
}

fn positive(name: &str, number: f64) -> Result<()> {
    if number.is_finite() && number > 0.0 {
        return Ok(());
    }
    refuse(format!("the model's {name} is {number}, but must be a positive number"))
}

fn lengths(options: &Options) -> Result<()> {
    within("the context", options.context, 1, LARGEST)?;
    let Options { longest_call, context, .. } = *options;
    if longest_call < 2 {
        return refuse(format!(
            "the longest call is {longest_call}, but must be at least 2: it counts one more than its tokens"
        ));
    }
    if options.most_tokens() > context {
        return refuse(format!(
            "the longest call has {} tokens, but the context has room for {context} only",
            options.most_tokens()
        ));
    }
    Ok(())
}

fn groups(decoder: &Decoder, options: &Options) -> Result<()> {
    let width = ("width", decoder.width);
    if let Form::FourBits { group } = options.linears {
        let inputs = [width, ("width of all heads", decoder.query_width()), ("hidden width", decoder.hidden)];
        group_fits("4-bit projections", group, &inputs)?;
        let outputs = decoder.key_value_width();
        if !outputs.is_multiple_of(OUTPUT_PIECE) {
            return refuse(format!(
                "the model's keys are {outputs} wide together, but 4-bit projections need a multiple of {OUTPUT_PIECE}: use float32"
            ));
        }
    }
    if let Form::FourBits { group } = options.embedding {
        group_fits("a 4-bit embedding", group, &[width])?;
    }
    Ok(())
}

/// Whether groups of this size divide all columns.
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
    refuse(format!("{problem}: {advice}"))
}

/// No tensor is too large to be counted.
fn bytes(decoder: &Decoder, options: &Options) -> Result<()> {
    let rows_of_a_call = [decoder.vocabulary, decoder.width, decoder.query_width(), decoder.hidden];
    let calls = rows_of_a_call.map(|width| ("a call's tensors", options.most_tokens(), width));
    let caches = [("the KV cache", options.context, decoder.key_value_width())];
    let embedding = decoder.matrix(Weight::Embedding);
    let weights = [
        ("the embedding", embedding.rows, embedding.columns),
        ("the projections", decoder.hidden, decoder.width),
        ("the projections", decoder.query_width(), decoder.width),
    ];
    for (name, rows, columns) in calls.into_iter().chain(caches).chain(weights) {
        // Room to be rounded up.
        let bytes = u64::from(rows).checked_mul(columns.into()).and_then(|count| count.checked_mul(2 * WIDEST));
        if bytes.is_none_or(|bytes| bytes > MOST_BYTES) {
            return refuse(format!("{name} would have {rows} times {columns} numbers, which is too much for a file"));
        }
    }
    Ok(())
}
