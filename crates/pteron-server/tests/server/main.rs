//! The server's behaviour over HTTP, with a model that needs no GPU.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "a test may stop at the first surprise"
)]

mod administration;
mod api;
mod client;
mod embeddings;
mod fake;
mod operation;
mod tools;
