//! An HTTP server for language models: the APIs of OpenAI and Anthropic over one batching engine.
//!
//! A [`Server`] is a set of [`ModelSource`]s and [`ServerOptions`]. [`Server::run`] serves them until it is told to stop;
//! [`Server::router`] is the same service for a program that has a listener of its own.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use pteron_llm::{Engine, EngineOptions};
//! use pteron_server::{EngineBackend, ModelSource, Server, ServerOptions};
//!
//! let open = || {
//!     let engine = Engine::open_blocking("models/llama", EngineOptions::default()).map_err(|error| error.to_string())?;
//!     Ok(Arc::new(EngineBackend::new(engine)?) as _)
//! };
//! let server = Server::new(vec![ModelSource::new("llama", open)], ServerOptions::default())?;
//! let stop = || false;                                         // whether a signal arrived
//! server.run("127.0.0.1:8080", |address| println!("http://{address}"), stop)?;
//! # Ok::<(), pteron_server::ServerError>(())
//! ```
//!
//! # What a client can and cannot do
//!
//! - Everything a client sends is bounded before it is kept: the head and the body of a request, the number of choices, stop strings
//!   and biases, the requests that wait, and the time that each may take ([`Limits`]).
//! - A request that is dropped ends at once: handlers hold the token streams, and dropping one cancels its request.
//! - Models and adapters are loaded and unloaded by whoever has a key for it ([`ServerOptions::with_admin_keys`]).
//! - A panic in a handler is an answer with status 500; the engine's thread is another one.
//!
//! # Parts
//!
//! - [`backend`]: what the server asks of an engine, so that everything above it is tested without a GPU
//! - [`output`]: reasoning and tool calls in generated text, however it is cut
#![cfg(not(target_arch = "wasm32"))]
#![forbid(unsafe_code)]

mod administration;
pub mod backend;
mod chat;
mod completions;
mod connection;
mod constraint;
mod embedder_backend;
mod embeddings;
mod engine_backend;
mod error;
mod event_stream;
mod fields;
mod format;
#[cfg(feature = "grammars")]
mod grammar;
mod health;
mod id;
mod keys;
mod log;
mod messages;
mod metrics;
mod models;
mod openapi;
mod options;
pub mod output;
mod page;
mod prompt;
mod reply;
mod request;
mod responses;
mod router;
mod sampling;
mod server;
mod slot;
mod state;
mod tokenize;
mod tools;

pub use embedder_backend::EmbedderBackend;
pub use engine_backend::EngineBackend;
pub use error::ServerError;
pub use keys::ApiKeys;
pub use log::{Log, LogFormat};
pub use openapi::openapi;
pub use options::{Catalog, Limits, ServerOptions, Tls};
pub use server::Server;
pub use slot::ModelSource;
