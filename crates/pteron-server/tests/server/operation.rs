//! What operators rely on: keys, limits, disconnects, shutdown, lost devices, metrics, the page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use pteron_server::{ApiKeys, Limits, Log, LogFormat, ModelSource, Server, ServerError, ServerOptions};
use serde_json::json;

use crate::client::{get, options, post, send, server};
use crate::fake::{Counts, Fake};

const WAIT: Duration = Duration::from_secs(20);

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < WAIT, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server on a port of its own, until it is told to stop.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), ServerError>>,
    counts: Arc<Counts>,
}

fn run(fake: Fake, options: ServerOptions) -> Running {
    let stop = Arc::new(AtomicBool::new(false));
    let counts = Arc::clone(&fake.counts);
    let fake = Arc::new(fake);
    let server = Server::new(vec![ModelSource::new("fake", move || Ok(Arc::clone(&fake) as _))], options).unwrap();
    let (send, receive) = mpsc::channel();
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        server.run("127.0.0.1:0", |address| send.send(address).unwrap(), || stopped.load(Ordering::SeqCst))
    });
    let address = receive.recv_timeout(WAIT).unwrap();
    let running = Running { address, stop, thread, counts };
    wait_for("loading", || running.request("GET /ready HTTP/1.1", "").contains("200 OK"));
    running
}

impl Running {
    fn open(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        write!(stream, "{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    fn request(&self, head: &str, body: &str) -> String {
        let mut text = String::new();
        self.open(head, body).read_to_string(&mut text).unwrap();
        text
    }
}

const COMPLETION: &str = "POST /v1/completions HTTP/1.1";
const LONG: &str = "one two three four five six seven eight nine ten eleven twelve";

#[test]
fn a_client_that_leaves_cancels_its_request_streamed_or_not() {
    let running = run(Fake::new(LONG).with_delay(Duration::from_millis(50)), options());
    for body in [json!({ "prompt": "x", "stream": true, "max_tokens": 60 }), json!({ "prompt": "x", "max_tokens": 60 })] {
        let before = running.counts.cancelled.load(Ordering::SeqCst);
        let stream = running.open(COMPLETION, &body.to_string());
        wait_for("the request", || running.counts.running.load(Ordering::SeqCst) == 1);
        drop(stream);
        wait_for("the cancellation", || running.counts.cancelled.load(Ordering::SeqCst) == before + 1);
        assert_eq!(running.counts.running.load(Ordering::SeqCst), 0);
    }
    assert_eq!(running.counts.finished.load(Ordering::SeqCst), 0);
    running.stop.store(true, Ordering::SeqCst);
    running.thread.join().unwrap().unwrap();
}

#[test]
fn a_server_that_stops_finishes_what_runs_and_refuses_what_comes() {
    let running = run(Fake::new(LONG).with_delay(Duration::from_millis(40)), options());
    let mut stream = running.open(COMPLETION, &json!({ "prompt": "x", "stream": true, "max_tokens": 60 }).to_string());
    wait_for("the request", || running.counts.running.load(Ordering::SeqCst) == 1);
    running.stop.store(true, Ordering::SeqCst);
    wait_for("draining", || running.request("GET /ready HTTP/1.1", "").contains("503"));
    let refused = running.request(COMPLETION, &json!({ "prompt": "x" }).to_string());
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"), "{refused}");
    assert!(running.request("GET /health HTTP/1.1", "").starts_with("HTTP/1.1 200"));
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let events =
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok());
    let written: String = events.filter_map(|event| Some(event["choices"][0]["text"].as_str()?.to_owned())).collect();
    assert_eq!(written, LONG);
    assert!(text.contains("[DONE]"), "{text}");
    running.thread.join().unwrap().unwrap();
}

#[test]
fn draining_is_bounded() {
    let slow = Fake::new(LONG).with_delay(Duration::from_secs(5));
    let running = run(slow, options().with_drain_timeout(Duration::from_millis(100)));
    let _stream = running.open(COMPLETION, &json!({ "prompt": "x", "stream": true }).to_string());
    wait_for("the request", || running.counts.running.load(Ordering::SeqCst) == 1);
    let started = Instant::now();
    running.stop.store(true, Ordering::SeqCst);
    running.thread.join().unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(running.counts.cancelled.load(Ordering::SeqCst), 1);
}

#[test]
fn slow_heads_and_bodies_are_cut_off() {
    let running = run(Fake::new(LONG), options().with_limits(Limits::default().with_arrival(Duration::from_millis(200))));
    let mut stream = TcpStream::connect(running.address).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    write!(stream, "{COMPLETION}\r\nhost: x\r\ncontent-length: 50\r\n\r\n{{").unwrap();
    let mut text = [0; 12];
    stream.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"HTTP/1.1 408");
    let mut head = TcpStream::connect(running.address).unwrap();
    head.set_read_timeout(Some(WAIT)).unwrap();
    write!(head, "POST /v1").unwrap();
    let mut rest = Vec::new();
    let _ = head.read_to_end(&mut rest);
    running.stop.store(true, Ordering::SeqCst);
    running.thread.join().unwrap().unwrap();
}

#[tokio::test]
async fn keys_are_needed_everywhere_but_for_probes_and_the_page() {
    let router = server(Fake::new("Hi"), options().with_keys(ApiKeys::new(["one", "two"]))).router();
    for path in ["/health", "/ready", "/"] {
        assert_eq!(get(&router, path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/v1/models", "/metrics", "/v1/nothing"] {
        let answer = get(&router, path).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (StatusCode::UNAUTHORIZED, &json!("invalid_api_key")),
            "{path}"
        );
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    let with = |name: &str, key: &str| Request::get("/v1/models").header(name, key).body(Body::empty()).unwrap();
    assert_eq!(send(&router, with("authorization", "Bearer two")).await.status, StatusCode::OK);
    assert_eq!(send(&router, with("x-api-key", "one")).await.status, StatusCode::OK);
    assert_eq!(send(&router, with("authorization", "Bearer three")).await.status, StatusCode::UNAUTHORIZED);
    let anthropic = post(&router, "/v1/messages", json!({})).await.json();
    assert_eq!((&anthropic["type"], &anthropic["error"]["type"]), (&json!("error"), &json!("authentication_error")));
}

#[tokio::test]
async fn requests_that_are_too_large_too_many_or_too_long_are_refused() {
    let small = server(Fake::new("Hi"), options().with_limits(Limits::default().with_body(200))).router();
    let answer = post(&small, "/v1/completions", json!({ "prompt": "x".repeat(300) })).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (413, &json!("request_too_large")));

    let mut full = Fake::new("Hi");
    full.queue = 1;
    let full = server(full, options()).router();
    let answer = post(&full, "/v1/completions", json!({ "prompt": "x", "n": 2 })).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(
        post(&full, "/v1/completions", json!({ "prompt": "x" })).await.status,
        StatusCode::OK,
        "nothing is left of it"
    );

    let slow = Fake::new(LONG).with_delay(Duration::from_millis(300));
    let busy =
        server(slow, options().with_limits(Limits::default().with_requests(1).with_generation(Duration::from_millis(100))))
            .router();
    let body = || json!({ "prompt": "x" });
    let (first, second) = tokio::join!(post(&busy, "/v1/completions", body()), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        post(&busy, "/v1/completions", body()).await
    });
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (408, 429));
    let stream = post(&busy, "/v1/completions", json!({ "prompt": "x", "stream": true })).await;
    assert_eq!(stream.events().last().unwrap()["error"]["code"], "request_timeout");
}

#[tokio::test]
async fn a_lost_device_sheds_load_and_the_model_is_loaded_again() {
    let loads = Arc::new(AtomicUsize::new(0));
    let opened = Arc::clone(&loads);
    let closed = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&closed);
    let open = move || {
        wait_for("the gate", || !gate.load(Ordering::SeqCst));
        let number = opened.fetch_add(1, Ordering::SeqCst);
        if number == 1 {
            return Err("the driver is not back yet".to_owned());
        }
        let fake = Fake::new("Hi");
        fake.lost.store(number == 0, Ordering::SeqCst);
        Ok(Arc::new(fake) as _)
    };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = Arc::clone(&lines);
    let log = Log::new(LogFormat::Json).with_sink(move |line| written.lock().unwrap().push(line.to_owned()));
    let server = Server::new(vec![ModelSource::new("fake", open)], options().with_log(log)).unwrap();
    assert_eq!(get(&server.router(), "/ready").await.status, StatusCode::SERVICE_UNAVAILABLE, "nothing is loaded yet");
    server.load().unwrap();
    let router = server.router();
    assert_eq!(get(&router, "/ready").await.status, StatusCode::OK);
    closed.store(true, Ordering::SeqCst);
    for reason in ["GPU device was lost", "is being loaded"] {
        let answer = post(&router, "/v1/completions", json!({ "prompt": "x" })).await;
        assert_eq!(
            (answer.status, &answer.headers["retry-after"]),
            (StatusCode::SERVICE_UNAVAILABLE, &"5".parse().unwrap())
        );
        assert!(answer.text.contains(reason), "{}", answer.text);
    }
    assert_eq!(get(&router, "/ready").await.status, StatusCode::SERVICE_UNAVAILABLE);
    closed.store(false, Ordering::SeqCst);
    let started = Instant::now();
    while get(&router, "/ready").await.status != StatusCode::OK {
        assert!(started.elapsed() < WAIT);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(post(&router, "/v1/completions", json!({ "prompt": "x" })).await.json()["choices"][0]["text"], "Hi");
    assert_eq!(loads.load(Ordering::SeqCst), 3, "once at first, once in vain, once again");
    let events = lines.lock().unwrap().join("\n");
    for event in ["model loaded", "model lost", "reload failed", "\"event\":\"request\""] {
        assert!(events.contains(event), "{event}: {events}");
    }
}

#[tokio::test]
async fn metrics_name_requests_blocks_and_what_gateways_look_for() {
    let router = server(Fake::new("Hi"), options()).router();
    post(&router, "/v1/completions", json!({ "prompt": "x" })).await;
    get(&router, "/v1/nothing/at/all").await;
    let answer = get(&router, "/metrics").await;
    assert_eq!(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "pteron_ready 1",
        "pteron_http_requests_total{route=\"/v1/completions\",status=\"200\"} 1",
        "pteron_http_requests_total{route=\"other\",status=\"404\"} 1",
        "pteron_texts_finished_total{model_name=\"fake\"} 1",
        "pteron_time_to_first_token_seconds_bucket{model_name=\"fake\",le=\"0.1\"} 1",
        "vllm:num_requests_waiting{model_name=\"fake\"} 0",
        "vllm:num_requests_running{model_name=\"fake\"} 0",
        "vllm:kv_cache_usage_perc{model_name=\"fake\"} 0.25",
        "vllm:cache_config_info{model_name=\"fake\",block_size=\"32\",num_gpu_blocks=\"100\"} 1",
    ] {
        assert!(answer.text.lines().any(|found| found == line), "{line} is not in\n{}", answer.text);
    }
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/grafana/dashboard.json");
    if let Ok(dashboard) = std::fs::read_to_string(dashboard) {
        let words =
            dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("pteron_"));
        let words: Vec<_> = words.collect();
        assert!(words.len() > 10 && words.iter().all(|name| answer.text.contains(&format!("\n{name}"))), "{words:?}");
    }
    let names: Vec<_> = answer.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let known = |line: &str| names.iter().any(|name| line.starts_with(*name));
    assert!(answer.text.lines().filter(|line| !line.starts_with('#')).all(known), "every value has a type");
}

#[tokio::test]
async fn the_page_comes_with_a_policy_and_other_origins_need_leave() {
    let router = server(Fake::new("Hi"), options().with_cors(["https://example.org".to_owned()])).router();
    let page = get(&router, "/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("default-src 'none'") && policy.contains("script-src 'sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
    let from = |origin: &str| {
        Request::get("/v1/models").header("origin", origin).header("host", "localhost:8080").body(Body::empty()).unwrap()
    };
    let allowed = send(&router, from("https://example.org")).await;
    assert_eq!(
        (allowed.status, allowed.headers["access-control-allow-origin"].to_str().unwrap()),
        (StatusCode::OK, "https://example.org")
    );
    assert_eq!(send(&router, from("http://localhost:8080")).await.status, StatusCode::OK, "the page itself");
    let foreign = send(&router, from("https://evil.example")).await;
    assert_eq!((foreign.status, foreign.headers.get("access-control-allow-origin")), (StatusCode::FORBIDDEN, None));
    let wrong =
        Server::new(vec![ModelSource::new("m", || Err(String::new()))], options().with_cors(["example.org".to_owned()]));
    assert!(matches!(wrong, Err(ServerError::Origin(_))));
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_server() {
    let server = Server::new(vec![ModelSource::new("m", || Err("there is no GPU".to_owned()))], options()).unwrap();
    let error = server.run("127.0.0.1:0", |_| {}, || false).unwrap_err();
    assert_eq!(error.to_string(), "m: there is no GPU");
    let twice = || ModelSource::new("m", || Err(String::new()));
    assert!(matches!(Server::new(vec![twice(), twice()], options()), Err(ServerError::SameName(_))));
}
