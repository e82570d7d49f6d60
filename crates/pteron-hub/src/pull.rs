//! Pulling a model: its listing, the files that are missing, its manifest.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use pteron_files::FileLock;

use crate::download::{Wanted, is_intact};
use crate::endpoint::Hub;
use crate::error::{Error, Result};
use crate::http::RequestError;
use crate::listing::{self, ListedFile, Listing};
use crate::manifest::{Manifest, ManifestFile};
use crate::models::{Models, PulledModel};
use crate::name::{DEFAULT_REVISION, ModelRef, is_commit};
use crate::path::{below, is_portable};
use crate::select;
use crate::transfer::{Part, Transfer};

/// How often a lock is tried, and the caller asked whether to go on.
const POLL: Duration = Duration::from_millis(50);

/// Which files of a model are fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullOptions {
    /// Patterns of the files to fetch. Without any, the program is fetched with its constants, tokenizer, chat template and configuration.
    pub include: Vec<String>,
}

impl PullOptions {
    /// Fetches the files that match one of these patterns, and no others.
    #[must_use]
    pub fn with_include(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.include = patterns.into_iter().map(Into::into).collect();
        self
    }
}

/// How far a pull is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// What happens now.
    pub stage: Stage<'a>,
    /// Bytes that are there, of all files.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// A stage of a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage<'a> {
    /// Waits for another process that pulls or removes this model.
    Waiting,
    /// Asks for the files of the model.
    Listing,
    /// Fetches this file.
    Downloading(&'a str),
    /// Computes the checksum of what is there of this file.
    Verifying(&'a str),
    /// Waits before it tries again.
    Retrying {
        /// Why.
        problem: &'a str,
        /// How long.
        wait: Duration,
    },
}

/// Called with the progress; breaking stops the pull.
type OnProgress<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

/// Reports progress and asks whether to go on.
pub(crate) struct Reporter<'a> {
    on_progress: &'a mut OnProgress<'a>,
    /// Bytes of the files that are complete, of the present one, and of all.
    complete: u64,
    file: u64,
    total: u64,
}

impl Reporter<'_> {
    pub(crate) fn tick(&mut self, stage: Stage<'_>) -> ControlFlow<()> {
        (self.on_progress)(Progress { stage, done: self.complete.saturating_add(self.file), total: self.total })
    }

    pub(crate) fn set_file(&mut self, bytes: u64) {
        self.file = bytes;
    }

    fn finish_file(&mut self, bytes: u64) {
        self.complete = self.complete.saturating_add(bytes);
        self.file = 0;
    }

    pub(crate) fn interrupted(&self) -> Error {
        Error::Interrupted { done: self.complete.saturating_add(self.file), total: self.total }
    }

    /// Waits before the next attempt.
    pub(crate) fn pause(&mut self, problem: &str, wait: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < wait {
            if self.tick(Stage::Retrying { problem, wait }).is_break() {
                return Err(self.interrupted());
            }
            std::thread::sleep(POLL.min(wait.saturating_sub(start.elapsed())));
        }
        Ok(())
    }
}

impl Hub {
    /// Fetches a model into the folder, as far as it is not there, and returns where it is. The reference may name a revision and a program.
    ///
    /// Earlier commits of the same branch or tag are removed when the new one is complete. Files they share are not fetched again.
    ///
    /// # Errors
    /// See [`Error`]. Whatever has arrived is kept, and the next pull continues there.
    pub fn pull<'a>(
        &self,
        models: &Models,
        model: &ModelRef,
        options: &PullOptions,
        on_progress: &'a mut (dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a),
    ) -> Result<PulledModel> {
        let revision = model.revision().unwrap_or(DEFAULT_REVISION);
        // A commit never changes, so what is there of it is current.
        if is_commit(revision)
            && options.include.is_empty()
            && let Ok(pulled) = models.find(model)
            && pulled.program(model.file()).is_ok()
        {
            return Ok(pulled);
        }
        if self.offline {
            return Err(Error::Offline { model: model.to_string() });
        }
        let mut reporter = Reporter { on_progress, complete: 0, file: 0, total: 0 };
        let _lock = lock(models, model, &mut reporter)?;
        let listing = self.list(model, revision, &mut reporter)?;
        let files = self.selected(model, &listing, options)?;
        reporter.total = files.iter().fold(0, |sum, file| sum.saturating_add(file.size));
        let pulling = Pulling { hub: self, models, model, commit: &listing.commit };
        let known = pulling.known_files()?;
        for file in &files {
            pulling.place(file, &known, &mut reporter)?;
            reporter.finish_file(file.size);
        }
        pulling.finish(revision, files)
    }

    /// Fetches the listing of a model.
    fn list(&self, model: &ModelRef, revision: &str, reporter: &mut Reporter<'_>) -> Result<Listing> {
        let mut failed = 0;
        loop {
            let error = match self.try_list(model, revision, reporter)? {
                Ok(listing) => return Ok(listing),
                Err(error) => error,
            };
            let (problem, wait, error) = match error {
                RequestError::Final(error) => return Err(error),
                RequestError::Network { host, problem } => (problem.clone(), None, Error::Network { host, problem }),
                RequestError::Refused(refused) => {
                    let error = self.refusal(&refused, model, revision, listing::WHAT);
                    if !matches!(refused.status, 408 | 429 | 500 | 502 | 503 | 504) {
                        return Err(error);
                    }
                    (format!("status {}", refused.status), refused.retry_after, error)
                }
            };
            failed += 1;
            // Somebody without a network should know it soon.
            let Some(wait) = self.retries.wait(failed, wait).filter(|_| failed <= 2) else { return Err(error) };
            reporter.pause(&problem, wait)?;
        }
    }

    fn try_list(
        &self,
        model: &ModelRef,
        revision: &str,
        reporter: &mut Reporter<'_>,
    ) -> Result<Result<Listing, RequestError>> {
        let transfer = Transfer::start(&self.client, self.listing_address(model, revision), 0);
        let (mut json, mut host) = (Vec::new(), String::new());
        loop {
            let Some(part) = transfer.next(&mut || reporter.tick(Stage::Listing)) else {
                return Err(reporter.interrupted());
            };
            match part {
                Ok(Part::Head(head)) => host = head.host,
                Ok(Part::Bytes(bytes)) if json.len() + bytes.len() > listing::MOST_BYTES => {
                    let problem = format!("has more than {} bytes", listing::MOST_BYTES);
                    return Err(Error::Response { host, what: listing::WHAT.to_owned(), problem });
                }
                Ok(Part::Bytes(bytes)) => json.extend_from_slice(&bytes),
                Ok(Part::End) => return Listing::parse(&json, model, &host).map(Ok),
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Selects the files to fetch; their paths are safe on every system, and their sizes and checksums known.
    fn selected(&self, model: &ModelRef, listing: &Listing, options: &PullOptions) -> Result<Vec<ManifestFile>> {
        let paths: Vec<&str> = listing.files.iter().map(|file| file.path.as_str()).collect();
        let selected = if options.include.is_empty() {
            let program = select::program(model.name(), &paths, model.file(), false)?;
            select::with_program(&paths, program)
        } else {
            select::matching(model.name(), &paths, &options.include)?
        };
        // Some systems hold one file of two whose names differ in case.
        let mut unique = BTreeMap::new();
        for path in selected {
            let is_new = unique.insert(path.to_lowercase(), path).is_none();
            if !is_new || !is_portable(path) {
                return Err(Error::UnsafePath { model: model.name().to_owned(), path: path.to_owned() });
            }
        }
        let files = listing.files.iter().filter(|file| unique.values().any(|path| *path == file.path));
        files.map(|file| self.complete(model, &listing.commit, file)).collect()
    }

    /// Asks for the size and checksum of a file where the listing does not state them.
    fn complete(&self, model: &ModelRef, commit: &str, file: &ListedFile) -> Result<ManifestFile> {
        let (mut size, mut checksum) = (file.size, file.checksum);
        let mut host = self.address.clone();
        if size.is_none() || checksum.is_none() {
            let head = self.client.head(&self.file_address(model, commit, &file.path)).map_err(|error| match error {
                RequestError::Final(error) => error,
                RequestError::Network { host, problem } => Error::Network { host, problem },
                RequestError::Refused(refused) => self.refusal(&refused, model, commit, &file.path),
            })?;
            (size, checksum, host) = (size.or(head.size), checksum.or(head.checksum), head.host);
        }
        let missing = |problem: &str| Error::Response {
            host: host.clone(),
            what: format!("{:?}", file.path),
            problem: problem.to_owned(),
        };
        Ok(ManifestFile {
            path: file.path.clone(),
            size: size.ok_or_else(|| missing("has no known size"))?,
            checksum: checksum.ok_or_else(|| missing("has no checksum to compare it with"))?,
        })
    }
}

/// Waits for the lock of a model.
fn lock(models: &Models, model: &ModelRef, reporter: &mut Reporter<'_>) -> Result<FileLock> {
    loop {
        if let Some(lock) = models.try_lock(model)? {
            return Ok(lock);
        }
        if reporter.tick(Stage::Waiting).is_break() {
            return Err(reporter.interrupted());
        }
        std::thread::sleep(POLL);
    }
}

/// A commit that is being pulled.
struct Pulling<'a> {
    hub: &'a Hub,
    models: &'a Models,
    model: &'a ModelRef,
    commit: &'a str,
}

/// Files of complete commits, by checksum.
type KnownFiles = BTreeMap<String, std::path::PathBuf>;

impl Pulling<'_> {
    /// The files of this model that are there already, of any commit.
    fn known_files(&self) -> Result<KnownFiles> {
        let mut known = BTreeMap::new();
        for pulled in self.models.snapshots(self.model)? {
            let manifest = Manifest::read(&self.models.manifest_path(self.model, &pulled.commit))?;
            for file in manifest.files {
                known.insert(file.checksum.to_string(), below(&pulled.folder, &file.path));
            }
        }
        Ok(known)
    }

    /// Puts a file into its place: it is there, or is linked to that of another commit, or is fetched.
    fn place(&self, file: &ManifestFile, known: &KnownFiles, reporter: &mut Reporter<'_>) -> Result<()> {
        let target = below(&self.models.snapshot_folder(self.model, self.commit), &file.path);
        if self.is_there(&target, file, reporter)? {
            return Ok(());
        }
        if let Some(other) = known.get(&file.checksum.to_string()).filter(|other| **other != target)
            && self.is_there(other, file, reporter)?
            && link(other, &target)
        {
            return Ok(());
        }
        let folder = self.models.partial_folder(self.model);
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let wanted =
            Wanted { model: self.model, commit: self.commit, path: &file.path, size: file.size, checksum: file.checksum };
        wanted.fetch(self.hub, &folder.join(file.checksum.hex()), &target, reporter)
    }

    fn is_there(&self, path: &Path, file: &ManifestFile, reporter: &mut Reporter<'_>) -> Result<bool> {
        let mut go_on = || reporter.tick(Stage::Verifying(&file.path));
        let intact = is_intact(path, file.size, file.checksum, &mut go_on)?;
        intact.ok_or_else(|| reporter.interrupted())
    }

    /// Writes the manifest, and removes the commit that the revision was before.
    fn finish(&self, revision: &str, files: Vec<ManifestFile>) -> Result<PulledModel> {
        let path = self.models.manifest_path(self.model, self.commit);
        let mut manifest = match Manifest::read(&path) {
            Ok(manifest) => manifest,
            Err(Error::Read { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                Manifest::new(&self.hub.address, self.commit)
            }
            Err(error) => return Err(error),
        };
        let is_new = |file: &ManifestFile| !manifest.files.iter().any(|known| known.path == file.path);
        let new: Vec<ManifestFile> = files.into_iter().filter(is_new).collect();
        manifest.files.extend(new);
        manifest.files.sort_by(|a, b| a.path.cmp(&b.path));
        if !is_commit(revision) && !manifest.revisions.iter().any(|known| known == revision) {
            manifest.revisions.push(revision.to_owned());
        }
        manifest.write(&path)?;
        self.release(revision)?;
        // Only if nothing else has arrived in part.
        let _ = fs::remove_dir(self.models.partial_folder(self.model));
        Ok(self.models.pulled(self.model, &manifest))
    }

    /// Takes the revision from other commits, and removes those that have no other.
    fn release(&self, revision: &str) -> Result<()> {
        for other in self.models.snapshots(self.model)? {
            if other.commit == self.commit || !other.revisions.iter().any(|name| name == revision) {
                continue;
            }
            let path = self.models.manifest_path(self.model, &other.commit);
            let mut manifest = Manifest::read(&path)?;
            manifest.revisions.retain(|name| name != revision);
            if manifest.revisions.is_empty() {
                // A system that removes no mapped file keeps it without a manifest; it is removed with the model.
                let _ = self.models.remove_snapshot(self.model, &other.commit);
            } else {
                manifest.write(&path)?;
            }
        }
        Ok(())
    }
}

/// Makes a file of another commit also one of this. False where the system has no such links.
fn link(from: &Path, to: &Path) -> bool {
    // Something that is not intact may be in the way.
    let _ = fs::remove_file(to);
    to.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok()) && fs::hard_link(from, to).is_ok()
}
