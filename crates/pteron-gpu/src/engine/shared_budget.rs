//! GPU memory of everything that is loaded together, counted before it is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Gpu;
use crate::error::{Error, Result};

/// GPU memory that several graphs may take together with their states, such as those of a method. Cheap to clone: clones share
/// what is taken, and what is dropped is given back.
#[derive(Clone, Debug, Default)]
pub struct SharedBudget {
    inner: Arc<Total>,
}

#[derive(Debug, Default)]
struct Total {
    limit: Option<u64>,
    used: AtomicU64,
}

impl SharedBudget {
    /// A budget of so many bytes, or of what the device has.
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        Self { inner: Arc::new(Total { limit, used: AtomicU64::new(0) }) }
    }

    /// Bytes that may be taken in all, if that is limited.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.inner.limit
    }

    /// Bytes that are taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Whether all that was planned so far fits this budget, and the device together with what else is loaded on it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], with what is needed and what there is.
    pub fn check(&self, gpu: &Gpu) -> Result<()> {
        self.check_for("all that is loaded with one state", gpu)
    }

    fn check_for(&self, what: &str, gpu: &Gpu) -> Result<()> {
        self.within(what, "the memory budget")?;
        gpu.inner.memory.within(what, "the device's memory")
    }

    fn within(&self, what: &str, by: &'static str) -> Result<()> {
        match self.inner.limit {
            Some(limit) if self.used() > limit => {
                Err(Error::TooLarge { what: what.to_owned(), need: self.used(), limit, by })
            }
            _ => Ok(()),
        }
    }

    /// Counts memory that is to be made, whether there is so much or not: [`check`](Self::check) tells when all is counted.
    pub(super) fn plan(&self, gpu: &Gpu, bytes: u64) -> Reservation {
        let totals = [Arc::clone(&self.inner), Arc::clone(&gpu.inner.memory.inner)];
        totals.iter().for_each(|total| total.add(bytes));
        Reservation { totals, bytes }
    }

    /// Counts memory that is to be made now, if there is so much.
    pub(super) fn reservation(&self, what: &str, gpu: &Gpu, bytes: u64) -> Result<Reservation> {
        let reservation = self.plan(gpu, bytes);
        self.check_for(what, gpu)?;
        Ok(reservation)
    }
}

impl Total {
    /// Nothing counts past the end: what is too much stays too much.
    fn add(&self, bytes: u64) {
        let add = |used: u64| Some(used.saturating_add(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn give_back(&self, bytes: u64) {
        let subtract = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }
}

/// Memory that counts as taken as long as this lives.
#[derive(Debug)]
pub(super) struct Reservation {
    totals: [Arc<Total>; 2],
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.totals.iter().for_each(|total| total.give_back(self.bytes));
    }
}

/// The memory of a graph in a budget: its own, and that of its first states as long as they are not made.
#[derive(Debug)]
pub(super) struct GraphReservation {
    budget: SharedBudget,
    own: Vec<Reservation>,
    first_states: Mutex<Vec<Reservation>>,
}

impl GraphReservation {
    /// Counts what a graph is going to take.
    pub(super) fn plan(gpu: &Gpu, budget: &SharedBudget, own_bytes: u64, state_bytes: u64) -> Self {
        let first_states = Mutex::new(vec![budget.plan(gpu, state_bytes)]);
        Self { budget: budget.clone(), own: vec![budget.plan(gpu, own_bytes)], first_states }
    }

    pub(super) fn budget(&self) -> &SharedBudget {
        &self.budget
    }

    /// Counts one more of the states that are made first.
    pub(super) fn expect_state(&self, gpu: &Gpu, bytes: u64) {
        let reservation = self.budget.plan(gpu, bytes);
        self.first_states.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    }

    /// Keeps what was taken later, as long as the graph lives.
    pub(super) fn keep(&mut self, reservations: Vec<Reservation>) {
        self.own.extend(reservations);
    }

    /// Memory of one more state.
    pub(super) fn state(&self, gpu: &Gpu, bytes: u64) -> Result<Reservation> {
        let planned = self.first_states.lock().unwrap_or_else(PoisonError::into_inner).pop();
        planned.map_or_else(|| self.budget.reservation("one more state", gpu, bytes), Ok)
    }
}
