//! Signals: the first Ctrl-C may be a wish, the second is the end, whatever the program is doing.
//!
//! They are answered on a thread of their own, so that nothing the other threads wait for is in the way. At the end unfinished files
//! are removed and the terminal is given back as it was found; the threads that run are not waited for.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the first Ctrl-C is a wish that the command fulfils when it can.
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// Whether Ctrl-C was pressed, and nobody has started anew since.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Takes signals over. Called once, before anything else runs.
pub(crate) fn install() {
    // Without it signals end the program as they always do, and only what is unfinished may stay behind.
    let _ = system::install();
}

/// From here on the first Ctrl-C is a wish: [`interrupted`] tells of it.
pub(crate) fn defer_first_interrupt() {
    DEFERRED.store(true, Ordering::SeqCst);
}

/// Whether Ctrl-C was pressed.
pub(crate) fn interrupted() -> bool {
    PRESSED.load(Ordering::SeqCst)
}

/// Starts anew: the next Ctrl-C is the first again. For conversations, where it stops an answer and not the program.
pub(crate) fn reset() {
    PRESSED.store(false, Ordering::SeqCst);
}

/// Takes note of a Ctrl-C. Returns whether the program must end now.
fn press() -> bool {
    !DEFERRED.load(Ordering::SeqCst) || PRESSED.swap(true, Ordering::SeqCst)
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

    /// The terminal as it was found.
    static FOUND: OnceLock<Termios> = OnceLock::new();
    /// What the line editor says to a terminal when it has read a line.
    const END_OF_PASTES: &[u8] = b"\x1b[?2004l\r\n";

    pub(super) fn install() -> io::Result<()> {
        let mut signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
        if !is_hangup_ignored() {
            // Who started us with nohup wants us to go on.
            signals.add(Signal::SIGHUP);
        }
        let ending = Arc::new(AtomicBool::new(false));
        for signal in &signals {
            // Where even the end hangs, the next signal is answered in the handler itself.
            flag::register_conditional_shutdown(signal as i32, status(signal), Arc::clone(&ending))?;
        }
        // A file that may not grow is an error of the write, not the end of the program.
        flag::register(SIGXFSZ, Arc::default())?;
        if let Ok(found) = tcgetattr(io::stdin()) {
            // It is called once.
            let _ = FOUND.set(found);
        }
        // Blocked in every thread that starts from here on, and waited for in one: so no handler is asked, and the line editor, which
        // has one of its own while it reads, takes none away.
        signals.thread_block()?;
        let answer = move || {
            while let Ok(signal) = signals.wait() {
                if signal != Signal::SIGINT || super::press() {
                    ending.store(true, Ordering::SeqCst);
                    // From here on the handlers are asked.
                    let _ = signals.thread_unblock();
                    end(signal);
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(answer).map(drop).or_else(|_| Ok(signals.thread_unblock()?))
    }

    fn end(signal: Signal) -> ! {
        pteron_files::abandon();
        restore();
        signal_hook::low_level::exit(status(signal))
    }

    /// What shells say of a program that a signal ended.
    fn status(signal: Signal) -> i32 {
        128 + signal as i32
    }

    /// Gives the terminal back as it was found, if the line editor has changed it. Standard output is not locked: a thread that
    /// waits may hold it.
    fn restore() {
        let stdin = io::stdin();
        let Some((found, now)) = FOUND.get().zip(tcgetattr(&stdin).ok()) else { return };
        if now.local_modes == found.local_modes {
            return;
        }
        // Nobody is left to hear that this failed.
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

    /// Nobody tells, but nohup leaves neither output at a terminal.
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
