//! Guard bytes: a debugging aid that finds kernels which write beside the bytes they own.
//!
//! With [`GpuOptions::guard_bytes`](super::GpuOptions::guard_bytes) every storage buffer is allocated with a guard before and a guard
//! after the bytes that kernels may touch. Guards hold NaN, as 32-bit and as 16-bit floats, so that a value read from one
//! shows in the output. After each call the guards of the graph and of its state are read back and compared; a difference is
//! [`Error::GuardBytes`].
//!
//! Kernels with bounds checks bind exactly their bytes. Kernels without bounds checks bind the trailing guard as well:
//! drivers may clamp accesses to the bound range, which would hide an out-of-bounds access.
//!
//! Without the option there is no overhead: buffers start at offset 0, are bound whole, and no check follows a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Gpu;
use super::binding::GraphBuffers;
use super::pipelines::Pipeline;
use super::state::StateBuffers;
use crate::error::{Error, Result};
use crate::memory::Place;

/// Bytes of the guard before a buffer's own bytes: the offset alignment of bindings that every device allows.
const HEAD: u64 = 256;
/// Bytes of the guard after them.
const TAIL: u64 = 1024;
const GUARD: usize = 1280;
const _: () = assert!(HEAD + TAIL == GUARD as u64, "both guards, one after the other");

/// Quiet NaN, read as one 32-bit or as two 16-bit floats.
const WORD: [u8; 4] = 0xFFE5_FFE5_u32.to_le_bytes();
const PATTERN: [u8; GUARD] = {
    let mut bytes = [0; GUARD];
    let mut at = 0;
    while at < GUARD {
        bytes[at] = WORD[at % 4];
        at += 1;
    }
    bytes
};

/// Bytes that kernels may touch: all of a buffer, or the part between its guards.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) buffer: wgpu::Buffer,
    /// The offset of the first byte in the buffer.
    pub(super) start: u64,
    /// The number of bytes.
    pub(super) len: u64,
    /// The label in error messages, where there are guards.
    label: Option<Arc<str>>,
}

impl Region {
    /// All of a buffer.
    pub(super) fn whole(buffer: wgpu::Buffer) -> Self {
        let len = buffer.size();
        Self { buffer, start: 0, len, label: None }
    }

    /// Creates a buffer for `len` bytes and the guards around them.
    pub(super) fn guarded(gpu: &Gpu, label: &str, len: u64, usage: wgpu::BufferUsages) -> Self {
        let descriptor = wgpu::BufferDescriptor {
            label: Some(label),
            size: HEAD + len + TAIL,
            usage: usage | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        let region =
            Self { buffer: gpu.inner.device.create_buffer(&descriptor), start: HEAD, len, label: Some(label.into()) };
        region.write_guards(gpu);
        region
    }

    /// Whether a buffer of `len` bytes has room for guards on this adapter.
    pub(super) fn can_guard(gpu: &Gpu, len: u64) -> bool {
        len.saturating_add(HEAD + TAIL) <= gpu.inner.summary.limits.max_buffer_size
    }

    fn write_guards(&self, gpu: &Gpu) {
        let head = usize::try_from(HEAD).unwrap_or(0);
        gpu.inner.queue.write_buffer(&self.buffer, 0, &PATTERN[..head]);
        gpu.inner.queue.write_buffer(&self.buffer, self.start + self.len, &PATTERN[head..]);
    }

    /// The binding for a kernel, of at most `most` bytes.
    pub(super) fn binding(&self, checked: bool, most: u64) -> wgpu::BindingResource<'_> {
        if self.label.is_none() {
            return self.buffer.as_entire_binding();
        }
        let size = if checked { self.len } else { (self.len + TAIL).min(most.max(self.len)) };
        let (buffer, offset) = (&self.buffer, self.start);
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: wgpu::BufferSize::new(size) })
    }

    /// The first bytes alone, as many as the declared reach of a kernel: whole vectors, at least one.
    #[cfg(test)]
    pub(super) fn binding_of(&self, reach: u64) -> wgpu::BindingResource<'_> {
        let size = wgpu::BufferSize::new(crate::memory::padded(reach).min(self.len));
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer: &self.buffer, offset: self.start, size })
    }

    /// Copies bytes of another buffer to offset `at`.
    pub(super) fn copy_from(&self, encoder: &mut wgpu::CommandEncoder, from: (&wgpu::Buffer, u64), at: u64, len: u64) {
        encoder.copy_buffer_to_buffer(from.0, from.1, &self.buffer, self.start + at, len);
    }

    /// Copies the first bytes to another buffer.
    pub(super) fn copy_to(&self, encoder: &mut wgpu::CommandEncoder, to: (&wgpu::Buffer, u64), len: u64) {
        encoder.copy_buffer_to_buffer(&self.buffer, self.start, to.0, to.1, len);
    }

    /// Sets the bytes to zero.
    pub(super) fn clear(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.clear_buffer(&self.buffer, self.start, Some(self.len));
    }
}

/// The guarded buffers of a graph, and the operators that use each, for messages.
#[derive(Debug)]
pub(super) struct GuardList {
    buffers: Vec<(Region, String)>,
    /// Operators by index of the state's buffer.
    states: Vec<String>,
    /// Operators by index of the graph's input.
    inputs: Vec<String>,
}

impl GuardList {
    /// Creates the list of a graph; `uses` are the bindings of each operator's recipes.
    pub(super) fn new(buffers: &GraphBuffers, states: usize, uses: &[(String, Place, bool)]) -> Self {
        let operators = |place: Place| {
            let of = |written: bool| uses.iter().filter(move |use_| use_.1 == place && use_.2 == written);
            let mut names: Vec<&str> = of(true).map(|use_| use_.0.as_str()).collect();
            if names.is_empty() {
                names = of(false).map(|use_| use_.0.as_str()).collect();
            }
            names.dedup();
            match names.as_slice() {
                [] => "no operator".to_owned(),
                few if few.len() <= 4 => few.join(", "),
                [few @ .., last] => format!("{}, {} others, {last}", few[..2].join(", "), few.len() - 2),
            }
        };
        let mut list = vec![(buffers.step.clone(), "the host".to_owned())];
        let mut add = |region: &Region, place| list.push((region.clone(), operators(place)));
        buffers.constants.iter().for_each(|(&id, region)| add(region, Place::Constant(id)));
        buffers.joined.iter().enumerate().for_each(|(index, region)| add(region, Place::Joined(index)));
        buffers.objects.iter().enumerate().for_each(|(index, region)| add(region, Place::Object(index)));
        for (index, region) in buffers.inputs.iter().enumerate() {
            region.iter().for_each(|region| add(region, Place::Input(index)));
        }
        for (index, region) in buffers.outputs.iter().enumerate() {
            region.iter().for_each(|region| add(region, Place::Output(index)));
        }
        let inputs = (0..buffers.inputs.len()).map(|index| operators(Place::Input(index))).collect();
        let states = (0..states).map(|index| operators(Place::State(index))).collect();
        Self { buffers: list, states, inputs }
    }

    /// Compares every guard of the graph and of a state with its expected content, after everything submitted so far.
    pub(super) async fn check(&self, gpu: &Gpu, state: &StateBuffers) -> Result<()> {
        let buffers = self.buffers.iter().map(|(region, operators)| (region, operators.as_str()));
        let tensors = state.tensors.iter().zip(&self.states).map(|(region, operators)| (region, operators.as_str()));
        let inputs = state.inputs.iter().filter_map(|(&input, region)| Some((region, self.inputs.get(input)?.as_str())));
        let guarded = |(region, _): &(&Region, &str)| region.label.is_some();
        let all: Vec<(&Region, &str)> = buffers.chain(tensors).chain(inputs).filter(guarded).collect();
        let bytes = gpu.read_guards(&all).await?;
        gpu.inner.guards.count(all.len() as u64);
        let wrong = bytes.chunks_exact(GUARD).zip(&all).filter(|(guards, _)| **guards != PATTERN);
        let mut found = None;
        for (guards, (region, operators)) in wrong {
            // The next call starts with intact guards again.
            region.write_guards(gpu);
            found.get_or_insert_with(|| violation(guards, region, operators));
        }
        found.map_or(Ok(()), Err)
    }
}

fn violation(guards: &[u8], region: &Region, operators: &str) -> Error {
    let first = guards.iter().zip(&PATTERN).position(|(now, before)| now != before).unwrap_or(0) as u64;
    let place = match first.checked_sub(HEAD) {
        Some(after) => format!("{after} bytes after its end"),
        None => format!("{} bytes before its start", HEAD - first),
    };
    let buffer = region.label.as_deref().unwrap_or_default().to_owned();
    Error::GuardBytes { buffer, place, operators: operators.to_owned() }
}

impl Gpu {
    /// Reads the guards of regions, one region after another.
    async fn read_guards(&self, regions: &[(&Region, &str)]) -> Result<Vec<u8>> {
        let size = (regions.len() * GUARD) as u64;
        if size == 0 {
            return Ok(Vec::new());
        }
        let device = &self.inner.device;
        let readback = device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("guard bytes"),
            size,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (at, (region, _)) in (0..size).step_by(GUARD).zip(regions) {
            encoder.copy_buffer_to_buffer(&region.buffer, 0, &readback, at, HEAD);
            let end = region.start + region.len;
            encoder.copy_buffer_to_buffer(&region.buffer, end, &readback, at + HEAD, TAIL);
        }
        // Not counted: a check is not part of the call that it follows.
        self.inner.queue.submit([encoder.finish()]);
        self.read(&readback, size).await
    }

    /// Whether buffers have guard bytes.
    #[must_use]
    pub fn has_guard_bytes(&self) -> bool {
        self.inner.guards.on
    }

    /// How many times the guard bytes of a buffer have been compared.
    #[must_use]
    pub fn guard_checks(&self) -> u64 {
        self.inner.guards.checks.load(Ordering::Relaxed)
    }
}

/// Whether a device's buffers have guards, and how many were compared.
#[derive(Debug, Default)]
pub(super) struct GuardSwitch {
    pub(super) on: bool,
    checks: AtomicU64,
}

impl GuardSwitch {
    /// On if requested; else as `PTERON_GUARD_BYTES` says; else on software adapters in builds with debug assertions.
    pub(super) fn new(asked: Option<bool>, software: bool) -> Self {
        let set = || std::env::var("PTERON_GUARD_BYTES").ok().map(|value| !matches!(value.as_str(), "" | "0"));
        let on = asked.or_else(set).unwrap_or(cfg!(debug_assertions) && software);
        Self { on, checks: AtomicU64::new(0) }
    }

    /// The same switch for another view of the device.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn again(&self) -> Self {
        Self { on: self.on, checks: AtomicU64::new(0) }
    }

    /// Counts comparisons. `PTERON_GUARD_LOG` names a file that gets a line with their number, so that test runs of many
    /// processes can be summed up.
    fn count(&self, buffers: u64) {
        self.checks.fetch_add(buffers, Ordering::Relaxed);
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(path) = std::env::var_os("PTERON_GUARD_LOG")
            && let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path)
        {
            // One write per line, so that lines of several processes do not mix; a failure to log is not an error.
            let _ = std::io::Write::write_all(&mut file, format!("{buffers}\n").as_bytes());
        }
    }
}

impl Pipeline {
    /// Whether the kernel writes binding `index`, parameters not counted.
    pub(super) fn writes(&self, index: usize) -> bool {
        self.kinds.get(index + 1).is_some_and(|kind| *kind == crate::kernel::BindingKind::ReadWrite)
    }
}
