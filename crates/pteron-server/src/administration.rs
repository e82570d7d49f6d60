//! Loading and unloading of models and adapters while the server runs: `/models/load` and `/models/unload` as llama.cpp's server has
//! them, `/v1/load_lora_adapter` and `/v1/unload_lora_adapter` as vLLM has them.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pteron_format::EscapedText;
use serde_json::json;

use crate::backend::BackendError;
use crate::error::{ApiError, json_response};
use crate::fields::Fields;
use crate::models;
use crate::slot::{AdapterSource, Slot};
use crate::state::App;

/// Names of adapters appear in lists and answers.
const MAX_NAME: usize = 256;

/// Whether a route changes what is served.
pub(crate) fn is_route(route: &str) -> bool {
    ["/models/load", "/models/unload", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"].contains(&route)
}

/// Loads a model that was unloaded, or one of the catalog.
pub(crate) async fn load(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let name = fields.required_string("model")?.to_owned();
    let wait = fields.boolean("wait")?.unwrap_or(false);
    accepting(&app)?;
    let slot = match app.target_named(Some(&name)) {
        Ok(target) => target.slot,
        Err(unknown) => from_catalog(&app, name, unknown).await?,
    };
    // A slot of the catalog is about to be loaded, and one that is being loaded needs no second thread unless it is waited for.
    if slot.begin_load() || slot.is_loading() {
        let loading = Arc::clone(&slot);
        let done = tokio::task::spawn_blocking(move || loading.load_now());
        if wait {
            let done = done.await.unwrap_or_else(|_| Err("loading stopped unexpectedly".to_owned()));
            done.map_err(|reason| ApiError::bad_request(format!("{}: {reason}", slot.source.name)).at("model"))?;
        }
    }
    Ok(answer(&slot))
}

/// Adds a model of the catalog.
async fn from_catalog(app: &Arc<App>, name: String, unknown: ApiError) -> Result<Arc<Slot>, ApiError> {
    let Some(catalog) = app.options.catalog.clone() else { return Err(unknown) };
    let found = tokio::task::spawn_blocking(move || catalog.find(&name)).await;
    let source = found.unwrap_or_else(|_| Err("it cannot be looked for".to_owned()));
    app.add(source.map_err(|reason| ApiError::not_found_model(&unknown, &reason))?)
}

/// Unloads a model. Requests that run go on.
pub(crate) async fn unload(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let name = fields.required_string("model")?;
    let wait = fields.boolean("wait")?.unwrap_or(false);
    accepting(&app)?;
    let target = app.target_named(Some(name))?;
    if target.adapter.is_some() {
        return Err(fields.invalid("model", "is an adapter: unload it with POST /v1/unload_lora_adapter"));
    }
    target.slot.unload();
    while wait && target.slot.status() == "unloading" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Ok(answer(&target.slot))
}

fn answer(slot: &Slot) -> Response {
    let mut body = models::model(slot, &slot.source.name);
    body["success"] = true.into();
    json_response(StatusCode::OK, &body)
}

fn accepting(app: &App) -> Result<(), ApiError> {
    if app.is_draining() { Err(BackendError::Draining.into()) } else { Ok(()) }
}

/// Loads an adapter, of the first model where `model` does not name another one.
pub(crate) async fn load_adapter(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let name = fields.required_string("lora_name")?;
    let folder = PathBuf::from(fields.required_string("lora_path")?);
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(
            fields.invalid("lora_name", format_args!("must have 1 to {MAX_NAME} bytes, none of them a control character"))
        );
    }
    fields.refuse("load_inplace", &[json!(false)], "unload the adapter first, with POST /v1/unload_lora_adapter")?;
    accepting(&app)?;
    let target = app.target(&fields)?;
    if target.adapter.is_some() {
        return Err(fields.invalid("model", "is an adapter, and not a model that takes one"));
    }
    if app.target_named(Some(name)).is_ok() {
        let name = EscapedText::name(name);
        return Err(fields.invalid("lora_name", format_args!("is {name:?}, which a model or an adapter is called already")));
    }
    let (adapter, slot) = (AdapterSource { name: name.to_owned(), folder }, Arc::clone(&target.slot));
    let own = adapter.clone();
    let loaded = tokio::task::spawn_blocking(move || slot.load_adapter(own)).await;
    loaded
        .unwrap_or_else(|_| Err(ApiError::internal("the adapter could not be loaded")))
        .map_err(|error| error.at("lora_path"))?;
    let mut body = models::adapter(&target.slot, &adapter);
    body["success"] = true.into();
    Ok(json_response(StatusCode::OK, &body))
}

/// Unloads an adapter. Requests that use it go on.
pub(crate) async fn unload_adapter(State(app): State<Arc<App>>, request: Request<Body>) -> Result<Response, ApiError> {
    let value = app.read_json(request).await?;
    let fields = Fields::of_request(&value)?;
    let name = fields.required_string("lora_name")?;
    let target = app.target_named(Some(name)).map_err(|error| error.at("lora_name"))?;
    if target.adapter.is_none() {
        return Err(fields.invalid("lora_name", "is a model: unload it with POST /models/unload"));
    }
    target.slot.unload_adapter(name)?;
    Ok(json_response(StatusCode::OK, &json!({ "id": name, "success": true })))
}
