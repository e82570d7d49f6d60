//! `/openapi.json`: the server's API, described from one table.

mod answers;
mod requests;
mod schema;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::error::json_response;
use crate::messages;

/// A route: its method, its path, what it does, and the schemas of its request and its answer.
struct Route {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    request: Option<fn() -> Value>,
    answer: Answer,
}

/// What a route answers with.
#[derive(Clone, Copy)]
enum Answer {
    Text(&'static str),
    Json(fn() -> Value),
    /// JSON, or events where the request has `stream`.
    JsonOrEvents(fn() -> Value),
}

use Answer::{Json, JsonOrEvents, Text};

const fn get(path: &'static str, summary: &'static str, answer: Answer) -> Route {
    Route { method: "get", path, summary, request: None, answer }
}

const fn post(path: &'static str, summary: &'static str, request: fn() -> Value, answer: Answer) -> Route {
    Route { method: "post", path, summary, request: Some(request), answer }
}

const ROUTES: [Route; 20] = [
    get("/", "A page to chat", Text("text/html")),
    get("/health", "Whether the process answers", Json(answers::status)),
    get("/ready", "Whether every model is loaded and requests are accepted", Json(answers::status)),
    get("/metrics", "Metrics in the text form of Prometheus", Text("text/plain")),
    get("/openapi.json", "This description", Json(answers::description)),
    get("/models", "As /v1/models", Json(answers::models)),
    post(
        "/models/load",
        "Loads a model that was unloaded, or another one",
        requests::load_model,
        Json(answers::changed_model),
    ),
    post(
        "/models/unload",
        "Unloads a model after the requests that run",
        requests::load_model,
        Json(answers::changed_model),
    ),
    post("/v1/load_lora_adapter", "Loads a LoRA adapter of a model", requests::load_adapter, Json(answers::changed_model)),
    post("/v1/unload_lora_adapter", "Unloads a LoRA adapter", requests::unload_adapter, Json(answers::unloaded_adapter)),
    get("/v1/models", "Lists the models, their adapters, and which are loaded", Json(answers::models)),
    get("/v1/models/{model}", "Describes a model", Json(answers::model)),
    post("/v1/chat/completions", "Replies to a conversation", requests::chat, JsonOrEvents(answers::chat)),
    post("/v1/completions", "Continues texts", requests::completion, JsonOrEvents(answers::completion)),
    post("/v1/responses", "Replies to a conversation, with items", requests::response, JsonOrEvents(answers::response)),
    post("/v1/messages", "Replies as Anthropic's API does", requests::message, JsonOrEvents(answers::message)),
    post("/v1/messages/count_tokens", "Counts the tokens of a conversation", requests::count, Json(answers::count)),
    post("/v1/embeddings", "Makes embeddings of texts", requests::embedding, Json(answers::embeddings)),
    post("/tokenize", "The tokens of a text or a conversation", requests::tokenize, Json(answers::tokens)),
    post("/detokenize", "The text of tokens", requests::detokenize, Json(answers::text)),
];

/// The description of the server's API, in OpenAPI 3.1.
#[must_use]
pub fn openapi() -> Value {
    let mut paths = Map::new();
    for route in &ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pteron",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Language models on any GPU. Unknown fields are ignored; a field that asks for something this server does \
                            not have is refused by its name.",
        },
        "components": {
            "schemas": {
                "Error": answers::openai_error(),
                "AnthropicError": answers::anthropic_error(),
                "Message": requests::chat_message(),
                "Model": answers::model(),
            },
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "key": [] }],
        "paths": paths,
    })
}

/// Answers with the description.
pub(crate) async fn handle() -> Response {
    json_response(StatusCode::OK, &openapi())
}

fn operation(route: &Route) -> Value {
    let events = || ("text/event-stream", json!({ "schema": answers::event() }));
    let content: Vec<(&str, Value)> = match route.answer {
        Text(media) => vec![(media, json!({ "schema": schema::string() }))],
        Json(answer) => vec![("application/json", json!({ "schema": answer() }))],
        JsonOrEvents(answer) => vec![("application/json", json!({ "schema": answer() })), events()],
    };
    let content: Map<String, Value> = content.into_iter().map(|(media, value)| (media.to_owned(), value)).collect();
    let error = if messages::is_route(route.path) { "AnthropicError" } else { "Error" };
    let failed = json!({ "application/json": { "schema": schema::reference(error) } });
    let retry = json!({ "Retry-After": { "schema": schema::count_from(0) } });
    let mut responses = json!({
        "4XX": { "description": "Why the request is refused", "content": failed },
        "503": { "description": "Why there is no answer now", "content": failed, "headers": retry },
    });
    if !content.is_empty() {
        responses["200"] = json!({ "description": "The answer", "content": content });
    }
    let mut operation = json!({ "summary": route.summary, "responses": responses });
    if let Some(request) = route.request {
        let content = json!({ "application/json": { "schema": request() } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if route.path.contains('{') {
        let parameter = json!({ "name": "model", "in": "path", "required": true, "schema": schema::string() });
        operation["parameters"] = json!([parameter]);
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_route_and_no_other() {
        let source = include_str!("../router.rs");
        let routes = source.split(".route(\"").skip(1).filter_map(|rest| {
            let (path, rest) = rest.split_once("\", ")?;
            Some((path.replace("{*", "{"), rest.split_once('(')?.0.to_owned()))
        });
        let mut routes: Vec<(String, String)> = routes.collect();
        let mut described: Vec<(String, String)> =
            ROUTES.iter().map(|route| (route.path.to_owned(), route.method.to_owned())).collect();
        routes.sort();
        described.sort();
        assert_eq!(routes, described);
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let text = openapi().to_string();
        let references = text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next());
        let found: Vec<&str> = references.collect();
        assert!(found.len() > 3);
        assert!(found.iter().all(|pointer| openapi().pointer(pointer).is_some()), "{found:?}");
    }
}
