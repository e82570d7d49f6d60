//! How often a request is tried again, and when.

use std::time::Duration;

/// The number of attempts after a failure of the connection or the server, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retries {
    /// The most attempts in a row that bring no further byte.
    pub most: u32,
    /// The time before the first one. It doubles with each.
    pub first_wait: Duration,
    /// The longest time that is waited, also where a server asks for more.
    pub longest_wait: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 5, first_wait: Duration::from_secs(1), longest_wait: Duration::from_secs(60) }
    }
}

impl Retries {
    /// Sets the most attempts in a row that bring no further byte.
    #[must_use]
    pub fn with_most(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// Sets the time before the first further attempt.
    #[must_use]
    pub fn with_first_wait(mut self, wait: Duration) -> Self {
        self.first_wait = wait;
        self
    }

    /// Sets the longest time that is waited.
    #[must_use]
    pub fn with_longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait;
        self
    }

    /// The time before the next attempt, after `failed` in a row; `None` if there is none. `asked` is what the server asks for.
    pub(crate) fn wait(&self, failed: u32, asked: Option<Duration>) -> Option<Duration> {
        if failed > self.most || asked.is_some_and(|asked| asked > self.longest_wait) {
            return None;
        }
        let doubled = self.first_wait.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
        Some(asked.unwrap_or(doubled).min(self.longest_wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_end() {
        let retries = Retries::default();
        let seconds: Vec<_> = (1..=6).map(|failed| retries.wait(failed, None).map(|wait| wait.as_secs())).collect();
        assert_eq!(seconds, [Some(1), Some(2), Some(4), Some(8), Some(16), None]);
        assert_eq!(retries.wait(1, Some(Duration::from_secs(30))), Some(Duration::from_secs(30)));
        assert_eq!(retries.wait(1, Some(Duration::from_secs(3600))), None, "nobody waits an hour");
    }
}
