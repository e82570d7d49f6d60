//! Descriptions of adapters.

use super::device_memory::device_memory;

/// Features that are used where they exist.
pub(super) const WANTED: wgpu::Features = wgpu::Features::SUBGROUP
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    .union(wgpu::Features::SUBGROUP_BARRIER)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(wgpu::Features::PIPELINE_CACHE);

/// The limits of a device that buffers and kernels depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// The largest buffer, in bytes.
    pub max_buffer_size: u64,
    /// The most bytes of a buffer that a kernel can bind.
    pub max_storage_buffer_binding_size: u64,
    /// Bytes of workgroup memory.
    pub max_compute_workgroup_storage_size: u32,
    /// The most threads of a workgroup.
    pub max_compute_invocations_per_workgroup: u32,
    /// The most storage buffers that a kernel can bind.
    pub max_storage_buffers_per_shader_stage: u32,
}

impl DeviceLimits {
    fn of(limits: &wgpu::Limits) -> Self {
        Self {
            max_buffer_size: limits.max_buffer_size,
            max_storage_buffer_binding_size: limits.max_storage_buffer_binding_size,
            max_compute_workgroup_storage_size: limits.max_compute_workgroup_storage_size,
            max_compute_invocations_per_workgroup: limits.max_compute_invocations_per_workgroup,
            max_storage_buffers_per_shader_stage: limits.max_storage_buffers_per_shader_stage,
        }
    }
}

/// A description of an adapter.
#[derive(Clone, Debug)]
pub struct AdapterSummary {
    /// The name.
    pub name: String,
    /// The driver and its version.
    pub driver: String,
    /// The graphics API.
    pub backend: String,
    /// The kind of adapter.
    pub kind: String,
    /// Whether it computes on the CPU.
    pub software: bool,
    /// The features enabled on a device, of those that are used.
    pub features: Vec<String>,
    /// Whether its driver exposes compiled pipelines, so that they can be cached for other processes.
    pub caches_pipelines: bool,
    /// The device's limits.
    pub limits: DeviceLimits,
    /// The smallest and largest subgroup.
    pub subgroup_size: (u32, u32),
    /// Bytes of memory available to buffers in total, where the driver or the system reports it.
    pub memory_bytes: Option<u64>,
}

impl AdapterSummary {
    pub(super) fn of(adapter: &wgpu::Adapter) -> Self {
        let info = adapter.get_info();
        let features = adapter.features() & WANTED;
        Self {
            driver: [info.driver.as_str(), info.driver_info.as_str()].join(" ").trim().to_owned(),
            backend: info.backend.to_string(),
            kind: format!("{:?}", info.device_type),
            software: info.device_type == wgpu::DeviceType::Cpu,
            caches_pipelines: features.contains(wgpu::Features::PIPELINE_CACHE)
                && wgpu::util::pipeline_cache_key(&info).is_some(),
            features: features.iter_names().map(|(name, _)| name.to_owned()).collect(),
            limits: DeviceLimits::of(&adapter.limits()),
            memory_bytes: device_memory(adapter),
            subgroup_size: subgroup_size(&info),
            name: info.name,
        }
    }

    /// Describes a device that a caller opened, with the features and limits that it got.
    #[cfg(any(test, feature = "wgpu-device"))]
    pub(super) fn of_device(adapter: &wgpu::Adapter, device: &wgpu::Device) -> Self {
        let summary = Self::of(adapter);
        let features = device.features() & WANTED;
        Self {
            features: features.iter_names().map(|(name, _)| name.to_owned()).collect(),
            caches_pipelines: summary.caches_pipelines && features.contains(wgpu::Features::PIPELINE_CACHE),
            limits: DeviceLimits::of(&device.limits()),
            ..summary
        }
    }

    pub(super) fn matches(&self, wanted: &str) -> bool {
        let wanted = wanted.to_lowercase();
        [&self.name, &self.driver, &self.backend].iter().any(|text| text.to_lowercase().contains(&wanted))
    }

    /// Orders adapters: discrete GPU, integrated GPU, anything else, software.
    pub(super) fn rank(&self) -> u8 {
        match self.kind.as_str() {
            "DiscreteGpu" => 0,
            "IntegratedGpu" => 1,
            "Cpu" => 3,
            _ => 2,
        }
    }
}

/// The smallest and largest subgroup. Metal does not report them; every GPU of Apple's has 32 lanes.
fn subgroup_size(info: &wgpu::AdapterInfo) -> (u32, u32) {
    match info.backend {
        wgpu::Backend::Metal if info.name.starts_with("Apple") => (32, 32),
        _ => (info.subgroup_min_size, info.subgroup_max_size),
    }
}
