//! The state of a session, lent to the call that runs.
//!
//! A call on the host path borrows the state for as long as its future lives. The future owns the loan instead of a reference, so a
//! [`Generation`](crate::Generation) can keep it between polls; dropping the future returns the state.

use std::sync::{Arc, Mutex, PoisonError};

use pteron::State;

/// Holds a state, or nothing while it is lent.
#[derive(Clone, Debug)]
pub(crate) struct StateSlot(Arc<Mutex<Option<State>>>);

impl StateSlot {
    #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
    pub(crate) fn new(state: State) -> Self {
        Self(Arc::new(Mutex::new(Some(state))))
    }

    /// Lends the state; `None` while another loan lives. A session has at most one, because each borrows the session mutably.
    pub(crate) fn lend(&self) -> Option<StateLoan> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(StateLoan { slot: self.clone(), state: Some(state) })
    }
}

/// A lent state, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct StateLoan {
    slot: StateSlot,
    state: Option<State>,
}

impl StateLoan {
    #[expect(clippy::expect_used, reason = "only `drop` takes the state out")]
    pub(crate) fn state(&mut self) -> &mut State {
        self.state.as_mut().expect("a loan holds its state until it is dropped")
    }
}

impl Drop for StateLoan {
    fn drop(&mut self) {
        *self.slot.0.lock().unwrap_or_else(PoisonError::into_inner) = self.state.take();
    }
}
