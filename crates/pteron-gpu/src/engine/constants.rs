//! The buffers of constants: shared where keys are equal, and concatenated in one buffer where a kernel reads several.

use std::collections::{HashMap, HashSet};

use super::Gpu;
use super::buffers::{BufferRequest, MemoryBudget, STORAGE};
use super::constant_writer::{ConstantWriter, Destination, FeedFn};
use super::guards::Region;
use crate::error::Result;
use crate::graph::{DecodedGraph, Role};
use crate::ir::{ConstantId, ConstantSource};
use crate::live::TensorId;
use crate::memory::{Memory, Place, joined};
use crate::plan::{Bind, JoinedConstants, JoinedPart};
use crate::resize::Planned;

/// The buffers that constants need, known before any is created.
#[derive(Debug)]
pub(super) struct ConstantBuffers {
    alone: Vec<ConstantBuffer>,
    joined: Vec<JoinedBuffer>,
}

/// A constant's buffer: created for the first tensor that has its bytes, shared by the others.
#[derive(Debug)]
struct ConstantBuffer {
    constant: u32,
    tensor: TensorId,
    same_as: Option<u32>,
    /// Whether it has bytes to upload. Others are zeros.
    uploads: bool,
    request: BufferRequest,
}

/// A buffer of concatenated constants, and the offset of each.
#[derive(Debug)]
struct JoinedBuffer {
    parts: Vec<(JoinedPart, u64)>,
    /// Bytes of all constants, without padding.
    bytes: u64,
    request: BufferRequest,
}

/// The constants that a kernel binds individually, or that are read back. Others have no buffer of their own.
fn bound_alone(graph: &DecodedGraph, planned: &Planned, memory: &Memory) -> HashSet<u32> {
    let active = planned.recipes().iter().zip(&memory.aliased).filter(|&(_, &aliased)| !aliased);
    let binds = active.flat_map(|(recipes, _)| recipes.list.iter().flat_map(|recipe| &recipe.binds));
    let bound = binds.filter_map(|bind| if let Bind::Tensor(tensor) = bind { Some(tensor) } else { None });
    let constant = |tensor: &TensorId| match memory.tensors[tensor.index()] {
        Some(Place::Constant(constant)) => Some(constant),
        _ => None,
    };
    bound.chain(&graph.outputs).filter_map(constant).collect()
}

impl ConstantBuffers {
    pub(super) fn new(graph: &DecodedGraph, planned: &Planned, memory: &Memory) -> Self {
        let joined = memory.joins.iter().enumerate().map(|(index, JoinedConstants { parts })| {
            let (starts, size) = joined(parts.iter().map(|part| part.bytes(bytes_of(graph, part.tensor))));
            let request = BufferRequest::new(format!("joined constants {index}"), size, STORAGE);
            let bytes = parts.iter().map(|part| part.unpacked_bytes(bytes_of(graph, part.tensor))).sum();
            JoinedBuffer { parts: parts.iter().copied().zip(starts).collect(), bytes, request }
        });
        Self { alone: requests_alone(graph, &bound_alone(graph, planned, memory)), joined: joined.collect() }
    }

    /// Every buffer to be created.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &BufferRequest> {
        let alone = self.alone.iter().filter(|constant| constant.same_as.is_none()).map(|constant| &constant.request);
        alone.chain(self.joined.iter().map(|joined| &joined.request))
    }

    /// Bytes to be uploaded into them.
    pub(super) fn bytes(&self) -> u64 {
        let alone = self.alone.iter().filter(|constant| constant.same_as.is_none() && constant.uploads);
        let alone = alone.map(|constant| constant.request.size);
        alone.chain(self.joined.iter().map(|joined| joined.bytes)).fold(0, u64::saturating_add)
    }

    /// The number of buffers that each constant is written to; equal constants are one.
    fn destinations(&self, graph: &DecodedGraph) -> HashMap<u32, usize> {
        let alone = self.alone.iter().filter(|constant| constant.same_as.is_none()).map(|constant| constant.constant);
        let parts = self.joined.iter().flat_map(|joined| &joined.parts);
        let joined = parts.filter_map(|(part, _)| match graph.role(part.tensor) {
            Role::Constant(constant) => Some(constant),
            _ => None,
        });
        let mut counts = HashMap::new();
        alone.chain(joined).for_each(|constant| *counts.entry(graph.first_equal(constant)).or_default() += 1);
        counts
    }

    /// Creates the buffers, and registers them as destinations. Calls `feed` for each constant once all of its buffers exist, so
    /// that it is uploaded while further buffers are created.
    pub(super) fn make(
        &self,
        gpu: &Gpu,
        graph: &DecodedGraph,
        budget: &mut MemoryBudget,
        writer: &mut ConstantWriter,
        feed: &mut FeedFn<'_>,
    ) -> Result<(HashMap<u32, Region>, Vec<Region>)> {
        let mut left = self.destinations(graph);
        let mut add = |writer: &mut ConstantWriter, budget: &mut MemoryBudget, tensor, constant, place| {
            writer.add(graph, tensor, constant, place);
            let first = graph.first_equal(constant);
            match left.get_mut(&first) {
                Some(left @ 2..) => {
                    *left -= 1;
                    Ok(())
                }
                _ => feed(writer, budget, ConstantId(first)),
            }
        };
        let mut alone: HashMap<u32, Region> = HashMap::new();
        for ConstantBuffer { constant, tensor, same_as, request, .. } in &self.alone {
            if let Some(region) = same_as.and_then(|first| alone.get(&first)).cloned() {
                alone.insert(*constant, region);
                continue;
            }
            let region = request.make_storage(gpu, budget)?;
            let (buffer, start) = (region.buffer.clone(), region.start);
            let place = Destination::Buffer { buffer, start, size: request.size, packing: None };
            add(writer, budget, *tensor, *constant, place)?;
            alone.insert(*constant, region);
        }
        let mut all = Vec::with_capacity(self.joined.len());
        for JoinedBuffer { parts, request, .. } in &self.joined {
            let region = request.make_storage(gpu, budget)?;
            for &(part, start) in parts {
                let Role::Constant(constant) = graph.role(part.tensor) else { continue };
                let (buffer, start) = (region.buffer.clone(), region.start + start);
                let size = part.bytes(bytes_of(graph, part.tensor));
                let place = Destination::Buffer { buffer, start, size, packing: part.packing };
                add(writer, budget, part.tensor, constant, place)?;
            }
            all.push(region);
        }
        Ok((alone, all))
    }
}

/// Bytes that a constant takes on the GPU.
fn bytes_of(graph: &DecodedGraph, constant: TensorId) -> u64 {
    let info = graph.info(constant);
    info.elem.bytes(info.bound.count())
}

/// The buffers of constants that are bound individually. Constants with the same bytes share one, as nothing changes them.
fn requests_alone(graph: &DecodedGraph, wanted: &HashSet<u32>) -> Vec<ConstantBuffer> {
    let mut firsts: HashMap<u32, u32> = HashMap::new();
    let mut requests: Vec<ConstantBuffer> = Vec::new();
    let mut known = HashSet::new();
    for (id, role) in (0..).zip(&graph.roles) {
        let Role::Constant(constant) = *role else { continue };
        if !wanted.contains(&constant) || !known.insert(constant) {
            continue;
        }
        let first = *firsts.entry(graph.first_equal(constant)).or_insert(constant);
        let tensor = TensorId(id);
        // An output of the graph may be a constant, and is read back like any other.
        let request = BufferRequest::new(format!("constant {constant}"), bytes_of(graph, tensor), STORAGE);
        let source = graph.source.constants.get(constant as usize).map(|constant| &constant.source);
        let uploads = source != Some(&ConstantSource::Zeros);
        requests.push(ConstantBuffer { constant, tensor, same_as: (first != constant).then_some(first), uploads, request });
    }
    requests
}
