//! The machine: operating system, processor, memory, and environment variables that change what drivers do.

use serde::Serialize;

/// Prefixes of the variables that wgpu, the Vulkan loader, drivers and this program read.
const PREFIXES: [&str; 7] = ["PTERON_", "WGPU_", "VK_", "MESA_", "DRI_", "LIBGL_", "NODEVICE_"];

#[derive(Serialize)]
pub(super) struct System {
    /// `linux`, `macos`, `windows`, …, and the processor's architecture.
    pub(super) os: &'static str,
    pub(super) arch: &'static str,
    /// The distribution and the kernel, where the system has files that tell.
    pub(super) distribution: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) cores: Option<usize>,
    /// Variables that change what drivers do, as `NAME=value`.
    pub(super) environment: Vec<String>,
}

impl System {
    pub(super) fn collect() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        Self {
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            distribution: read("/etc/os-release").as_deref().and_then(pretty_name),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            cores: std::thread::available_parallelism().ok().map(usize::from),
            environment: environment(
                std::env::vars_os()
                    .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())),
            ),
        }
    }
}

/// The value of `PRETTY_NAME` in `/etc/os-release`.
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn environment(variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let relevant = variables.filter(|(name, _)| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let mut lines: Vec<String> = relevant.map(|(name, value)| format!("{name}={value}")).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_drivers_are_reported() {
        let variables = [("HOME", "/home/me"), ("VK_DRIVER_FILES", "lvp.json"), ("API_KEY", "secret"), ("MESA_DEBUG", "1")];
        let found = environment(variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(found, ["MESA_DEBUG=1", "VK_DRIVER_FILES=lvp.json"]);
    }

    #[test]
    fn the_distribution_is_its_pretty_name() {
        let text = "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
        assert_eq!(pretty_name(text).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(pretty_name("ID=x\n"), None);
    }
}
