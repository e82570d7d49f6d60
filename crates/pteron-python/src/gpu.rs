//! The GPU that everything in a process shares, and the guard against its use after a fork.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use pteron::{Gpu, GpuOptions, block_on};
use pyo3::prelude::*;

use crate::errors::{self, ForkError};

/// The process that opened the GPU; 0 before that.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

/// The devices that have been opened, by the adapter that was asked for.
static GPUS: Mutex<Vec<(Option<String>, Gpu)>> = Mutex::new(Vec::new());

/// Whether this process inherited a GPU from the one that forked it. Drivers keep threads and locks that a fork does not copy.
fn is_forked() -> bool {
    let owner = OPENED_BY.load(Ordering::Relaxed);
    owner != 0 && owner != std::process::id()
}

/// Rejects any use of the GPU in a process that was forked after it was opened.
pub(crate) fn check_fork() -> PyResult<()> {
    if !is_forked() {
        return Ok(());
    }
    Err(ForkError::new_err(
        "this process was forked after Pteron had opened the GPU, which no driver supports: start processes with \
         multiprocessing.get_context(\"spawn\"), or use Pteron only after the fork",
    ))
}

/// Returns the GPU whose name, driver or backend contains `adapter`, or the best one, opened on first use.
pub(crate) fn open(py: Python<'_>, adapter: Option<String>) -> PyResult<Gpu> {
    check_fork()?;
    let adapter = adapter.or_else(|| std::env::var("PTERON_ADAPTER").ok()).filter(|name| !name.is_empty());
    py.detach(|| {
        // The lock is not taken with the GIL held: a thread that opens the GPU may wait for the GIL.
        let mut gpus = GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gpu)) = gpus.iter().find(|(name, _)| *name == adapter) {
            return Ok(gpu.clone());
        }
        OPENED_BY.store(std::process::id(), Ordering::Relaxed);
        let gpu = block_on(Gpu::open(&GpuOptions::default().with_adapter(adapter.clone())))?;
        gpus.push((adapter, gpu.clone()));
        Ok(gpu)
    })
    .map_err(|error: pteron_gpu::Error| errors::program(error.into()))
}

/// Forgets the devices, so that the next use opens new ones: after one was lost.
pub(crate) fn forget(py: Python<'_>) {
    py.detach(|| GPUS.lock().unwrap_or_else(PoisonError::into_inner).clear());
}

/// A value that lives on a GPU. A forked process does not drop it: that would wait for threads of the driver that it does not have.
#[derive(Debug)]
pub(crate) struct OnGpu<T>(ManuallyDrop<T>);

impl<T> OnGpu<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> OnGpu<T> {
    /// Takes the value out.
    pub(crate) fn into_inner(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so the value is taken once and dropped by the caller alone.
        #[allow(unsafe_code, reason = "a type with a destructor cannot be taken apart")]
        unsafe {
            ManuallyDrop::take(&mut this.0)
        }
    }
}

impl<T> Deref for OnGpu<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for OnGpu<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for OnGpu<T> {
    fn drop(&mut self) {
        if !is_forked() {
            // SAFETY: the value is dropped once, here, and not used afterwards.
            #[allow(unsafe_code, reason = "ManuallyDrop has no safe way to drop its value")]
            unsafe {
                ManuallyDrop::drop(&mut self.0);
            }
        }
    }
}
