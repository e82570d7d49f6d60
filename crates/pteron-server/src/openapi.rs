//! `/openapi.json`.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::error::json_response;

/// The description of the server's API, in `OpenAPI` 3.1.
#[must_use]
pub fn openapi() -> Value {
    json!({ "openapi": "3.1.0", "info": { "title": "Pteron", "version": env!("CARGO_PKG_VERSION") }, "paths": {} })
}

/// Answers with the description.
pub(crate) async fn handle() -> Response {
    json_response(StatusCode::OK, &openapi())
}
