//! Signals: the first Ctrl-C, or SIGTERM, may ask a command to stop cleanly, the second ends the program at once.
//!
//! A thread of its own handles them, so that nothing other threads wait for delays it. Before the program ends, unfinished files are
//! removed and the terminal's settings are restored; running threads are not waited for.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the first Ctrl-C only asks the command to stop.
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// Whether the first SIGTERM only asks the command to stop.
#[cfg(any(unix, feature = "serve"))]
static TERMINATION_DEFERRED: AtomicBool = AtomicBool::new(false);
/// Whether Ctrl-C was pressed since the last [`reset`].
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Installs the handlers. Called once, before anything else runs.
pub(crate) fn install() {
    // Without handlers, signals end the program as usual, and unfinished files may remain.
    let _ = system::install();
}

/// From here on the first Ctrl-C does not end the program; [`interrupted`] reports it.
pub(crate) fn defer_first_interrupt() {
    DEFERRED.store(true, Ordering::SeqCst);
}

/// From here on neither the first Ctrl-C nor the first SIGTERM ends the program; [`interrupted`] reports either.
#[cfg(feature = "serve")]
pub(crate) fn defer_first_termination() {
    TERMINATION_DEFERRED.store(true, Ordering::SeqCst);
    defer_first_interrupt();
}

/// Whether Ctrl-C was pressed, or a deferred SIGTERM has arrived.
pub(crate) fn interrupted() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// Makes the next Ctrl-C the first again. For conversations, where it stops a reply and not the program.
pub(crate) fn reset() {
    PRESSED.store(false, Ordering::SeqCst);
}

/// Records a Ctrl-C. Returns whether the program must end now.
fn press() -> bool {
    !DEFERRED.load(Ordering::SeqCst) || PRESSED.swap(true, Ordering::SeqCst)
}

/// Records a SIGTERM. Returns whether the program must end now.
#[cfg(unix)]
fn terminate() -> bool {
    !TERMINATION_DEFERRED.load(Ordering::SeqCst) || PRESSED.swap(true, Ordering::SeqCst)
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, OnceLock};
    use std::thread;

    use nix::sys::signal::{SigSet, Signal};
    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
    use signal_hook::consts::SIGXFSZ;
    use signal_hook::flag;

    /// The terminal's settings at the start.
    static FOUND: OnceLock<Termios> = OnceLock::new();
    /// Ends bracketed paste, as the line editor does after a line.
    const END_OF_PASTES: &[u8] = b"\x1b[?2004l\r\n";

    pub(super) fn install() -> io::Result<()> {
        let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        if !is_hangup_ignored() {
            // Under nohup the program keeps running.
            signals.add(Signal::SIGHUP);
        }
        let ending = Arc::new(AtomicBool::new(false));
        for signal in &signals {
            // If ending hangs, the next signal ends the program in its handler.
            flag::register_conditional_shutdown(signal as i32, status(signal), Arc::clone(&ending))?;
        }
        // A file that exceeds its size limit is an error of the write, not the end of the program.
        flag::register(SIGXFSZ, Arc::default())?;
        if let Ok(found) = tcgetattr(io::stdin()) {
            // It is called once.
            let _ = FOUND.set(found);
        }
        // Blocked in every thread that starts from here on, and waited for in one: no handler runs, and the line editor, which has one of
        // its own while it reads, takes none away.
        signals.thread_block()?;
        let wait = move || {
            while let Ok(signal) = signals.wait() {
                let ends = match signal {
                    Signal::SIGINT => super::press(),
                    Signal::SIGTERM => super::terminate(),
                    _ => true,
                };
                if ends {
                    ending.store(true, Ordering::SeqCst);
                    // From here on the handlers run.
                    let _ = signals.thread_unblock();
                    end(signal);
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop).or_else(|_| Ok(signals.thread_unblock()?))
    }

    fn end(signal: Signal) -> ! {
        pteron_files::abandon();
        restore();
        signal_hook::low_level::exit(status(signal))
    }

    /// The exit status that shells report for a program ended by a signal.
    fn status(signal: Signal) -> i32 {
        128 + signal as i32
    }

    /// Restores the terminal's settings if the line editor changed them. Does not lock standard output, which a waiting thread may hold.
    fn restore() {
        let stdin = io::stdin();
        let Some((found, now)) = FOUND.get().zip(tcgetattr(&stdin).ok()) else { return };
        if now.local_modes == found.local_modes {
            return;
        }
        // The program ends; an error could not be reported.
        let _ = tcsetattr(&stdin, OptionalActions::Now, found);
        let _ = rustix::io::write(io::stdout(), END_OF_PASTES);
    }

    #[cfg(target_os = "linux")]
    fn is_hangup_ignored() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        ignored.is_some_and(|signals| signals & 1 << (Signal::SIGHUP as i32 - 1) != 0)
    }

    /// No portable way to ask, but under nohup neither output is a terminal.
    #[cfg(not(target_os = "linux"))]
    fn is_hangup_ignored() -> bool {
        use std::io::IsTerminal;
        !io::stdout().is_terminal() && !io::stderr().is_terminal()
    }
}

#[cfg(windows)]
mod system {
    /// The console calls this on a thread of its own.
    pub(super) fn install() -> Result<(), ctrlc::Error> {
        ctrlc::set_handler(|| {
            if super::press() {
                pteron_files::abandon();
                std::process::exit(130);
            }
        })
    }
}

#[cfg(not(any(unix, windows)))]
mod system {
    pub(super) fn install() -> std::io::Result<()> {
        Ok(())
    }
}
