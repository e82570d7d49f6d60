//! The options of a request that decide how text is generated.

use pteron_llm::{GenerationOptions, Sampling};

use crate::backend::ModelInfo;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::id;

/// Bounds of what a request may list.
const MAX_STOP_STRINGS: usize = 16;
const MAX_STOP_BYTES: usize = 1024;
const MAX_BIASES: usize = 4096;
/// The most alternatives per token.
pub(crate) const MAX_LOGPROBS: u64 = 20;

/// Reads sampling options, stop strings and the seed. `stop` is the field of stop strings.
pub(crate) fn options(fields: &Fields<'_>, stop: &str, info: &ModelInfo) -> Result<GenerationOptions, ApiError> {
    let sampling = Sampling::default()
        .with_temperature(fields.number("temperature", 0.0..=2.0)?.unwrap_or(1.0))
        .with_top_p(top_p(fields)?)
        .with_top_k(top_k(fields)?)
        .with_min_p(fields.number("min_p", 0.0..=1.0)?.unwrap_or(0.0))
        .with_presence_penalty(fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0))
        .with_frequency_penalty(fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0))
        .with_repetition_penalty(fields.number("repetition_penalty", 0.01..=100.0)?.unwrap_or(1.0))
        .with_logit_bias(biases(fields, info)?)
        .with_seed(seed(fields)?);
    let options = GenerationOptions::default().with_sampling(sampling).with_stop_strings(stop_strings(fields, stop)?);
    Ok(options.with_ignore_eos(fields.boolean("ignore_eos")?.unwrap_or(false)))
}

fn top_p(fields: &Fields<'_>) -> Result<f32, ApiError> {
    match fields.number("top_p", 0.0..=1.0)? {
        // All but the most likely token are left out then.
        Some(p) if p <= 0.0 => Ok(f32::MIN_POSITIVE),
        other => Ok(other.unwrap_or(1.0)),
    }
}

/// -1 stands for all, as other servers have it.
fn top_k(fields: &Fields<'_>) -> Result<u32, ApiError> {
    if fields.get("top_k").is_some_and(|value| value.as_i64() == Some(-1)) {
        return Ok(0);
    }
    let k = fields.integer("top_k", 0..=u64::from(u32::MAX))?.unwrap_or(0);
    Ok(u32::try_from(k).unwrap_or(u32::MAX))
}

fn seed(fields: &Fields<'_>) -> Result<u64, ApiError> {
    match fields.get("seed") {
        None => Ok(id::number()),
        Some(value) => {
            let seed = value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned));
            seed.ok_or_else(|| fields.invalid("seed", "must be an integer of 64 bits"))
        }
    }
}

fn stop_strings(fields: &Fields<'_>, name: &str) -> Result<Vec<String>, ApiError> {
    let strings = match fields.get(name) {
        Some(serde_json::Value::String(text)) => vec![text.as_str()],
        _ => {
            let list = fields.list(name, MAX_STOP_STRINGS)?.unwrap_or_default();
            let strings: Option<Vec<&str>> = list.iter().map(serde_json::Value::as_str).collect();
            strings.ok_or_else(|| fields.invalid(name, "must be a string or a list of strings"))?
        }
    };
    match strings.iter().find(|text| text.is_empty() || text.len() > MAX_STOP_BYTES) {
        Some(_) => Err(fields.invalid(name, format_args!("must have strings of 1 to {MAX_STOP_BYTES} bytes"))),
        None => Ok(strings.into_iter().map(str::to_owned).collect()),
    }
}

fn biases(fields: &Fields<'_>, info: &ModelInfo) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(value) = fields.get("logit_bias") else { return Ok(Vec::new()) };
    let map = value.as_object().ok_or_else(|| fields.invalid("logit_bias", "must map token ids to numbers"))?;
    if map.len() > MAX_BIASES {
        return Err(fields.invalid("logit_bias", format_args!("has {} entries, but may have {MAX_BIASES}", map.len())));
    }
    let biases = Fields::of(value, fields.path("logit_bias"))?;
    let read = |name: &String| {
        let token = name.parse().ok().filter(|token| *token < info.vocab_size);
        let token = token.ok_or_else(|| {
            fields.invalid(
                "logit_bias",
                format_args!("must name tokens by their ids, from 0 to {}", info.vocab_size.saturating_sub(1)),
            )
        })?;
        Ok(biases.number(name, -100.0..=100.0)?.map(|bias| (token, bias)))
    };
    map.keys().filter_map(|name| read(name).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<GenerationOptions, ApiError> {
        let info = ModelInfo { vocab_size: 100, ..ModelInfo::default() };
        options(&Fields::of_request(value).unwrap(), "stop", &info)
    }

    #[test]
    fn defaults_are_those_of_the_api() {
        let defaults = read(&json!({ "seed": 3 })).unwrap();
        assert_eq!(defaults.sampling, Sampling::default().with_temperature(1.0).with_seed(3));
        assert_ne!(read(&json!({})).unwrap().sampling.seed, read(&json!({})).unwrap().sampling.seed);
    }

    #[test]
    fn every_option_arrives() {
        let all = json!({
            "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": -1,
            "repetition_penalty": 1.1, "logit_bias": { "7": -100 }, "seed": -1, "stop": ["a", "b"], "ignore_eos": true,
        });
        let options = read(&all).unwrap();
        let sampling = &options.sampling;
        assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p), (0.5, 0.9, 40, 0.1));
        assert_eq!((sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty), (1.0, -1.0, 1.1));
        assert_eq!((sampling.logit_bias.as_slice(), sampling.seed), (&[(7, -100.0)][..], u64::MAX));
        assert_eq!((options.stop_strings.len(), options.ignore_eos), (2, true));
        assert_eq!(read(&json!({ "stop": "x", "top_k": -1 })).unwrap().sampling.top_k, 0);
        assert!(read(&json!({ "top_p": 0 })).unwrap().sampling.validate().is_ok());
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            (json!({ "temperature": 2.1 }), "temperature"),
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "top_k": 1.5 }), "top_k"),
            (json!({ "seed": 1.5 }), "seed"),
            (json!({ "stop": [""] }), "stop"),
            (json!({ "stop": [1] }), "stop"),
            (json!({ "logit_bias": { "100": 1 } }), "logit_bias"),
            (json!({ "logit_bias": { "5": 101 } }), "logit_bias.5"),
            (json!({ "logit_bias": [1] }), "logit_bias"),
        ];
        for (request, param) in cases {
            assert_eq!(read(&request).unwrap_err().param.as_deref(), Some(param), "{request}");
        }
    }
}
