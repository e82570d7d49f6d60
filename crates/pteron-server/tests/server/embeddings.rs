//! `/v1/embeddings`.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use pteron_server::{ModelSource, Server};
use serde_json::{Value, json};

use crate::client::{options, post};
use crate::fake::Fake;

/// A server of a model for text and one for embeddings.
fn router(truncatable: bool) -> Router {
    let source = |name: &str, embeddings: Option<bool>| {
        let open = move || {
            let mut fake = Fake::new("Hi");
            fake.embeddings = embeddings;
            Ok(Arc::new(fake) as _)
        };
        ModelSource::new(name, open)
    };
    let text = source("text", None).with_adapter("sql", "adapters/sql");
    let server = Server::new(vec![text, source("vectors", Some(truncatable))], options()).unwrap();
    server.load().unwrap();
    server.router()
}

async fn embed(router: &Router, body: Value) -> (StatusCode, Value) {
    let answer = post(router, "/v1/embeddings", body).await;
    (answer.status, answer.json())
}

#[tokio::test]
async fn texts_and_tokens_become_vectors_in_their_order() {
    let router = router(false);
    let (status, body) = embed(&router, json!({ "input": [[5, 6], [9]], "model": "vectors" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(
        body,
        json!({
            "object": "list",
            "model": "vectors",
            "data": [
                { "object": "embedding", "index": 0, "embedding": [2.0, 5.0, 1.0] },
                { "object": "embedding", "index": 1, "embedding": [1.0, 9.0, 1.0] },
            ],
            "usage": { "prompt_tokens": 3, "total_tokens": 3 },
        })
    );
    // Without a name it is the model that makes embeddings, and not the first one.
    let (_, one) = embed(&router, json!({ "input": "a text" })).await;
    let (_, list) = embed(&router, json!({ "input": ["a text"], "encoding_format": "float" })).await;
    assert_eq!((&one, &one["model"]), (&list, &json!("vectors")));
    assert_eq!(one["data"][0]["embedding"][0], one["usage"]["prompt_tokens"].as_f64().unwrap());
}

#[tokio::test]
async fn base64_holds_the_bytes_of_floats() {
    let body = json!({ "input": [7, 8], "encoding_format": "base64" });
    let (_, answer) = embed(&router(false), body).await;
    // 2, 7 and 1 as 32-bit floats, least significant byte first.
    assert_eq!(answer["data"][0]["embedding"], "AAAAQAAA4EAAAIA/");
}

#[tokio::test]
async fn dimensions_are_cut_where_the_model_was_trained_for_it() {
    let body = || json!({ "input": [3, 4], "dimensions": 2 });
    let (status, answer) = embed(&router(true), body()).await;
    let vector: Vec<f64> = serde_json::from_value(answer["data"][0]["embedding"].clone()).unwrap();
    let length = 13f64.sqrt();
    assert_eq!((status, vector.len()), (StatusCode::OK, 2));
    assert!((vector[0] - 2.0 / length).abs() < 1e-6 && (vector[1] - 3.0 / length).abs() < 1e-6, "{vector:?}");
    let (status, answer) = embed(&router(false), body()).await;
    assert_eq!((status.as_u16(), &answer["error"]["param"]), (400, &json!("dimensions")), "{answer}");
    assert_eq!(embed(&router(false), json!({ "input": [3], "dimensions": 3 })).await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_cannot_be_embedded_is_refused_by_its_field() {
    let router = router(true);
    for (body, status, param) in [
        (json!({}), 400, "input"),
        (json!({ "input": [] }), 400, "input"),
        (json!({ "input": [6144] }), 400, "input"),
        (json!({ "input": [1.5] }), 400, "input"),
        (json!({ "input": vec![1; 513] }), 400, "input"),
        (json!({ "input": vec!["x"; 2049] }), 400, "input"),
        (json!({ "input": "x", "dimensions": 0 }), 400, "dimensions"),
        (json!({ "input": "x", "dimensions": 4 }), 400, "dimensions"),
        (json!({ "input": "x", "encoding_format": "hex" }), 400, "encoding_format"),
        (json!({ "input": "x", "model": "text" }), 400, "model"),
        (json!({ "input": "x", "model": "sql" }), 400, "model"),
        (json!({ "input": "x", "model": "none" }), 404, "model"),
    ] {
        let (code, answer) = embed(&router, body).await;
        assert_eq!((code.as_u16(), &answer["error"]["param"]), (status, &json!(param)), "{answer}");
    }
    let (_, answer) = embed(&router, json!({ "input": "x", "model": "text" })).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("the model text makes no embeddings"), "{answer}");
}
