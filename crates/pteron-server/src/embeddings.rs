//! `/v1/embeddings`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pteron_llm::TokenId;
use serde_json::{Value, json};

use crate::backend::{BackendError, EmbeddingInfo};
use crate::completions::{Prompt, prompts};
use crate::error::{ApiError, json_response};
use crate::fields::Fields;
use crate::slot::{LoadedModel, Slot};
use crate::state::{App, Target};

/// The most texts of a request, as the API has it.
const MAX_TEXTS: usize = 2048;

/// Answers with the embeddings of texts.
pub(crate) async fn handle(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let target = target(&app, &fields)?;
    let model = target.slot.loaded()?;
    let name = target.name();
    let info = model.backend.embeddings().filter(|_| target.adapter.is_none());
    let info = info.ok_or_else(|| {
        ApiError::unsupported("model", format!("the model {name} makes no embeddings: name one that was loaded for them"))
    })?;
    let inputs = prompts(&fields, "input", MAX_TEXTS, info.vocab_size.unwrap_or(u32::MAX))?;
    let dimensions = dimensions(&fields, info)?;
    let is_base64 = fields.one_of("encoding_format", &["float", "base64"])? == Some("base64");

    let permit = app.admit()?;
    let slot = Arc::clone(&target.slot);
    // One request after another: the texts of each run at once.
    let turn = model.embedding.acquire().await;
    let embed = move |model: &LoadedModel| {
        let _permit = permit;
        Ok(embed(model, inputs))
    };
    let result = app.compute(&model, embed).await?;
    drop(turn);
    let (tokens, vectors) = result.map_err(|error: BackendError| {
        slot.note(&model, &error);
        let is_input = matches!(error, BackendError::PromptTooLong(_) | BackendError::Invalid(_));
        let error = ApiError::from(error);
        if is_input { error.at("input") } else { error }
    })?;
    let data: Vec<Value> =
        vectors.into_iter().enumerate().map(|(index, vector)| entry(index, vector, dimensions, is_base64)).collect();
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    Ok(json_response(StatusCode::OK, &json!({ "object": "list", "data": data, "model": name, "usage": usage })))
}

/// Returns the number of tokens of all texts, and their vectors.
fn embed(model: &LoadedModel, inputs: Vec<Prompt>) -> Result<(usize, Vec<Vec<f32>>), BackendError> {
    let encode = |input| match input {
        Prompt::Tokens(tokens) => Ok(tokens),
        Prompt::Text(text) => model.backend.embedding_prompt(&text),
    };
    let texts = inputs.into_iter().map(encode).collect::<Result<Vec<Vec<TokenId>>, _>>()?;
    let vectors = model.backend.embed(&texts)?;
    Ok((texts.iter().map(Vec::len).sum(), vectors))
}

/// The model of a request. Without a name it is the first one that makes embeddings.
fn target(app: &App, fields: &Fields<'_>) -> Result<Target, ApiError> {
    let makes = |slot: &Arc<Slot>| slot.loaded().is_ok_and(|model| model.backend.embeddings().is_some());
    match fields.string("model")? {
        None => match app.slots().into_iter().find(makes) {
            Some(slot) => Ok(Target { slot, adapter: None }),
            None => app.target_named(None),
        },
        named => app.target_named(named),
    }
}

/// Reads `dimensions`: how many numbers of each vector are wanted.
fn dimensions(fields: &Fields<'_>, info: EmbeddingInfo) -> Result<usize, ApiError> {
    let most = u64::try_from(info.dimensions).unwrap_or(u64::MAX);
    let wanted = fields.count("dimensions", 1..=most)?.unwrap_or(info.dimensions);
    if wanted != info.dimensions && !info.truncatable {
        let message =
            format!("dimensions can only be {most}: the server does not know that this model was trained for fewer");
        return Err(ApiError::unsupported("dimensions", message));
    }
    Ok(wanted)
}

fn entry(index: usize, mut vector: Vec<f32>, dimensions: usize, is_base64: bool) -> Value {
    if dimensions < vector.len() {
        vector.truncate(dimensions);
        normalize(&mut vector);
    }
    let embedding: Value = match is_base64 {
        true => base64(&vector.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>()).into(),
        false => vector.into_iter().map(shortest).collect(),
    };
    json!({ "object": "embedding", "index": index, "embedding": embedding })
}

/// Divides a vector that was cut by its length, as the whole one was.
fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|number| f64::from(*number).powi(2)).sum();
    if square > 0.0 {
        #[expect(clippy::cast_possible_truncation, reason = "vectors are 32-bit floats")]
        vector.iter_mut().for_each(|number| *number = (f64::from(*number) / square.sqrt()) as f32);
    }
}

/// A number with as many digits as 32 bits need, not 64.
fn shortest(number: f32) -> Value {
    Value::from(number.to_string().parse::<f64>().unwrap_or_else(|_| number.into()))
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = bits >> (18 - 6 * digit) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(DIGITS[index as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_are_written_in_base64() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[251, 255]), "+/8=");
    }

    #[test]
    fn vectors_that_are_cut_have_length_one_again() {
        let whole = vec![0.6, 0.0, 0.8];
        assert_eq!(
            entry(1, whole.clone(), 3, false),
            json!({ "object": "embedding", "index": 1, "embedding": [0.6, 0.0, 0.8] })
        );
        assert_eq!(entry(0, whole, 1, false)["embedding"], json!([1.0]));
    }
}
