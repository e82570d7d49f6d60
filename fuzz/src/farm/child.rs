//! One libFuzzer process. A finding is kept and the run goes on: only faults that cannot be caught, such as an endless loop, a stack
//! overflow or memory that runs out, ends the process.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use fastrand::Rng;

use crate::oracle::{self, Finding};
use crate::target::{self, Target};

/// The environment variable that names the target.
pub(super) const TARGET: &str = "PTERON_FUZZ_TARGET";
/// The environment variable that names the folder for findings. Without it a finding ends the process, as libFuzzer expects.
pub(super) const FINDINGS: &str = "PTERON_FUZZ_FINDINGS";

struct Child {
    target: &'static Target,
    findings: Option<PathBuf>,
    /// The length of the smallest input with each signature.
    seen: Mutex<HashMap<String, usize>>,
    /// An earlier input, which lends blocks to mutations.
    other: Mutex<Vec<u8>>,
}

static CHILD: OnceLock<Child> = OnceLock::new();

fn child() -> &'static Child {
    CHILD.get().expect("libFuzzer initializes first")
}

/// Whether the environment names a target; it is the one of this process from now on.
pub(super) fn initialize() -> bool {
    let Ok(name) = std::env::var(TARGET) else { return false };
    let Some(target) = target::find(&name) else {
        eprintln!("farm: there is no target {name:?}");
        std::process::exit(2);
    };
    oracle::catch_panics();
    let findings = std::env::var_os(FINDINGS).map(PathBuf::from);
    CHILD.get_or_init(|| Child { target, findings, seen: Mutex::default(), other: Mutex::default() });
    true
}

/// Runs the target over an input.
pub fn execute(bytes: &[u8]) {
    let child = child();
    if let Err(finding) = oracle::execute(child.target, bytes) {
        child.keep(bytes, &finding);
    }
}

/// libFuzzer's hook: half of the mutations are its own, half are the target's.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let child = child();
    #[cfg(feature = "libfuzzer")]
    if seed.is_multiple_of(2) {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut rng = Rng::with_seed(seed.into());
    let Ok(mut other) = child.other.lock() else { return size };
    let changed = catch_unwind(AssertUnwindSafe(|| (child.target.mutate)(&mut rng, &data[..size], &other)));
    if rng.u8(..8) == 0 {
        other.clear();
        other.extend_from_slice(&data[..size]);
    }
    let Ok(changed) = changed else {
        let finding = oracle::last_panic();
        child.keep(&data[..size], &Finding { message: format!("{} (mutation {seed})", finding.message) });
        return size;
    };
    let len = changed.len().min(max_size);
    data[..len].copy_from_slice(&changed[..len]);
    len
}

impl Child {
    /// Keeps the smallest input with this signature.
    fn keep(&self, bytes: &[u8], finding: &Finding) {
        let Some(folder) = &self.findings else {
            eprintln!("FINDING in {}: {}", self.target.name, finding.message);
            std::process::abort();
        };
        let signature = finding.signature();
        let Ok(mut seen) = self.seen.lock() else { return };
        let path = folder.join(&signature);
        let known = seen.get(&signature).copied();
        let known = known.or_else(|| Some(usize::try_from(std::fs::metadata(&path).ok()?.len()).unwrap_or(0)));
        if known.is_some_and(|len| len <= bytes.len()) {
            seen.entry(signature).or_insert(bytes.len());
            return;
        }
        seen.insert(signature, bytes.len());
        let kept = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&path, bytes))
            .and_then(|()| std::fs::write(path.with_extension("txt"), format!("{}\n", finding.message)));
        if let Err(error) = kept {
            eprintln!("farm: {}: {error}", path.display());
        }
    }
}
