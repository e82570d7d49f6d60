//! Metadata of a folder: BOS and EOS tokens, tokenizer, chat template.

use pteron_format::EscapedText;
use serde::Deserialize;
use serde_json::Value;

use super::architecture::Architecture;
use super::fields::Fields;
use super::folder::Folder;
use crate::error::{Error, Result};
use crate::source::{CheckpointMetadata, Sidecar};

const GENERATION: &str = "generation_config.json";
const TOKENIZER: &str = "tokenizer.json";
const SENTENCE_PIECE: &str = "tokenizer.model";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const TEMPLATE: &str = "chat_template.jinja";

pub(super) fn read(
    folder: &Folder<'_>,
    config: &Fields,
    architecture: &Architecture,
    vocabulary: u32,
) -> Result<CheckpointMetadata> {
    let generation = folder.optional_fields(GENERATION)?;
    let tokens = |field, default| tokens(field, [generation.as_ref(), Some(config)], default, vocabulary);
    let begin = tokens("bos_token_id", architecture.bos_token)?.first().copied();
    let mut ends = Vec::new();
    for end in tokens("eos_token_id", architecture.eos_token)? {
        if !ends.contains(&end) {
            ends.push(end);
        }
    }
    let begin = match begin {
        Some(token) => begins_texts(folder, token)?.then_some(token),
        None => None,
    };
    Ok(CheckpointMetadata { bos_token: begin, eos_tokens: ends, sidecars: sidecars(folder)? })
}

/// Returns the tokens of the first file that has the field; null means none.
fn tokens(field: &str, files: [Option<&Fields>; 2], default: Option<u32>, vocabulary: u32) -> Result<Vec<u32>> {
    for file in files.into_iter().flatten() {
        let Some(tokens) = file.tokens(field)? else { continue };
        if let Some(token) = tokens.iter().find(|token| **token >= vocabulary) {
            return Err(file.wrong(field, token, &format!("should be smaller than vocab_size = {vocabulary}")));
        }
        return Ok(tokens);
    }
    let silent = files.into_iter().flatten().all(|file| !file.is_null(field));
    Ok(default.filter(|token| silent && *token < vocabulary).into_iter().collect())
}

/// Whether the tokenizer adds the BOS token. Many configurations name one that it never adds.
fn begins_texts(folder: &Folder<'_>, token: u32) -> Result<bool> {
    if let Some(config) = folder.optional_fields(TOKENIZER_CONFIG)? {
        if config.is_null("bos_token") {
            return Ok(false);
        }
        if let Some(added) = config.flag("add_bos_token")? {
            return Ok(added);
        }
    }
    let Some(tokenizer) = folder.map_optional(TOKENIZER)? else { return Ok(true) };
    let tokenizer: Tokenizer = serde_json::from_slice(tokenizer.as_ref()).map_err(|error| Error::Malformed {
        file: TOKENIZER.to_owned(),
        problem: format!("it is not JSON: {}", EscapedText::sentence(&error.to_string())),
    })?;
    Ok(tokenizer.post_processor.is_some_and(|processor| puts_first(&processor, token)))
}

/// The part of a tokenizer that adds special tokens.
#[derive(Deserialize)]
struct Tokenizer {
    post_processor: Option<Value>,
}

fn puts_first(processor: &Value, token: u32) -> bool {
    if let Some(processors) = processor.get("processors").and_then(Value::as_array) {
        return processors.iter().any(|processor| puts_first(processor, token));
    }
    let ids = || {
        let name = processor.get("single")?.get(0)?.get("SpecialToken")?.get("id")?.as_str()?;
        processor.get("special_tokens")?.get(name)?.get("ids")?.as_array()
    };
    ids().is_some_and(|ids| ids.contains(&Value::from(token)))
}

/// Reads the sidecar files. A `SentencePiece` model is the fallback for `tokenizer.json`.
fn sidecars(folder: &Folder<'_>) -> Result<Vec<Sidecar>> {
    let tokenizer = if folder.has(TOKENIZER) { TOKENIZER } else { SENTENCE_PIECE };
    let mut sidecars = Vec::new();
    for name in [tokenizer, TOKENIZER_CONFIG, TEMPLATE] {
        if let Some(mapped) = folder.map_optional(name)? {
            sidecars.push(Sidecar { name: name.to_owned(), bytes: mapped.as_ref().to_vec() });
        }
    }
    Ok(sidecars)
}
