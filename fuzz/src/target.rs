//! The table of targets.

use std::path::Path;
use std::time::Duration;

use fastrand::Rng;

use crate::seeds::Input;
use crate::targets;

/// Label of an execution for the statistics: `accepted`, or why the input was rejected.
pub type Outcome = &'static str;

/// A fuzz target: a function over any bytes, and all that is needed to run it.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, also of its corpus folder.
    pub name: &'static str,
    /// The code it attacks.
    pub attacks: &'static str,
    /// One execution. Panics if a property does not hold.
    pub run: fn(&[u8]) -> Outcome,
    /// The inputs to start from, given the repository's root.
    pub seeds: fn(&Path) -> Vec<Input>,
    /// A new input from one input, with blocks of another; never longer than a few times the two.
    pub mutate: fn(&mut Rng, &[u8], &[u8]) -> Vec<u8>,
    /// The longest input.
    pub max_len: usize,
    /// The most bytes that an execution may hold on the heap at one time, in all. Tighter limits are up to `run`.
    pub heap: u64,
    /// The longest an execution may take on an idle machine.
    pub time: Duration,
    /// Words that occur in inputs, for libFuzzer.
    pub dictionary: &'static [&'static str],
    /// Whether it needs a GPU or a software adapter; built with the feature `gpu` only.
    pub gpu: bool,
    /// Executions of the smoke run, beyond the seeds.
    pub smoke: u64,
    /// Executions that the farm makes before it looks at anything else.
    pub minimum: u64,
}

impl Target {
    /// Common values: no seeds, mutation of bytes, inputs up to 4 KiB, 64 MiB of heap, a second.
    pub const DEFAULT: Self = Self {
        name: "",
        attacks: "",
        run: |_| "",
        seeds: |_| Vec::new(),
        mutate: crate::mutate::bytes_changed,
        max_len: 4096,
        heap: 64 << 20,
        time: Duration::from_secs(1),
        dictionary: &[],
        gpu: false,
        smoke: 20_000,
        minimum: 1_000_000,
    };
}

/// Every target of this build.
pub static TARGETS: &[Target] = &[
    targets::files::PROGRAM,
    targets::files::DELEGATE,
    targets::files::XNNPACK,
    targets::files::XNNPACK_TYPED,
    targets::files::EXTERNAL,
    targets::files::ROUND_TRIP,
    targets::gguf::TARGET,
    targets::checkpoint::TARGET,
    targets::checkpoint::SAFETENSORS,
    targets::caches::NPZ,
    targets::caches::TUNING,
    targets::caches::PIPELINE_CACHE,
    targets::tokenizer::JSON,
    targets::tokenizer::TYPED,
    targets::tokenizer::SENTENCEPIECE,
    targets::tokenizer::TIKTOKEN,
    targets::template::SOURCE,
    targets::template::TYPED,
    targets::metadata::TARGET,
    targets::graph::TARGET,
    targets::method::TARGET,
    targets::token_loop::TARGET,
    targets::sampling::TARGET,
    targets::stop::STOP,
    targets::stop::STREAM,
    #[cfg(feature = "gpu")]
    targets::gpu::TARGET,
];

/// The target with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_distinct_and_name_their_subject() {
        let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
        assert_eq!(names.len(), TARGETS.len());
        assert!(TARGETS.iter().all(|target| !target.attacks.is_empty() && target.max_len > 0));
    }
}
