//! Constraints of requests, which compute on threads of their own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::active::Constraint;
use super::error::EngineError;
use super::shared::{Shared, State};
use crate::batch::{RequestId, TokenMask};
use crate::constraint::{ConstraintError, TokenConstraint};
use crate::generation::FinishReason;
use crate::tokenizer::TokenId;

/// What follows from a constraint.
enum Outcome {
    Mask(TokenMask),
    Complete,
}

/// Takes the token that was sampled, and computes what may follow.
fn advance(constraint: &mut dyn TokenConstraint, token: Option<TokenId>) -> Result<Outcome, ConstraintError> {
    if let Some(token) = token {
        constraint.accept(token)?;
        if constraint.is_complete() {
            return Ok(Outcome::Complete);
        }
    }
    constraint.mask().map(Outcome::Mask)
}

impl Shared {
    /// Hands a request's constraint to a thread, with the token that was sampled. The token is sent when the thread is done with it,
    /// because the constraint may end the text.
    pub(super) fn advance_constraint(self: &Arc<Self>, state: &mut State, request: RequestId, token: Option<TokenId>) {
        let Some(slot) = state.active.get_mut(&request).and_then(|active| active.constraint.as_mut()) else { return };
        let Constraint::Idle(mut constraint) = std::mem::replace(slot, Constraint::Busy) else { return };
        let shared = Arc::clone(self);
        let job = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| advance(&mut *constraint, token)));
            let outcome = outcome.unwrap_or_else(|_| Err(ConstraintError::new("it panicked")));
            shared.take_outcome(request, constraint, outcome);
        };
        if self.constraints.execute(job).is_err() {
            state.fail(request, ConstraintError::new("no thread can be started for it").into());
        }
    }

    fn take_outcome(
        &self,
        request: RequestId,
        constraint: Box<dyn TokenConstraint>,
        outcome: Result<Outcome, ConstraintError>,
    ) {
        let unused = self.with_work(|state| {
            // The request may have ended in the meantime.
            let Some(active) = state.active.get_mut(&request) else { return Some(constraint) };
            active.constraint = Some(Constraint::Idle(constraint));
            match outcome {
                Ok(Outcome::Complete) => {
                    active.finish(FinishReason::ConstraintComplete);
                    state.complete(request);
                }
                Ok(Outcome::Mask(mask)) => {
                    state.send(request);
                    if let Err(error) = state.scheduler.allow(request, mask) {
                        state.fail(request, ConstraintError::new(error.to_string()).into());
                    }
                }
                Err(error) => state.fail(request, EngineError::Constraint(error)),
            }
            None
        });
        drop(unused);
    }
}
