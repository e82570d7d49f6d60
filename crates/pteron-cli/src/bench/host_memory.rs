//! Host memory of this process while something runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// How often memory is sampled.
const INTERVAL: Duration = Duration::from_millis(1);

/// Bytes of memory that belong to this process alone: without mapped files. `None` where the system does not report them.
fn private_bytes() -> Option<u64> {
    private_bytes_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Reads `/proc/self/status` of Linux: anonymous and shared memory, as `RssAnon:  1234 kB`.
fn private_bytes_of(status: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    Some((field("RssAnon")? + field("RssShmem")?) * 1024)
}

/// Samples memory on a thread of its own until it is asked for the peak.
pub(super) struct PeakMemory {
    start: u64,
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl PeakMemory {
    /// Starts sampling; `None` where the system reports nothing.
    pub(super) fn start() -> Option<Self> {
        let start = private_bytes()?;
        let (peak, stop) = (Arc::new(AtomicU64::new(start)), Arc::new(AtomicBool::new(false)));
        let (own_peak, own_stop) = (Arc::clone(&peak), Arc::clone(&stop));
        let thread = spawn(move || {
            while !own_stop.load(Ordering::Relaxed) {
                own_peak.fetch_max(private_bytes().unwrap_or(0), Ordering::Relaxed);
                sleep(INTERVAL);
            }
        });
        Some(Self { start, peak, stop, thread })
    }

    /// The most bytes above those at the start.
    pub(super) fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        // A sampling thread cannot fail; without its last sample the peak is what it saw before.
        let _ = self.thread.join();
        self.peak.load(Ordering::Relaxed).max(private_bytes().unwrap_or(0)).saturating_sub(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_do_not_count() {
        let status = "VmRSS:\t  900 kB\nRssAnon:\t     100 kB\nRssFile:\t  790 kB\nRssShmem:\t       10 kB\n";
        assert_eq!(private_bytes_of(status), Some(110 * 1024));
        assert_eq!(private_bytes_of("VmRSS:\t  900 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_is_freed_before_the_end_is_in_the_peak() {
        const BYTES: usize = 64 << 20;
        let memory = PeakMemory::start().unwrap();
        let block = vec![1u8; BYTES];
        // Until a sample has seen it.
        while memory.peak.load(Ordering::Relaxed) < memory.start + BYTES as u64 / 2 {
            std::thread::yield_now();
        }
        drop(std::hint::black_box(block));
        assert!(memory.finish() >= BYTES as u64 / 2);
    }
}
