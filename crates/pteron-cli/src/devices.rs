//! `pteron devices`: lists the adapters.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pteron::{AdapterSummary, Gpu, GpuOptions, adapters, block_on};
use serde::Serialize;

use crate::cli::GpuArgs;
use crate::failure::Failure;
use crate::folders;
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, TITLE, WARNING};
use crate::units::{bytes, count};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pteron devices                                 every GPU, the default first
  pteron devices --json | jq -r .devices[].name  for scripts")]
pub(crate) struct Devices {
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &Devices) -> ExitCode {
    match list(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

/// Opens the requested adapter, or the best one. Warns where the best one computes in software.
pub(crate) fn open(args: &GpuArgs, quiet: bool) -> Result<Gpu, Failure> {
    let pipeline_cache = if args.no_pipeline_cache { None } else { folders::pipeline_cache() };
    let gpu =
        block_on(Gpu::open(&GpuOptions::default().with_adapter(args.adapter.clone()).with_pipeline_cache(pipeline_cache)))?;
    if gpu.adapter().software && args.adapter.is_none() && !quiet {
        terminal::warn(&format!("no GPU was found, so {} computes in software", gpu.adapter().name));
    }
    Ok(gpu)
}

fn list(args: &Devices) -> Result<(), Failure> {
    let found = block_on(adapters());
    if found.is_empty() {
        // The error is that of every other command.
        block_on(Gpu::open(&GpuOptions::default()))?;
    }
    let devices: Vec<Device> = found.iter().enumerate().map(|(index, adapter)| Device::new(adapter, index == 0)).collect();
    if args.json {
        let mut line = serde_json::to_string(&Report { devices }).map_err(|error| Failure::Output(error.into()))?;
        line.push('\n');
        return terminal::print(&line);
    }
    let mut out = String::new();
    for device in &devices {
        device.write(&mut out, 0, terminal::width());
    }
    terminal::print_styled(&out)
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    /// The default first.
    devices: Vec<Device>,
}

/// An adapter as `devices` and `doctor` report it.
#[derive(Serialize)]
pub(crate) struct Device {
    name: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    kind: &'static str,
    backend: String,
    driver: String,
    /// Whether commands use it.
    pub(crate) used: bool,
    /// Features that kernels or profiles use.
    features: Vec<String>,
    subgroup_min: u32,
    subgroup_max: u32,
    /// Memory of all buffers together, where the driver or the system tells.
    memory_bytes: Option<u64>,
    /// The largest buffer.
    buffer_bytes: u64,
    /// The most of a buffer that a kernel can bind.
    binding_bytes: u64,
    /// Memory that a workgroup shares.
    workgroup_bytes: u32,
    /// Invocations of a workgroup.
    invocations: u32,
    /// Buffers that a kernel can bind.
    storage_buffers: u32,
    /// The folder where compiled kernels are kept for later runs, if its driver can do that.
    pipeline_cache: Option<PathBuf>,
}

impl Device {
    pub(crate) fn new(adapter: &AdapterSummary, used: bool) -> Self {
        let limits = &adapter.limits;
        Self {
            name: adapter.name.clone(),
            kind: match adapter.kind.as_str() {
                "DiscreteGpu" => "discrete",
                "IntegratedGpu" => "integrated",
                "VirtualGpu" => "virtual",
                "Cpu" => "software",
                _ => "other",
            },
            backend: adapter.backend.clone(),
            driver: adapter.driver.clone(),
            used,
            features: adapter.features.clone(),
            subgroup_min: adapter.subgroup_size.0,
            subgroup_max: adapter.subgroup_size.1,
            memory_bytes: adapter.memory_bytes,
            buffer_bytes: limits.max_buffer_size,
            binding_bytes: limits.max_storage_buffer_binding_size,
            workgroup_bytes: limits.max_compute_workgroup_storage_size,
            invocations: limits.max_compute_invocations_per_workgroup,
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            pipeline_cache: adapter.caches_pipelines.then(folders::pipeline_cache).flatten(),
        }
    }

    /// Writes all that is known of the adapter.
    pub(crate) fn write(&self, out: &mut String, indent: usize, width: Option<usize>) {
        self.write_line(out, indent, width);
        let mut table = Table::default();
        let mut row = |label: &str, text: String| table.row([Cell::new(label).style(FAINT), Cell::new(text)]);
        row("backend", format!("{}, {}", self.backend, self.driver));
        if let Some(memory) = self.memory_bytes {
            row("memory", bytes(memory));
        }
        let limits = [bytes(self.buffer_bytes), bytes(self.binding_bytes), count(self.storage_buffers.into())];
        row("buffers", format!("{} each, {} per binding, {} per kernel", limits[0], limits[1], limits[2]));
        let memory = bytes(self.workgroup_bytes.into());
        row("workgroups", format!("{} invocations, {memory} of memory", count(self.invocations.into())));
        row(
            "subgroups",
            match (self.subgroup_min, self.subgroup_max) {
                (least, most) if least == most => format!("{most} lanes"),
                (least, most) => format!("{least} to {most} lanes"),
            },
        );
        row("features", self.feature_names(true));
        row("missing", self.feature_names(false));
        if let Some(folder) = &self.pipeline_cache {
            row("kernels", format!("kept in {}", folder.display()));
        }
        table.write(out, indent + 2, width);
    }

    /// Writes the adapter's name and kind on one line.
    pub(crate) fn write_line(&self, out: &mut String, indent: usize, width: Option<usize>) {
        let kind = match self.kind {
            "software" => Cell::new("in software").style(WARNING),
            kind => Cell::new(format!("{kind} GPU")),
        };
        let role = if self.used { "used unless --adapter names another" } else { "" };
        let mut table = Table::default();
        table.row([Cell::new(&self.name).style(TITLE), kind, Cell::new(role).style(FAINT)]);
        table.write(out, indent, width);
    }

    /// The features that kernels use and the adapter has, or has not.
    fn feature_names(&self, present: bool) -> String {
        let has = |name: &str| self.features.iter().any(|feature| feature == name);
        let names = FEATURES.iter().filter(|(_, feature)| has(feature) == present).map(|(name, _)| *name);
        let names: Vec<&str> = names.collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

/// Optional features that kernels and profiles use: as people call them, and as wgpu does.
const FEATURES: [(&str, &str); 6] = [
    ("f16", "SHADER_F16"),
    ("subgroups", "SUBGROUP"),
    ("cooperative matrix", "EXPERIMENTAL_COOPERATIVE_MATRIX"),
    ("timestamps", "TIMESTAMP_QUERY"),
    ("timestamps inside passes", "TIMESTAMP_QUERY_INSIDE_PASSES"),
    ("pipeline cache", "PIPELINE_CACHE"),
];
