//! Routes, and what surrounds every request: keys, counts, events, CORS, panics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use crate::error::{ApiError, ServerError};
use crate::state::{App, Caller};
use crate::{
    administration, chat, completions, embeddings, health, id, keys, messages, metrics, models, openapi, page, responses,
    tokenize,
};

/// The routes of the page and of probes, which need no key.
const OPEN: [&str; 4] = ["/", "/health", "/ready", "/openapi.json"];
/// The time that a browser may keep the answer to whether it may call.
const CORS_AGE: Duration = Duration::from_secs(600);

pub(crate) fn router(app: &Arc<App>) -> Result<Router, ServerError> {
    let routes = Router::new()
        .route("/", get(page::handle))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(metrics::handle))
        .route("/openapi.json", get(openapi::handle))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/models", get(models::list))
        .route("/models/load", post(administration::load))
        .route("/models/unload", post(administration::unload))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*model}", get(models::get))
        .route("/v1/chat/completions", post(chat::handle))
        .route("/v1/completions", post(completions::handle))
        .route("/v1/load_lora_adapter", post(administration::load_adapter))
        .route("/v1/unload_lora_adapter", post(administration::unload_adapter))
        .route("/v1/embeddings", post(embeddings::handle))
        .route("/v1/responses", post(responses::handle))
        .route("/v1/messages", post(messages::handle))
        .route("/v1/messages/count_tokens", post(messages::count_tokens))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(app))
        .layer(middleware::from_fn_with_state(Arc::clone(app), surround));
    let panics = CatchPanicLayer::custom(|_| ApiError::internal("the server made a mistake").into_response());
    Ok(routes.layer(panics).layer(cors(&app.options.cors)?))
}

fn cors(origins: &[String]) -> Result<CorsLayer, ServerError> {
    let layer = CorsLayer::new().max_age(CORS_AGE);
    if origins.is_empty() {
        return Ok(layer);
    }
    let layer = layer
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([HeaderName::from_static("x-request-id")]);
    if origins.iter().any(|origin| origin == "*") {
        return Ok(layer.allow_origin(Any));
    }
    let parse = |origin: &String| {
        let is_origin = origin.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'));
        let value = HeaderValue::try_from(origin).ok().filter(|_| is_origin);
        value.ok_or_else(|| ServerError::Origin(origin.clone()))
    };
    let origins: Vec<HeaderValue> = origins.iter().map(parse).collect::<Result<_, _>>()?;
    Ok(layer.allow_origin(AllowOrigin::list(origins)))
}

/// Whether a page of another origin sends a request without leave. A browser would keep the answer from it, but not the work from the
/// server. Programs send no origin.
fn is_foreign(headers: &HeaderMap, allowed: &[String]) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else { return false };
    let own = origin.split_once("://").map(|(_, host)| host);
    let is_own = own.is_some() && own == text(header::HOST);
    !is_own && !allowed.iter().any(|allowed| allowed == "*" || allowed == origin)
}

/// Checks the key of a request, counts it and writes an event.
async fn surround(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let is_foreign = is_foreign(request.headers(), &app.options.cors);
    let is_administration = administration::is_route(&route);
    let mut response = match app.options.caller(request.headers(), is_administration) {
        _ if is_foreign => ApiError::forbidden_origin().respond_at(&path),
        _ if is_administration && method == Method::POST && !app.options.administration => {
            ApiError::forbidden_administration().respond_at(&path)
        }
        _ if OPEN.contains(&route.as_str()) => next.run(request).await,
        Some(key) => {
            request.extensions_mut().insert(Caller { key });
            next.run(request).await
        }
        None => ApiError::unauthorized(keys::given(request.headers()).is_some()).respond_at(&path),
    };
    let request_id = id::new("req_");
    if let Ok(value) = HeaderValue::try_from(&request_id) {
        response.headers_mut().insert("x-request-id", value);
    }
    let time = started.elapsed();
    let status = response.status().as_u16();
    app.metrics.request(&route, status, time);
    if !OPEN.contains(&route.as_str()) && route != "/metrics" {
        let fields = [
            ("id", Value::from(request_id)),
            ("method", method.as_str().into()),
            ("path", path.into()),
            ("status", status.into()),
            ("seconds", time.as_secs_f64().into()),
        ];
        app.options.log.event("request", &fields);
    }
    response
}

async fn not_found(request: Request) -> Response {
    ApiError::not_found(request.uri().path()).respond_at(request.uri().path())
}

async fn method_not_allowed(request: Request) -> Response {
    let path = request.uri().path();
    ApiError::method_not_allowed(request.method().as_str(), path).respond_at(path)
}
