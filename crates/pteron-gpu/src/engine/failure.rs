//! What goes wrong on a device outside any call, and who waits for it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::{Error, Result};

/// The first thing that went wrong on a device outside a scope that catches it.
#[derive(Clone, Debug)]
enum Failure {
    Lost(String),
    OutOfMemory(String),
    Error(String),
}

/// Keeps what went wrong on a device. Cheap to clone; all clones are of one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    failure: Option<Failure>,
    /// Those who wait for the device to be lost, each under a number of its own.
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// A place among those who wait, given up when whoever waits does so no longer.
struct Waiting<'a> {
    failures: &'a Failures,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.failures.kept().waiting.remove(&self.number);
    }
}

impl Failures {
    /// Listens to a device.
    pub(super) fn of(device: &wgpu::Device) -> Self {
        let failures = Self::default();
        let lost = failures.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.note_lost(match (reason, message.trim()) {
                (wgpu::DeviceLostReason::Destroyed, _) => "it was destroyed".to_owned(),
                (_, "") => "the driver does not say why".to_owned(),
                (_, message) => message.to_owned(),
            });
        });
        let errors = failures.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            errors.note(match error {
                wgpu::Error::OutOfMemory { .. } => Failure::OutOfMemory(error.to_string()),
                _ => Failure::Error(error.to_string()),
            });
        }));
        failures
    }

    pub(super) fn note_lost(&self, reason: String) {
        self.note(Failure::Lost(reason));
    }

    /// Keeps what went wrong first, since the rest follows from it; a loss comes before all, and stays.
    fn note(&self, what: Failure) {
        let mut kept = self.kept();
        let lost = matches!(what, Failure::Lost(_)) && !matches!(kept.failure, Some(Failure::Lost(_)));
        if lost || kept.failure.is_none() {
            kept.failure = Some(what);
        }
        let waiting = if lost { std::mem::take(&mut kept.waiting) } else { BTreeMap::new() };
        // Whoever is woken may look at once.
        drop(kept);
        waiting.into_values().for_each(Waker::wake);
    }

    /// What has gone wrong, if anything has. An error belongs to one call; a lost device stays lost.
    pub(super) fn check(&self) -> Result<()> {
        let mut kept = self.kept();
        match &kept.failure {
            Some(Failure::Lost(reason)) => return Err(Error::Lost(reason.clone())),
            None => return Ok(()),
            Some(_) => {}
        }
        match kept.failure.take() {
            Some(Failure::OutOfMemory(reason)) => Err(Error::OutOfMemory(reason)),
            Some(Failure::Error(reason) | Failure::Lost(reason)) => Err(Error::Device(reason)),
            None => Ok(()),
        }
    }

    /// Waits until the device is lost; why it was.
    pub(super) async fn lost(&self) -> String {
        let number = {
            let mut kept = self.kept();
            kept.next += 1;
            kept.next
        };
        let place = Waiting { failures: self, number };
        poll_fn(|cx| {
            let mut kept = self.kept();
            if let Some(Failure::Lost(reason)) = &kept.failure {
                return Poll::Ready(reason.clone());
            }
            kept.waiting.insert(place.number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_once_and_a_loss_for_ever() {
        let failures = Failures::default();
        assert!(failures.check().is_ok());
        failures.note(Failure::Error("refused".to_owned()));
        assert!(matches!(failures.check(), Err(Error::Device(reason)) if reason == "refused"));
        failures.note(Failure::OutOfMemory("full".to_owned()));
        failures.note(Failure::Error("and so this".to_owned()));
        assert!(matches!(failures.check(), Err(Error::OutOfMemory(_))));
        assert!(failures.check().is_ok());
        failures.note_lost("unplugged".to_owned());
        failures.note(Failure::Error("and so this".to_owned()));
        for _ in 0..2 {
            assert!(matches!(failures.check(), Err(Error::Lost(reason)) if reason == "unplugged"));
        }
    }

    #[test]
    fn all_who_wait_hear_of_a_loss() {
        let failures = Failures::default();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let failures = failures.clone();
                std::thread::spawn(move || pollster::block_on(failures.lost()))
            })
            .collect();
        while failures.kept().waiting.len() < 2 {
            std::thread::yield_now();
        }
        failures.note_lost("unplugged".to_owned());
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), "unplugged");
        }
        assert_eq!(pollster::block_on(failures.lost()), "unplugged", "also of those who ask later");
    }

    #[test]
    fn whoever_gives_up_is_forgotten() {
        let failures = Failures::default();
        let mut cx = std::task::Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut waiting = std::pin::pin!(failures.lost());
            assert!(waiting.as_mut().poll(&mut cx).is_pending() && waiting.as_mut().poll(&mut cx).is_pending());
            assert_eq!(failures.kept().waiting.len(), 1);
        }
    }
}
