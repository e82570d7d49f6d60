//! Measures time and memory of converting a model of a billion weights.

use std::time::Instant;

use super::sample::{self, Folder};
use super::write;
use crate::synthetic::{Synthetic, parse};

/// The most memory this process has had, in bytes, where the system says.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[test]
#[ignore = "writes 0.8 GB: `cargo test --release -p pteron-convert large -- --ignored --nocapture`"]
fn a_billion_random_weights() {
    let config = parse("llama-3.2-1b").unwrap();
    let folder = Folder::new();
    let start = Instant::now();
    let source = Synthetic::new(config.clone(), 1);
    let report = write(&source, sample::template(&config, 32), &folder.join("model.pte")).unwrap();
    let (seconds, memory) = (start.elapsed().as_secs_f64(), peak_memory());
    println!("{} bytes in {seconds:.1} s, at most {memory:?} bytes of memory", report.bytes);
    assert!(seconds < 30.0);
    assert!(memory.is_none_or(|memory| memory < 1 << 31));
}
