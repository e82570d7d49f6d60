//! Models from a Hugging Face endpoint, and the folder that holds them.
//!
//! [`Models`] is the folder: it finds, lists and removes models and needs no network. [`Hub`] is the endpoint: [`Hub::pull`] fetches a model
//! into the folder.
//!
//! - A file is written under a name of its own and moved to its path when its checksum is right. A model is found when all of its files are
//!   there. Whatever stops a pull, the next one continues it.
//! - The server is not trusted: its listing is bounded, paths that lead out of the folder are rejected, and no more bytes are written than
//!   the listing states.
//! - The token goes to the endpoint alone, never to a host that the endpoint redirects to.
//! - One process at a time pulls or removes a model; others wait.
#![cfg_attr(
    feature = "download",
    doc = r#"
```no_run
use std::ops::ControlFlow;

use pteron_hub::{Hub, Models, PullOptions};

let models = Models::new("/var/cache/models");
let pulled = Hub::from_env()?.pull(&models, &"owner/name".parse()?, &PullOptions::default(), &mut |progress| {
    println!("{} of {} bytes", progress.done, progress.total);
    ControlFlow::Continue(())
})?;
let files = pulled.program(None)?;
println!("{} with {:?}", files.program.display(), files.data);
# Ok::<(), pteron_hub::Error>(())
```
"#
)]

mod checksum;
#[cfg(feature = "download")]
mod download;
#[cfg(feature = "download")]
mod endpoint;
mod error;
#[cfg(feature = "download")]
mod http;
#[cfg(feature = "download")]
mod listing;
mod manifest;
mod models;
mod name;
mod path;
mod pattern;
#[cfg(feature = "download")]
mod pull;
#[cfg(feature = "download")]
mod retry;
mod select;
#[cfg(feature = "download")]
mod transfer;

#[cfg(feature = "download")]
pub use endpoint::{Hub, HubOptions};
pub use error::{Error, Result, TokenState};
pub use models::{ModelFiles, Models, PulledModel};
pub use name::{DEFAULT_REVISION, ModelRef};
#[cfg(feature = "download")]
pub use pull::{Progress, PullOptions, Stage};
#[cfg(feature = "download")]
pub use retry::Retries;
