//! OpenAI's API.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::client::{get, options, post, server};
use crate::fake::Fake;

const SCRIPT: &str = "The sea is calm. It is blue.";

fn chat(more: Value) -> Value {
    let mut body = json!({ "model": "fake", "messages": [{ "role": "user", "content": "Tell me of the sea." }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn text_of(events: &[Value], index: u64) -> String {
    let choices = events.iter().filter_map(|event| event["choices"].get(0)).filter(|choice| choice["index"] == index);
    choices.filter_map(|choice| choice["delta"]["content"].as_str().or(choice["text"].as_str())).collect()
}

#[tokio::test]
async fn a_chat_completion_has_text_reason_and_usage() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let answer = post(&router, "/v1/chat/completions", chat(json!({}))).await;
    let body = answer.json();
    assert_eq!(answer.status, StatusCode::OK, "{body}");
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("fake")));
    let choice = &body["choices"][0];
    assert_eq!(choice["message"], json!({ "role": "assistant", "content": SCRIPT, "refusal": null }));
    assert_eq!((&choice["finish_reason"], &choice["logprobs"]), (&json!("stop"), &Value::Null));
    let usage = &body["usage"];
    let (prompt, generated) = (usage["prompt_tokens"].as_u64().unwrap(), usage["completion_tokens"].as_u64().unwrap());
    assert!(prompt > 2 && generated > 2 && usage["total_tokens"] == prompt + generated);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], prompt / 2);
    assert!(answer.headers["x-request-id"].to_str().unwrap().starts_with("req_"));
}

#[tokio::test]
async fn a_stream_has_the_same_text_and_ends_with_usage() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let more = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let answer = post(&router, "/v1/chat/completions", chat(more)).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert!(answer.text.ends_with("data: [DONE]\n\n"));
    let events = answer.events();
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(text_of(&events, 0), SCRIPT);
    let last = events.last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert!(last["usage"]["completion_tokens"].as_u64().unwrap() > 2);
    assert!(events[..events.len() - 1].iter().all(|event| event["usage"].is_null() && event["id"] == last["id"]));
    let reasons: Vec<_> = events.iter().filter_map(|event| event["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, ["stop"]);
}

#[tokio::test]
async fn stop_strings_limits_and_n_apply_to_every_text() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let body = post(&router, "/v1/chat/completions", chat(json!({ "n": 3, "stop": " It" }))).await.json();
    let texts: Vec<_> =
        body["choices"].as_array().unwrap().iter().map(|choice| choice["message"]["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["The sea is calm."; 3]);
    for field in ["max_tokens", "max_completion_tokens"] {
        let body = post(&router, "/v1/chat/completions", chat(json!({ field: 2 }))).await.json();
        assert_eq!(body["choices"][0]["finish_reason"], "length", "{field}");
        assert_eq!(body["usage"]["completion_tokens"], 2);
    }
    let events = post(&router, "/v1/chat/completions", chat(json!({ "n": 2, "stream": true }))).await.events();
    assert_eq!([text_of(&events, 0), text_of(&events, 1)], [SCRIPT; 2]);
}

#[tokio::test]
async fn log_probabilities_are_those_of_every_token() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let more = json!({ "logprobs": true, "top_logprobs": 2 });
    let body = post(&router, "/v1/chat/completions", chat(more.clone())).await.json();
    let content = body["choices"][0]["logprobs"]["content"].as_array().unwrap().clone();
    assert_eq!(content.len() as u64, body["usage"]["completion_tokens"].as_u64().unwrap() + 1, "with the end of the text");
    assert_eq!((&content[0]["logprob"], content[0]["top_logprobs"].as_array().unwrap().len()), (&json!(-0.5), 2));
    let bytes: Vec<u8> = serde_json::from_value(content[0]["bytes"].clone()).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), content[0]["token"].as_str().unwrap());
    let mut streamed = chat(more);
    streamed["stream"] = json!(true);
    let events = post(&router, "/v1/chat/completions", streamed).await.events();
    let counts = events.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(counts.map(Vec::len).sum::<usize>(), content.len());

    let body = json!({ "prompt": "x", "logprobs": 1, "max_tokens": 3 });
    let logprobs = post(&router, "/v1/completions", body).await.json()["choices"][0]["logprobs"].clone();
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 3);
    assert_eq!((&logprobs["text_offset"][0], &logprobs["token_logprobs"][2]), (&json!(0), &json!(-0.5)));
}

#[tokio::test]
async fn completions_take_texts_tokens_and_lists_of_both() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let body = post(&router, "/v1/completions", json!({ "prompt": "Once" })).await.json();
    assert_eq!((&body["object"], &body["choices"][0]["text"]), (&json!("text_completion"), &json!(SCRIPT)));
    let body = post(&router, "/v1/completions", json!({ "prompt": [5, 6, 7], "echo": true, "max_tokens": 0 })).await.json();
    assert_eq!((&body["usage"]["prompt_tokens"], &body["usage"]["completion_tokens"]), (&json!(3), &json!(0)));
    assert!(!body["choices"][0]["text"].as_str().unwrap().is_empty(), "{body}");
    let body = post(&router, "/v1/completions", json!({ "prompt": ["a", [9]], "n": 2 })).await.json();
    let indices: Vec<_> = body["choices"].as_array().unwrap().iter().map(|choice| choice["index"].clone()).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    assert_eq!(body["usage"]["prompt_tokens"], 2, "each prompt counts once");
    let events = post(&router, "/v1/completions", json!({ "prompt": "Once", "stream": true })).await.events();
    assert_eq!(text_of(&events, 0), SCRIPT);
}

#[tokio::test]
async fn bad_requests_name_their_field() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let cases = [
        (chat(json!({ "messages": [] })), 400, Some("messages")),
        (json!({ "model": "fake" }), 400, Some("messages")),
        (chat(json!({ "messages": [{ "role": "pirate", "content": "x" }] })), 400, Some("messages.0.role")),
        (
            chat(json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] })),
            400,
            Some("messages.0.content.0.type"),
        ),
        (chat(json!({ "messages": [{ "role": "user" }] })), 400, Some("messages.0.content")),
        (chat(json!({ "temperature": 3 })), 400, Some("temperature")),
        (chat(json!({ "max_tokens": -1 })), 400, Some("max_tokens")),
        (chat(json!({ "n": 0 })), 400, Some("n")),
        (chat(json!({ "n": 1000 })), 400, Some("n")),
        (chat(json!({ "top_logprobs": 3 })), 400, Some("top_logprobs")),
        (chat(json!({ "stream_options": { "include_usage": true } })), 400, Some("stream_options")),
        (chat(json!({ "functions": [{}] })), 400, Some("functions")),
        (chat(json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] })), 400, Some("tools")),
        (chat(json!({ "tool_choice": "required" })), 400, Some("tool_choice")),
        (chat(json!({ "model": "gpt-9" })), 404, Some("model")),
        (chat(json!({ "messages": [{ "role": "user", "content": "sea ".repeat(2000) }] })), 400, Some("messages")),
        (json!([1]), 400, None),
    ];
    for (body, status, param) in cases {
        let answer = post(&router, "/v1/chat/completions", body.clone()).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status.as_u16(), error["param"].as_str()), (status, param), "{body}: {error}");
        assert!(error["message"].as_str().unwrap().len() > 10 && error["type"].is_string() && error.get("code").is_some());
    }
    for (body, param) in [
        (json!({}), "prompt"),
        (json!({ "prompt": [6144] }), "prompt"),
        (json!({ "prompt": [[1], 2] }), "prompt"),
        (json!({ "prompt": "x", "suffix": "y" }), "suffix"),
        (json!({ "prompt": "x", "best_of": 2 }), "best_of"),
        (json!({ "prompt": "x", "echo": true, "logprobs": 1 }), "echo"),
    ] {
        let answer = post(&router, "/v1/completions", body.clone()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["param"]), (400, &json!(param)), "{body}");
    }
    let answer = post(&router, "/v1/embeddings", json!({ "input": "x" })).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["param"]), (400, &json!("model")));
}

#[tokio::test]
async fn models_and_aliases_are_listed_and_found() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let list = get(&router, "/v1/models").await.json();
    let names: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, ["fake", "other"]);
    assert_eq!(get(&router, "/v1/models/other").await.json()["max_model_len"], 512);
    assert_eq!(get(&router, "/v1/models/none").await.status, StatusCode::NOT_FOUND);
    let body = post(&router, "/v1/chat/completions", chat(json!({ "model": "other" }))).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], SCRIPT);
}

#[tokio::test]
async fn texts_become_tokens_and_texts_again() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let tokens = post(&router, "/tokenize", json!({ "prompt": SCRIPT })).await.json();
    assert_eq!(tokens["count"], tokens["tokens"].as_array().unwrap().len());
    let text = post(&router, "/detokenize", json!({ "tokens": tokens["tokens"] })).await.json();
    assert_eq!(text["prompt"], SCRIPT);
    let chat = post(&router, "/tokenize", json!({ "messages": [{ "role": "user", "content": SCRIPT }] })).await.json();
    assert_eq!(chat["tokens"], tokens["tokens"], "a model without a template takes the text as it is");
    let wrong = post(&router, "/detokenize", json!({ "tokens": [1, 99999] })).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["error"]["param"]), (400, &json!("tokens")));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_in_the_same_shape() {
    let router = server(Fake::new(SCRIPT), options()).router();
    assert_eq!(get(&router, "/v1/nothing").await.json()["error"]["code"], "not_found");
    let answer = get(&router, "/v1/chat/completions").await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["code"]),
        (StatusCode::METHOD_NOT_ALLOWED, &json!("method_not_allowed"))
    );
    let anthropic = get(&router, "/v1/messages").await;
    assert_eq!((anthropic.status, &anthropic.json()["type"]), (StatusCode::METHOD_NOT_ALLOWED, &json!("error")));
}

#[tokio::test]
async fn every_field_is_checked_whatever_the_request_is_about() {
    let router = server(Fake::new(SCRIPT), options()).router();
    for (field, value) in [("add_special_tokens", json!("yes")), ("prompt", json!({})), ("content", json!(3))] {
        let body = json!({ "messages": [{ "role": "user", "content": "x" }], field: value });
        let answer = post(&router, "/tokenize", body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["param"]), (400, &json!(field)));
    }
    assert_eq!(post(&router, "/tokenize", json!({})).await.json()["error"]["param"], "prompt");
}

#[tokio::test]
async fn a_response_has_the_fields_that_its_description_requires() {
    let router = server(Fake::new(SCRIPT), options()).router();
    let body = post(&router, "/v1/responses", json!({ "input": "x" })).await.json();
    let part = &body["output"][0]["content"][0];
    assert_eq!((&part["text"], &part["annotations"], &part["logprobs"]), (&json!(SCRIPT), &json!([]), &json!([])));
    assert_eq!(body["usage"]["input_tokens_details"]["cache_write_tokens"], 0);
    let events = post(&router, "/v1/responses", json!({ "input": "x", "stream": true })).await.events();
    assert!(events[0]["response"].get("usage").is_none(), "usage is no null while the response is written");
    assert!(events.last().unwrap()["response"]["usage"]["total_tokens"].as_u64().unwrap() > 2);
}
