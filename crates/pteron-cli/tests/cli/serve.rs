//! `pteron serve` with the bundled model, over sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::signals::send;
use crate::{pteron, quiet, root};

/// Software adapters on busy machines are slow.
const LONGEST: Duration = Duration::from_secs(240);

/// A server that is killed if the test ends before it does.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start() -> Self {
        let mut command = quiet(Command::new(env!("CARGO_BIN_EXE_pteron")));
        let args = ["serve", "--port", "0", "--max-sequences", "4"];
        let mut child = command.args(args).current_dir(root()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("http://")).unwrap();
        let address = line.split_once("http://").unwrap().1.split_once(": ").unwrap().0.to_owned();
        // What it writes later must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        let server = Self { child, address };
        let started = Instant::now();
        while !server.call("GET /ready", "").starts_with("HTTP/1.1 200") {
            assert!(started.elapsed() < LONGEST, "the model is not loaded");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    fn open(&self, route: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let length = body.len();
        write!(stream, "{route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        stream
    }

    fn call(&self, route: &str, body: &str) -> String {
        let mut text = String::new();
        self.open(route, body).read_to_string(&mut text).unwrap();
        text
    }

    fn json(&self, route: &str, body: &Value) -> Value {
        let answer = self.call(route, &body.to_string());
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_bundled_model_is_served_until_sigterm_which_loses_no_text() {
    let mut server = Server::start();
    // The text of the server is that of the command.
    let alone = pteron(["run", "A thread is", "-n", "12", "-t", "0", "--quiet"]);
    let completion = json!({ "prompt": "A thread is", "max_tokens": 12, "temperature": 0 });
    let served = server.json("POST /v1/completions", &completion);
    assert!(alone.out.contains(served["choices"][0]["text"].as_str().unwrap().trim()), "{} {served}", alone.out);
    assert_eq!(served["usage"]["completion_tokens"], 12);

    let chat = json!({ "messages": [{ "role": "user", "content": "Ownership is" }], "max_tokens": 8, "n": 2, "logprobs": true, "ignore_eos": true });
    let chat = server.json("POST /v1/chat/completions", &chat);
    assert_eq!((chat["model"].as_str(), chat["choices"].as_array().unwrap().len()), (Some("bundled"), 2), "{chat}");
    assert_eq!(chat["choices"][0]["logprobs"]["content"].as_array().unwrap().len(), 8);

    // A model of 15 million parameters does not know JSON; the grammar does.
    let schema = json!({ "type": "object", "required": ["ok", "kind"], "additionalProperties": false, "properties": {
        "ok": { "type": "boolean" }, "kind": { "enum": ["thread", "task"] } } });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "s", "schema": schema } });
    let request = json!({ "prompt": "A thread is", "max_tokens": 60, "response_format": format });
    let written = server.json("POST /v1/completions", &request);
    let value: Value = serde_json::from_str(written["choices"][0]["text"].as_str().unwrap()).unwrap();
    assert!(value["ok"].is_boolean() && (value["kind"] == "thread" || value["kind"] == "task"), "{value}");

    let idle = "vllm:num_requests_running{model_name=\"bundled\"} 0";
    let started = Instant::now();
    while !server.call("GET /metrics", "").contains(idle) {
        assert!(started.elapsed() < LONGEST, "a request is left over");
        std::thread::sleep(Duration::from_millis(10));
    }

    let request = json!({ "prompt": "A thread is", "max_tokens": 40, "stream": true, "ignore_eos": true });
    let mut stream = server.open("POST /v1/completions", &request.to_string());
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    send(server.child.id(), Signal::TERM);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"finish_reason\":\"length\"") && text.contains("data: [DONE]"), "{text}");
    let started = Instant::now();
    let status = loop {
        match server.child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(started.elapsed() < LONGEST, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn what_cannot_be_served_is_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = pteron(["serve", "--port", &port]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("cannot listen on 127.0.0.1:"), "{}", run.err);
    let run = pteron(["serve", "missing.pte"]);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("missing.pte: there is no such file"), "{}", run.err);
    assert!(pteron(["serve", "--help"]).out.contains("Examples:"));
}
