//! Checks named data against its key, the SHA-256 of its bytes. Reads every byte once, on all cores.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pteron::FileBytes;
use pteron_format::vulkan::ConstantSource;
use pteron_format::{ByteRange, Bytes, Ptd, Pte, is_sha256};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::failure::{Failure, Reason};
use crate::units;

/// Bytes hashed between updates of the progress bar.
const STEP: usize = 4 << 20;
/// A bar that appears sooner would only flicker.
const SHOW_AFTER: Duration = Duration::from_secs(1);

/// The result of a deep check that found no mismatch.
#[derive(Debug, Default)]
pub(super) struct Checked {
    matching: usize,
    uncheckable: usize,
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} checked against a SHA-256 key", units::plural(self.matching, "named constant"))?;
        match self.uncheckable {
            0 => Ok(()),
            count => write!(f, ", {} not checkable because the key is no hash", units::count(count as u64)),
        }
    }
}

/// Checks all named data of a program.
pub(super) fn check_program(path: &Path, pte: &Pte<FileBytes>) -> Result<Checked, Failure> {
    let program = pte.program();
    let entries = program.named_data.iter().flatten();
    let named = entries.filter_map(|entry| Some((entry.key.as_str(), *program.segments.get(entry.segment.index())?)));
    check(path, pte.file(), named, |key| user_of(pte, key))
}

/// Checks all blobs of external data.
pub(super) fn check_data(path: &Path, ptd: &Ptd<FileBytes>) -> Result<Checked, Failure> {
    let data = ptd.data();
    let named =
        data.entries.iter().filter_map(|entry| Some((entry.key.as_str(), *data.segments.get(entry.segment.index())?)));
    check(path, ptd.file(), named, |_| "external data".to_owned())
}

fn check<'a>(
    path: &Path,
    file: &FileBytes,
    named: impl Iterator<Item = (&'a str, ByteRange)>,
    place: impl Fn(&str) -> String,
) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    // Names may share bytes; bytes are hashed once.
    let mut blobs: BTreeMap<ByteRange, Vec<&str>> = BTreeMap::new();
    for (key, extent) in named {
        if is_sha256(key) {
            checked.matching += 1;
            blobs.entry(extent).or_default().push(key);
        } else {
            checked.uncheckable += 1;
        }
    }
    let (total, len) = (blobs.keys().fold(0u64, |sum, extent| sum.saturating_add(extent.len)), file.file_len());
    if total > len {
        // Segments do not overlap in files of exporters; overlapping ones could make this take forever.
        return Err(Failure::file(path, Reason::Overlap { total, len }));
    }
    match first_mismatch(file, &blobs, &Progress::new(total)) {
        None => Ok(checked),
        Some((key, found)) => Err(Failure::file(path, Reason::Mismatch { place: place(key), key: key.to_owned(), found })),
    }
}

/// Returns the first key, in file order, whose bytes have another hash, and that hash.
#[expect(clippy::expect_used, reason = "reading verified that segments lie in the file")]
fn first_mismatch<'a>(
    file: &FileBytes,
    blobs: &BTreeMap<ByteRange, Vec<&'a str>>,
    progress: &Progress,
) -> Option<(&'a str, String)> {
    let mismatch = blobs.par_iter().find_map_first(|(&extent, keys)| {
        let found = hash(file.get(extent).expect("segments lie in the file"), progress);
        let key = keys.iter().find(|key| !key.eq_ignore_ascii_case(&found))?;
        Some((*key, found))
    });
    progress.bar.finish_and_clear();
    mismatch
}

fn hash(bytes: &[u8], progress: &Progress) -> String {
    let mut hasher = Sha256::new();
    for piece in bytes.chunks(STEP) {
        hasher.update(piece);
        progress.advance(piece.len() as u64);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Describes the first constant with a key.
fn user_of(pte: &Pte<FileBytes>, key: &str) -> String {
    for plan in &pte.program().plans {
        for (index, delegate) in plan.delegates.iter().enumerate() {
            let vulkan = pte.graph(delegate.data).map(|blob| &blob.graph.constants[..]);
            let xnnpack = || pte.xnnpack(delegate.data).map(|blob| &blob.graph.constants[..]);
            let constants = vulkan.or_else(xnnpack).unwrap_or_default();
            let named = |source: &ConstantSource| matches!(source, ConstantSource::Named(name) if name == key);
            if let Some(constant) = constants.iter().position(|constant| named(&constant.source)) {
                return format!("method {:?}, graph of delegate {index}, constant {constant}", plan.name);
            }
        }
    }
    "named data that no graph uses".to_owned()
}

/// A progress bar on standard error, where that is a terminal and the check takes a while.
struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: Once,
}

impl Progress {
    fn new(total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("  checking {wide_bar} {binary_bytes} of {binary_total_bytes}") {
            bar.set_style(style);
        }
        Self { bar, start: Instant::now(), shown: Once::new() }
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        if self.start.elapsed() > SHOW_AFTER {
            // This target stays hidden where standard error is not a terminal.
            self.shown.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }
}
