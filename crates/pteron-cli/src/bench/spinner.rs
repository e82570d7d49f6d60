//! A status line while measurements run.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on standard error that shows the current step; nothing where that is not a terminal, or with `--quiet`.
pub(super) struct Spinner(ProgressBar);

impl Spinner {
    pub(super) fn new(quiet: bool) -> Self {
        if quiet {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self(bar)
    }

    pub(super) fn say(&self, text: impl Into<String>) {
        self.0.set_message(text.into());
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
