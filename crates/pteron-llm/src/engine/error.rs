//! Errors of the engine.

use std::sync::Arc;

use crate::batch::SubmitError;
use crate::constraint::ConstraintError;
use crate::error::Error;
use crate::sampling::SamplingError;

/// Why a request is refused, or ended without its text being complete. Other requests go on, except with [`Model`](Self::Model) and
/// [`Stopped`](Self::Stopped).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A request that is refused: the queue is full, or the request can never fit, or a token or a sampling option is invalid.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// An option of a request that is invalid, or that the engine does not have.
    #[error(transparent)]
    Options(Arc<Error>),
    /// A name that no adapter has.
    #[error("there is no adapter {name:?}; {}", listing(.known))]
    UnknownAdapter {
        /// The name.
        name: String,
        /// The names of the adapters that are loaded.
        known: Vec<String>,
    },
    /// A name that an adapter has already.
    #[error("there is an adapter {0:?} already: unload it first, or choose another name")]
    AdapterExists(String),
    /// An adapter that does not fit the model, or for which there is no room.
    #[error(transparent)]
    Adapter(Arc<Error>),
    /// The engine takes no new requests.
    #[error("the engine is shutting down and takes no new requests")]
    Draining,
    /// The request's timeout has passed.
    #[error("the request's timeout has passed")]
    DeadlineExceeded,
    /// The request's constraint failed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// No token can be sampled: the logits are not numbers, or every token is forbidden.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The GPU failed, for example because its device was lost. All requests end; open a new engine.
    #[error(transparent)]
    Model(Arc<Error>),
    /// The engine has ended.
    #[error("the engine has ended")]
    Stopped,
}

/// The names that there are.
fn listing(names: &[String]) -> String {
    if names.is_empty() { "there is none at all".to_owned() } else { format!("there is {}", names.join(", ")) }
}

impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        Self::Options(Arc::new(error))
    }
}
