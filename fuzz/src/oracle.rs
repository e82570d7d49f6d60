//! One execution, measured.

use std::cell::RefCell;
use std::fmt::{Display, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::target::{Outcome, Target};

/// The longest an error's text may be, in characters.
const MAX_TEXT: usize = 500;
/// Longer executions are measured again: the first may have filled caches for the others.
const LONG: Duration = Duration::from_millis(100);
/// How often an execution is measured again.
const AGAIN: u32 = 3;

/// An execution without a finding.
#[derive(Clone, Copy, Debug)]
pub struct Execution {
    /// The outcome that the target reported.
    pub outcome: Outcome,
    /// The most bytes on the heap at one time.
    pub heap: u64,
    /// Time this thread computed; wall time where the system does not tell.
    pub time: Duration,
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The failed property, with the location in the source.
    pub message: String,
}

impl Finding {
    /// A short name, the same for findings that are likely the same: the message without its numbers, hashed.
    #[must_use]
    pub fn signature(&self) -> String {
        let mut text: String = self.message.chars().take(160).collect();
        // Names and numbers in the message depend on the input; the place in the source does not.
        if let Some((place, rest)) = text.clone().split_once(": ") {
            let rest: String = rest.chars().filter(char::is_ascii_alphabetic).take(20).collect();
            text = format!("{place}: {rest}");
        }
        let hash = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{hash:016x}")
    }
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the text of panics instead of printing it: [`execute`] reports it.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
        let place = info.location().map_or(String::new(), |place| format!("{}:{}", place.file(), place.line()));
        LAST_PANIC.with_borrow_mut(|last| {
            last.clear();
            let _ = write!(last, "{place}: {text:.600}");
        });
    }));
}

/// Runs a target once over an input and checks the properties that hold for all targets.
///
/// # Errors
/// A panic, more heap or more time than the target may take.
pub fn execute(target: &Target, bytes: &[u8]) -> Result<Execution, Finding> {
    let mut execution = measured(target, bytes)?;
    for _ in 0..AGAIN {
        if execution.time < LONG.max(target.time / 10) {
            break;
        }
        execution.time = measured(target, bytes)?.time.min(execution.time);
    }
    let Execution { heap, time, .. } = execution;
    if time > target.time {
        return Err(Finding { message: format!("slow: {} ms for {} bytes", time.as_millis(), bytes.len()) });
    }
    if heap > target.heap {
        return Err(Finding { message: format!("heap: {heap} bytes for an input of {}", bytes.len()) });
    }
    Ok(execution)
}

fn measured(target: &Target, bytes: &[u8]) -> Result<Execution, Finding> {
    let mut result = None;
    let start = thread_time();
    let info = allocation_counter::measure(|| result = Some(catch_unwind(|| (target.run)(bytes))));
    let time = thread_time().saturating_sub(start);
    match result {
        Some(Ok(outcome)) => Ok(Execution { outcome, heap: info.bytes_max, time }),
        _ => Err(last_panic()),
    }
}

/// How long this thread has computed: other processes on the same cores do not count.
#[cfg(unix)]
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The time since the first call.
#[cfg(not(unix))]
fn thread_time() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// The last panic of this thread, after [`catch_panics`].
#[must_use]
pub fn last_panic() -> Finding {
    Finding { message: LAST_PANIC.with_borrow(String::clone) }
}

/// Allocations of a closure.
///
/// # Panics
/// As the work does.
pub fn allocations(work: impl FnOnce()) -> allocation_counter::AllocationInfo {
    let mut result = Ok(());
    // A panic must not leave the counter's stack as it is.
    let info = allocation_counter::measure(|| result = catch_unwind(AssertUnwindSafe(work)));
    match result {
        Ok(()) => info,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs `body` and checks that it holds at most `factor` × `len` + `slack` bytes on the heap at one time.
///
/// # Panics
/// If it holds more.
pub fn bounded_heap<T>(len: usize, factor: u64, slack: u64, body: impl FnOnce() -> T) -> T {
    let mut result = None;
    // A panic must not leave the counter's stack as it is.
    let info = allocation_counter::measure(|| result = Some(catch_unwind(AssertUnwindSafe(body))));
    let (heap, limit) = (info.bytes_max, factor * len as u64 + slack);
    match result {
        Some(Ok(value)) => {
            assert!(heap <= limit, "{heap} bytes on the heap for an input of {len}, more than {limit}");
            value
        }
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("measure always runs what it is given"),
    }
}

/// An error is one printable line below 500 characters.
///
/// # Panics
/// If it is not.
pub fn error_text(error: &dyn Display) {
    error_text_below(MAX_TEXT, error);
}

/// An error is one printable line below `most` characters.
///
/// # Panics
/// If it is not.
pub fn error_text_below(most: usize, error: &dyn Display) {
    let text = error.to_string();
    assert!(!text.is_empty(), "an error without a text");
    let len = text.chars().count();
    assert!(len < most, "the text of an error has {len} characters: {text:.300}");
    let control = text.chars().find(|c| c.is_control());
    assert!(control.is_none(), "the text of an error holds {control:?}: {text:?}");
}

/// The outcome of a result whose error, if it is one, has a proper text.
///
/// # Panics
/// If it has not.
pub fn outcome<T, E: Display>(result: &Result<T, E>) -> Outcome {
    match result {
        Ok(_) => "accepted",
        Err(error) => {
            error_text(error);
            "refused"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(run: fn(&[u8]) -> Outcome) -> Target {
        Target { run, heap: 1 << 20, time: Duration::from_millis(200), ..Target::DEFAULT }
    }

    fn finding(run: fn(&[u8]) -> Outcome, input: &[u8]) -> String {
        catch_panics();
        execute(&target(run), input).expect_err("a finding").message
    }

    #[test]
    fn a_panic_is_a_find_with_its_place() {
        let message = finding(|bytes| panic!("{} bytes", bytes.len()), b"abc");
        assert!(message.contains("oracle.rs:") && message.ends_with(": 3 bytes"), "{message}");
    }

    #[test]
    fn too_much_heap_is_a_find() {
        let message =
            finding(|bytes| if std::hint::black_box(vec![bytes.len(); 1 << 20]).len() > 7 { "a" } else { "b" }, b"");
        assert!(message.starts_with("heap: "), "{message}");
        let message = finding(
            |bytes| {
                bounded_heap(bytes.len(), 1, 64, || {
                    if std::hint::black_box(String::with_capacity(100)).is_empty() { "a" } else { "b" }
                })
            },
            b"",
        );
        assert!(message.contains("100 bytes on the heap for an input of 0"), "{message}");
    }

    #[test]
    fn too_much_time_is_a_find() {
        let message = finding(
            |_| {
                let start = thread_time();
                while thread_time().saturating_sub(start) < Duration::from_millis(250) {}
                ""
            },
            b"",
        );
        assert!(message.starts_with("slow: "), "{message}");
    }

    #[test]
    fn a_text_that_cannot_be_shown_is_a_find() {
        for text in ["", "two\nlines", &"long ".repeat(100)] {
            assert!(catch_unwind(|| error_text(&text)).is_err(), "{text:?}");
        }
        error_text(&"the file is cut off");
    }

    #[test]
    fn finds_that_differ_in_numbers_have_one_signature() {
        let signature = |message: &str| Finding { message: message.to_owned() }.signature();
        assert_eq!(signature("a.rs:1: index 3 of 2"), signature("a.rs:1: index 77 of 9"));
        assert_ne!(signature("a.rs:1: index 3 of 2"), signature("a.rs:2: index 3 of 2"));
    }
}
