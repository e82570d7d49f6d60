//! `/v1/models`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::{ApiError, json_response};
use crate::slot::Slot;
use crate::state::App;

/// Lists the models.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Response {
    let models: Vec<Value> = app.slots.iter().flat_map(|slot| names(slot).map(|name| model(slot, name))).collect();
    let first = models.first().map_or(Value::Null, |model| model["id"].clone());
    let last = models.last().map_or(Value::Null, |model| model["id"].clone());
    let body = json!({ "object": "list", "data": models, "first_id": first, "last_id": last, "has_more": false });
    json_response(StatusCode::OK, &body)
}

/// Describes one model.
pub(crate) async fn get(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let slot = app.slot_named(Some(&name))?;
    Ok(json_response(StatusCode::OK, &model(slot, &name)))
}

fn names(slot: &Slot) -> impl Iterator<Item = &str> {
    std::iter::once(&slot.source.name).chain(&slot.source.aliases).map(String::as_str)
}

/// A model in a form that the clients of both APIs read.
fn model(slot: &Slot, name: &str) -> Value {
    let context = slot.loaded().ok().map(|model| model.backend.info().context_length);
    json!({
        "id": name,
        "object": "model",
        "type": "model",
        "created": slot.created,
        "created_at": "1970-01-01T00:00:00Z",
        "display_name": name,
        "owned_by": "pteron",
        "max_model_len": context,
        "loaded": slot.is_loaded(),
    })
}
