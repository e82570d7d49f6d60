//! `/openapi.json`: the server's API, described from one table.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::error::json_response;
use crate::sampling::MAX_LOGPROBS;

/// A route: its method, its path, what it does, the schema of its request, and the media types of its answers.
struct Route {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    request: Option<fn() -> Value>,
    answers: &'static [&'static str],
}

const JSON: &[&str] = &["application/json"];
const JSON_OR_EVENTS: &[&str] = &["application/json", "text/event-stream"];

const fn get(path: &'static str, summary: &'static str, answers: &'static [&'static str]) -> Route {
    Route { method: "get", path, summary, request: None, answers }
}

const fn post(path: &'static str, summary: &'static str, request: fn() -> Value, answers: &'static [&'static str]) -> Route {
    Route { method: "post", path, summary, request: Some(request), answers }
}

const ROUTES: [Route; 15] = [
    get("/", "A page to chat", &["text/html"]),
    get("/health", "Whether the process answers", JSON),
    get("/ready", "Whether every model is loaded and requests are accepted", JSON),
    get("/metrics", "Metrics in the text form of Prometheus", &["text/plain"]),
    get("/openapi.json", "This description", JSON),
    get("/v1/models", "Lists the models", JSON),
    get("/v1/models/{model}", "Describes a model", JSON),
    post("/v1/chat/completions", "Replies to a conversation", chat, JSON_OR_EVENTS),
    post("/v1/completions", "Continues texts", completion, JSON_OR_EVENTS),
    post("/v1/responses", "Replies to a conversation, with items", response, JSON_OR_EVENTS),
    post("/v1/messages", "Replies to a conversation, as Anthropic's API does", message, JSON_OR_EVENTS),
    post("/v1/messages/count_tokens", "Counts the tokens of a conversation", count, JSON),
    post("/v1/embeddings", "Refused: programs return no hidden states", embedding, JSON),
    post("/tokenize", "The tokens of a text or a conversation", tokenize, JSON),
    post("/detokenize", "The text of tokens", detokenize, JSON),
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
            "schemas": { "Error": error(), "Message": chat_message() },
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
    let content: Map<String, Value> = route.answers.iter().map(|media| ((*media).to_owned(), json!({}))).collect();
    let failed = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
    let mut operation = json!({
        "summary": route.summary,
        "responses": {
            "200": { "description": "The answer", "content": content },
            "default": { "description": "Why there is none", "content": failed },
        },
    });
    if let Some(request) = route.request {
        let content = json!({ "application/json": { "schema": request() } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    if route.path.contains('{') {
        let parameter = json!({ "name": "model", "in": "path", "required": true, "schema": { "type": "string" } });
        operation["parameters"] = json!([parameter]);
    }
    operation
}

/// OpenAI's form of an error, or Anthropic's.
fn error() -> Value {
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {
                "message": { "type": "string" },
                "type": { "type": "string" },
                "param": { "type": ["string", "null"] },
                "code": { "type": ["string", "null"] },
            },
        } },
    })
}

fn object(required: &[&str], properties: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), or_null(schema, required.contains(&name)))).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// A field that may be left out may be null.
fn or_null(schema: Value, required: bool) -> Value {
    if required { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
}

fn number(minimum: f32, maximum: f32) -> Value {
    json!({ "type": "number", "minimum": minimum, "maximum": maximum })
}

fn count_from(minimum: u64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": u32::MAX })
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// The fields of every request that generates.
fn common() -> Vec<(&'static str, Value)> {
    vec![
        ("model", string()),
        ("stream", boolean()),
        ("temperature", number(0.0, 2.0)),
        ("top_p", number(0.0, 1.0)),
        ("top_k", json!({ "type": "integer", "minimum": -1, "maximum": u32::MAX })),
        ("min_p", number(0.0, 1.0)),
        ("presence_penalty", number(-2.0, 2.0)),
        ("frequency_penalty", number(-2.0, 2.0)),
        ("repetition_penalty", number(0.01, 100.0)),
        ("seed", json!({ "type": "integer", "minimum": i64::MIN, "maximum": u64::MAX })),
        ("ignore_eos", boolean()),
        ("logit_bias", json!({ "type": "object", "additionalProperties": number(-100.0, 100.0) })),
    ]
}

fn stop() -> Value {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 256 });
    json!({ "anyOf": [text, { "type": "array", "items": text, "maxItems": 16 }] })
}

fn with(mut more: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    more.extend(common());
    more
}

fn stream_options() -> Value {
    object(&[], [("include_usage", boolean())])
}

fn chat_message() -> Value {
    let text = json!({ "type": "object", "required": ["type", "text"], "properties": { "type": { "const": "text" }, "text": string() } });
    let roles = ["system", "developer", "user", "assistant", "tool"];
    object(
        &["role", "content"],
        [
            ("role", json!({ "enum": roles })),
            ("content", json!({ "anyOf": [string(), list(&text)] })),
            ("tool_calls", list(&json!({ "type": "object" }))),
            ("tool_call_id", string()),
        ],
    )
}

fn messages() -> Value {
    json!({ "type": "array", "minItems": 1, "items": { "$ref": "#/components/schemas/Message" } })
}

fn chat() -> Value {
    let fields = vec![
        ("messages", messages()),
        ("max_tokens", count_from(1)),
        ("max_completion_tokens", count_from(1)),
        ("n", json!({ "type": "integer", "minimum": 1, "maximum": 128 })),
        ("stop", stop()),
        ("stream_options", stream_options()),
        ("logprobs", boolean()),
        ("top_logprobs", json!({ "type": "integer", "minimum": 0, "maximum": MAX_LOGPROBS })),
        ("response_format", object(&["type"], [("type", json!({ "enum": ["text", "json_object", "json_schema"] }))])),
        ("structured_outputs", json!({ "type": "object" })),
        ("tools", list(&json!({ "type": "object" }))),
        ("tool_choice", json!({ "type": ["string", "object"] })),
        ("chat_template_kwargs", json!({ "type": "object" })),
    ];
    object(&["messages"], with(fields))
}

fn completion() -> Value {
    let tokens = list(&count_from(0));
    let fields = vec![
        ("prompt", json!({ "anyOf": [string(), tokens, list(&string()), list(&tokens)] })),
        ("max_tokens", count_from(0)),
        ("n", json!({ "type": "integer", "minimum": 1, "maximum": 128 })),
        ("echo", boolean()),
        ("stop", stop()),
        ("stream_options", stream_options()),
        ("logprobs", json!({ "type": "integer", "minimum": 0, "maximum": MAX_LOGPROBS })),
        ("response_format", json!({ "type": "object" })),
        ("structured_outputs", json!({ "type": "object" })),
    ];
    object(&["prompt"], with(fields))
}

fn response() -> Value {
    let fields = vec![
        ("input", json!({ "anyOf": [string(), list(&json!({ "type": "object" }))] })),
        ("instructions", string()),
        ("max_output_tokens", count_from(1)),
        ("text", json!({ "type": "object" })),
        ("tools", list(&json!({ "type": "object" }))),
        ("tool_choice", json!({ "type": ["string", "object"] })),
    ];
    object(&["input"], with(fields))
}

fn conversation() -> Vec<(&'static str, Value)> {
    vec![
        ("messages", json!({ "type": "array", "minItems": 1, "items": { "type": "object" } })),
        ("system", json!({ "type": ["string", "array"] })),
        ("tools", list(&json!({ "type": "object" }))),
        ("tool_choice", json!({ "type": "object" })),
    ]
}

fn message() -> Value {
    let mut fields = conversation();
    fields.extend([("max_tokens", count_from(1)), ("stop_sequences", stop())]);
    object(&["messages", "max_tokens"], with(fields))
}

fn count() -> Value {
    let mut fields = conversation();
    fields.push(("model", string()));
    object(&["messages"], fields)
}

fn embedding() -> Value {
    object(&["input"], [("input", json!({})), ("model", string())])
}

fn tokenize() -> Value {
    object(&[], [("model", string()), ("prompt", string()), ("messages", messages()), ("add_special_tokens", boolean())])
}

fn detokenize() -> Value {
    object(&["tokens"], [("model", string()), ("tokens", list(&count_from(0)))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_route_and_no_other() {
        let source = include_str!("router.rs");
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
