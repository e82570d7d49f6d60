//! Constants on their way to the GPU: uploaded once, straight from the mapped file, shared where keys say they are equal.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pteron_format::vulkan::{ConstantId, ConstantSource, DataType};
use wgpu::BufferUsages as Usage;

use super::Gpu;
use super::buffers::{MemoryBudget, Request, STORAGE};
use super::load::ConstantBytes;
use super::progress::Loading;
use crate::error::{Error, Result};
use crate::graph::{Graph, Role};
use crate::live::TensorId;
use crate::memory::{Memory, Place};

/// A constant's buffer: made for the first tensor that has its bytes, shared by the others.
#[derive(Debug)]
pub(super) struct ConstantRequest {
    constant: u32,
    tensor: TensorId,
    pub(super) same_as: Option<u32>,
    pub(super) request: Request,
}

/// A constant's bytes as the GPU holds them: halves widened, 64-bit integers narrowed.
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

/// The buffers that constants need. Those whose key and type are equal hold the same bytes, and nothing changes them.
pub(super) fn constant_requests(graph: &Graph, memory: &Memory) -> Vec<ConstantRequest> {
    let mut by_key: HashMap<(&str, DataType), u32> = HashMap::new();
    let mut requests: Vec<ConstantRequest> = Vec::new();
    let mut known = HashSet::new();
    for (id, place) in memory.tensors.iter().enumerate() {
        let Some(Place::Constant(constant)) = *place else { continue };
        let Some(tensor) = graph.source.values.get(id).and_then(|value| value.as_tensor()) else { continue };
        if tensor.constant.is_none_or(|own| own.0 != constant) || !known.insert(constant) {
            continue;
        }
        let same_as = match graph.source.constants.get(constant as usize).map(|constant| &constant.source) {
            Some(ConstantSource::Named(key)) => {
                let first = *by_key.entry((key.as_str(), tensor.dtype)).or_insert(constant);
                (first != constant).then_some(first)
            }
            _ => None,
        };
        let tensor = TensorId(u32::try_from(id).unwrap_or(u32::MAX));
        let info = graph.info(tensor);
        let size = info.elem.bytes(info.bound.count());
        // An output of the graph may be a constant, and is read back like any other.
        let request = Request::new(format!("constant {constant}"), size, STORAGE);
        requests.push(ConstantRequest { constant, tensor, same_as, request });
    }
    requests
}

pub(super) fn upload_constants(
    gpu: &Gpu,
    graph: &Graph,
    requests: &[ConstantRequest],
    bytes: &ConstantBytes<'_>,
    budget: &mut MemoryBudget,
    loading: &mut Loading<'_>,
) -> Result<HashMap<u32, wgpu::Buffer>> {
    let mut uploaded: HashMap<u32, wgpu::Buffer> = HashMap::new();
    for ConstantRequest { constant, tensor, same_as, request } in requests {
        if let Some(buffer) = same_as.and_then(|first| uploaded.get(&first)).cloned() {
            uploaded.insert(*constant, buffer);
            continue;
        }
        let data = constant_bytes(graph, *tensor, *constant, bytes)?;
        let buffer = request.make(gpu, budget)?;
        // The buffer has the size its dims ask for; reading has checked that the bytes have it, too.
        let data = &data[..data.len().min(usize::try_from(request.size).unwrap_or(usize::MAX))];
        write_whole(gpu, &buffer, data, |written| loading.uploaded(written));
        uploaded.insert(*constant, buffer);
    }
    Ok(uploaded)
}

/// Bytes of one write: so many that writes cost little, so few that a large constant is seen to move.
const CHUNK: usize = 16 << 20;

/// Writes a whole buffer and says how many bytes each write took; writes must be a multiple of four bytes, buffers are.
fn write_whole(gpu: &Gpu, buffer: &wgpu::Buffer, data: &[u8], mut written: impl FnMut(u64)) {
    let mut start = 0;
    for chunk in data.chunks(CHUNK) {
        let (words, rest) = chunk.split_at(chunk.len() - chunk.len() % 4);
        gpu.inner.queue.write_buffer(buffer, start, words);
        if !rest.is_empty() {
            let mut tail = [0; 4];
            tail[..rest.len()].copy_from_slice(rest);
            gpu.inner.queue.write_buffer(buffer, start + words.len() as u64, &tail);
        }
        start += chunk.len() as u64;
        written(chunk.len().next_multiple_of(4) as u64);
    }
}

pub(super) fn initial_states(
    gpu: &Gpu,
    graph: &Graph,
    memory: &Memory,
    bytes: &ConstantBytes<'_>,
    budget: &mut MemoryBudget,
) -> Result<Vec<Option<wgpu::Buffer>>> {
    let mut initial = Vec::new();
    for &tensor in &memory.states {
        let Role::State(constant) = graph.role(tensor) else { continue };
        let data = constant_bytes(graph, tensor, constant, bytes)?;
        if data.iter().all(|&byte| byte == 0) {
            initial.push(None);
            continue;
        }
        let label = format!("initial state {tensor}");
        let buffer = gpu.buffer(budget, &label, data.len() as u64, Usage::COPY_SRC | Usage::COPY_DST)?;
        write_whole(gpu, &buffer, &data, |_| {});
        initial.push(Some(buffer));
    }
    Ok(initial)
}
