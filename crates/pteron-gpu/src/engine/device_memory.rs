//! How much memory an adapter has.

/// Bytes of memory available to buffers on an adapter; `None` where it is not reported.
///
/// Vulkan reports heaps: a discrete GPU has the device-local ones, an integrated GPU all heaps, as those are one memory. A
/// software adapter has the memory of the machine.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn device_memory(adapter: &wgpu::Adapter) -> Option<u64> {
    match adapter.get_info().device_type {
        wgpu::DeviceType::Cpu => host_memory(),
        kind => vulkan_memory(adapter, kind == wgpu::DeviceType::DiscreteGpu),
    }
}

/// Browsers do not report it.
#[cfg(target_arch = "wasm32")]
pub(super) fn device_memory(_adapter: &wgpu::Adapter) -> Option<u64> {
    None
}

#[cfg(all(feature = "vulkan", not(target_arch = "wasm32"), not(target_vendor = "apple")))]
fn vulkan_memory(adapter: &wgpu::Adapter, beside_it: bool) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    #[allow(unsafe_code, reason = "wgpu has no other way to ask how much memory there is")]
    // SAFETY: the adapter's handles are used while `adapter` is borrowed, to query properties, which changes nothing; the
    // physical device comes from the instance that is queried.
    let properties = unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = adapter.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(adapter.raw_physical_device())
    };
    let heaps = properties.memory_heaps.iter().take(properties.memory_heap_count as usize);
    let heaps = heaps.filter(|heap| !beside_it || heap.flags.as_raw() & DEVICE_LOCAL != 0);
    Some(heaps.map(|heap| heap.size).fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
}

#[cfg(all(not(target_arch = "wasm32"), any(not(feature = "vulkan"), target_vendor = "apple")))]
fn vulkan_memory(_adapter: &wgpu::Adapter, _beside_it: bool) -> Option<u64> {
    None
}

/// Bytes of the machine's memory.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn host_memory() -> Option<u64> {
    total_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

#[cfg(all(not(target_arch = "wasm32"), not(any(target_os = "linux", target_os = "android"))))]
fn host_memory() -> Option<u64> {
    None
}

/// The total bytes that `/proc/meminfo` reports.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn machine_memory_is_parsed_from_meminfo() {
        assert_eq!(total_memory("MemTotal:       24641788 kB\nMemFree: 1 kB\n"), Some(24_641_788 * 1024));
        for broken in ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "MemTotal: 18446744073709551615 kB\n", "MemTotal: 5\n"]
        {
            assert_eq!(total_memory(broken), None, "{broken:?}");
        }
        assert!(host_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
