//! Device errors outside any call, and futures that wait for device loss.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::{Error, Result};

/// The first error on a device outside an error scope.
#[derive(Clone, Debug)]
enum DeviceError {
    Lost(String),
    OutOfMemory(String),
    Error(String),
}

/// Records the errors of a device. Cheap to clone; all clones refer to one device.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceErrors(Arc<Mutex<ErrorLog>>);

#[derive(Debug, Default)]
struct ErrorLog {
    error: Option<DeviceError>,
    /// Wakers of futures that wait for the loss of the device, by id.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// A registered waiter, removed when it is dropped.
struct LossWaiter<'a> {
    errors: &'a DeviceErrors,
    number: u64,
}

impl Drop for LossWaiter<'_> {
    fn drop(&mut self) {
        self.errors.log().waiting.remove(&self.number);
    }
}

impl DeviceErrors {
    /// Installs the error callbacks of a device.
    pub(super) fn of(device: &wgpu::Device) -> Self {
        let errors = Self::default();
        let lost = errors.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.record_lost(match (reason, message.trim()) {
                (wgpu::DeviceLostReason::Destroyed, _) => "it was destroyed".to_owned(),
                (_, "") => "the driver does not say why".to_owned(),
                (_, message) => message.to_owned(),
            });
        });
        let uncaptured = errors.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            uncaptured.record(match error {
                wgpu::Error::OutOfMemory { .. } => DeviceError::OutOfMemory(error.to_string()),
                _ => DeviceError::Error(error.to_string()),
            });
        }));
        errors
    }

    pub(super) fn record_lost(&self, reason: String) {
        self.record(DeviceError::Lost(reason));
    }

    /// Keeps the first error, since later ones follow from it; a loss takes precedence, and stays.
    fn record(&self, what: DeviceError) {
        let mut log = self.log();
        let lost = matches!(what, DeviceError::Lost(_)) && !matches!(log.error, Some(DeviceError::Lost(_)));
        if lost || log.error.is_none() {
            log.error = Some(what);
        }
        let waiting = if lost { std::mem::take(&mut log.waiting) } else { BTreeMap::new() };
        // A woken task may read the log at once.
        drop(log);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Returns the recorded error, if any. An error is reported to one call; a lost device stays lost.
    pub(super) fn check(&self) -> Result<()> {
        let mut log = self.log();
        match &log.error {
            Some(DeviceError::Lost(reason)) => return Err(Error::Lost(reason.clone())),
            None => return Ok(()),
            Some(_) => {}
        }
        match log.error.take() {
            Some(DeviceError::OutOfMemory(reason)) => Err(Error::OutOfMemory(reason)),
            Some(DeviceError::Error(reason) | DeviceError::Lost(reason)) => Err(Error::Device(reason)),
            None => Ok(()),
        }
    }

    /// Waits until the device is lost, and returns the reason.
    pub(super) async fn lost(&self) -> String {
        let number = {
            let mut log = self.log();
            log.next += 1;
            log.next
        };
        let place = LossWaiter { errors: self, number };
        poll_fn(|cx| {
            let mut log = self.log();
            if let Some(DeviceError::Lost(reason)) = &log.error {
                return Poll::Ready(reason.clone());
            }
            log.waiting.insert(place.number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn log(&self) -> MutexGuard<'_, ErrorLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_once_and_a_loss_for_ever() {
        let errors = DeviceErrors::default();
        assert!(errors.check().is_ok());
        errors.record(DeviceError::Error("refused".to_owned()));
        assert!(matches!(errors.check(), Err(Error::Device(reason)) if reason == "refused"));
        errors.record(DeviceError::OutOfMemory("full".to_owned()));
        errors.record(DeviceError::Error("and so this".to_owned()));
        assert!(matches!(errors.check(), Err(Error::OutOfMemory(_))));
        assert!(errors.check().is_ok());
        errors.record_lost("unplugged".to_owned());
        errors.record(DeviceError::Error("and so this".to_owned()));
        for _ in 0..2 {
            assert!(matches!(errors.check(), Err(Error::Lost(reason)) if reason == "unplugged"));
        }
    }

    #[test]
    fn all_who_wait_hear_of_a_loss() {
        let errors = DeviceErrors::default();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let errors = errors.clone();
                std::thread::spawn(move || pollster::block_on(errors.lost()))
            })
            .collect();
        while errors.log().waiting.len() < 2 {
            std::thread::yield_now();
        }
        errors.record_lost("unplugged".to_owned());
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), "unplugged");
        }
        assert_eq!(pollster::block_on(errors.lost()), "unplugged", "also of those who ask later");
    }

    #[test]
    fn whoever_gives_up_is_forgotten() {
        let errors = DeviceErrors::default();
        let mut cx = std::task::Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut waiting = std::pin::pin!(errors.lost());
            assert!(waiting.as_mut().poll(&mut cx).is_pending() && waiting.as_mut().poll(&mut cx).is_pending());
            assert_eq!(errors.log().waiting.len(), 1);
        }
    }
}
