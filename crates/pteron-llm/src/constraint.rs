//! Constraints: which tokens may come next in a text.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::batch::TokenMask;
use crate::tokenizer::TokenId;

/// Decides which tokens may come next, for example those that a grammar or a JSON schema allows.
///
/// In an [`Engine`](crate::Engine), its functions run on threads for constraints, never on the engine's own: while one computes, its
/// request waits and others go on. In a [`Generation`](crate::Generation) they run on the thread that polls it.
pub trait TokenConstraint: Send {
    /// Returns the tokens that may come next: a bit per token of the vocabulary, least significant bit of the first word first. If the
    /// text may end here, the end-of-sequence tokens are among them.
    ///
    /// # Errors
    /// The constraint cannot go on. Its text ends.
    fn mask(&mut self) -> Result<TokenMask, ConstraintError>;

    /// Takes the token that was sampled. It is not called for a token that ended the text.
    ///
    /// # Errors
    /// The constraint cannot go on. Its text ends.
    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError>;

    /// Whether the text is complete and nothing may follow. The text then ends with
    /// [`FinishReason::ConstraintComplete`](crate::FinishReason::ConstraintComplete).
    fn is_complete(&self) -> bool;
}

/// A constraint that cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the constraint failed: {reason}")]
pub struct ConstraintError {
    reason: String,
}

impl ConstraintError {
    /// Creates an error with a reason for people.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }

    /// The reason alone.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// The constraint of one generation.
pub(crate) struct OwnConstraint(Mutex<Box<dyn TokenConstraint>>);

impl fmt::Debug for OwnConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnConstraint")
    }
}

impl OwnConstraint {
    pub(crate) fn new(constraint: Box<dyn TokenConstraint>) -> Self {
        Self(Mutex::new(constraint))
    }

    /// The constraint. The lock only makes a generation `Sync`, which a constraint need not be.
    pub(crate) fn get(&mut self) -> &mut dyn TokenConstraint {
        &mut **self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
