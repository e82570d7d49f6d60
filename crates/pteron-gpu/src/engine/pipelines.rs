//! Pipelines, compiled once for each variant on a device, in parallel where there are threads.

use std::sync::{Arc, PoisonError};

use super::Gpu;
use super::buffers::count;
use super::progress::Loading;
use crate::error::Result;
use crate::kernel::{BindingKind, Target, Variant};
use crate::plan::PARAM_SLOT;

/// A compiled variant.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

#[cfg(target_arch = "wasm32")]
const TARGET: Target = Target::Browser;
#[cfg(not(target_arch = "wasm32"))]
const TARGET: Target = Target::Native;

impl Gpu {
    /// Compiles the variants that this device does not have yet; each is given once.
    pub(crate) fn compile(&self, variants: &[&Variant], loading: &mut Loading<'_>) -> Result<()> {
        let missing: Vec<&Variant> = {
            let known = self.inner.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
            variants.iter().copied().filter(|variant| !known.contains_key(*variant)).collect()
        };
        loading.compiled((variants.len() - missing.len()) as u64);
        let compiled = self.compile_all(&missing, || loading.compiled(1));
        // What did not compile is not kept.
        self.check()?;
        let mut known = self.inner.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        for (variant, pipeline) in missing.into_iter().zip(compiled) {
            known.insert(variant.clone(), Arc::new(pipeline));
        }
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn compile_all(&self, variants: &[&Variant], mut compiled: impl FnMut()) -> Vec<Pipeline> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(variants.len()).max(1);
        let chunk = variants.len().div_ceil(threads).max(1);
        let (done, finished) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let work = |chunk: &[&Variant], done: std::sync::mpsc::Sender<()>| {
                let one = |variant: &&Variant| {
                    let pipeline = self.compile_one(variant);
                    // The other end is there until all are done.
                    let _ = done.send(());
                    pipeline
                };
                chunk.iter().map(one).collect::<Vec<_>>()
            };
            let workers: Vec<_> = variants
                .chunks(chunk)
                .map(|chunk| {
                    let done = done.clone();
                    scope.spawn(move || work(chunk, done))
                })
                .collect();
            drop(done);
            // Counted on this thread, until every worker has ended.
            finished.iter().for_each(|()| compiled());
            // A worker that panicked has lost its pipelines; the panic goes on here.
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    #[cfg(target_arch = "wasm32")]
    fn compile_all(&self, variants: &[&Variant], mut compiled: impl FnMut()) -> Vec<Pipeline> {
        let mut one = |variant: &&Variant| {
            let pipeline = self.compile_one(variant);
            compiled();
            pipeline
        };
        variants.iter().map(&mut one).collect()
    }

    fn compile_one(&self, variant: &Variant) -> Pipeline {
        let device = &self.inner.device;
        let label = Some(variant.label);
        let module = self.module(variant);
        let entries: Vec<_> = (0u32..).zip(variant.bindings()).map(|(binding, kind)| entry(binding, kind)).collect();
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let constants: Vec<(&str, f64)> = variant.constants.iter().map(|&(name, value)| (name, value.into())).collect();
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions { constants: &constants, ..Default::default() },
            cache: None,
        });
        count(&self.inner.counters.pipelines, 1);
        Pipeline { pipeline, layout }
    }

    /// A variant's source as a module. Browsers check everything whatever is asked for.
    fn module(&self, variant: &Variant) -> wgpu::ShaderModule {
        let source = wgpu::ShaderSource::Wgsl(variant.source(TARGET).into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(variant.label), source };
        let checks = wgpu::ShaderRuntimeChecks {
            bounds_checks: !variant.kernel.proven,
            force_loop_bounding: false,
            // Data may divide by zero in kernels that are proven otherwise.
            ..wgpu::ShaderRuntimeChecks::checked()
        };
        #[allow(unsafe_code, reason = "what plans have checked is not checked again at every load of a kernel")]
        // SAFETY: sources are this crate's own, never a file's. Every loop of theirs is bounded by parameters or constants, and
        // indices are left unchecked only in kernels that are marked as proven: `KernelDef::proven` says what that takes.
        unsafe {
            self.inner.device.create_shader_module_trusted(descriptor, checks)
        }
    }

    /// A compiled variant.
    pub(crate) fn pipeline(&self, variant: &Variant) -> Option<Arc<Pipeline>> {
        self.inner.pipelines.lock().unwrap_or_else(PoisonError::into_inner).get(variant).cloned()
    }
}

fn entry(binding: u32, kind: BindingKind) -> wgpu::BindGroupLayoutEntry {
    let ty = match kind {
        BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
        BindingKind::Read => wgpu::BufferBindingType::Storage { read_only: true },
        BindingKind::ReadWrite => wgpu::BufferBindingType::Storage { read_only: false },
    };
    // Parameters are the one binding that moves: each dispatch has its own slot of the arena.
    let uniform = kind == BindingKind::Uniform;
    let min_binding_size = if uniform { wgpu::BufferSize::new(PARAM_SLOT as u64) } else { None };
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: uniform, min_binding_size },
        count: None,
    }
}
