//! Pipelines, compiled once per variant on a device: on all threads, while constants are uploaded, where there are threads.

#[cfg(not(target_arch = "wasm32"))]
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
#[cfg(not(target_arch = "wasm32"))]
use std::thread::ScopedJoinHandle;

use super::Gpu;
use super::buffers::count;
use super::progress::ProgressCounter;
use crate::error::Result;
use crate::kernel::{BindingKind, Target, Variant};
use crate::plan::PARAM_SLOT;

/// A compiled variant.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
    /// The kinds of its bindings, in order.
    pub(super) kinds: Vec<BindingKind>,
    /// Whether it was compiled with bounds checks.
    pub(super) checked: bool,
}

#[cfg(target_arch = "wasm32")]
const TARGET: Target = Target::Browser;
#[cfg(not(target_arch = "wasm32"))]
const TARGET: Target = Target::Native;

impl Gpu {
    /// Compiles the given distinct variants that this device does not have yet, while `other` runs on this thread. If
    /// `other` fails, returns its error and skips the remaining variants.
    pub(crate) fn compile_beside<T>(
        &self,
        variants: &[&Variant],
        loading: &ProgressCounter<'_>,
        other: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let missing: Vec<&Variant> = {
            let known = self.inner.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
            variants.iter().copied().filter(|variant| !known.contains_key(*variant)).collect()
        };
        loading.compiled((variants.len() - missing.len()) as u64);
        let (compiled, other) = self.compile_all(&missing, loading, other);
        // Pipelines that failed to compile, or may have, are not kept: an error of one side may be reported by the other.
        match (other, self.check()) {
            (Ok(other), Ok(())) => {
                let mut known = self.inner.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
                known.extend(compiled.into_iter().map(|(variant, pipeline)| (variant.clone(), Arc::new(pipeline))));
                Ok(other)
            }
            (Ok(_), Err(error)) | (Err(error), Ok(())) => Err(error),
            (Err(error), Err(also)) => {
                tracing::debug!("the device failed as well: {also}");
                Err(error)
            }
        }
    }

    /// Threads take the next variant until none is left, or until `other` has failed.
    #[cfg(not(target_arch = "wasm32"))]
    fn compile_all<'v, T>(
        &self,
        variants: &[&'v Variant],
        loading: &ProgressCounter<'_>,
        other: impl FnOnce() -> Result<T>,
    ) -> (Vec<(&'v Variant, Pipeline)>, Result<T>) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(variants.len());
        let (next, given_up, at_work) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(threads));
        let work = || {
            let mut compiled = Vec::new();
            while !given_up.load(Ordering::Relaxed)
                && let Some(&variant) = variants.get(next.fetch_add(1, Ordering::Relaxed))
            {
                compiled.push((variant, self.compile_one(variant)));
                loading.compiled(1);
            }
            // The last thread saves the pipeline cache, possibly while constants are still being uploaded.
            if at_work.fetch_sub(1, Ordering::AcqRel) == 1
                && let Some(cache) = &self.inner.cache
            {
                cache.save();
            }
            compiled
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let other = other();
            given_up.store(other.is_err(), Ordering::Relaxed);
            // A worker that panicked has lost its pipelines; the panic resumes here.
            let join =
                |worker: ScopedJoinHandle<'_, _>| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (workers.into_iter().flat_map(join).collect(), other)
        })
    }

    #[cfg(target_arch = "wasm32")]
    fn compile_all<'v, T>(
        &self,
        variants: &[&'v Variant],
        loading: &ProgressCounter<'_>,
        other: impl FnOnce() -> Result<T>,
    ) -> (Vec<(&'v Variant, Pipeline)>, Result<T>) {
        let other = other();
        let one = |&variant: &&'v Variant| {
            let pipeline = self.compile_one(variant);
            loading.compiled(1);
            (variant, pipeline)
        };
        let compiled = if other.is_ok() { variants.iter().map(one).collect() } else { Vec::new() };
        (compiled, other)
    }

    /// Compiles a kernel that belongs to no operator, with bounds checks and the layout that its source declares.
    pub(super) fn pipeline_with_inferred_layout(&self, label: &str, source: &str) -> wgpu::ComputePipeline {
        let device = &self.inner.device;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some(label),
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(label),
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        })
    }

    fn compile_one(&self, variant: &Variant) -> Pipeline {
        let device = &self.inner.device;
        let label = Some(variant.label);
        let module = self.module(variant);
        let kinds = variant.bindings();
        let entries: Vec<_> = (0u32..).zip(&kinds).map(|(binding, &kind)| entry(binding, kind)).collect();
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
            cache: self.kept_pipelines(),
        });
        count(&self.inner.counters.pipelines, 1);
        Pipeline { pipeline, layout, kinds, checked: variant.kernel.is_checked() }
    }

    /// The driver's cache to create pipelines with.
    #[cfg(not(target_arch = "wasm32"))]
    fn kept_pipelines(&self) -> Option<&wgpu::PipelineCache> {
        self.inner.cache.as_ref().map(super::cache::DiskCache::pipelines)
    }

    #[cfg(target_arch = "wasm32")]
    fn kept_pipelines(&self) -> Option<&wgpu::PipelineCache> {
        None
    }

    /// Creates a variant's shader module. Browsers always check bounds, whatever is requested.
    fn module(&self, variant: &Variant) -> wgpu::ShaderModule {
        let source = variant.source(TARGET);
        #[cfg(test)]
        let source = match self.emulation() {
            Some(_) => crate::coop_matrix::emulation::Emulation::source(variant, &source),
            None => source,
        };
        let source = wgpu::ShaderSource::Wgsl(source.into());
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(variant.label), source };
        let checks = wgpu::ShaderRuntimeChecks {
            bounds_checks: variant.kernel.is_checked(),
            force_loop_bounding: false,
            // Data may divide by zero even in kernels whose indices are proven in bounds.
            ..wgpu::ShaderRuntimeChecks::checked()
        };
        #[allow(unsafe_code, reason = "what plans have checked is not checked again at every load of a kernel")]
        // SAFETY: sources are this crate's own, never a file's. Every loop is bounded by parameters or constants, and
        // indices are unchecked only in kernels whose plans are all compared with the buffers they bind: `kernel::reach`
        // documents the assumptions.
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
    // Parameters are the one binding with a dynamic offset: each dispatch has its own slot of the arena.
    let uniform = kind == BindingKind::Uniform;
    let min_binding_size = if uniform { wgpu::BufferSize::new(PARAM_SLOT as u64) } else { None };
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: uniform, min_binding_size },
        count: None,
    }
}
