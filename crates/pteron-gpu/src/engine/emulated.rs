//! Calls on a device that lacks the matrices of its kernels: the host runs those, for tests.

use super::block_on;
use super::call::CurrentPlan;
use super::encode::{PlannedDispatch, Remaining};
use super::grouped::Lanes;
use super::guards::Region;
use super::load::LoadedGraph;
use super::state::State;
use crate::coop_matrix::emulation::Emulation;
use crate::kernel::Target;

impl LoadedGraph {
    /// Runs every dispatch of the planned call, one after another.
    pub(super) fn submit_emulated(
        &self,
        encoder: wgpu::CommandEncoder,
        current: &CurrentPlan,
        state: &State,
        emulation: Emulation,
    ) -> Remaining {
        self.write_upload(current, &mut Lanes::default());
        self.submit(encoder);
        let mut submitted = 0;
        for step in self.steps(current) {
            let variant = &current.planned.recipes()[step.node].list[step.dispatch.recipe].variant;
            if Emulation::runs(&variant.source(Target::Native)) {
                self.run_emulated(&step, variant, state, emulation);
            } else {
                let mut encoder = self.encoder();
                self.dispatch(&mut self.begin(&mut encoder, None), state, &step);
                self.submit(encoder);
            }
            submitted += 1;
        }
        Remaining { encoder: self.encoder(), submitted, passes: 0 }
    }

    fn run_emulated(
        &self,
        step: &PlannedDispatch<'_>,
        variant: &crate::kernel::Variant,
        state: &State,
        emulation: Emulation,
    ) {
        let bound = step.compiled.binds.iter().map(|bound| self.buffers.region(*bound, Some(&state.buffers)).unwrap());
        let regions: Vec<&Region> = bound.collect();
        let before: Vec<Vec<u8>> = regions.iter().map(|region| self.content(region)).collect();
        let after = emulation.run(variant, &step.dispatch.params, step.dispatch.grid, before.clone());
        // Bindings without a use may share a buffer.
        let changed = regions.iter().zip(before.iter().zip(&after)).filter(|(_, (before, after))| before != after);
        for (region, (_, after)) in changed {
            self.gpu.inner.queue.write_buffer(&region.buffer, region.start, after);
        }
    }

    fn content(&self, region: &Region) -> Vec<u8> {
        let copy = self.gpu.inner.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: region.len,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = self.encoder();
        region.copy_to(&mut encoder, (&copy, 0), region.len);
        self.submit(encoder);
        block_on(self.gpu.read(&copy, region.len)).unwrap()
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.gpu.inner.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }
}
