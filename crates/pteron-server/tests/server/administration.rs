//! Models and adapters that come and go while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use pteron_server::{ApiKeys, ModelSource, Server, ServerOptions};
use serde_json::{Value, json};

use crate::client::{get, options, post, send};
use crate::fake::{Counts, Fake};

const SCRIPT: &str = "The sea is calm. It is blue.";

/// A loaded server of `fake` with the adapter `sql`. Each load has a model of its own.
fn server(options: ServerOptions, delay: Duration) -> (Router, Arc<Counts>, Arc<AtomicUsize>) {
    let (counts, loads) = (Arc::new(Counts::default()), Arc::new(AtomicUsize::new(0)));
    let (own, opened) = (Arc::clone(&counts), Arc::clone(&loads));
    let open = move || {
        assert_eq!(own.running.load(Ordering::SeqCst), 0, "a model is loaded when the requests of the last one have ended");
        opened.fetch_add(1, Ordering::SeqCst);
        let mut fake = Fake::new(SCRIPT).with_delay(delay);
        fake.counts = Arc::clone(&own);
        Ok(Arc::new(fake) as _)
    };
    let source = ModelSource::new("fake", open).with_alias("other").with_adapter("sql", "adapters/sql");
    let server = Server::new(vec![source], options).unwrap();
    server.load().unwrap();
    (server.router(), counts, loads)
}

async fn text(router: &Router, model: &str) -> (u16, String, Value) {
    let body = json!({ "model": model, "prompt": "x", "max_tokens": 40 });
    let answer = post(router, "/v1/completions", body).await;
    let value = answer.json();
    (answer.status.as_u16(), value["choices"][0]["text"].as_str().unwrap_or_default().to_owned(), value)
}

async fn status(router: &Router, model: &str) -> Value {
    get(router, &format!("/v1/models/{model}")).await.json()["status"]["value"].clone()
}

#[tokio::test]
async fn an_adapter_is_a_model_with_a_parent() {
    let (router, ..) = server(options(), Duration::ZERO);
    let list = get(&router, "/v1/models").await.json();
    let pairs: Vec<_> =
        list["data"].as_array().unwrap().iter().map(|own| (own["id"].clone(), own["parent"].clone())).collect();
    let [fake, other, sql] = ["fake", "other", "sql"].map(Value::from);
    assert_eq!(pairs, [(fake.clone(), Value::Null), (other, Value::Null), (sql, fake)]);
    let (code, written, body) = text(&router, "sql").await;
    assert_eq!((code, written.as_str(), &body["model"]), (200, "The sea is calm. It is blue. As sql.", &json!("sql")));
    assert_eq!(text(&router, "other").await.1, SCRIPT);
    let chat = json!({ "model": "sql", "messages": [{ "role": "user", "content": "x" }], "max_tokens": 40 });
    for (path, text) in [("/v1/chat/completions", "/choices/0/message/content"), ("/v1/messages", "/content/0/text")] {
        let body = post(&router, path, chat.clone()).await.json();
        assert!(body.pointer(text).unwrap().as_str().unwrap().ends_with("As sql."), "{body}");
    }
    let input = json!({ "model": "sql", "input": "x", "max_output_tokens": 40 });
    let body = post(&router, "/v1/responses", input).await.json();
    assert!(
        body["output"][0]["content"][0]["text"].as_str().unwrap().ends_with("As sql.") && body["model"] == "sql",
        "{body}"
    );
}

#[tokio::test]
async fn adapters_are_loaded_and_unloaded_by_name() {
    let (router, _, loads) = server(options(), Duration::ZERO);
    let load = |name: &str, folder: &str| {
        let body = json!({ "lora_name": name, "lora_path": folder });
        let router = router.clone();
        async move { post(&router, "/v1/load_lora_adapter", body).await }
    };
    let loaded = load("poem", "adapters/poem").await;
    assert_eq!((loaded.status, &loaded.json()["parent"]), (StatusCode::OK, &json!("fake")), "{}", loaded.text);
    assert!(text(&router, "poem").await.1.ends_with("As poem."));
    for (name, folder, param, reason) in [
        ("poem", "adapters/poem", "lora_name", "called already"),
        ("other", "adapters/poem", "lora_name", "called already"),
        ("", "adapters/poem", "lora_name", "1 to 256 bytes"),
        ("wide", "adapters/wide", "lora_path", "q_proj of layer 0"),
    ] {
        let answer = load(name, folder).await;
        let error = &answer.json()["error"];
        assert_eq!((answer.status.as_u16(), &error["param"]), (400, &json!(param)), "{error}");
        assert!(error["message"].as_str().unwrap().contains(reason), "{error}");
    }
    // A model that is loaded again has its adapters.
    for path in ["/models/unload", "/models/load"] {
        let answer = post(&router, path, json!({ "model": "fake", "wait": true })).await;
        assert_eq!((answer.status, &answer.json()["success"]), (StatusCode::OK, &json!(true)), "{}", answer.text);
    }
    assert_eq!(loads.load(Ordering::SeqCst), 2);
    assert!(text(&router, "poem").await.1.ends_with("As poem.") && text(&router, "sql").await.1.ends_with("As sql."));
    let unload = |name: &str| post(&router, "/v1/unload_lora_adapter", json!({ "lora_name": name }));
    assert_eq!(unload("poem").await.status, StatusCode::OK);
    let (code, _, body) = text(&router, "poem").await;
    assert_eq!((code, &body["error"]["code"], &body["error"]["param"]), (404, &json!("model_not_found"), &json!("model")));
    assert_eq!(body["error"]["message"], "there is no model \"poem\"; there is fake, sql");
    assert_eq!((unload("poem").await.status.as_u16(), unload("fake").await.status.as_u16()), (404, 400));
}

#[tokio::test]
async fn a_model_is_unloaded_after_its_requests_and_loaded_again() {
    let (router, counts, loads) = server(options(), Duration::from_millis(30));
    let running = text(&router, "fake");
    let changes = async {
        while counts.running.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let answer = post(&router, "/models/unload", json!({ "model": "fake" })).await;
        assert_eq!(answer.json()["status"]["value"], "unloading");
        let (code, _, body) = text(&router, "fake").await;
        assert_eq!((code, &body["error"]["code"]), (503, &json!("model_not_loaded")));
        assert_eq!(get(&router, "/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(counts.running.load(Ordering::SeqCst), 1, "the text is not complete yet");
        let answer = post(&router, "/models/load", json!({ "model": "fake", "wait": true })).await;
        assert_eq!((answer.status, &answer.json()["loaded"]), (StatusCode::OK, &json!(true)), "{}", answer.text);
    };
    let ((code, written, _), ()) = tokio::join!(running, changes);
    assert_eq!((code, written.as_str()), (200, SCRIPT));
    assert_eq!(loads.load(Ordering::SeqCst), 2);
    assert_eq!(text(&router, "fake").await.1, SCRIPT);
    let answer = post(&router, "/models/unload", json!({ "model": "other", "wait": true })).await;
    assert_eq!(answer.json()["status"]["value"], "unloaded");
    assert_eq!(status(&router, "fake").await, "unloaded");
    for (body, code) in [(json!({}), 400), (json!({ "model": "none" }), 404), (json!({ "model": "sql" }), 400)] {
        assert_eq!(post(&router, "/models/unload", body).await.status.as_u16(), code);
    }
}

#[tokio::test]
async fn models_of_the_catalog_are_added_by_their_names() {
    let find = |name: &str| match name {
        "owner/new" => Ok(ModelSource::new(name, || Ok(Arc::new(Fake::new("New.")) as _))),
        "owner/damaged" => Ok(ModelSource::new(name, || Err("the file is damaged".to_owned()))),
        _ => Err("there is no such file".to_owned()),
    };
    let (router, ..) = server(options().with_catalog(find), Duration::ZERO);
    let load = |name: &str| post(&router, "/models/load", json!({ "model": name, "wait": true }));
    assert_eq!(load("owner/new").await.status, StatusCode::OK);
    assert_eq!(text(&router, "owner/new").await.1, "New.");
    let missing = load("owner/none").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    assert!(missing.text.contains("cannot be added: there is no such file"), "{}", missing.text);
    let damaged = load("owner/damaged").await;
    assert_eq!((damaged.status.as_u16(), &damaged.json()["error"]["param"]), (400, &json!("model")));
    assert!(damaged.text.contains("owner/damaged: the file is damaged"), "{}", damaged.text);
    let described = get(&router, "/v1/models/owner/damaged").await.json();
    assert_eq!(described["status"], json!({ "value": "unloaded", "failed": true, "reason": "the file is damaged" }));
    assert_eq!(get(&router, "/ready").await.status, StatusCode::OK, "the others are served");
}

#[tokio::test]
async fn loading_needs_a_key_for_it() {
    let unload = |key: &str| {
        let request = Request::post("/models/unload").header("authorization", format!("Bearer {key}"));
        request.body(Body::from(json!({ "model": "fake" }).to_string())).unwrap()
    };
    let (router, ..) = server(options().with_keys(ApiKeys::new(["k"])), Duration::ZERO);
    assert_eq!(send(&router, unload("wrong")).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(send(&router, unload("k")).await.status, StatusCode::OK);

    let admin = options().with_keys(ApiKeys::new(["k"])).with_admin_keys(ApiKeys::new(["a"]));
    let (router, ..) = server(admin, Duration::ZERO);
    assert_eq!(send(&router, unload("k")).await.status, StatusCode::UNAUTHORIZED);
    let list = Request::get("/v1/models").header("x-api-key", "a").body(Body::empty()).unwrap();
    assert_eq!(send(&router, list).await.status, StatusCode::OK);
    assert_eq!(send(&router, unload("a")).await.status, StatusCode::OK);

    let (router, ..) = server(options().with_administration(false), Duration::ZERO);
    let refused = send(&router, unload("")).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (StatusCode::FORBIDDEN, &json!("administration_disabled"))
    );
    assert_eq!(text(&router, "fake").await.1, SCRIPT);
}
