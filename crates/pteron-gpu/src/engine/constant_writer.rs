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
    /// Floats as 32-bit ones, or as 16-bit ones where a state or a packed matrix holds those.
    Floats {
        from: FloatType,
        half: bool,
    },
    /// 64-bit integers as 32-bit ones.
    Narrowed,
    /// 16-bit integers as 32-bit ones.
    Widened,
}

/// The floats of a file that are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloatType {
    F16,
    BF16,
    F32,
    F64,
}

impl FloatType {
    fn size(self) -> u64 {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "GPUs compute with 32-bit floats")]
    fn read(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Self::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
            (Self::BF16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
            (Self::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Self::F64, bytes) => f64::from_le_bytes(bytes.try_into().unwrap_or_default()) as f32,
            _ => 0.0,
        }
    }
}

impl Conversion {
    fn of(graph: &DecodedGraph, tensor: TensorId, place: &Destination) -> Self {
        let value = graph.source.values.get(tensor.index()).and_then(|value| value.as_tensor());
        let half = matches!(place, Destination::Buffer { packing: Some(packing), .. } if packing.is_half());
        let half = half || graph.info(tensor).elem == Elem::F16;
        let from = match value.map(|tensor| tensor.dtype) {
            Some(DataType::Float16) if half => return Self::Same,
            Some(DataType::Float32) if !half => return Self::Same,
            Some(DataType::Float16) => FloatType::F16,
            Some(DataType::BFloat16) => FloatType::BF16,
            Some(DataType::Float32) => FloatType::F32,
            Some(DataType::Float64) => FloatType::F64,
            Some(DataType::Int64) => return Self::Narrowed,
            Some(DataType::Int16) => return Self::Widened,
            _ => return Self::Same,
        };
        Self::Floats { from, half }
    }

    /// Bytes of an element in the file, and on the GPU.
    fn sizes(self) -> (u64, u64) {
        match self {
            Self::Same => (1, 1),
            Self::Floats { from, half } => (from.size(), if half { 2 } else { 4 }),
            Self::Narrowed => (8, 4),
            Self::Widened => (2, 4),
        }
    }

    /// The length on the GPU of `bytes` bytes of the file.
    fn len(self, bytes: u64) -> u64 {
        let (from, to) = self.sizes();
        (bytes / from).saturating_mul(to)
    }

    /// The bytes of the file for `bytes` bytes on the GPU.
    fn source_len(self, bytes: u64) -> u64 {
        let (from, to) = self.sizes();
        (bytes / to).saturating_mul(from)
    }

    /// Converts bytes to their form on the GPU.
    fn convert(self, tensor: TensorId, bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>> {
        let room = usize::try_from(self.len(bytes.len() as u64)).unwrap_or(usize::MAX);
        Ok(match self {
            Self::Same => bytes,
            Self::Floats { from: FloatType::F32, half: true } => Cow::Owned(narrow(&bytes)),
            Self::Floats { from, half } => {
                let mut floats = alloc::vec(room)?;
                let size = usize::try_from(from.size()).unwrap_or(1);
                for number in bytes.chunks_exact(size).map(|bytes| from.read(bytes)) {
                    match half {
                        true => floats.extend_from_slice(&half::f16::from_f32(number).to_le_bytes()),
                        false => floats.extend_from_slice(&number.to_le_bytes()),
                    }
                }
                Cow::Owned(floats)
            }
            Self::Widened => {
                let mut wide = alloc::vec(room)?;
                for word in bytes.chunks_exact(2) {
                    wide.extend_from_slice(&i32::from(i16::from_le_bytes([word[0], word[1]])).to_le_bytes());
                }
                Cow::Owned(wide)
            }
            Self::Narrowed => {
                let mut narrow = alloc::vec(room)?;
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
    fn cut<'d>(&mut self, bytes: Cow<'d, [u8]>) -> Result<Cow<'d, [u8]>> {
        let left = self.len - self.done;
        let unit = self.unit();
        let whole = unit.min(left);
        if ((self.rest.len() + bytes.len()) as u64) < whole {
            // Room for all that is to come: a tensor of scales arrives in many pieces, and is as long as the file says.
            let lacking = usize::try_from(whole).unwrap_or(usize::MAX).saturating_sub(self.rest.len());
            alloc::reserve(&mut self.rest, lacking)?;
            self.rest.extend_from_slice(&bytes);
            return Ok(Cow::Borrowed(&[]));
        }
        let mut bytes = match self.rest.is_empty() {
            true => bytes,
            false => {
                let mut rest = std::mem::take(&mut self.rest);
                alloc::reserve(&mut rest, bytes.len())?;
                rest.extend_from_slice(&bytes);
                Cow::Owned(rest)
            }
        };
        let have = bytes.len() as u64;
        let keep = if have >= left { left } else { have - have % unit };
        let keep = usize::try_from(keep).unwrap_or(bytes.len());
        if have < left {
            self.rest = alloc::copied(&bytes[keep..])?;
        }
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[..keep],
            Cow::Owned(bytes) => bytes.truncate(keep),
        }
        Ok(bytes)
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

/// Uploads a constant of which all buffers are registered, if it is there already.
pub(super) type FeedFn<'f> = dyn FnMut(&mut ConstantWriter, &mut MemoryBudget, ConstantId) -> Result<()> + 'f;

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
        let conversion = Conversion::of(graph, tensor, &place);
        upload.targets.push(UploadTarget { tensor, conversion, place });
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
        let bytes = upload.cut(bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
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
                    (sink.put)(buffer, start + at, Upload { data, packing: *packing, counted: Counted::Yes })?;
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
                    (sink.put)(buffer, at, Upload { data, packing: None, counted: Counted::No })?;
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

    /// Writes a constant in full, unless that has been done.
    pub(super) fn feed_whole<'d>(
        &mut self,
        sink: &mut UploadSink<'_, '_, 'd>,
        graph: &DecodedGraph,
        bytes: &ConstantBytes<'d>,
        id: ConstantId,
    ) -> Result<()> {
        if self.uploads.get(&id.0).is_none_or(ConstantUpload::is_full) {
            return Ok(());
        }
        match bytes(id).ok_or_else(|| missing(graph, id))? {
            // Conversion holds one piece at a time on the host, however large the constant is.
            Cow::Borrowed(bytes) if self.converts(id) => {
                bytes.chunks(self.piece(id)).try_for_each(|piece| self.feed(sink, id, Cow::Borrowed(piece)))
            }
            bytes => self.feed(sink, id, bytes),
        }
    }

    /// Writes every constant that has not been written.
    pub(super) fn feed_rest<'d>(
        &mut self,
        sink: &mut UploadSink<'_, '_, 'd>,
        graph: &DecodedGraph,
        bytes: &ConstantBytes<'d>,
    ) -> Result<()> {
        let ids: Vec<ConstantId> = self.constants().map(|(id, _)| id).collect();
        ids.into_iter().try_for_each(|id| self.feed_whole(sink, graph, bytes, id))?;
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
