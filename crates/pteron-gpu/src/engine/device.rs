//! Adapters and devices.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::adapter::{AdapterSummary, WANTED};
use super::buffers::Counters;
#[cfg(not(target_arch = "wasm32"))]
use super::cache::{DiskCache, PipelineCacheSummary};
use super::device_errors::DeviceErrors;
use super::guards::GuardSwitch;
use super::instance::instance;
use super::pipelines::Pipeline;
use super::shared_budget::SharedBudget;
use super::wait::OneShot;
use crate::error::{Error, Result};
use crate::kernel::Variant;
use crate::plan::{Caps, Lanes, MatrixSide};

/// Advice when there is no adapter.
#[cfg(not(target_arch = "wasm32"))]
const NO_ADAPTER: &str = "was found; install a Vulkan driver (mesa-vulkan-drivers has one in software)";
#[cfg(target_arch = "wasm32")]
const NO_ADAPTER: &str =
    "is offered by this browser: it has no WebGPU, or gives pages no GPU now; after a crash it may take a restart";

/// Sizes of the memory blocks that small buffers share, from the first to the largest; larger buffers have their own
/// allocation. Unused space in the last block is small compared with a model's weights.
const BLOCKS: std::ops::Range<u64> = 4 << 20..8 << 20;

/// Which adapter to use.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GpuOptions {
    /// Part of the adapter's name, driver or backend, case-insensitive; the best adapter if absent.
    pub adapter: Option<String>,
    /// A private folder in which compiled pipelines are kept for later processes, created if missing; none are kept if
    /// absent. It is used where the driver has a pipeline cache (Vulkan), and problems with it are never errors. Drivers
    /// trust its content: nobody else must be able to write into it, which is checked on Unix only.
    pub pipeline_cache: Option<PathBuf>,
    /// Whether every storage buffer gets guard bytes, which are compared after each call: a kernel that writes outside its
    /// buffers is [`Error::GuardBytes`]. If absent, the environment variable `PTERON_GUARD_BYTES` decides (`0` or `1`);
    /// without it, guards are enabled on software adapters in builds with debug assertions.
    pub guard_bytes: Option<bool>,
}

impl GpuOptions {
    /// Selects the adapter whose name, driver or backend contains this text, in any case.
    #[must_use]
    pub fn with_adapter(self, adapter: impl Into<Option<String>>) -> Self {
        Self { adapter: adapter.into(), ..self }
    }

    /// Keeps compiled pipelines in a folder for later processes.
    #[must_use]
    pub fn with_pipeline_cache(self, folder: impl Into<Option<PathBuf>>) -> Self {
        Self { pipeline_cache: folder.into(), ..self }
    }

    /// Places guard bytes around every storage buffer, or does not.
    #[must_use]
    pub fn with_guard_bytes(self, guard_bytes: impl Into<Option<bool>>) -> Self {
        Self { guard_bytes: guard_bytes.into(), ..self }
    }
}

/// A device and its compiled pipelines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gpu {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) summary: AdapterSummary,
    pub(crate) caps: Caps,
    pub(crate) counters: Counters,
    /// The memory budget of everything loaded on the device.
    pub(super) memory: SharedBudget,
    pub(crate) pipelines: Mutex<HashMap<Variant, Arc<Pipeline>>>,
    pub(super) guards: GuardSwitch,
    /// Whether kernels without bounds checks bind no more than their reach, for tests of the reach functions.
    #[cfg(test)]
    pub(super) binds_reach: bool,
    /// How cooperative matrices are emulated, for tests of their kernels.
    #[cfg(test)]
    pub(super) emulation: Option<crate::coop_matrix::emulation::Emulation>,
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) cache: Option<DiskCache>,
    errors: DeviceErrors,
}

async fn candidates(instance: &wgpu::Instance) -> Vec<(AdapterSummary, wgpu::Adapter)> {
    #[cfg(not(target_arch = "wasm32"))]
    let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
    // A browser returns one adapter and cannot list them.
    #[cfg(target_arch = "wasm32")]
    let adapters: Vec<_> = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await.into_iter().collect();
    let mut found: Vec<_> = adapters.into_iter().map(|adapter| (AdapterSummary::of(&adapter), adapter)).collect();
    found.sort_by_key(|(summary, _)| summary.rank());
    found
}

/// Returns the best adapter, or the one with this name, as tests of [`Gpu::from_device`] need it.
#[cfg(test)]
pub(crate) async fn open_adapter(wanted: Option<&str>) -> Option<wgpu::Adapter> {
    let found = candidates(&instance()).await;
    found.into_iter().find(|(summary, _)| summary.matches(wanted.unwrap_or_default())).map(|(_, adapter)| adapter)
}

/// Returns every adapter, best first.
pub async fn adapters() -> Vec<AdapterSummary> {
    candidates(&instance()).await.into_iter().map(|(summary, _)| summary).collect()
}

impl Gpu {
    /// Opens a device on the best adapter, or on the requested one, with the available features and the highest limits.
    /// Software adapters are used only if there is no other.
    ///
    /// # Errors
    /// No adapter, none of that name, or one that provides no device.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        let found = candidates(&instance()).await;
        let names: Vec<String> = found.iter().map(|(summary, _)| summary.name.clone()).collect();
        let wanted = options.adapter.as_deref().unwrap_or_default();
        let Some((summary, adapter)) = found.into_iter().find(|(summary, _)| summary.matches(wanted)) else {
            return Err(Error::NoAdapter(match (names.as_slice(), options.adapter.as_deref()) {
                ([], _) => NO_ADAPTER.to_owned(),
                (names, wanted) => format!("is called {:?}; there are {}", wanted.unwrap_or_default(), names.join(", ")),
            }));
        };
        if summary.software && options.adapter.is_none() {
            tracing::warn!("no GPU found: computing in software on {}", summary.name);
        }
        Self::on(&adapter, summary, options).await
    }

    async fn on(adapter: &wgpu::Adapter, summary: AdapterSummary, options: &GpuOptions) -> Result<Self> {
        let features = adapter.features() & WANTED;
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("pteron"),
            required_features: features,
            required_limits: adapter.limits(),
            experimental_features: experiments(features),
            memory_hints: wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: BLOCKS },
            ..Default::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| Error::Device(error.to_string()))?;
        Self::with_device(adapter, device, queue, summary, options).await
    }

    /// Uses a device that the caller has opened, for example to share it with a renderer.
    ///
    /// Kernels stay within the device's limits and use subgroups, 16-bit floats, cooperative matrices, timestamps and pipeline
    /// caches if the device has these features: open it with all that the adapter offers for full speed. The device's callbacks
    /// for loss and uncaptured errors are replaced. `options.adapter` is ignored.
    ///
    /// # Errors
    /// A device that fails.
    #[cfg(any(test, feature = "wgpu-device"))]
    pub async fn from_device(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        options: &GpuOptions,
    ) -> Result<Self> {
        let summary = AdapterSummary::of_device(adapter, &device);
        Self::with_device(adapter, device, queue, summary, options).await
    }

    #[cfg_attr(
        target_arch = "wasm32",
        allow(unused_variables, clippy::unused_async, reason = "a browser keeps what it compiles itself")
    )]
    async fn with_device(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
        summary: AdapterSummary,
        options: &GpuOptions,
    ) -> Result<Self> {
        let features = device.features() & WANTED;
        let errors = DeviceErrors::of(&device);
        let memory = summary.memory_bytes;
        let info = adapter.get_info();
        let caps = Caps {
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            subgroup_size: summary.subgroup_size,
            max_invocations: summary.limits.max_compute_invocations_per_workgroup,
            workgroup_memory: summary.limits.max_compute_workgroup_storage_size,
            max_binding: summary.limits.max_storage_buffer_binding_size,
            subgroup_barrier: orders_workgroup_memory(&info, features),
            f16: features.contains(wgpu::Features::SHADER_F16),
            int8_dot: has_int8_dot(info.backend) && !summary.software,
            software: summary.software,
            ..Caps::PORTABLE
        };
        let caps = with_cooperative_matrix(caps, features, &adapter.cooperative_matrix_properties());
        #[cfg(not(target_arch = "wasm32"))]
        let cache = match &options.pipeline_cache {
            Some(folder) => DiskCache::open(&device, &adapter.get_info(), folder).await,
            None => None,
        };
        let guards = GuardSwitch::new(options.guard_bytes, summary.software);
        let inner = Inner {
            device,
            queue,
            summary,
            caps,
            counters: Counters::default(),
            memory: SharedBudget::new(memory),
            pipelines: Mutex::default(),
            guards,
            #[cfg(test)]
            binds_reach: false,
            #[cfg(test)]
            emulation: None,
            #[cfg(not(target_arch = "wasm32"))]
            cache,
            errors,
        };
        // Threads share a device on native targets; a browser has one thread, and there wgpu types are not `Send`.
        #[cfg_attr(target_arch = "wasm32", allow(clippy::arc_with_non_send_sync, reason = "shared on native targets"))]
        let inner = Arc::new(inner);
        Ok(Self { inner })
    }

    /// The adapter the device is on.
    #[must_use]
    pub fn adapter(&self) -> &AdapterSummary {
        &self.inner.summary
    }

    /// The capabilities of the device that kernels depend on.
    #[must_use]
    pub fn caps(&self) -> Caps {
        self.inner.caps
    }

    /// The same device with reduced capabilities, to test the kernels of other devices.
    #[cfg(any(test, feature = "fuzzing"))]
    #[must_use]
    pub fn with_caps(&self, caps: Caps) -> Self {
        self.again(|inner| inner.caps = caps)
    }

    /// The same device, on which kernels without bounds checks bind no more of their buffers than their declared reach. On
    /// drivers that clamp accesses to the bound range, outputs differ where a kernel touches more.
    #[cfg(test)]
    pub(crate) fn binding_reach(&self) -> Self {
        self.again(|inner| inner.binds_reach = true)
    }

    /// The same device, on which cooperative matrices are emulated.
    #[cfg(test)]
    pub(crate) fn emulating_matrices(&self, caps: Caps, emulation: crate::coop_matrix::emulation::Emulation) -> Self {
        self.again(|inner| (inner.caps, inner.emulation) = (caps, Some(emulation)))
    }

    /// How the device emulates cooperative matrices, if it does.
    #[cfg(test)]
    pub(crate) fn emulation(&self) -> Option<crate::coop_matrix::emulation::Emulation> {
        self.inner.emulation
    }

    #[cfg(any(test, feature = "fuzzing"))]
    fn again(&self, change: impl FnOnce(&mut Inner)) -> Self {
        let Inner { device, queue, summary, errors, caps, .. } = &*self.inner;
        let mut inner = Inner {
            device: device.clone(),
            queue: queue.clone(),
            summary: summary.clone(),
            caps: *caps,
            counters: Counters::default(),
            memory: self.inner.memory.clone(),
            pipelines: Mutex::default(),
            guards: self.inner.guards.again(),
            #[cfg(test)]
            binds_reach: self.inner.binds_reach,
            #[cfg(test)]
            emulation: self.inner.emulation,
            cache: None,
            errors: errors.clone(),
        };
        change(&mut inner);
        Self { inner: Arc::new(inner) }
    }

    /// Bytes of memory available to buffers in total, where the driver or the system reports it: with Vulkan the GPU's
    /// memory, for software adapters the machine's.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.inner.summary.memory_bytes
    }

    /// Counts of resources created and work done on the device so far.
    #[must_use]
    pub fn counts(&self) -> super::Counts {
        self.inner.counters.read()
    }

    /// The pipeline cache file, if there is one.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn pipeline_cache(&self) -> Option<PipelineCacheSummary> {
        self.inner.cache.as_ref().map(DiskCache::summary)
    }

    /// Destroys the device, as a driver failure would: every later use returns [`Error::Lost`].
    pub fn destroy(&self) {
        // The device's own message arrives with the next poll; a call that fails before it should know the reason.
        self.inner.errors.record_lost("it was destroyed".to_owned());
        self.inner.device.destroy();
    }

    /// Waits until the device is lost, if it ever is, and returns the reason: a driver that failed or was updated, a GPU
    /// that was removed, or [`destroy`](Self::destroy). Programs can be loaded again on a new device.
    pub async fn lost(&self) -> String {
        self.inner.errors.lost().await
    }

    /// Returns the first error that occurred on the device outside any call.
    pub(crate) fn check(&self) -> Result<()> {
        self.inner.errors.check()
    }

    /// Waits until the device has completed all work submitted so far.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait_idle(&self) -> Result<()> {
        let done = OneShot::new();
        // Pending writes are executed with the next submission.
        self.inner.queue.submit([]);
        let sender = done.sender();
        self.inner.queue.on_submitted_work_done(move || sender(()));
        #[cfg(not(target_arch = "wasm32"))]
        if let Err(error) = self.inner.device.poll(wgpu::PollType::wait_indefinitely()) {
            self.check()?;
            return Err(Error::Device(error.to_string()));
        }
        // A device that is lost meanwhile may never report completion.
        let (mut done, mut lost) = (std::pin::pin!(done.wait()), std::pin::pin!(self.lost()));
        std::future::poll_fn(|cx| match lost.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => done.as_mut().poll(cx),
        })
        .await;
        self.check()
    }
}

/// Whether GPUs have an instruction for dot products of four bytes. wgpu does not report it; Vulkan and DX12 drivers expose those
/// of the hardware, Metal has none.
fn has_int8_dot(backend: wgpu::Backend) -> bool {
    matches!(backend, wgpu::Backend::Vulkan | wgpu::Backend::Dx12)
}

/// Enables the features that wgpu calls experimental, where the device has them.
fn experiments(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    #[allow(unsafe_code, reason = "matrices are many times as fast where a GPU multiplies them")]
    // SAFETY: the one experimental feature that is requested is cooperative matrices. Only this crate's kernels use it, with
    // the sizes that the adapter offers, and their tests compare their outputs with plain arithmetic wherever an adapter has
    // it.
    unsafe {
        wgpu::ExperimentalFeatures::enabled()
    }
}

/// Whether a barrier of a subgroup orders its accesses to workgroup memory: on Metal by definition, and on NVIDIA's GPUs, where it is
/// measured and tested. naga's SPIR-V names subgroup memory alone.
fn orders_workgroup_memory(info: &wgpu::AdapterInfo, features: wgpu::Features) -> bool {
    const NVIDIA: u32 = 0x10de;
    features.contains(wgpu::Features::SUBGROUP_BARRIER) && (info.backend == wgpu::Backend::Metal || info.vendor == NVIDIA)
}

/// Bytes of workgroup memory that every kernel with cooperative matrices fits in some tile.
const LEAST_MATRIX_MEMORY: u32 = 32 * 1024;
/// The most subgroups of such a kernel.
const MATRIX_SUBGROUPS: u32 = 8;

/// The capabilities with cooperative matrices, if the device offers a size that kernels are written for.
fn with_cooperative_matrix(caps: Caps, features: wgpu::Features, offered: &[wgpu::CooperativeMatrixProperties]) -> Caps {
    let needed = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let fits = |lanes: Lanes| caps.max_invocations >= MATRIX_SUBGROUPS * lanes.count;
    let able = features.contains(needed) && caps.workgroup_memory >= LEAST_MATRIX_MEMORY && caps.lanes().is_some_and(fits);
    match matrix_side(offered).filter(|_| able) {
        Some(matrix_side) => {
            Caps { cooperative_matrix: true, matrix_side, matrix_subgroup_size: caps.subgroup_size, ..caps }
        }
        None => caps,
    }
}

/// The size of matrices to use of those that an adapter offers: 16 × 16, else 8 × 8, of 16-bit floats and sums of 32 bits. naga has no
/// matrices that are not square, as Intel's are.
fn matrix_side(offered: &[wgpu::CooperativeMatrixProperties]) -> Option<MatrixSide> {
    use wgpu::CooperativeScalarType::{F16, F32};
    let has = |side: MatrixSide| {
        let size = (side.rows(), side.rows(), side.rows());
        let same = |one: &wgpu::CooperativeMatrixProperties| {
            (one.m_size, one.n_size, one.k_size) == size && (one.ab_type, one.cr_type) == (F16, F32)
        };
        offered.iter().any(same)
    };
    [MatrixSide::Sixteen, MatrixSide::Eight].into_iter().find(|&side| has(side))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::CooperativeScalarType::{F16, F32};

    fn properties(sizes: &[[u32; 3]], cr_type: wgpu::CooperativeScalarType) -> Vec<wgpu::CooperativeMatrixProperties> {
        let one = |&[m_size, n_size, k_size]: &[u32; 3]| wgpu::CooperativeMatrixProperties {
            m_size,
            n_size,
            k_size,
            ab_type: F16,
            cr_type,
            saturating_accumulation: false,
        };
        sizes.iter().map(one).collect()
    }

    #[test]
    fn square_matrices_with_32_bit_sums_are_used_and_others_are_not() {
        let side = |sizes: &[[u32; 3]]| matrix_side(&properties(sizes, F32));
        // NVIDIA, AMD, Metal, Intel, none.
        assert_eq!(side(&[[16, 8, 16], [16, 8, 8], [16, 16, 16]]), Some(MatrixSide::Sixteen));
        assert_eq!(side(&[[16, 16, 16]]), Some(MatrixSide::Sixteen));
        assert_eq!(side(&[[8, 8, 8]]), Some(MatrixSide::Eight));
        assert_eq!(side(&[[8, 8, 8], [16, 16, 16]]), Some(MatrixSide::Sixteen));
        assert_eq!(side(&[[8, 16, 16], [8, 8, 16]]), None);
        assert_eq!(side(&[]), None);
        assert_eq!(matrix_side(&properties(&[[16, 16, 16]], F16)), None);
    }

    #[test]
    fn cooperative_matrices_need_subgroups_f16_and_workgroup_memory() {
        let (all, offered) = (WANTED, properties(&[[16, 16, 16]], F32));
        let able = |subgroup_size| Caps {
            subgroups: true,
            subgroup_size,
            workgroup_memory: 32 * 1024,
            max_invocations: 512,
            ..Caps::PORTABLE
        };
        let has = |caps, features| with_cooperative_matrix(caps, features, &offered).cooperative_matrix;
        for subgroup_size in [(8, 8), (16, 16), (32, 32), (64, 64), (32, 64), (8, 32)] {
            assert!(has(able(subgroup_size), all), "{subgroup_size:?}");
        }
        for subgroup_size in [(0, 0), (2, 64), (128, 128)] {
            assert!(!has(able(subgroup_size), all), "{subgroup_size:?}");
        }
        let usual = able((32, 32));
        assert!(!has(Caps { workgroup_memory: 16 * 1024, ..usual }, all));
        assert!(!has(Caps { max_invocations: 256, ..able((64, 64)) }, all));
        for missing in [wgpu::Features::SHADER_F16, wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX] {
            assert!(!has(usual, all - missing), "{missing:?}");
        }
        assert_eq!(with_cooperative_matrix(usual, all, &[]), usual);
    }
}
