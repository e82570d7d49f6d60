//! Uploads constants into buffers, each from start to end: whole from a mapped file, or piece by piece as it is downloaded.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::ir::{self, ConstantId, ConstantSource, DataType};
use pteron_format::alloc;
use wgpu::BufferUsages as Usage;

use super::Gpu;
use super::buffers::MemoryBudget;
use super::load::ConstantBytes;
use super::upload::{Counted, Upload, WriteFn};
use crate::error::{Error, Result};
use crate::graph::{DecodedGraph, Elem};
use crate::live::TensorId;
use crate::narrow_state::narrow;
use crate::packing::Packing;

/// The conversion from a file's bytes to those on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    Same,
    /// 16-bit floats to 32-bit floats.
    Widened,
    /// 32-bit floats as 16-bit ones, where a state holds those.
    Halved,
    /// 64-bit integers as 32-bit ones.
    Narrowed,
}

impl Conversion {
    fn of(graph: &DecodedGraph, tensor: TensorId) -> Self {
        let value = graph.source.values.get(tensor.index()).and_then(|value| value.as_tensor());
        match (value.map(|tensor| tensor.dtype), graph.info(tensor).elem) {
            (Some(DataType::Float32), Elem::F16) => Self::Halved,
            (Some(DataType::Float16), Elem::F16) => Self::Same,
            (Some(DataType::Float16), _) => Self::Widened,
            (Some(DataType::Int64), _) => Self::Narrowed,
            _ => Self::Same,
        }
    }

    /// The length on the GPU of `bytes` bytes of the file.
    fn len(self, bytes: u64) -> u64 {
        match self {
            Self::Same => bytes,
            Self::Widened => bytes.saturating_mul(2),
            Self::Halved | Self::Narrowed => bytes / 2,
        }
    }

    /// The bytes of the file for `bytes` bytes on the GPU.
    fn source_len(self, bytes: u64) -> u64 {
        match self {
            Self::Same => bytes,
            Self::Widened => bytes / 2,
            Self::Halved | Self::Narrowed => bytes.saturating_mul(2),
        }
    }

    /// Converts bytes to their form on the GPU.
    fn convert(self, tensor: TensorId, bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>> {
        Ok(match self {
            Self::Same => bytes,
            Self::Halved => Cow::Owned(narrow(&bytes)),
            Self::Widened => {
                let widen = |pair: &[u8]| half::f16::from_le_bytes([pair[0], pair[1]]).to_f32().to_le_bytes();
                let mut wide = alloc::vec(bytes.len().saturating_mul(2))?;
                bytes.chunks_exact(2).for_each(|pair| wide.extend_from_slice(&widen(pair)));
                Cow::Owned(wide)
            }
            Self::Narrowed => {
                let mut narrow = alloc::vec(bytes.len() / 2)?;
                let too_large = |value| {
                    let reason = format!("holds {value}, which does not fit the 32 bits GPUs compute with");
                    Error::Tensor { tensor: tensor.0, reason }
                };
                for word in bytes.chunks_exact(8) {
                    let value = i64::from_le_bytes(word.try_into().unwrap_or_default());
                    narrow.extend_from_slice(&i32::try_from(value).map_err(|_| too_large(value))?.to_le_bytes());
                }
                Cow::Owned(narrow)
            }
        })
    }
}

/// Pieces are cut so that each form has whole numbers on one side and whole words on the other.
const UNIT: u64 = 8;
/// Bytes that are converted at a time.
const PIECE: usize = 8 << 20;

/// One destination of a constant.
#[derive(Debug)]
struct UploadTarget {
    tensor: TensorId,
    conversion: Conversion,
    place: Destination,
}

impl UploadTarget {
    /// The layout that the upload packs converted bytes in.
    fn packing(&self) -> Option<Packing> {
        if let Destination::Buffer { packing, .. } = self.place { packing } else { None }
    }

    /// Bytes of the file that are converted and packed together: whole numbers, or whole tiles.
    fn unit(&self) -> u64 {
        match self.packing() {
            Some(packing) => packing.unit().map_or(u64::MAX, |unit| self.conversion.source_len(unit)).max(1),
            None => UNIT,
        }
    }

    /// The offset on the GPU of what follows `done` bytes of the file.
    fn offset(&self, done: u64) -> u64 {
        let converted = self.conversion.len(done);
        match self.packing() {
            // Where all of it is packed together, it starts at the beginning.
            Some(packing) => packing.unit().map_or(0, |unit| (converted / unit.max(1)).saturating_mul(packing.tile_bytes())),
            None => converted,
        }
    }
}

/// The target of an upload.
#[derive(Debug)]
pub(super) enum Destination {
    /// A range of a buffer, in the layout of the file or another one.
    Buffer { buffer: wgpu::Buffer, start: u64, size: u64, packing: Option<Packing> },
    /// The initial value of a state's tensor, by its index. It has a buffer only if it is not zeros.
    State(usize),
}

/// A constant, how much of it has arrived, and its destinations.
#[derive(Debug, Default)]
struct ConstantUpload {
    len: u64,
    /// Bytes that have been uploaded.
    done: u64,
    /// The remainder of less than a unit that has not been uploaded.
    rest: Vec<u8>,
    targets: Vec<UploadTarget>,
}

impl ConstantUpload {
    fn is_full(&self) -> bool {
        self.done == self.len
    }

    /// Bytes that all destinations can convert together.
    fn unit(&self) -> u64 {
        self.targets.iter().fold(UNIT, |unit, target| lcm(unit, target.unit()))
    }

    /// Returns the bytes that can be uploaded now: whole units, or the rest of the constant. Bytes after its end are
    /// ignored.
    fn cut<'d>(&mut self, bytes: Cow<'d, [u8]>) -> Cow<'d, [u8]> {
        let left = self.len - self.done;
        let unit = self.unit();
        if ((self.rest.len() + bytes.len()) as u64) < unit.min(left) {
            self.rest.extend_from_slice(&bytes);
            return Cow::Borrowed(&[]);
        }
        let mut bytes = match self.rest.is_empty() {
            true => bytes,
            false => {
                let mut rest = std::mem::take(&mut self.rest);
                rest.extend_from_slice(&bytes);
                Cow::Owned(rest)
            }
        };
        let have = bytes.len() as u64;
        let keep = if have >= left { left } else { have - have % unit };
        let keep = usize::try_from(keep).unwrap_or(bytes.len());
        if have < left {
            self.rest = bytes[keep..].to_vec();
        }
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[..keep],
            Cow::Owned(bytes) => bytes.truncate(keep),
        }
        bytes
    }
}

/// Every constant of a graph that has a destination. Constants with the same bytes are one.
#[derive(Debug, Default)]
pub(super) struct ConstantWriter {
    uploads: BTreeMap<u32, ConstantUpload>,
    /// Initial values of states, where they are not zeros.
    initial: Vec<Option<wgpu::Buffer>>,
}

/// The sink of an upload.
pub(super) struct UploadSink<'a, 'p, 'd> {
    pub(super) gpu: &'a Gpu,
    pub(super) budget: &'a mut MemoryBudget,
    pub(super) put: &'a mut WriteFn<'p, 'd>,
}

impl ConstantWriter {
    /// Adds a destination for a tensor's constant.
    pub(super) fn add(&mut self, graph: &DecodedGraph, tensor: TensorId, constant: u32, place: Destination) {
        if let Destination::State(index) = place {
            self.initial.resize_with(self.initial.len().max(index + 1), || None);
        }
        let ir::Constant { len, ref source } = graph.source.constants[constant as usize];
        if *source == ConstantSource::Zeros {
            // New buffers are zeros, and so are states without an initial buffer.
            return;
        }
        let upload = self
            .uploads
            .entry(graph.first_equal(constant))
            .or_insert_with(|| ConstantUpload { len, ..ConstantUpload::default() });
        upload.targets.push(UploadTarget { tensor, conversion: Conversion::of(graph, tensor), place });
    }

    /// The constants and their lengths in bytes.
    pub(super) fn constants(&self) -> impl Iterator<Item = (ConstantId, u64)> {
        self.uploads.iter().map(|(&constant, upload)| (ConstantId(constant), upload.len))
    }

    /// Writes the next bytes of a constant to all of its destinations.
    pub(super) fn feed<'d>(
        &mut self,
        sink: &mut UploadSink<'_, '_, 'd>,
        constant: ConstantId,
        bytes: Cow<'d, [u8]>,
    ) -> Result<()> {
        let Self { uploads, initial } = self;
        let Some(upload) = uploads.get_mut(&constant.0) else { return Ok(()) };
        let bytes = upload.cut(bytes);
        // Caches of all layers have the same initial bytes, which may be many.
        let mut zero = None;
        for target in &upload.targets {
            let UploadTarget { tensor, conversion, place } = target;
            let at = target.offset(upload.done);
            let zeros = || matches!(place, Destination::State(index) if initial.get(*index).is_some_and(Option::is_none));
            if zeros() && *zero.get_or_insert_with(|| is_zero(&bytes)) {
                continue;
            }
            let data = conversion.convert(*tensor, bytes.clone())?;
            match place {
                Destination::Buffer { buffer, start, size, packing } => {
                    let data = if packing.is_some() { data } else { within(data, size.saturating_sub(at)) };
                    (sink.put)(buffer, start + at, Upload { data, packing: *packing, counted: Counted::Yes });
                }
                Destination::State(index) => {
                    let Some(slot) = initial.get_mut(*index) else { continue };
                    let buffer = match slot {
                        Some(buffer) => buffer,
                        None => {
                            let (label, size) = (format!("initial state {tensor}"), conversion.len(upload.len));
                            let usage = Usage::COPY_SRC | Usage::COPY_DST;
                            sink.budget.reservation(sink.gpu, &label, size)?;
                            slot.insert(sink.gpu.buffer(sink.budget, &label, size, usage)?)
                        }
                    };
                    (sink.put)(buffer, at, Upload { data, packing: None, counted: Counted::No });
                }
            }
        }
        upload.done += bytes.len() as u64;
        Ok(())
    }

    /// Whether a constant is converted for any destination.
    fn converts(&self, constant: ConstantId) -> bool {
        let targets = self.uploads.get(&constant.0).map_or(&[][..], |upload| &upload.targets);
        targets.iter().any(|target| target.conversion != Conversion::Same)
    }

    /// Bytes of a constant that are converted at a time.
    fn piece(&self, constant: ConstantId) -> usize {
        let unit = self.uploads.get(&constant.0).map_or(UNIT, ConstantUpload::unit);
        usize::try_from(unit).map_or(PIECE, |unit| (PIECE - PIECE % unit.min(PIECE)).max(unit))
    }

    /// Writes every constant in full.
    pub(super) fn feed_all<'d>(
        &mut self,
        sink: &mut UploadSink<'_, '_, 'd>,
        graph: &DecodedGraph,
        bytes: &ConstantBytes<'d>,
    ) -> Result<()> {
        let ids: Vec<ConstantId> = self.constants().map(|(id, _)| id).collect();
        for id in ids {
            match bytes(id).ok_or_else(|| missing(graph, id))? {
                // Conversion holds one piece at a time on the host, however large the constant is.
                Cow::Borrowed(bytes) if self.converts(id) => {
                    bytes.chunks(self.piece(id)).try_for_each(|piece| self.feed(sink, id, Cow::Borrowed(piece)))?;
                }
                bytes => self.feed(sink, id, bytes)?,
            }
        }
        self.check_full(graph)
    }

    /// Discards the uploaded part of a constant; its first byte is expected next.
    pub(super) fn restart(&mut self, constant: ConstantId) {
        let Some(upload) = self.uploads.get_mut(&constant.0) else { return };
        upload.done = 0;
        upload.rest.clear();
    }

    /// Checks that every constant is complete.
    pub(super) fn check_full(&self, graph: &DecodedGraph) -> Result<()> {
        match self.uploads.iter().find(|(_, upload)| !upload.is_full()) {
            Some((&constant, _)) => Err(missing(graph, ConstantId(constant))),
            None => Ok(()),
        }
    }

    /// Returns the initial values of states, where they are not zeros.
    pub(super) fn into_initial(self) -> Vec<Option<wgpu::Buffer>> {
        self.initial
    }
}

/// The least common multiple of two lengths, or a length that no constant has.
fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

fn missing(graph: &DecodedGraph, constant: ConstantId) -> Error {
    let key = match graph.source.constants.get(constant.index()).map(|constant| &constant.source) {
        Some(ConstantSource::Named(key)) => key.clone(),
        _ => format!("constant {}", constant.0),
    };
    Error::MissingConstant { key }
}

/// A destination has the size of its constant's dims; parsing has checked that the bytes have it, too.
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

/// Tests many bytes per branch, so that the loop vectorises.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
}
