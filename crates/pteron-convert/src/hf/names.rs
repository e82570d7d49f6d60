//! Hugging Face's tensor names.

use std::collections::BTreeMap;

use pteron_format::EscapedText;

use crate::config::{LayerWeight, Weight};

const LAYERS: &str = "model.layers.";

/// Returns the tensor name of a weight.
pub(super) fn name(weight: Weight) -> String {
    match weight {
        Weight::Embedding => "model.embed_tokens.weight".to_owned(),
        Weight::FinalNorm => "model.norm.weight".to_owned(),
        Weight::Output => "lm_head.weight".to_owned(),
        Weight::Layer(layer, part) => format!("{LAYERS}{layer}.{}", within_layer(part)),
    }
}

const fn within_layer(part: LayerWeight) -> &'static str {
    match part {
        LayerWeight::AttentionNorm => "input_layernorm.weight",
        LayerWeight::Query => "self_attn.q_proj.weight",
        LayerWeight::Key => "self_attn.k_proj.weight",
        LayerWeight::Value => "self_attn.v_proj.weight",
        LayerWeight::AttentionOutput => "self_attn.o_proj.weight",
        LayerWeight::QueryBias => "self_attn.q_proj.bias",
        LayerWeight::KeyBias => "self_attn.k_proj.bias",
        LayerWeight::ValueBias => "self_attn.v_proj.bias",
        LayerWeight::AttentionOutputBias => "self_attn.o_proj.bias",
        LayerWeight::QueryNorm => "self_attn.q_norm.weight",
        LayerWeight::KeyNorm => "self_attn.k_norm.weight",
        LayerWeight::FeedForwardNorm => "post_attention_layernorm.weight",
        LayerWeight::Gate => "mlp.gate_proj.weight",
        LayerWeight::Up => "mlp.up_proj.weight",
        LayerWeight::Down => "mlp.down_proj.weight",
    }
}

/// Whether an unexpected tensor can be ignored: frequencies that follow from the configuration, or a copy of the embedding.
pub(super) fn is_harmless(tensor: &str, tied: bool) -> bool {
    tensor.ends_with("rotary_emb.inv_freq") || tied && tensor == name(Weight::Output)
}

/// Lists names for a message, merging names that differ only in their layer: `model.layers.0-31.mlp.up_proj.bias`.
pub(super) fn listing<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 40;
    let mut single = Vec::new();
    let mut layers = BTreeMap::<&str, Vec<u32>>::new();
    for name in names {
        match layer_and_rest(name) {
            Some((layer, rest)) => layers.entry(rest).or_default().push(layer),
            None => single.push(EscapedText::name(name).to_string()),
        }
    }
    let grouped = layers.into_iter().map(|(rest, layers)| format!("{LAYERS}{}.{}", ranges(layers), EscapedText::name(rest)));
    let entries: Vec<_> = single.into_iter().chain(grouped).collect();
    match entries.len().checked_sub(MOST) {
        None | Some(0) => entries.join(", "),
        Some(more) => format!("{} and {more} more", entries[..MOST].join(", ")),
    }
}

fn layer_and_rest(name: &str) -> Option<(u32, &str)> {
    let (layer, rest) = name.strip_prefix(LAYERS)?.split_once('.')?;
    Some((layer.parse().ok()?, rest))
}

/// `0-3,7`.
fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|earlier, later| earlier.checked_add(1) == Some(*later));
    let texts = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    let text = texts.collect::<Vec<_>>().join(",");
    EscapedText::name(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_layers_are_merged() {
        let names = [
            "model.layers.3.a",
            "lm_head.weight",
            "model.layers.0.a",
            "model.layers.1.a",
            "model.layers.1.b",
            "model.layers.x.a",
        ];
        assert_eq!(listing(names), "lm_head.weight, model.layers.x.a, model.layers.0-1,3.a, model.layers.1.b");
        assert_eq!(listing([]), "");
    }

    #[test]
    fn long_lists_are_truncated_with_a_count() {
        let names: Vec<_> = (0..100).map(|index| format!("tensor.{index}")).collect();
        let text = listing(names.iter().map(String::as_str));
        assert!(text.starts_with("tensor.0, tensor.1, ") && text.ends_with(", tensor.39 and 60 more"), "{text}");
    }
}
