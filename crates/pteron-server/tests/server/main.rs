//! The server's behaviour over HTTP, with a model that needs no GPU.

mod api;
mod client;
mod fake;
mod operation;
mod tools;
