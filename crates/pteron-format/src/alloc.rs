//! Fallible allocation, for memory whose size a file determines.
//!
//! The vectors of the standard library abort the process if memory runs out. A file that claims a terabyte must not do that, so
//! such memory is reserved here, and running out of it is an error.
//!
//! With the feature `fault-injection` a test makes the n-th reservation of a thread fail (`alloc::faults`).

/// Memory that could not be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory for {bytes} bytes more")]
pub struct OutOfMemory {
    /// The requested bytes.
    pub bytes: u64,
}

/// Creates an empty vector with capacity for `count` items.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn vec<T>(count: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut items = Vec::new();
    reserve(&mut items, count)?;
    Ok(items)
}

/// Reserves capacity for exactly `more` items after those in a vector.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    let lacking = OutOfMemory { bytes: (more as u64).saturating_mul(size_of::<T>() as u64) };
    admit(lacking)?;
    items.try_reserve_exact(more).map_err(|_| lacking)
}

/// Allocates zeros. Pages that are never written take no memory where the system allocates lazily.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn zeroed(len: usize) -> Result<Vec<u8>, OutOfMemory> {
    let lacking = OutOfMemory { bytes: len as u64 };
    admit(lacking)?;
    pteron_schema::zeroed(len).ok_or(lacking)
}

/// Copies a slice.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn copied<T: Copy>(items: &[T]) -> Result<Vec<T>, OutOfMemory> {
    let mut copy = vec(items.len())?;
    copy.extend_from_slice(items);
    Ok(copy)
}

/// Copies a string.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn text(text: &str) -> Result<String, OutOfMemory> {
    let mut copy = String::new();
    let lacking = OutOfMemory { bytes: text.len() as u64 };
    admit(lacking)?;
    copy.try_reserve_exact(text.len()).map_err(|_| lacking)?;
    copy.push_str(text);
    Ok(copy)
}

/// Collects an iterator of known length.
///
/// # Errors
/// Out of memory.
#[track_caller]
pub fn collect<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let mut list = vec(items.len())?;
    list.extend(items);
    Ok(list)
}

/// Whether a reservation may be tried. Empty ones cannot fail and do not count.
#[cfg(feature = "fault-injection")]
#[track_caller]
fn admit(lacking: OutOfMemory) -> Result<(), OutOfMemory> {
    if lacking.bytes > 0 && faults::fails(std::panic::Location::caller()) { Err(lacking) } else { Ok(()) }
}

#[cfg(not(feature = "fault-injection"))]
#[allow(clippy::unnecessary_wraps, reason = "with fault injection this can fail")]
fn admit(_lacking: OutOfMemory) -> Result<(), OutOfMemory> {
    Ok(())
}

/// Makes reservations of the calling thread fail, for tests. Only with the feature `fault-injection`.
#[cfg(feature = "fault-injection")]
pub mod faults {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::panic::Location;

    /// The reservations made while [`failing`] ran.
    #[derive(Clone, Debug, Default)]
    pub struct Reached {
        /// Their number.
        pub reservations: u64,
        /// The places in the code that made them.
        pub sites: BTreeSet<&'static Location<'static>>,
    }

    struct Injection {
        nth: u64,
        reached: Reached,
    }

    thread_local! {
        static INJECTION: RefCell<Option<Injection>> = const { RefCell::new(None) };
    }

    /// Ends an injection, even if the code under test panics.
    struct Ends(Option<Injection>);

    impl Drop for Ends {
        fn drop(&mut self) {
            INJECTION.with_borrow_mut(|now| *now = self.0.take());
        }
    }

    /// Runs `run` and fails its `nth` reservation on this thread, counted from 0; `u64::MAX` lets all succeed. Returns the result of
    /// `run` and the reservations it made.
    pub fn failing<T>(nth: u64, run: impl FnOnce() -> T) -> (T, Reached) {
        let before = INJECTION.replace(Some(Injection { nth, reached: Reached::default() }));
        let ends = Ends(before);
        let result = run();
        let reached = INJECTION.take().map(|injection| injection.reached).unwrap_or_default();
        drop(ends);
        (result, reached)
    }

    pub(super) fn fails(site: &'static Location<'static>) -> bool {
        INJECTION.with_borrow_mut(|injection| {
            let Some(Injection { nth, reached }) = injection else { return false };
            reached.sites.insert(site);
            reached.reservations += 1;
            reached.reservations - 1 == *nth
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_nobody_has_are_errors() {
        let bytes = u64::MAX;
        assert_eq!(vec::<u64>(usize::MAX).unwrap_err(), OutOfMemory { bytes });
        assert_eq!(zeroed(usize::MAX).unwrap_err(), OutOfMemory { bytes: usize::MAX as u64 });
        let mut items = vec![1u8];
        assert!(reserve(&mut items, usize::MAX).is_err());
        assert_eq!(items, [1]);
    }

    #[test]
    fn reservations_have_the_requested_length() {
        assert_eq!(copied(&[1u16, 2]).unwrap(), [1, 2]);
        assert_eq!(text("wing").unwrap(), "wing");
        assert_eq!(collect([1, 2].iter().map(|n| n * 2)).unwrap(), [2, 4]);
        assert_eq!((zeroed(3).unwrap(), zeroed(0).unwrap()), (vec![0; 3], vec![]));
        assert!(vec::<u32>(7).unwrap().capacity() >= 7);
    }

    #[test]
    fn one_reservation_fails_and_those_around_it_do_not() {
        let run = || [copied(&[1u8]).is_ok(), copied::<u8>(&[]).is_ok(), text("a").is_ok(), zeroed(1).is_ok()];
        for (nth, expected) in
            [(0, [false, true, true, true]), (1, [true, true, false, true]), (2, [true, true, true, false]), (3, [true; 4])]
        {
            let (result, reached) = faults::failing(nth, run);
            assert_eq!((result, reached.reservations, reached.sites.len()), (expected, 3, 3), "{nth}");
        }
        assert_eq!(run(), [true; 4], "nothing fails afterwards");
    }
}
