//! A budget of GPU memory shared by several graphs, reserved before it is allocated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Gpu;
use crate::error::{Error, Result};

/// GPU memory that several graphs, such as those of a method, and their states may take in total. Cheap to clone: clones
/// share the count, and dropped reservations are returned.
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
    /// Creates a budget of that many bytes, or of the device's memory.
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        Self { inner: Arc::new(Total { limit, used: AtomicU64::new(0) }) }
    }

    /// The limit in bytes, if there is one.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        self.inner.limit
    }

    /// Bytes reserved.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.inner.used.load(Ordering::Relaxed)
    }

    /// Checks that everything planned so far fits this budget, and fits the device along with everything else loaded on it.
    ///
    /// # Errors
    /// [`Error::TooLarge`], with the bytes needed and the bytes allowed.
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

    /// Reserves memory to be allocated, whether it fits or not: [`check`](Self::check) verifies the total.
    pub(super) fn plan(&self, gpu: &Gpu, bytes: u64) -> Reservation {
        let totals = [Arc::clone(&self.inner), Arc::clone(&gpu.inner.memory.inner)];
        totals.iter().for_each(|total| total.add(bytes));
        Reservation { totals, bytes }
    }

    /// Reserves memory to be allocated now, if it fits.
    pub(super) fn reservation(&self, what: &str, gpu: &Gpu, bytes: u64) -> Result<Reservation> {
        let reservation = self.plan(gpu, bytes);
        self.check_for(what, gpu)?;
        Ok(reservation)
    }
}

impl Total {
    /// Saturates, so that a total that is too large stays too large.
    fn add(&self, bytes: u64) {
        let add = |used: u64| Some(used.saturating_add(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    fn give_back(&self, bytes: u64) {
        let subtract = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }
}

/// Memory that is reserved until this is dropped.
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

/// The memory of a graph in a budget: its own, and that of its first states until they are created.
#[derive(Debug)]
pub(super) struct GraphReservation {
    budget: SharedBudget,
    own: Vec<Reservation>,
    first_states: Mutex<Vec<Reservation>>,
}

impl GraphReservation {
    /// Reserves the memory that a graph is going to take.
    pub(super) fn plan(gpu: &Gpu, budget: &SharedBudget, own_bytes: u64, state_bytes: u64) -> Self {
        let first_states = Mutex::new(vec![budget.plan(gpu, state_bytes)]);
        Self { budget: budget.clone(), own: vec![budget.plan(gpu, own_bytes)], first_states }
    }

    pub(super) fn budget(&self) -> &SharedBudget {
        &self.budget
    }

    /// Reserves one more of the states that are created first.
    pub(super) fn expect_state(&self, gpu: &Gpu, bytes: u64) {
        let reservation = self.budget.plan(gpu, bytes);
        self.first_states.lock().unwrap_or_else(PoisonError::into_inner).push(reservation);
    }

    /// Keeps later reservations as long as the graph lives.
    pub(super) fn keep(&mut self, reservations: Vec<Reservation>) {
        self.own.extend(reservations);
    }

    /// Reserves the memory of one more state.
    pub(super) fn state(&self, gpu: &Gpu, bytes: u64) -> Result<Reservation> {
        let planned = self.first_states.lock().unwrap_or_else(PoisonError::into_inner).pop();
        planned.map_or_else(|| self.budget.reservation("one more state", gpu, bytes), Ok)
    }
}
