//! Calls of tools, reasoning, grammars, and the two newer APIs.

use serde_json::{Value, json};

use crate::client::{options, post, server};
use crate::fake::Fake;

/// A template in the manner of Qwen's.
const TEMPLATE: &str = "{% if tools %}TOOLS {{ tools | tojson }}\n{% endif %}{% for message in messages %}{{ message.role }}: {{ \
                        message.content }}{% for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson \
                        }}</tool_call>{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant:{% if thinking %}<think>{% \
                        endif %}{% endif %}";
const CALL: &str =
    "<think>Hm.</think>Let me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

fn fake(script: &str) -> Fake {
    Fake::new(script).with_template(TEMPLATE)
}

fn weather() -> Value {
    json!({ "name": "weather", "description": "", "parameters": {
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"], "additionalProperties": false } })
}

fn chat(more: Value) -> Value {
    let mut body = json!({
        "messages": [{ "role": "user", "content": "Weather?" }],
        "tools": [{ "type": "function", "function": weather() }],
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn calls_and_reasoning_are_split_from_the_text() {
    let router = server(fake(CALL), options()).router();
    let body = post(&router, "/v1/chat/completions", chat(json!({}))).await.json();
    let message = &body["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Let me see."), &json!("Hm.")));
    let call = &message["tool_calls"][0];
    assert_eq!(call["function"], json!({ "name": "weather", "arguments": "{\"city\": \"Oslo\"}" }));
    assert!(call["id"].as_str().unwrap().starts_with("call_"));
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");

    let events = post(&router, "/v1/chat/completions", chat(json!({ "stream": true }))).await.events();
    let deltas: Vec<_> = events.iter().map(|event| event["choices"][0]["delta"].clone()).collect();
    let joined = |pointer: &str| deltas.iter().filter_map(|delta| delta.pointer(pointer)?.as_str()).collect::<String>();
    assert_eq!(joined("/content"), "Let me see.");
    assert_eq!(joined("/reasoning_content"), "Hm.");
    assert_eq!(
        (joined("/tool_calls/0/function/name"), joined("/tool_calls/0/function/arguments")),
        ("weather".to_owned(), "{\"city\": \"Oslo\"}".to_owned())
    );
    assert_eq!(events.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

    let none = post(&router, "/v1/chat/completions", chat(json!({ "tool_choice": "none" }))).await.json();
    assert!(none["choices"][0]["message"]["content"].as_str().unwrap().contains("<tool_call>"), "calls are text then");
    let thinking = chat(json!({ "chat_template_kwargs": { "thinking": true } }));
    let body = post(&server(fake("Deep.</think>Yes."), options()).router(), "/v1/chat/completions", thinking).await.json();
    let message = &body["choices"][0]["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Yes."), &json!("Deep.")));
}

#[tokio::test]
async fn earlier_calls_and_results_reach_the_template() {
    let router = server(fake("Fine."), options()).router();
    let history = json!({ "messages": [
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Oslo\"}" } }] },
        { "role": "tool", "tool_call_id": "c1", "content": "Rain" },
    ] });
    let tokens = post(&router, "/tokenize", history).await.json()["tokens"].clone();
    let text = post(&router, "/detokenize", json!({ "tokens": tokens })).await.json()["prompt"].as_str().unwrap().to_owned();
    assert!(text.contains("<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>"), "{text}");
    assert!(text.contains("tool: Rain"), "{text}");
}

#[tokio::test]
async fn messages_have_the_blocks_of_their_api() {
    let router = server(fake(CALL), options()).router();
    let mut tool = weather();
    let schema = tool.as_object_mut().unwrap().remove("parameters").unwrap();
    tool["input_schema"] = schema;
    let request = json!({
        "model": "fake", "max_tokens": 200, "system": "Be kind.", "tools": [tool],
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Weather?" }] }],
    });
    let body = post(&router, "/v1/messages", request.clone()).await.json();
    let kinds: Vec<_> = body["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text", "tool_use"], "{body}");
    assert_eq!((&body["content"][2]["input"], &body["stop_reason"]), (&json!({ "city": "Oslo" }), &json!("tool_use")));
    let usage = &body["usage"];
    let prompt = usage["input_tokens"].as_u64().unwrap() + usage["cache_read_input_tokens"].as_u64().unwrap();
    let count = post(&router, "/v1/messages/count_tokens", request.clone()).await.json();
    assert_eq!(count["input_tokens"], prompt);

    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let answer = post(&router, "/v1/messages", streamed).await;
    let events = answer.events();
    let named: Vec<_> = answer.text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(named, types, "each event is named as its type");
    assert_eq!(
        (types[0], types[types.len() - 2], types[types.len() - 1]),
        ("message_start", "message_delta", "message_stop")
    );
    let starts: Vec<_> = events.iter().filter_map(|event| event["content_block"]["type"].as_str()).collect();
    assert_eq!(starts, ["thinking", "text", "tool_use"]);
    let json: String = events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, "{\"city\": \"Oslo\"}");
    let indices: Vec<_> = events.iter().filter_map(|event| event["index"].as_u64()).collect();
    assert!(indices.is_sorted() && indices.last() == Some(&2));

    let results = json!({ "max_tokens": 5, "messages": [
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": [{ "type": "tool_use", "id": "t1", "name": "weather", "input": { "city": "Oslo" } }] },
        { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t1", "content": "Rain" }] },
    ] });
    let body = post(&router, "/v1/messages", results).await.json();
    assert_eq!(body["stop_reason"], "max_tokens", "{body}");
    let stopped = json!({ "max_tokens": 90, "stop_sequences": ["see"], "messages": [{ "role": "user", "content": "x" }] });
    let body = post(&router, "/v1/messages", stopped).await.json();
    assert_eq!((&body["stop_reason"], &body["stop_sequence"]), (&json!("stop_sequence"), &json!("see")));
    for (wrong, field) in [(json!({ "messages": [] }), "max_tokens"), (json!({ "max_tokens": 5 }), "messages")] {
        let answer = post(&router, "/v1/messages", wrong).await;
        let error = answer.json();
        assert_eq!((answer.status.as_u16(), &error["error"]["type"]), (400, &json!("invalid_request_error")));
        assert!(error["error"]["message"].as_str().unwrap().contains(field), "{error}");
    }
}

#[tokio::test]
async fn responses_have_items_and_numbered_events() {
    let router = server(fake(CALL), options()).router();
    let mut tool = weather();
    tool["type"] = json!("function");
    let request = json!({ "model": "fake", "instructions": "Be kind.", "input": "Weather?", "tools": [tool] });
    let body = post(&router, "/v1/responses", request.clone()).await.json();
    let kinds: Vec<_> = body["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(
        (kinds, &body["status"]),
        (vec![json!("reasoning"), json!("message"), json!("function_call")], &json!("completed"))
    );
    assert_eq!(
        (&body["output"][1]["content"][0]["text"], &body["output"][2]["name"]),
        (&json!("Let me see."), &json!("weather"))
    );
    assert!(body["usage"]["input_tokens"].as_u64().unwrap() > 5);

    let mut streamed = request.clone();
    streamed["stream"] = json!(true);
    let events = post(&router, "/v1/responses", streamed).await.events();
    assert!(events.iter().enumerate().all(|(number, event)| event["sequence_number"] == number));
    assert_eq!(
        (&events[0]["type"], &events.last().unwrap()["type"]),
        (&json!("response.created"), &json!("response.completed"))
    );
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Let me see.");
    let output = &events.last().unwrap()["response"]["output"];
    assert_eq!((output.as_array().unwrap().len(), &output[2]["arguments"]), (3, &json!("{\"city\": \"Oslo\"}")));

    let follow = json!({ "max_output_tokens": 4, "input": [
        { "role": "user", "content": [{ "type": "input_text", "text": "Weather?" }] },
        { "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c1", "output": "Rain" },
    ] });
    let body = post(&router, "/v1/responses", follow).await.json();
    assert_eq!(
        (&body["status"], &body["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    for (wrong, param) in [
        (json!({}), "input"),
        (json!({ "input": [{ "type": "item_reference" }] }), "input.0.type"),
        (json!({ "input": "x", "previous_response_id": "r" }), "previous_response_id"),
    ] {
        let answer = post(&router, "/v1/responses", wrong).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["param"]), (400, &json!(param)));
    }
}

#[cfg(feature = "grammars")]
mod grammars {
    use super::*;

    /// Whether a text has the form that was asked for.
    type Holds = fn(&str) -> bool;

    fn ask(format: Value, seed: u64) -> Value {
        json!({ "messages": [{ "role": "user", "content": "x" }], "response_format": format, "seed": seed, "max_tokens": 400 })
    }

    fn schema(schema: Value) -> Value {
        json!({ "type": "json_schema", "json_schema": { "name": "s", "strict": true, "schema": schema } })
    }

    async fn text(router: &axum::Router, request: Value) -> String {
        let body = post(router, "/v1/chat/completions", request).await.json();
        let choice = &body["choices"][0];
        assert_eq!(choice["finish_reason"], "stop", "{body}");
        choice["message"]["content"].as_str().unwrap().to_owned()
    }

    /// A model that writes at random what it may write.
    #[tokio::test]
    async fn random_texts_are_valid_for_their_schema() {
        let router = server(Fake::new(""), options()).router();
        for seed in 0..4 {
            let object = json!({ "type": "object", "required": ["name", "n", "kind", "tags"], "additionalProperties": false, "properties": {
                "name": { "type": "string", "maxLength": 8 },
                "n": { "type": "integer", "minimum": 3, "maximum": 12 },
                "kind": { "enum": ["a", "b"] },
                "tags": { "type": "array", "items": { "$ref": "#/$defs/tag" }, "minItems": 1, "maxItems": 3 },
            }, "$defs": { "tag": { "type": "boolean" } } });
            let value: Value = serde_json::from_str(&text(&router, ask(schema(object), seed)).await).unwrap();
            assert!(value["name"].as_str().unwrap().chars().count() <= 8, "{value}");
            assert!((3..=12).contains(&value["n"].as_i64().unwrap()), "{value}");
            assert!(value["kind"] == "a" || value["kind"] == "b", "{value}");
            let tags = value["tags"].as_array().unwrap();
            assert!((1..=3).contains(&tags.len()) && tags.iter().all(Value::is_boolean), "{value}");
            let any_of = json!({ "anyOf": [{ "const": "yes" }, { "type": "object", "properties": { "no": { "type": "null" } },
                "required": ["no"], "additionalProperties": false }] });
            let value: Value = serde_json::from_str(&text(&router, ask(schema(any_of), seed)).await).unwrap();
            assert!(value == "yes" || value == json!({ "no": null }), "{value}");
            let any = text(&router, ask(json!({ "type": "json_object" }), seed)).await;
            // Its numbers may be too large for a `Value`.
            serde_json::from_str::<serde::de::IgnoredAny>(&any).unwrap();
            assert!(any.starts_with('{'), "{any}");
        }
    }

    #[tokio::test]
    async fn regular_expressions_choices_and_grammars_hold() {
        let router = server(Fake::new(""), options()).router();
        let ask = |outputs: Value| json!({ "prompt": "x", "structured_outputs": outputs, "max_tokens": 50 });
        let cases: [(Value, Holds); 3] = [
            (json!({ "regex": "[0-9]{3}-[a-f]" }), |text| text.len() == 5 && text.as_bytes()[3] == b'-'),
            (json!({ "choice": ["red", "green \"ish\""] }), |text| text == "red" || text == "green \"ish\""),
            (json!({ "grammar": "start: \"a\" b \"c\"\nb: /x+y/" }), |text| text.starts_with("ax") && text.ends_with("yc")),
        ];
        for (outputs, holds) in cases {
            let body = post(&router, "/v1/completions", ask(outputs.clone())).await.json();
            let text = body["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}"));
            assert!(holds(text) || body["choices"][0]["finish_reason"] == "length", "{outputs}: {text:?}");
        }
    }

    #[tokio::test]
    async fn a_required_tool_is_called_with_valid_arguments() {
        let router = server(fake(""), options()).router();
        let more = json!({ "tool_choice": { "type": "function", "function": { "name": "weather" } }, "max_tokens": 120, "seed": 5 });
        let body = post(&router, "/v1/chat/completions", chat(more)).await.json();
        let call = &body["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["name"], "weather", "{body}");
        let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
        assert!(arguments["city"].is_string() && arguments.as_object().unwrap().len() == 1, "{arguments}");
    }

    #[tokio::test]
    async fn what_cannot_be_compiled_is_refused_with_its_reason() {
        let router = server(Fake::new(""), options()).router();
        let cases = [
            (schema(json!({ "type": "tree" })), "response_format.json_schema.schema"),
            (schema(json!({ "$ref": "#/$defs/none" })), "response_format.json_schema.schema"),
            (schema(json!({ "type": "string", "pattern": "(?=x)(" })), "response_format.json_schema.schema"),
            (schema(json!(false)), "response_format.json_schema.schema"),
            (json!({ "type": "json_schema", "json_schema": { "name": "s" } }), "response_format.json_schema.schema"),
            (json!({ "type": "xml" }), "response_format.type"),
        ];
        for (format, param) in cases {
            let answer = post(&router, "/v1/chat/completions", ask(format.clone(), 1)).await;
            let error = answer.json()["error"].clone();
            assert_eq!((answer.status.as_u16(), error["param"].as_str()), (400, Some(param)), "{format}: {error}");
        }
        let wrong = json!({ "prompt": "x", "structured_outputs": { "regex": "(" } });
        let error = post(&router, "/v1/completions", wrong).await.json()["error"].clone();
        assert_eq!(error["param"], "structured_outputs.regex", "{error}");
        assert!(error["message"].as_str().unwrap().starts_with("structured_outputs.regex cannot be compiled: "), "{error}");
    }
}
