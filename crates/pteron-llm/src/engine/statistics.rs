//! Figures of an engine.

use std::time::Duration;

/// Upper bounds of the buckets of a [`Histogram`], in seconds.
const BOUNDS: [f64; 16] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Durations counted in fixed buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Histogram {
    /// The upper bounds of the buckets in seconds, ascending, each inclusive. A last bucket counts what is longer.
    #[must_use]
    pub fn bounds() -> &'static [f64] {
        &BOUNDS
    }

    /// The count of each bucket, one more than there are [bounds](Self::bounds). Counts are not cumulative.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of the durations in seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The upper bound, in seconds, of the bucket that contains this quantile, from 0 to 1; `None` without durations. Infinite for the
    /// last bucket.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let rank = quantile.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0;
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let mut buckets = bounds.zip(self.counts).filter(|(_, count)| *count > 0);
        buckets
            .find(|(_, count)| {
                below += count;
                #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
                let reached = below as f64 >= rank;
                reached
            })
            .map(|(bound, _)| bound)
    }

    pub(super) fn record(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum += seconds;
    }
}

/// Counters of an engine since it was loaded, and its state.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EngineStatistics {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Blocks of the KV cache.
    pub blocks_total: usize,
    /// Blocks that requests hold.
    pub blocks_used: usize,
    /// Blocks that no request holds, kept for prompts with the same prefix.
    pub blocks_cached: usize,
    /// Tokens of the prompts of requests that started.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub generated_tokens: u64,
    /// Prompt tokens that were not computed, because their prefix was cached.
    pub cached_tokens: u64,
    /// How often a request lost its blocks and was computed again.
    pub preemptions: u64,
    /// Draft tokens that were verified.
    pub drafted: u64,
    /// Draft tokens that were right.
    pub accepted: u64,
    /// Steps.
    pub steps: u64,
    /// Seconds that the GPU took for steps, where the device has timestamps.
    pub gpu_seconds: f64,
    /// Requests whose text is complete.
    pub finished: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// The time from the submission of a request to its first token.
    pub time_to_first_token: Histogram,
    /// The time between two tokens of a request.
    pub inter_token: Histogram,
    /// The time from the submission of a request to its first step.
    pub queue_time: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_in_the_first_bucket_that_holds_them() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for micros in [100, 500, 501, 40_000, 90_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let counted: Vec<_> = (0..).zip(histogram.counts()).filter(|(_, count)| **count > 0).collect();
        assert_eq!(counted, [(0, &2), (1, &1), (6, &1), (16, &1)]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum() - 90.041_101).abs() < 1e-9);
        assert_eq!([0.0, 0.5, 0.8, 1.0].map(|q| histogram.quantile(q)), [0.0005, 0.001, 0.05, f64::INFINITY].map(Some));
    }
}
