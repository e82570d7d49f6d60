//! `pteron devices`: the adapters there are.

use std::path::PathBuf;
use std::process::ExitCode;

use pteron::{AdapterSummary, Gpu, GpuOptions, adapters, block_on};
use serde::Serialize;

use crate::cache;
use crate::cli::{self, GpuArgs};
use crate::failure::Failure;
use crate::table::{Cell, Table};
use crate::terminal::{self, FAINT, TITLE, WARNING, clean};
use crate::units::{bytes, count};

/// Runs the command.
pub(crate) fn run(args: &cli::Devices) -> ExitCode {
    match list(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => terminal::end(&failure, false),
    }
}

/// Opens the adapter that is asked for, or the best there is. One that nobody asked for and that computes in software is worth a
/// warning.
pub(crate) fn open(args: &GpuArgs, quiet: bool) -> Result<Gpu, Failure> {
    let pipeline_cache = if args.no_pipeline_cache { None } else { cache::folder() };
    let gpu = block_on(Gpu::open(&GpuOptions { adapter: args.adapter.clone(), pipeline_cache, ..GpuOptions::default() }))?;
    if gpu.adapter().software && args.adapter.is_none() && !quiet {
        terminal::warn(&format!("no GPU was found, so {} computes in software", gpu.adapter().name));
    }
    Ok(gpu)
}

fn list(args: &cli::Devices) -> Result<(), Failure> {
    let found = block_on(adapters());
    if found.is_empty() {
        // What it says is what a run would say.
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
        device.write(&mut out, terminal::width());
    }
    terminal::print_styled(&out)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    /// The one that is used first.
    devices: Vec<Device>,
}

#[derive(Serialize)]
struct Device {
    name: String,
    /// `discrete`, `integrated`, `virtual`, `software` or `other`.
    kind: &'static str,
    backend: String,
    driver: String,
    /// Whether it is used where no other is asked for.
    used: bool,
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
    fn new(adapter: &AdapterSummary, used: bool) -> Self {
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
            pipeline_cache: adapter.caches_pipelines.then(cache::folder).flatten(),
        }
    }

    fn write(&self, out: &mut String, width: Option<usize>) {
        let kind = match self.kind {
            "software" => format!("{WARNING}in software{WARNING:#}"),
            kind => format!("{kind} GPU"),
        };
        let used = if self.used { ", used unless --adapter names another" } else { "" };
        out.push_str(&format!("{TITLE}{}{TITLE:#}  {kind}{FAINT}{used}{FAINT:#}\n", clean(&self.name)));
        let mut table = Table::default();
        let mut row = |label: &str, text: String| table.row([Cell::new(label).style(FAINT), Cell::new(text)]);
        row("backend", format!("{}, {}", self.backend, self.driver));
        if let Some(memory) = self.memory_bytes {
            row("memory", bytes(memory));
        }
        let limits = [bytes(self.binding_bytes), bytes(self.buffer_bytes), count(self.storage_buffers.into())];
        row("buffers", format!("{} a binding, {} each, {} a kernel", limits[0], limits[1], limits[2]));
        let memory = bytes(self.workgroup_bytes.into());
        row("workgroups", format!("{} invocations, {memory} of memory", count(self.invocations.into())));
        row(
            "subgroups",
            match (self.subgroup_min, self.subgroup_max) {
                (least, most) if least == most => format!("{most} lanes"),
                (least, most) => format!("{least} to {most} lanes"),
            },
        );
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        row("features", features);
        if let Some(folder) = &self.pipeline_cache {
            row("kernels", format!("kept in {}", clean(&folder.display().to_string())));
        }
        table.write(out, 2, width);
    }
}
