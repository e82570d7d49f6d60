//! `/v1/models`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::{ApiError, json_response};
use crate::slot::{AdapterSource, Slot};
use crate::state::App;

/// Lists the models and their adapters.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Response {
    let models: Vec<Value> = app.slots().iter().flat_map(all_of).collect();
    let first = models.first().map_or(Value::Null, |model| model["id"].clone());
    let last = models.last().map_or(Value::Null, |model| model["id"].clone());
    let body = json!({ "object": "list", "data": models, "first_id": first, "last_id": last, "has_more": false });
    json_response(StatusCode::OK, &body)
}

/// Describes one model or adapter.
pub(crate) async fn get(State(app): State<Arc<App>>, Path(name): Path<String>) -> Result<Response, ApiError> {
    let slot = app.target_named(Some(&name))?.slot;
    let own = all_of(&slot).into_iter().find(|model| model["id"] == name.as_str());
    let own = own.ok_or_else(|| ApiError::unknown_model(&name, std::slice::from_ref(&slot.source.name)))?;
    Ok(json_response(StatusCode::OK, &own))
}

fn all_of(slot: &Arc<Slot>) -> Vec<Value> {
    let names = slot.source.model_names().map(|name| model(slot, name));
    names.chain(slot.adapters().iter().map(|own| adapter(slot, own))).collect()
}

/// A model in a form that the clients of both APIs read.
pub(crate) fn model(slot: &Slot, name: &str) -> Value {
    let context = slot.loaded().ok().map(|model| model.backend.info().context_length);
    let mut status = json!({ "value": slot.status() });
    if let Some(reason) = slot.failure() {
        status["failed"] = true.into();
        status["reason"] = reason.into();
    }
    json!({
        "id": name,
        "object": "model",
        "type": "model",
        "created": slot.created,
        "created_at": "1970-01-01T00:00:00Z",
        "display_name": name,
        "owned_by": "pteron",
        "root": slot.source.name,
        "parent": null,
        "max_model_len": context,
        "loaded": slot.is_loaded(),
        "status": status,
    })
}

/// An adapter, as a model with a parent.
pub(crate) fn adapter(slot: &Slot, adapter: &AdapterSource) -> Value {
    let mut value = model(slot, &adapter.name);
    value["root"] = adapter.folder.display().to_string().into();
    value["parent"] = slot.source.name.as_str().into();
    value
}
