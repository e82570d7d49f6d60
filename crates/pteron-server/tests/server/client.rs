//! Calls a server in this process, without sockets.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use pteron_server::{Log, LogFormat, ModelSource, Server, ServerOptions};
use serde_json::Value;
use tower::ServiceExt;

use crate::fake::Fake;

pub(crate) fn options() -> ServerOptions {
    ServerOptions::default().with_log(Log::new(LogFormat::Off)).with_administration(true)
}

/// A loaded server of one model, `fake`, with the alias `other`.
pub(crate) fn server(fake: Fake, options: ServerOptions) -> Server {
    let fake = Arc::new(fake);
    let source = ModelSource::new("fake", move || Ok(Arc::clone(&fake) as _)).with_alias("other");
    let server = Server::new(vec![source], options).unwrap();
    server.load().unwrap();
    server
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The data of the events of a stream, without the mark at its end.
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

pub(crate) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Answer { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

pub(crate) async fn get(router: &Router, path: &str) -> Answer {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

pub(crate) async fn post(router: &Router, path: &str, body: Value) -> Answer {
    let request = Request::post(path).header("content-type", "application/json");
    send(router, request.body(Body::from(body.to_string())).unwrap()).await
}
