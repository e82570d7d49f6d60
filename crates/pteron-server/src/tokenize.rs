//! `/tokenize` and `/detokenize`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pteron_llm::{ParseSpecial, ShowSpecial, TokenId};
use serde_json::json;

use crate::error::{ApiError, json_response};
use crate::fields::Fields;
use crate::prompt::Conversation;
use crate::state::App;
use crate::tools::Tools;

/// The tokens of a text, or of a conversation.
pub(crate) async fn tokenize(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let model = app.target(&fields)?.slot.loaded()?;
    let prompt = fields.string("prompt")?.map(|text| ("prompt", text));
    let text = prompt.or(fields.string("content")?.map(|text| ("content", text)));
    let whole = fields.boolean("add_special_tokens")?.unwrap_or(true);
    let tokens: Vec<TokenId> = if fields.get("messages").is_some() {
        let conversation = Conversation::openai(&fields)?;
        let tools = Tools::openai(&fields, true)?;
        conversation.prepare(&app, &model, tools, None, "messages").await?.tokens
    } else {
        let (field, text) = text.ok_or_else(|| fields.invalid("prompt", "is missing"))?;
        let text = text.to_owned();
        let encode = move |model: &crate::slot::LoadedModel| match whole {
            true => model.backend.text_prompt(&text).map_err(|error| ApiError::from(error).at(field)),
            false => {
                let tokens = model.backend.tokenizer().encode(&text, ParseSpecial::No);
                tokens.map_err(|error| ApiError::invalid(field, error))
            }
        };
        app.compute(&model, encode).await?
    };
    let most = model.backend.info().context_length;
    Ok(json_response(StatusCode::OK, &json!({ "tokens": tokens, "count": tokens.len(), "max_model_len": most })))
}

/// The text of tokens.
pub(crate) async fn detokenize(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let model = app.target(&fields)?.slot.loaded()?;
    let list = fields.list("tokens", usize::MAX)?.ok_or_else(|| fields.invalid("tokens", "is missing"))?;
    let vocabulary = model.backend.info().vocab_size;
    let ids = list.iter().map(|value| value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < vocabulary));
    let ids: Option<Vec<TokenId>> = ids.collect();
    let ids = ids.ok_or_else(|| fields.invalid("tokens", "must be token ids of the vocabulary"))?;
    let decode = move |model: &crate::slot::LoadedModel| Ok(model.backend.tokenizer().decode(&ids, ShowSpecial::Yes));
    let text = app.compute(&model, decode).await?;
    Ok(json_response(StatusCode::OK, &json!({ "prompt": text, "content": text })))
}
