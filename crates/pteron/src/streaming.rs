//! Streaming load: a method whose constants arrive after it is loaded.

use std::collections::BTreeMap;

use pteron_format::is_sha256;
use pteron_format::program::ExecutionPlan;
use pteron_gpu::engine::{Gpu, LoadedGraph, MemoryUse, ProgressCounter, StreamingGraph};
use pteron_gpu::frontend::ConstantOrigin;
use pteron_gpu::ir::{ConstantId, ConstantSource};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::method::{Method, State};
use crate::options::LoadOptions;
use crate::pipelined::{CallInput, PendingCall};
use crate::program::{FileRange, Files, Program};

/// Gaps of up to this many bytes are fetched along with the ranges around them.
const GAP: u64 = 4096;

/// A method that is ready except for its constants. Constants are uploaded as they arrive, and verified against their keys
/// where those are SHA-256 sums, as exporters write them; constants that do not match are discarded.
#[derive(Debug)]
pub struct StreamingMethod {
    /// Its graphs are in `graphs` until all constants are uploaded.
    method: Method,
    graphs: Vec<StreamingGraph>,
    parts: Vec<StreamedConstant>,
    corrupt: Vec<CorruptConstant>,
    gpu: Gpu,
}

/// A constant whose bytes do not match its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptConstant {
    /// Its key.
    pub key: String,
    /// Its location.
    pub part: FileRange,
}

/// A byte range of a file that is needed, and the graphs that need it.
#[derive(Debug)]
struct StreamedConstant {
    place: FileRange,
    /// The key that is the SHA-256 sum of the bytes, if one is.
    key: Option<String>,
    targets: Vec<(usize, ConstantId)>,
    done: u64,
    hasher: Sha256,
}

impl StreamedConstant {
    /// The next byte that is expected.
    fn next(&self) -> u64 {
        self.place.start + self.done
    }

    fn is_full(&self) -> bool {
        self.done == self.place.len
    }

    /// Discards the bytes written so far, in the graphs too.
    fn restart(&mut self, graphs: &mut [StreamingGraph]) {
        (self.done, self.hasher) = (0, Sha256::new());
        for &(graph, constant) in &self.targets {
            graphs[graph].restart(constant);
        }
    }

    /// Writes the next bytes to every graph that needs them.
    fn write(&mut self, graphs: &mut [StreamingGraph], bytes: &[u8]) -> Result<()> {
        for &(graph, constant) in &self.targets {
            graphs[graph].write(constant, bytes)?;
        }
        if self.key.is_some() {
            self.hasher.update(bytes);
        }
        self.done += bytes.len() as u64;
        Ok(())
    }

    /// Whether the bytes written match their key.
    fn is_right(&self) -> bool {
        let found = || self.hasher.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        self.key.as_ref().is_none_or(|key| key.eq_ignore_ascii_case(&found()))
    }
}

/// Bytes of GPU memory that a method takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodMemory {
    /// Total bytes, without states.
    pub total_bytes: u64,
    /// The part that any loader would need.
    pub needed: MemoryUse,
    /// Bytes per state.
    pub state_bytes: u64,
    /// Bytes of the largest tensor of a state.
    pub largest_state_bytes: u64,
}

impl MethodMemory {
    /// The memory of graphs, each with one state.
    pub(crate) fn of<'g>(graphs: impl Iterator<Item = &'g LoadedGraph>) -> Self {
        Self::sum(graphs.map(|graph| Self {
            total_bytes: graph.memory_bytes(),
            needed: graph.memory_needed(),
            state_bytes: graph.state_bytes(),
            largest_state_bytes: graph.largest_state_bytes(),
        }))
    }

    fn sum(graphs: impl Iterator<Item = Self>) -> Self {
        graphs.fold(Self::default(), |sum, graph| Self {
            total_bytes: sum.total_bytes.saturating_add(graph.total_bytes),
            needed: sum.needed.and(graph.needed),
            state_bytes: sum.state_bytes.saturating_add(graph.state_bytes),
            largest_state_bytes: sum.largest_state_bytes.max(graph.largest_state_bytes),
        })
    }
}

impl Program {
    /// Returns the GPU memory that a method would take. Allocates and loads nothing.
    ///
    /// # Errors
    /// Errors of [`load`](Self::load) that occur before anything is loaded: operators that are not supported, sizes that the
    /// GPU does not allow.
    pub fn plan_memory(&self, gpu: &Gpu, method: &str, options: &LoadOptions) -> Result<MethodMemory> {
        let (_, prepared) = self.prepare(gpu, method, options)?;
        let parts = prepared.iter().map(|(graph, _)| MethodMemory {
            total_bytes: graph.memory_bytes(),
            needed: graph.memory_needed(),
            state_bytes: graph.state_bytes(),
            largest_state_bytes: graph.largest_state_bytes(),
        });
        Ok(MethodMemory::sum(parts))
    }

    /// Loads a method except for its constants, which may arrive later and from elsewhere: allocates memory and compiles
    /// kernels. [`LoadOptions::progress`] reports kernels; [`StreamingMethod::progress`] returns the bytes that have
    /// arrived.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_streaming(&self, gpu: &Gpu, method: &str, options: &LoadOptions) -> Result<StreamingMethod> {
        let (method, prepared) = self.prepare(gpu, method, options)?;
        let mut loading = ProgressCounter::new(options.progress.as_ref());
        prepared.iter().for_each(|(graph, _)| loading.expect_pipelines(graph));
        let (mut graphs, mut sources): (Vec<StreamingGraph>, Vec<Vec<ConstantOrigin>>) = Default::default();
        for (graph, origins) in prepared {
            let mut graph = graph.load_streaming(&loading).await?;
            write_known(&mut graph, &origins)?;
            graphs.push(graph);
            sources.push(origins);
        }
        let parts = parts(&self.files, self.plan(&method.name)?, &graphs, &sources)?;
        Ok(StreamingMethod { method, graphs, parts, corrupt: Vec::new(), gpu: gpu.clone() })
    }
}

/// Uploads the constants that translating the method has computed.
fn write_known(graph: &mut StreamingGraph, origins: &[ConstantOrigin]) -> Result<()> {
    let ids: Vec<ConstantId> = graph.constants().map(|(id, _)| id).collect();
    for id in ids {
        if let Some(ConstantOrigin::Bytes(bytes)) = origins.get(id.index()) {
            graph.write(id, bytes)?;
        }
    }
    Ok(())
}

/// The byte ranges of the files that are needed, in file order.
fn parts(
    files: &Files,
    plan: &ExecutionPlan,
    graphs: &[StreamingGraph],
    sources: &[Vec<ConstantOrigin>],
) -> Result<Vec<StreamedConstant>> {
    let mut parts: BTreeMap<FileRange, StreamedConstant> = BTreeMap::new();
    for (index, (graph, origins)) in graphs.iter().zip(sources).enumerate() {
        for (id, _) in graph.constants() {
            let origin = origins.get(id.index());
            if let Some(ConstantOrigin::Bytes(_)) = origin {
                continue;
            }
            let constants = &graph.incomplete().graph().source.constants;
            let key = match constants.get(id.index()).map(|constant| &constant.source) {
                Some(ConstantSource::Named(key)) => Some(key.as_str()),
                _ => None,
            };
            let Some(place) = origin.and_then(|origin| files.constant_place(plan, origin)) else {
                let key = key.map_or_else(|| format!("constant {id}"), str::to_owned);
                return Err(Error::Gpu(pteron_gpu::Error::MissingConstant { key }));
            };
            let new = || StreamedConstant { place, key: None, targets: Vec::new(), done: 0, hasher: Sha256::new() };
            let part = parts.entry(place).or_insert_with(new);
            part.targets.push((index, id));
            let key = key.and_then(checksum).map(str::to_owned);
            part.key = part.key.take().or(key);
        }
    }
    let parts: Vec<StreamedConstant> = parts.into_values().filter(|part| part.place.len > 0).collect();
    // Constants are adjacent; in a file where they overlap, each byte could be requested many times.
    let overlaps = |pair: &[StreamedConstant]| {
        let [first, second] = [pair[0].place, pair[1].place];
        (first.file == second.file && second.start < first.end()).then_some((first, second))
    };
    match parts.windows(2).find_map(overlaps) {
        Some((first, second)) => Err(Error::Overlap { first, second }),
        None => Ok(parts),
    }
}

/// The SHA-256 sum that a key is, or ends with.
fn checksum(key: &str) -> Option<&str> {
    let sum = key.strip_prefix("scale_").unwrap_or(key);
    Some(sum).filter(|sum| is_sha256(sum))
}

impl StreamingMethod {
    /// The byte ranges of the files that are still needed, in file order; ranges with small gaps are merged.
    #[must_use]
    pub fn needs(&self) -> Vec<FileRange> {
        let mut needs: Vec<FileRange> = Vec::new();
        for part in self.parts.iter().filter(|part| !part.is_full()) {
            let (file, start, end) = (part.place.file, part.next(), part.place.end());
            match needs.last_mut() {
                Some(last) if last.file == file && start <= last.end().saturating_add(GAP) => {
                    last.len = last.len.max(end.saturating_sub(last.start));
                }
                _ => needs.push(FileRange { file, start, len: end - start }),
            }
        }
        needs
    }

    /// Missing constants that no checksum in the program covers, in file order. Only the caller can verify their bytes.
    #[must_use]
    pub fn unchecked(&self) -> Vec<FileRange> {
        self.parts.iter().filter(|part| part.key.is_none() && !part.is_full()).map(|part| part.place).collect()
    }

    /// Bytes of constants that have arrived, and of all constants.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let sum = |bytes: fn(&StreamedConstant) -> u64| self.parts.iter().map(bytes).sum();
        (sum(|part| part.done), sum(|part| part.place.len))
    }

    /// Takes bytes of a file that start at offset `start`. Uploads those that continue a constant, and ignores the others.
    ///
    /// # Errors
    /// A number that the GPU's element type cannot represent, or out of memory.
    pub fn write(&mut self, file: usize, start: u64, bytes: &[u8]) -> Result<()> {
        let end = start.saturating_add(bytes.len() as u64);
        let first = self.parts.partition_point(|part| (part.place.file, part.place.end()) <= (file, start));
        for part in &mut self.parts[first..] {
            if (part.place.file, part.place.start) >= (file, end) {
                break;
            }
            let next = part.next();
            if part.is_full() || !(start..end).contains(&next) {
                continue;
            }
            let range = |at: u64| usize::try_from(at.min(part.place.end()) - start).unwrap_or(bytes.len());
            let piece = bytes.get(range(next)..range(end)).unwrap_or_default();
            if let Err(error) = part.write(&mut self.graphs, piece) {
                // Some destinations have the piece and others do not.
                part.restart(&mut self.graphs);
                return Err(error);
            }
            if part.is_full() && !part.is_right() {
                part.restart(&mut self.graphs);
                self.corrupt.extend(part.key.clone().map(|key| CorruptConstant { key, part: part.place }));
            }
        }
        Ok(())
    }

    /// Returns the constants that arrived damaged since the last call. [`needs`](Self::needs) lists them again.
    pub fn take_corrupt(&mut self) -> Vec<CorruptConstant> {
        std::mem::take(&mut self.corrupt)
    }

    /// Waits until the GPU has completed all uploads.
    ///
    /// # Errors
    /// A device that fails.
    pub async fn wait_idle(&self) -> Result<()> {
        Ok(self.gpu.wait_idle().await?)
    }

    /// The GPU memory it takes.
    #[must_use]
    pub fn memory(&self) -> MethodMemory {
        MethodMemory::of(self.graphs.iter().map(StreamingGraph::incomplete))
    }

    /// Creates a state to benchmark the method with before its constants have arrived; those are zeros until then.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new_state(&self) -> Result<State> {
        let graphs = self.graphs.iter().map(|graph| graph.incomplete().new_state()).collect::<Result<_, _>>()?;
        self.method.state_of(graphs)
    }

    /// Starts a call as [`Method::start`] does. It takes as long as with all constants; its output is meaningless.
    ///
    /// # Errors
    /// As [`Method::start`].
    pub fn start(&self, state: &mut State, inputs: &[CallInput<'_>], read: usize) -> Result<PendingCall> {
        let Some(graph) = self.graphs.first() else {
            return Err(Error::Misuse("the method has no graph".to_owned()));
        };
        self.method.start_on(graph.incomplete(), state, inputs, read)
    }

    /// The inputs of the method.
    #[must_use]
    pub fn inputs(&self) -> &[crate::TensorSpec] {
        self.method.inputs()
    }

    /// Returns the method once all constants have arrived.
    ///
    /// # Errors
    /// A constant that is incomplete or damaged, or a device that has failed.
    pub async fn finish(self) -> Result<Method> {
        self.gpu.wait_idle().await?;
        let graphs = self.graphs.into_iter().map(StreamingGraph::finish).collect::<Result<_, _>>()?;
        Ok(Method { graphs, ..self.method })
    }
}
