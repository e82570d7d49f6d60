//! Errors of the engine.

use std::sync::Arc;

use super::constraint::ConstraintError;
use crate::batch::SubmitError;
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

impl From<Error> for EngineError {
    fn from(error: Error) -> Self {
        Self::Options(Arc::new(error))
    }
}
