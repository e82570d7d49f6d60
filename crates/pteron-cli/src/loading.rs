//! The progress bar while a program is loaded: nothing for a second, then a bar. At terminals only, and it leaves no trace.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pteron::{LoadProgress, OnProgress};

use crate::{terminal, units};

/// Shorter loads show no bar.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(100);

/// A bar on standard error, gone when this is dropped.
pub(crate) struct LoadingBar {
    bar: ProgressBar,
    /// The drawing thread, and the channel that ends it.
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl LoadingBar {
    /// Starts the bar. Draws nothing if `quiet`, or where standard error is not a terminal.
    pub(crate) fn new(text: &str, quiet: bool) -> Self {
        Self::on(if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }, text, SHOW_AFTER)
    }

    fn on(target: ProgressDrawTarget, text: &str, show_after: Duration) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(terminal::clean(text).into_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:24} {prefix}{wide_msg}") {
            bar.set_style(style);
        }
        if target.is_hidden() {
            return Self { bar, drawing: None };
        }
        let (end, ended) = mpsc::channel();
        let drawn = bar.clone();
        let thread = std::thread::Builder::new().spawn(move || draw(&drawn, target, show_after, &ended));
        // Without a thread there is no bar.
        Self { bar, drawing: thread.ok().map(|thread| (end, thread)) }
    }

    /// Returns a callback that updates the bar.
    pub(crate) fn listener(&self) -> OnProgress {
        let bar = self.bar.clone();
        OnProgress::new(move |progress| update(&bar, progress))
    }
}

impl Drop for LoadingBar {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.drawing.take() {
            drop(end);
            // A thread that panicked no longer draws either.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn update(bar: &ProgressBar, progress: LoadProgress) {
    let (done, total, text) = stage(progress);
    bar.set_length(total);
    bar.set_position(done);
    bar.set_prefix(format!("{text} · "));
}

/// Shows the bar after a delay, and moves it until loading ends.
fn draw(bar: &ProgressBar, target: ProgressDrawTarget, show_after: Duration, ended: &Receiver<()>) {
    if ended.recv_timeout(show_after) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    bar.set_draw_target(target);
    bar.tick();
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        bar.tick();
    }
}

/// Returns progress and total as numbers and text: of constants while some are missing, then of kernels.
fn stage(progress: LoadProgress) -> (u64, u64, String) {
    let LoadProgress { uploaded_bytes, total_bytes, ready_pipelines, total_pipelines } = progress;
    if uploaded_bytes < total_bytes {
        let text = format!("{} of {}", units::bytes(uploaded_bytes), units::bytes(total_bytes));
        return (uploaded_bytes, total_bytes, text);
    }
    let text = format!("{} of {} kernels", units::count(ready_pipelines), units::count(total_pipelines));
    (ready_pipelines, total_pipelines, text)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use indicatif::TermLike;

    use super::*;

    const UPLOADING: LoadProgress =
        LoadProgress { uploaded_bytes: 512 << 20, total_bytes: 2 << 30, ready_pipelines: 0, total_pipelines: 30 };
    const COMPILING: LoadProgress = LoadProgress { uploaded_bytes: 2 << 30, ready_pipelines: 12, ..UPLOADING };

    /// A terminal of one line: its content now, and everything ever written to it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<(String, String)>>);

    impl Screen {
        fn target(&self) -> ProgressDrawTarget {
            ProgressDrawTarget::term_like(Box::new(self.clone()))
        }

        fn now(&self) -> String {
            self.0.lock().unwrap().0.clone()
        }

        fn ever(&self) -> String {
            self.0.lock().unwrap().1.clone()
        }

        fn wait_for(&self, text: &str) {
            let start = Instant::now();
            while !self.ever().contains(text) {
                assert!(start.elapsed() < Duration::from_secs(30), "{text:?} is not in {:?}", self.ever());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            80
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            let mut screen = self.0.lock().unwrap();
            screen.0 += text;
            screen.1 += text;
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().0.clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn progress_counts_constants_then_kernels() {
        assert_eq!(stage(UPLOADING), (512 << 20, 2 << 30, "512.0 MiB of 2.0 GiB".to_owned()));
        assert_eq!(stage(COMPILING), (12, 30, "12 of 30 kernels".to_owned()));
        let empty = LoadProgress { total_pipelines: 3, ..LoadProgress::default() };
        assert_eq!(stage(empty), (0, 3, "0 of 3 kernels".to_owned()), "a program without constants");
    }

    #[test]
    fn a_bar_shows_progress_and_leaves_no_trace() {
        let screen = Screen::default();
        let bar = LoadingBar::on(screen.target(), "loading a\u{1b}[2Jb on a GPU", Duration::ZERO);
        update(&bar.bar, UPLOADING);
        screen.wait_for("512.0 MiB of 2.0 GiB · loading a\\u{1b}[2Jb on a GPU");
        update(&bar.bar, COMPILING);
        screen.wait_for("12 of 30 kernels · ");
        assert!(!screen.now().is_empty());
        // As a failure drops it, in the middle.
        drop(bar);
        assert_eq!(screen.now().trim(), "");
    }

    #[test]
    fn a_short_load_shows_no_bar() {
        let screen = Screen::default();
        let bar = LoadingBar::on(screen.target(), "loading", Duration::from_secs(600));
        update(&bar.bar, UPLOADING);
        let start = Instant::now();
        drop(bar);
        assert!(start.elapsed() < Duration::from_secs(60), "nobody waits for a bar");
        assert_eq!(screen.ever().trim(), "");
    }

    #[test]
    fn a_hidden_bar_starts_no_thread() {
        assert!(LoadingBar::new("loading", true).drawing.is_none());
    }
}
