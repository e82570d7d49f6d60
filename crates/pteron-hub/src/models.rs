//! The folder of pulled models.
//!
//! ```text
//! OWNER/NAME/snapshots/COMMIT.json    the manifest; a model without it is not found
//! OWNER/NAME/snapshots/COMMIT/…       its files, each complete
//! OWNER/NAME/partial/CHECKSUM         a file that has not arrived completely
//! .locks/OWNER/NAME                   locked while a model is pulled or removed
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pteron_files::FileLock;

use crate::error::{Error, Result};
use crate::manifest::Manifest;
use crate::name::{DEFAULT_REVISION, ModelRef};
use crate::path::{below, has_extension};
use crate::select;

/// The folder of pulled models.
#[derive(Clone, Debug)]
pub struct Models {
    folder: PathBuf,
}

/// A commit of a model, complete in the folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PulledModel {
    /// `OWNER/NAME`.
    pub name: String,
    /// The branches and tags that were this commit when they were last pulled; empty if it was pulled by its hash.
    pub revisions: Vec<String>,
    /// The commit.
    pub commit: String,
    /// The endpoint it was fetched from.
    pub endpoint: String,
    /// Bytes of all its files.
    pub bytes: u64,
    /// The folder of its files.
    pub folder: PathBuf,
    /// The paths of its files in that folder, with `/` between their parts.
    pub files: Vec<String>,
}

/// The files of a program and its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The program.
    pub program: PathBuf,
    /// Its external constants.
    pub data: Vec<PathBuf>,
    /// The folder of the model. Its tokenizer is beside the program or in a folder above it, up to this one.
    pub folder: PathBuf,
}

impl Models {
    /// Uses a folder, which need not exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finds a pulled model: the named revision, else `main`, else the only one.
    ///
    /// # Errors
    /// [`Error::NotPulled`], [`Error::ManyRevisions`], and manifests that cannot be read.
    pub fn find(&self, model: &ModelRef) -> Result<PulledModel> {
        let mut pulled = self.snapshots(model)?;
        let not_pulled = || Error::NotPulled { model: ModelRef::to_string(model) };
        if let Some(revision) = model.revision() {
            return pulled.into_iter().find(|pulled| pulled.is(revision)).ok_or_else(not_pulled);
        }
        if let Some(index) = pulled.iter().position(|pulled| pulled.is(DEFAULT_REVISION)) {
            return Ok(pulled.swap_remove(index));
        }
        match (pulled.pop(), pulled.as_slice()) {
            (Some(only), []) => Ok(only),
            (None, _) => Err(not_pulled()),
            (Some(last), others) => {
                let revisions = others.iter().chain([&last]).map(|model| model.label().to_owned()).collect();
                Err(Error::ManyRevisions { model: model.name().to_owned(), revisions })
            }
        }
    }

    /// Lists the pulled models, by name.
    ///
    /// # Errors
    /// Folders and manifests that cannot be read.
    pub fn list(&self) -> Result<Vec<PulledModel>> {
        let mut models = Vec::new();
        for name in self.names()? {
            models.extend(self.snapshots(&name)?);
        }
        Ok(models)
    }

    /// Lists models of which files have arrived in part, with the bytes that are kept.
    ///
    /// # Errors
    /// Folders that cannot be read.
    pub fn list_partial(&self) -> Result<Vec<(String, u64)>> {
        let mut models = Vec::new();
        for model in self.names()? {
            let folder = self.partial_folder(&model);
            let mut bytes = 0_u64;
            for entry in entries(&folder)? {
                bytes = bytes.saturating_add(entry.metadata().map_or(0, |metadata| metadata.len()));
            }
            if bytes > 0 {
                models.push((model.name().to_owned(), bytes));
            }
        }
        Ok(models)
    }

    /// Removes a model with what has arrived of it in part; with a revision, that one only. Returns the bytes that were removed. Waits
    /// while another process pulls it.
    ///
    /// # Errors
    /// [`Error::NotPulled`], and files that cannot be removed.
    pub fn remove(&self, model: &ModelRef) -> Result<u64> {
        let not_pulled = || Error::NotPulled { model: model.to_string() };
        if !self.model_folder(model).is_dir() {
            return Err(not_pulled());
        }
        let _lock = loop {
            match self.try_lock(model)? {
                Some(lock) => break lock,
                None => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
        };
        if let Some(revision) = model.revision() {
            let pulled = self.find(model)?;
            let mut manifest = Manifest::read(&self.manifest_path(model, &pulled.commit))?;
            manifest.revisions.retain(|name| name != revision);
            if !manifest.revisions.is_empty() && pulled.commit != revision {
                manifest.write(&self.manifest_path(model, &pulled.commit))?;
                return Ok(0);
            }
            self.remove_snapshot(model, &pulled.commit)?;
            return Ok(pulled.bytes);
        }
        let bytes = size_of(&self.model_folder(model))?;
        // Without their manifests the models are no longer found, whatever happens next.
        for entry in entries(&self.snapshots_folder(model))? {
            if has_extension(&entry.file_name().to_string_lossy(), "json") {
                remove_file(&entry.path())?;
            }
        }
        let folder = self.model_folder(model);
        fs::remove_dir_all(&folder).map_err(Error::write(&folder))?;
        // The owner's folder, if it is empty now.
        let _ = folder.parent().map(fs::remove_dir);
        Ok(bytes)
    }

    /// The models of which there is a folder.
    fn names(&self) -> Result<Vec<ModelRef>> {
        let mut names = Vec::new();
        for owner in entries(&self.folder)? {
            let Some(owner_name) = owner.file_name().into_string().ok().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            for model in entries(&owner.path())? {
                let name = model.file_name().into_string().ok();
                // Other files in the folder are none of ours.
                names.extend(name.and_then(|name| format!("{owner_name}/{name}").parse::<ModelRef>().ok()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The complete commits of a model.
    pub(crate) fn snapshots(&self, model: &ModelRef) -> Result<Vec<PulledModel>> {
        let mut found = Vec::new();
        for entry in entries(&self.snapshots_folder(model))? {
            if has_extension(&entry.file_name().to_string_lossy(), "json") {
                found.push(self.pulled(model, &Manifest::read(&entry.path())?));
            }
        }
        found.sort_by(|a, b| a.commit.cmp(&b.commit));
        Ok(found)
    }

    pub(crate) fn pulled(&self, model: &ModelRef, manifest: &Manifest) -> PulledModel {
        PulledModel {
            name: model.name().to_owned(),
            revisions: manifest.revisions.clone(),
            commit: manifest.commit.clone(),
            endpoint: manifest.endpoint.clone(),
            bytes: manifest.bytes(),
            folder: self.snapshot_folder(model, &manifest.commit),
            files: manifest.files.iter().map(|file| file.path.clone()).collect(),
        }
    }

    pub(crate) fn remove_snapshot(&self, model: &ModelRef, commit: &str) -> Result<()> {
        remove_file(&self.manifest_path(model, commit))?;
        let folder = self.snapshot_folder(model, commit);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(&folder)(error)),
            _ => Ok(()),
        }
    }

    /// Takes the lock of a model; `None` if another process has it.
    pub(crate) fn try_lock(&self, model: &ModelRef) -> Result<Option<FileLock>> {
        let (owner, name) = model.parts();
        let folder = self.folder.join(".locks").join(owner);
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let path = folder.join(name);
        FileLock::try_acquire(&path).map_err(Error::write(&path))
    }

    fn model_folder(&self, model: &ModelRef) -> PathBuf {
        let (owner, name) = model.parts();
        self.folder.join(owner).join(name)
    }

    fn snapshots_folder(&self, model: &ModelRef) -> PathBuf {
        self.model_folder(model).join("snapshots")
    }

    pub(crate) fn snapshot_folder(&self, model: &ModelRef, commit: &str) -> PathBuf {
        self.snapshots_folder(model).join(commit)
    }

    pub(crate) fn manifest_path(&self, model: &ModelRef, commit: &str) -> PathBuf {
        self.snapshots_folder(model).join(format!("{commit}.json"))
    }

    pub(crate) fn partial_folder(&self, model: &ModelRef) -> PathBuf {
        self.model_folder(model).join("partial")
    }
}

impl PulledModel {
    /// The revision to show: a branch or tag, or the commit.
    #[must_use]
    pub fn label(&self) -> &str {
        self.revisions.first().unwrap_or(&self.commit)
    }

    /// Whether this is the commit, or the commit of the branch or tag.
    fn is(&self, revision: &str) -> bool {
        self.commit == revision || self.revisions.iter().any(|name| name == revision)
    }

    /// Returns the files of a program: the named one, or the only one.
    ///
    /// # Errors
    /// [`Error::NoProgram`] and [`Error::ManyPrograms`].
    pub fn program(&self, file: Option<&str>) -> Result<ModelFiles> {
        let paths: Vec<&str> = self.files.iter().map(String::as_str).collect();
        let program = select::program(&self.name, &paths, file, true)?;
        Ok(ModelFiles {
            program: below(&self.folder, program),
            data: select::data(&paths, program).into_iter().map(|path| below(&self.folder, path)).collect(),
            folder: self.folder.clone(),
        })
    }
}

/// The entries of a folder; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect::<io::Result<_>>().map_err(Error::read(folder)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(Error::read(folder)(error)),
    }
}

/// Bytes of the files below a folder. Links are not followed.
fn size_of(folder: &Path) -> Result<u64> {
    let mut bytes = 0_u64;
    for entry in entries(folder)? {
        let metadata = entry.metadata().map_err(Error::read(folder))?;
        let size = if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
        bytes = bytes.saturating_add(size);
    }
    Ok(bytes)
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(path)(error)),
        _ => Ok(()),
    }
}
