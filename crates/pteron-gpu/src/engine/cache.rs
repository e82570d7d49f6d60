//! The pipeline cache: a file of compiled pipelines that later processes reuse.
//!
//! Only where the driver has such a cache (Vulkan). Problems with the file are never errors: at worst everything is compiled
//! again.

mod file;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use file::{CacheFile, Fingerprint};

/// The pipeline cache file, and how much of it was used when the device was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineCacheSummary {
    /// The file.
    pub file: PathBuf,
    /// Bytes of pipelines read from it; 0 if there was no file, or no valid one.
    pub read_bytes: u64,
}

/// A driver's cache and the file it is kept in.
#[derive(Debug)]
pub(crate) struct DiskCache {
    cache: wgpu::PipelineCache,
    file: CacheFile,
    read_bytes: u64,
    /// The fingerprint of the file's content, as far as this process knows.
    kept: Mutex<Option<Fingerprint>>,
}

impl DiskCache {
    /// Opens the cache of an adapter in a folder, with the content that earlier processes wrote.
    pub(super) async fn open(device: &wgpu::Device, info: &wgpu::AdapterInfo, folder: &Path) -> Option<Self> {
        let key = wgpu::util::pipeline_cache_key(info)?;
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        // Two drivers of one GPU have separate files; a new version of a driver replaces the old file.
        let driver: String = info.driver.chars().filter(char::is_ascii_alphanumeric).collect();
        let file = CacheFile::new(folder, &format!("{key}_{driver}"), &identity(info, &key));
        let found = match file.read() {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("{} is not used: {error}", file.path().display());
                None
            }
        };
        let (kept, data) = found.unzip();
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor = wgpu::PipelineCacheDescriptor { label: Some("pteron"), data: data.as_deref(), fallback: true };
        #[allow(unsafe_code, reason = "drivers trust what they are given; it is checked as far as it can be")]
        // SAFETY: the bytes must come from `get_data` for this adapter. Their seal verifies that: it is a hash of them with
        // the adapter, its driver's version and ours, so another device's or a damaged file does not have it. A seal can be forged,
        // but the file is this user's and nobody else may write it (on Unix that is checked; elsewhere the folder is the caller's
        // word for it, see `GpuOptions::pipeline_cache`): who can forge it can as well change what the user runs.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        if let Some(error) = scope.pop().await {
            tracing::warn!("pipelines are not cached: {error}");
            return None;
        }
        let read_bytes = data.map_or(0, |data| data.len() as u64);
        tracing::debug!("{read_bytes} bytes of pipelines from {}", file.path().display());
        Some(Self { cache, file, read_bytes, kept: Mutex::new(kept) })
    }

    /// The cache to create pipelines with.
    pub(super) fn pipelines(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    pub(super) fn summary(&self) -> PipelineCacheSummary {
        PipelineCacheSummary { file: self.file.path().to_owned(), read_bytes: self.read_bytes }
    }

    /// Writes the file if it lacks pipelines that were compiled.
    pub(super) fn save(&self) {
        let Some(data) = self.cache.get_data() else { return };
        let fingerprint = self.file.fingerprint(&data);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if *kept == Some(fingerprint) || !CacheFile::holds(&data) {
            return;
        }
        match self.file.write(&fingerprint, &data) {
            Ok(()) => *kept = Some(fingerprint),
            Err(error) => tracing::warn!("{} could not be written: {error}", self.file.path().display()),
        }
    }
}

/// The identity that a driver's cache depends on. It includes our version, so an update starts afresh instead of keeping
/// removed kernels.
fn identity(info: &wgpu::AdapterInfo, key: &str) -> String {
    [key, &info.name, &info.driver, &info.driver_info, std::env::consts::ARCH, env!("CARGO_PKG_VERSION")].join("\n")
}

/// Reads the content of a pipeline cache file that was written for `identity`, for fuzzers. Returns the bytes a driver would
/// get.
#[doc(hidden)]
#[must_use]
pub fn parse_pipeline_cache(identity: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let (_, data) = CacheFile::new(Path::new(""), "", identity).parse(bytes)?;
    Some(data)
}

/// The content of a pipeline cache file for `identity` with these bytes, for fuzzers.
#[doc(hidden)]
#[must_use]
pub fn pipeline_cache_content(identity: &str, data: &[u8]) -> Vec<u8> {
    CacheFile::new(Path::new(""), "", identity).content(data)
}
