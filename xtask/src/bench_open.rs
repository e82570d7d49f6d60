//! `cargo xtask bench-open`: how long a large program takes to open, and whether its weights are touched.
//!
//! The program is a real one with one more segment, a hole in a sparse file, so that it is large and takes no room.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use memmap2::Mmap;
use pteron_format::program::{ByteRange, Data, NamedData, SegmentId};
use pteron_format::{Bytes, BytesError, FileLayout, Program, Pte, layout};

const ROUNDS: usize = 20;
const PAGE: u64 = 4096;

/// Opens a program like `model` with `hole` bytes of weights more, again and again, and reports.
pub(crate) fn run(model: &Path, hole: u64) -> Result<()> {
    if cfg!(debug_assertions) {
        return in_release(model, hole);
    }
    let bytes = fs::read(model).with_context(|| format!("{} cannot be read", model.display()))?;
    let original = Pte::read(bytes.as_slice())?;
    let (large, weights) = enlarge(&original.with_data(), hole)?;
    let plan = layout(&large)?;
    let weights = *plan.segments.get(weights.index()).context("the hole has no place")?;
    let file = TemporaryFile::new()?;
    write_sparse(&file.0, &large, &plan)?;

    let mut times = Vec::with_capacity(ROUNDS);
    let mut touched = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let pte = Pte::read(map(&file.0)?)?;
        times.push(start.elapsed());
        ensure!(pte.program().segments.contains(&weights), "the program has lost its hole");
        touched = touched.max(present_pages(&pte.file().map, weights));
    }
    report(model, &plan, &times, touched, weights);
    Ok(())
}

/// `cargo xtask` is a debug build; a time that means something needs the other one.
fn in_release(model: &Path, hole: u64) -> Result<()> {
    let status = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "xtask",
            "--",
            "bench-open",
            "--bytes",
            &hole.to_string(),
            "--model",
        ])
        .arg(model)
        .status()?;
    ensure!(status.success(), "the release build of bench-open failed");
    Ok(())
}

/// Bytes to write, or a hole of that length.
enum Held<'a> {
    Bytes(&'a [u8]),
    Hole(u64),
}

impl Data for Held<'_> {
    fn byte_len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Hole(_) => None,
        }
    }
}

/// The program with one more named segment, and which it is.
fn enlarge<'a>(program: &Program<&'a [u8]>, hole: u64) -> Result<(Program<Held<'a>>, SegmentId)> {
    let mut large = program.map_data(|bytes| Held::Bytes(bytes));
    let id = SegmentId(u32::try_from(large.segments.len())?);
    large.segments.push(Held::Hole(hole));
    large.named_data.get_or_insert_default().push(NamedData { key: "bench-open".to_owned(), segment: id });
    Ok((large, id))
}

fn write_sparse(path: &Path, program: &Program<Held<'_>>, plan: &FileLayout) -> Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&plan.head)?;
    for (place, data) in plan.segments.iter().zip(&program.segments) {
        if let Held::Bytes(bytes) = data {
            file.seek(SeekFrom::Start(place.start))?;
            file.write_all(bytes)?;
        }
    }
    file.set_len(plan.len)?;
    Ok(())
}

/// A mapped file as the runtime opens one: tables are copied from the file, the rest is not touched.
struct Mapped {
    map: Mmap,
    file: File,
}

impl Bytes for Mapped {
    fn file_len(&self) -> u64 {
        self.map.len() as u64
    }

    fn get(&self, part: ByteRange) -> Option<&[u8]> {
        Bytes::get(&self.map[..], part)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn read_at(&self, start: u64, out: &mut [u8]) -> std::result::Result<(), BytesError> {
        let mut file = &self.file;
        let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(out));
        read.map_err(|error| BytesError::Failed(error.to_string()))
    }
}

fn map(path: &Path) -> Result<Mapped> {
    let file = File::open(path)?;
    #[expect(unsafe_code, reason = "a mapping is sound while nobody changes the file, and this one is our own temporary")]
    // SAFETY: the file was made by this process under a name of its own and is not written again.
    let map = unsafe { Mmap::map(&file)? };
    Ok(Mapped { map, file })
}

/// Counts the pages of `extent` this process has touched in its mapping of `file`. Linux says; the size of a
/// page is certain only on x86-64.
fn present_pages(file: &[u8], extent: ByteRange) -> Option<usize> {
    const PRESENT: u8 = 1 << 7;
    const ENTRY: u64 = 8;
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return None;
    }
    let address = u64::try_from(file.as_ptr().addr()).ok()?;
    let first = (address + extent.start).div_ceil(PAGE);
    let end = (address + extent.start + extent.len) / PAGE;
    let mut pagemap = File::open("/proc/self/pagemap").ok()?;
    pagemap.seek(SeekFrom::Start(first * ENTRY)).ok()?;
    let mut entries = Vec::new();
    pagemap.take(end.saturating_sub(first) * ENTRY).read_to_end(&mut entries).ok()?;
    // The present bit is the highest of an entry's eight bytes.
    Some(entries.chunks_exact(8).filter(|entry| entry[7] & PRESENT != 0).count())
}

fn report(model: &Path, plan: &FileLayout, times: &[Duration], touched: Option<usize>, weights: ByteRange) {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    println!("open: map and verify a program of {} bytes ({} and a hole of {})", plan.len, model.display(), weights.len);
    println!(
        "  min {:?}  median {:?}  max {:?}  of {} opens",
        at(0),
        at(sorted.len() / 2),
        at(sorted.len() - 1),
        sorted.len()
    );
    match touched {
        Some(pages) => println!("  pages of the hole touched: {pages} of {}", weights.len / PAGE),
        None => println!("  pages of the hole touched: not measured on this system"),
    }
    println!("  {}, {}, file cache warm, release build", host(), date());
}

fn host() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.map_or("unknown processor", |(_, name)| name.trim()))
}

fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map_or_else(|_| "unknown date".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file that goes when this value goes.
struct TemporaryFile(PathBuf);

impl TemporaryFile {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("pteron-bench-open-{}.pte", std::process::id()));
        File::create_new(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enlarged_program_is_sparse_and_reads_back() {
        let (large, id) = enlarge(&Program::default(), 64 * PAGE).unwrap();
        let plan = layout(&large).unwrap();
        let file = TemporaryFile::new().unwrap();
        write_sparse(&file.0, &large, &plan).unwrap();
        let pte = Pte::read(map(&file.0).unwrap()).unwrap();
        let place = plan.segments[id.index()];
        assert_eq!(pte.program().named_segment("bench-open"), Some(&place));
        assert!(pte.bytes(place).iter().all(|&byte| byte == 0));
        // Reading has touched every page; the last one is only partly the hole's.
        assert_eq!(present_pages(&pte.file().map, place).unwrap_or(63), 63);
        let path = file.0.clone();
        drop(file);
        assert!(!path.exists());
    }
}
