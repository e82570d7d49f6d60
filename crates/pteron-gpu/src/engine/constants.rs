//! Constants on their way to the GPU: uploaded straight from the mapped file, shared where keys say they are equal, and behind
//! one another in one buffer where a kernel reads several.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pteron_format::vulkan::{ConstantId, ConstantSource, DataType};
use wgpu::BufferUsages as Usage;

use super::Gpu;
use super::buffers::{MemoryBudget, Request, STORAGE};
use super::load::ConstantBytes;
use super::upload::{Counted, Put};
use crate::error::{Error, Result};
use crate::graph::{Elem, Graph, Role};
use crate::half_cache::halves;
use crate::live::TensorId;
use crate::memory::{Memory, Place, joined};
use crate::plan::Bind;
use crate::resize::Planned;

/// The buffers that constants need, known before any is made.
#[derive(Debug)]
pub(super) struct ConstantRequests {
    alone: Vec<ConstantRequest>,
    joined: Vec<JoinedRequest>,
}

/// A constant's buffer: made for the first tensor that has its bytes, shared by the others.
#[derive(Debug)]
struct ConstantRequest {
    constant: u32,
    tensor: TensorId,
    same_as: Option<u32>,
    request: Request,
}

/// A buffer of constants that lie behind one another, and where each of them begins.
#[derive(Debug)]
struct JoinedRequest {
    parts: Vec<(TensorId, u64)>,
    /// Bytes of all of them, without what lies between.
    bytes: u64,
    request: Request,
}

/// A constant's bytes as the GPU holds them: halves widened, 64-bit integers narrowed; floats narrowed where a state holds halves.
fn constant_bytes<'a>(graph: &Graph, tensor: TensorId, constant: u32, bytes: &ConstantBytes<'a>) -> Result<Cow<'a, [u8]>> {
    let id = ConstantId(constant);
    let Some(raw) = bytes(id) else {
        let key = match graph.source.constants.get(constant as usize).map(|constant| &constant.source) {
            Some(ConstantSource::Named(key)) => key.clone(),
            _ => format!("constant {constant}"),
        };
        return Err(Error::MissingConstant { key });
    };
    let dtype = graph.source.values.get(tensor.index()).and_then(|value| value.as_tensor()).map(|tensor| tensor.dtype);
    Ok(match dtype {
        Some(DataType::Float32) if graph.info(tensor).elem == Elem::F16 => Cow::Owned(halves(&raw)),
        Some(DataType::Float16) if graph.info(tensor).elem == Elem::F16 => raw,
        Some(DataType::Float16) => {
            let widen = |pair: &[u8]| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32().to_le_bytes();
            Cow::Owned(raw.chunks_exact(2).flat_map(widen).collect())
        }
        Some(DataType::Int64) => {
            let mut narrow = Vec::with_capacity(raw.len() / 2);
            for word in raw.chunks_exact(8) {
                let value = i64::from_le_bytes(word.try_into().unwrap_or_default());
                let Ok(value) = i32::try_from(value) else {
                    let reason = format!("holds {value}, which does not fit the 32 bits GPUs compute with");
                    return Err(Error::Tensor { tensor: tensor.0, reason });
                };
                narrow.extend_from_slice(&value.to_le_bytes());
            }
            Cow::Owned(narrow)
        }
        _ => raw,
    })
}

/// The constants that a kernel binds by themselves, or that are read back. Others have no buffer of their own.
fn bound_alone(graph: &Graph, planned: &Planned, memory: &Memory) -> HashSet<u32> {
    let active = planned.recipes().iter().zip(&memory.aliased).filter(|&(_, &aliased)| !aliased);
    let binds = active.flat_map(|(recipes, _)| recipes.list.iter().flat_map(|recipe| &recipe.binds));
    let bound = binds.filter_map(|bind| if let Bind::Tensor(tensor) = bind { Some(tensor) } else { None });
    let constant = |tensor: &TensorId| match memory.tensors[tensor.index()] {
        Some(Place::Constant(constant)) => Some(constant),
        _ => None,
    };
    bound.chain(&graph.outputs).filter_map(constant).collect()
}

impl ConstantRequests {
    pub(super) fn new(graph: &Graph, planned: &Planned, memory: &Memory) -> Self {
        let joined = memory.joins.iter().enumerate().map(|(index, parts)| {
            let (starts, size) = joined(parts.iter().map(|&part| bytes_of(graph, part)));
            let request = Request::new(format!("joined constants {index}"), size, STORAGE);
            let bytes = parts.iter().map(|&part| bytes_of(graph, part)).sum();
            JoinedRequest { parts: parts.iter().copied().zip(starts).collect(), bytes, request }
        });
        Self { alone: requests_alone(graph, &bound_alone(graph, planned, memory)), joined: joined.collect() }
    }

    /// Every buffer that is to be made.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &Request> {
        let alone = self.alone.iter().filter(|constant| constant.same_as.is_none()).map(|constant| &constant.request);
        alone.chain(self.joined.iter().map(|joined| &joined.request))
    }

    /// Bytes that are written into them.
    pub(super) fn bytes(&self) -> u64 {
        let alone = self.alone.iter().filter(|constant| constant.same_as.is_none()).map(|constant| constant.request.size);
        alone.chain(self.joined.iter().map(|joined| joined.bytes)).sum()
    }

    /// Makes the buffers and writes each constant into its place, straight from where its bytes are.
    pub(super) fn upload<'d>(
        &self,
        gpu: &Gpu,
        graph: &Graph,
        bytes: &ConstantBytes<'d>,
        budget: &mut MemoryBudget,
        put: &mut Put<'_, 'd>,
    ) -> Result<(HashMap<u32, wgpu::Buffer>, Vec<wgpu::Buffer>)> {
        let mut alone: HashMap<u32, wgpu::Buffer> = HashMap::new();
        for ConstantRequest { constant, tensor, same_as, request } in &self.alone {
            if let Some(buffer) = same_as.and_then(|first| alone.get(&first)).cloned() {
                alone.insert(*constant, buffer);
                continue;
            }
            let data = constant_bytes(graph, *tensor, *constant, bytes)?;
            let buffer = request.make(gpu, budget)?;
            put(&buffer, 0, within(data, request.size), Counted::Yes);
            alone.insert(*constant, buffer);
        }
        let mut all = Vec::with_capacity(self.joined.len());
        for JoinedRequest { parts, request, .. } in &self.joined {
            let buffer = request.make(gpu, budget)?;
            for &(part, start) in parts {
                let Role::Constant(constant) = graph.role(part) else { continue };
                let data = constant_bytes(graph, part, constant, bytes)?;
                put(&buffer, start, within(data, bytes_of(graph, part)), Counted::Yes);
            }
            all.push(buffer);
        }
        Ok((alone, all))
    }
}

/// Bytes that a constant takes on the GPU.
fn bytes_of(graph: &Graph, constant: TensorId) -> u64 {
    let info = graph.info(constant);
    info.elem.bytes(info.bound.count())
}

/// A buffer has the size its constant's dims ask for; reading has checked that the bytes have it, too.
fn within(data: Cow<'_, [u8]>, size: u64) -> Cow<'_, [u8]> {
    let len = data.len().min(usize::try_from(size).unwrap_or(usize::MAX));
    match data {
        Cow::Borrowed(data) => Cow::Borrowed(&data[..len]),
        Cow::Owned(mut data) => {
            data.truncate(len);
            Cow::Owned(data)
        }
    }
}

/// The buffers of constants that are bound by themselves. Those that hold the same bytes are one, as nothing changes them.
fn requests_alone(graph: &Graph, wanted: &HashSet<u32>) -> Vec<ConstantRequest> {
    let mut firsts: HashMap<u32, u32> = HashMap::new();
    let mut requests: Vec<ConstantRequest> = Vec::new();
    let mut known = HashSet::new();
    for (id, role) in graph.roles.iter().enumerate() {
        let Role::Constant(constant) = *role else { continue };
        if !wanted.contains(&constant) || !known.insert(constant) {
            continue;
        }
        let first = *firsts.entry(graph.first_equal(constant)).or_insert(constant);
        let tensor = TensorId(u32::try_from(id).unwrap_or(u32::MAX));
        // An output of the graph may be a constant, and is read back like any other.
        let request = Request::new(format!("constant {constant}"), bytes_of(graph, tensor), STORAGE);
        requests.push(ConstantRequest { constant, tensor, same_as: (first != constant).then_some(first), request });
    }
    requests
}

/// What a state starts as, where that is not zeros.
pub(super) fn initial_states<'d>(
    gpu: &Gpu,
    graph: &Graph,
    memory: &Memory,
    bytes: &ConstantBytes<'d>,
    budget: &mut MemoryBudget,
    put: &mut Put<'_, 'd>,
) -> Result<Vec<Option<wgpu::Buffer>>> {
    let mut initial = Vec::new();
    // Caches of all layers start as the same bytes, and those may be many.
    let mut known_zeros = HashSet::new();
    for &tensor in &memory.states {
        let Role::State(constant) = graph.role(tensor) else { continue };
        let first = graph.first_equal(constant);
        if known_zeros.contains(&first) {
            initial.push(None);
            continue;
        }
        let data = constant_bytes(graph, tensor, constant, bytes)?;
        if is_zero(&data) {
            known_zeros.insert(first);
            initial.push(None);
            continue;
        }
        let label = format!("initial state {tensor}");
        let buffer = gpu.buffer(budget, &label, data.len() as u64, Usage::COPY_SRC | Usage::COPY_DST)?;
        put(&buffer, 0, data, Counted::No);
        initial.push(Some(buffer));
    }
    Ok(initial)
}

/// Looks at many bytes between two branches, as vectors of them.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}
