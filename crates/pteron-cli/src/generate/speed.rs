//! The line after a text: tokens, speed and memory.

use std::time::Duration;

use pteron_llm::Session;
use serde::Serialize;

use crate::units;

/// Tokens and times of a text.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Speed {
    /// Tokens of the prompt that were computed, and those that the KV cache held.
    pub(super) prompt_tokens: usize,
    pub(super) cached_tokens: usize,
    pub(super) generated_tokens: usize,
    /// Time to the first token, and from there to the end.
    pub(super) prompt_seconds: f64,
    pub(super) generation_seconds: f64,
    /// GPU time of the same, where the adapter has timestamps.
    pub(super) gpu_prompt_seconds: Option<f64>,
    pub(super) gpu_generation_seconds: Option<f64>,
    pub(super) gpu_memory_bytes: u64,
}

impl Speed {
    pub(super) fn memory(session: &Session) -> u64 {
        let method = session.model().method();
        method.memory_bytes() + method.state_bytes()
    }

    /// `prompt 5 tokens, 210 tok/s · 64 tokens, 96.3 tok/s (GPU 110 tok/s) · 14.2 MiB`
    pub(super) fn line(&self) -> String {
        let rate = |tokens: usize, seconds: f64| {
            #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
            let rate = tokens as f64 / seconds.max(1e-9);
            if rate < 100.0 { format!("{rate:.1} tok/s") } else { format!("{rate:.0} tok/s") }
        };
        // The first token is part of prefill; decode is timed from there.
        let decoded = self.generated_tokens.saturating_sub(1);
        let gpu = |tokens: usize, seconds: Option<f64>| {
            seconds
                .filter(|seconds| *seconds > 0.0)
                .map_or_else(String::new, |seconds| format!(" (GPU {})", rate(tokens, seconds)))
        };
        let cached =
            if self.cached_tokens > 0 { format!(" and {} from the cache", self.cached_tokens) } else { String::new() };
        format!(
            "prompt {}{cached}, {}{} · {}, {}{} · {} of GPU memory",
            units::plural(self.prompt_tokens, "token"),
            rate(self.prompt_tokens, self.prompt_seconds),
            gpu(self.prompt_tokens, self.gpu_prompt_seconds),
            units::plural(self.generated_tokens, "token"),
            rate(decoded, self.generation_seconds),
            gpu(decoded, self.gpu_generation_seconds),
            units::bytes(self.gpu_memory_bytes),
        )
    }

    pub(super) fn add(&mut self, first: bool, time: Duration) {
        *(if first { &mut self.prompt_seconds } else { &mut self.generation_seconds }) += time.as_secs_f64();
    }
}
