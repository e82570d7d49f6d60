//! Rotary position embedding in `config.json`: `rope_theta` and `rope_scaling` in older files, `rope_parameters` in newer ones.

use super::fields::Fields;
use crate::config::{RopeConfig, RopeScaling, RopeStyle};
use crate::error::Result;

const THETA: &str = "rope_theta";
const TYPES: [&str; 2] = ["default", "llama3"];

pub(super) fn read(config: &Fields) -> Result<RopeConfig> {
    whole_heads(config)?;
    let parameters = match config.object("rope_scaling")? {
        Some(scaling) if scaling.names().next().is_some() => Some(scaling),
        _ => config.object("rope_parameters")?,
    };
    let (mut theta, mut scaling) = (None, None);
    if let Some(parameters) = parameters {
        whole_heads(&parameters)?;
        theta = parameters.number(THETA)?;
        scaling = self::scaling(&parameters)?;
    }
    let theta = match theta {
        Some(theta) => theta,
        None => config.number(THETA)?.unwrap_or(10_000.0),
    };
    Ok(RopeConfig { theta, scaling, style: RopeStyle::HalfSplit })
}

/// Rejects partial rotation: programs rotate whole heads.
fn whole_heads(fields: &Fields) -> Result<()> {
    let field = "partial_rotary_factor";
    match fields.number(field)? {
        Some(factor) if factor != 1.0 => Err(fields.unsupported(field, &["1.0"])),
        _ => Ok(()),
    }
}

fn scaling(parameters: &Fields) -> Result<Option<RopeScaling>> {
    if let Some(layers) = parameters.names().find(|name| name.ends_with("_attention")) {
        return Err(parameters.unsupported(layers, &["one rotation for all layers"]));
    }
    // Older files call `rope_type` `type`.
    let field = if parameters.value("rope_type").is_some() { "rope_type" } else { "type" };
    match parameters.text(field)? {
        Some("llama3") => llama3(parameters).map(Some),
        Some("default") => Ok(None),
        Some(_) => Err(parameters.unsupported(field, &TYPES)),
        // A factor without a type is ambiguous.
        None if parameters.value("factor").is_some() => Err(parameters.missing("rope_type")),
        None => Ok(None),
    }
}

fn llama3(parameters: &Fields) -> Result<RopeScaling> {
    let number = |field| parameters.number(field)?.ok_or_else(|| parameters.missing(field));
    let original = "original_max_position_embeddings";
    let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
    if high <= low {
        let expected = format!("should be greater than low_freq_factor = {low}");
        return Err(parameters.wrong("high_freq_factor", high, &expected));
    }
    Ok(RopeScaling::Llama3 {
        factor: number("factor")?,
        low_frequency_factor: low,
        high_frequency_factor: high,
        original_context: parameters.count(original)?.ok_or_else(|| parameters.missing(original))?,
    })
}
