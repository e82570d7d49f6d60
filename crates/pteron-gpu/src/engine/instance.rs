//! The wgpu instance that adapters are enumerated on.

/// Creates an instance with the backends this build has; the environment variables of wgpu (`WGPU_BACKEND`, …) apply.
pub(super) fn instance() -> wgpu::Instance {
    let descriptor = wgpu::InstanceDescriptor::new_without_display_handle_from_env();
    #[cfg(all(target_os = "linux", feature = "vulkan"))]
    if !wayland_is_reachable(std::env::var_os("XDG_RUNTIME_DIR").as_deref())
        && let Some(instance) = without_wayland(&descriptor)
    {
        return instance;
    }
    wgpu::Instance::new(descriptor)
}

/// Whether `libwayland` would look for a compositor's socket at all, given the value of `XDG_RUNTIME_DIR`.
#[cfg(all(target_os = "linux", feature = "vulkan"))]
fn wayland_is_reachable(runtime_dir: Option<&std::ffi::OsStr>) -> bool {
    runtime_dir.is_some_and(|path| std::path::Path::new(path).is_absolute())
}

/// Creates a Vulkan instance without `VK_KHR_wayland_surface`; `None` where Vulkan is not wanted or not there.
///
/// wgpu enables that extension whether or not it draws to a window. Where it is enabled, Mesa's implicit layer
/// `VK_LAYER_MESA_device_select` connects to a Wayland compositor to learn which GPU it uses, and `libwayland` prints "error:
/// `XDG_RUNTIME_DIR` is invalid or not set in the environment" on standard error, once per enumeration, where it is not: on every server
/// and in every container. Without the extension the layer does not try. Vulkan is the only backend of this build on Linux, so the
/// instance offers the same adapters.
#[cfg(all(target_os = "linux", feature = "vulkan"))]
fn without_wayland(descriptor: &wgpu::InstanceDescriptor) -> Option<wgpu::Instance> {
    if !descriptor.backends.contains(wgpu::Backends::VULKAN) {
        return None;
    }
    let hal_descriptor = wgpu::hal::InstanceDescriptor {
        name: "pteron",
        flags: descriptor.flags,
        memory_budget_thresholds: descriptor.memory_budget_thresholds,
        backend_options: descriptor.backend_options.clone(),
        telemetry: None,
        display: None,
    };
    #[allow(unsafe_code, reason = "wgpu has no safe way to choose the extensions of its Vulkan instance")]
    // SAFETY: `init_with_callback` asks that nothing is removed that wgpu relies on. The one extension that is removed is used by
    // surfaces of Wayland windows alone, whose creation checks that it is enabled (wgpu-hal 30, `create_surface_from_wayland`), and
    // the engine creates no surfaces. The new instance is handed to `from_hal`, which owns it from then on.
    unsafe {
        let instance = wgpu::hal::vulkan::Instance::init_with_callback(
            &hal_descriptor,
            Some(Box::new(|args| args.extensions.retain(|name| *name != c"VK_KHR_wayland_surface"))),
        );
        Some(wgpu::Instance::from_hal::<wgpu::hal::api::Vulkan>(instance.ok()?))
    }
}

#[cfg(all(test, target_os = "linux", feature = "vulkan"))]
mod tests {
    use super::*;

    #[test]
    fn wayland_needs_an_absolute_runtime_directory() {
        for (value, expected) in
            [(None, false), (Some(""), false), (Some("run/user"), false), (Some("/run/user/1000"), true)]
        {
            assert_eq!(wayland_is_reachable(value.map(std::ffi::OsStr::new)), expected, "{value:?}");
        }
    }
}
