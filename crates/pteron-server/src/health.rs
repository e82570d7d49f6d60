//! `/health` and `/ready`.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::error::{ApiError, json_response};
use crate::state::App;

/// The process answers.
pub(crate) async fn health() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// A model is loaded, none is being loaded, and new requests are accepted.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.is_ready() {
        return json_response(StatusCode::OK, &json!({ "status": "ready" }));
    }
    let reason = match app.slots().iter().any(|slot| slot.is_loading()) {
        _ if app.is_draining() => "the server is shutting down",
        true => "a model is being loaded",
        false => "no model is loaded",
    };
    ApiError::unavailable(reason).into_response()
}
