//! An opened program: its file, its external data, and its constant methods.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use pteron_format::alloc::{self, OutOfMemory};
use pteron_format::program::{DataRef, ExecutionPlan, Tensor as PlanTensor, TensorDataLocation, Value};
use pteron_format::vulkan::ConstantSource;
use pteron_format::{ByteRange, Bytes, BytesError, Ptd, Pte};
use pteron_gpu::frontend::method::DelegateGraph;
use pteron_gpu::frontend::{BuiltGraph, ConstantOrigin};
use pteron_gpu::ir::{self, ConstantId};

use crate::bytes::FileBytes;
use crate::error::{Error, Result};

/// A verified program and its external data. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) files: Arc<Files>,
}

#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) pte: Pte<FileBytes>,
    data: Vec<Ptd<FileBytes>>,
}

/// An output of a constant method.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstantValue {
    /// None.
    None,
    /// An integer.
    Int(i64),
    /// A Boolean.
    Bool(bool),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(String),
    /// Any other value, by its description.
    Other(&'static str),
}

/// The most bytes of text that a constant method may output.
const MAX_CONSTANT_TEXT: usize = 1 << 20;

impl Program {
    /// Maps and verifies a `.pte` file.
    ///
    /// # Errors
    /// A file that cannot be read, or is broken.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, &[] as &[&std::path::Path])
    }

    /// Maps and verifies a `.pte` file and the `.ptd` files it was exported with.
    ///
    /// # Errors
    /// A file that cannot be read, is broken, or lacks data the program refers to.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open_with(path: impl AsRef<std::path::Path>, data: &[impl AsRef<std::path::Path>]) -> Result<Self> {
        let map = |path: &std::path::Path| {
            let name = path.display().to_string();
            match FileBytes::map(path) {
                Ok(bytes) => Ok((name, bytes)),
                Err(source) => Err(Error::File { path: name, source }),
            }
        };
        let data = data.iter().map(|path| map(path.as_ref())).collect::<Result<Vec<_>>>()?;
        Self::read(map(path.as_ref())?, data)
    }

    /// Verifies a program that is in memory, with the external data it was exported with.
    ///
    /// # Errors
    /// Bytes that are not a program, or that lack data it refers to.
    pub fn from_bytes(program: Vec<u8>, data: Vec<Vec<u8>>) -> Result<Self> {
        let data = data.into_iter().map(|bytes| ("external data".to_owned(), FileBytes::Owned(bytes))).collect();
        Self::read(("program".to_owned(), FileBytes::Owned(program)), data)
    }

    /// Creates a program from parsed files.
    ///
    /// # Errors
    /// A program that refers to data which is in none of the files.
    pub fn from_files(pte: Pte<FileBytes>, data: Vec<Ptd<FileBytes>>) -> std::result::Result<Self, pteron_format::Error> {
        pte.verify_external(&data)?;
        Ok(Self { files: Arc::new(Files { pte, data }) })
    }

    fn read((path, bytes): (String, FileBytes), data: Vec<(String, FileBytes)>) -> Result<Self> {
        let pte = Pte::read(bytes).map_err(|source| Error::Format { path: path.clone(), source: Box::new(source) })?;
        let read = |(path, bytes)| Ptd::read(bytes).map_err(|source| Error::Format { path, source: Box::new(source) });
        let data = data.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        Self::from_files(pte, data).map_err(|source| Error::Format { path, source: Box::new(source) })
    }

    /// The parsed file, for access to all of its content.
    #[must_use]
    pub fn pte(&self) -> &Pte<FileBytes> {
        &self.files.pte
    }

    /// The names of the methods that compute.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.plans().filter(|plan| !plan.is_constant()).map(|plan| plan.name.as_str())
    }

    /// The outputs of a constant method; `None` if there is no such method.
    #[must_use]
    pub fn constant_method(&self, name: &str) -> Option<Vec<ConstantValue>> {
        self.plans().find(|plan| plan.name == name && plan.is_constant()).map(constant_values)
    }

    /// The outputs of every constant method, with its name.
    pub fn constant_outputs(&self) -> impl Iterator<Item = (&str, Vec<ConstantValue>)> {
        self.plans().filter(|plan| plan.is_constant()).map(|plan| (plan.name.as_str(), constant_values(plan)))
    }

    /// The names of the constant methods.
    pub fn constant_methods(&self) -> impl Iterator<Item = &str> {
        self.plans().filter(|plan| plan.is_constant()).map(|plan| plan.name.as_str())
    }

    fn plans(&self) -> impl Iterator<Item = &ExecutionPlan> {
        self.files.pte.program().plans.iter()
    }

    pub(crate) fn plan(&self, name: &str) -> Result<&ExecutionPlan> {
        self.files
            .pte
            .program()
            .plan(name)
            .ok_or_else(|| Error::NoMethod { name: name.to_owned(), methods: self.methods().map(str::to_owned).collect() })
    }
}

/// The outputs of a constant method. Several outputs may refer to the same text.
fn constant_values(plan: &ExecutionPlan) -> Vec<ConstantValue> {
    let mut room = MAX_CONSTANT_TEXT;
    let value = |value: &Value| match value {
        Value::Null => ConstantValue::None,
        Value::Int(value) => ConstantValue::Int(*value),
        Value::Bool(value) => ConstantValue::Bool(*value),
        Value::Double(value) => ConstantValue::Float(value.0),
        Value::String(text) => match room.checked_sub(text.len()) {
            Some(left) => {
                room = left;
                ConstantValue::Text(text.clone())
            }
            None => ConstantValue::Other("a string that is too long"),
        },
        other => ConstantValue::Other(other.kind()),
    };
    plan.outputs.iter().filter_map(|&id| plan.value(id)).map(value).collect()
}

impl Files {
    /// The graph of a delegate, if its backend is supported.
    pub(crate) fn delegate_graph(&self, data: DataRef) -> Option<DelegateGraph<'_>> {
        crate::summary::delegate_graph(&self.pte, data)
    }

    /// The bytes of a graph's constant, from the program or its external data.
    pub(crate) fn constant<'f>(&'f self, plan: &ExecutionPlan, origin: &'f ConstantOrigin) -> Option<Cow<'f, [u8]>> {
        match origin {
            ConstantOrigin::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            _ => self.constant_place(plan, origin).and_then(|place| self.bytes(place)).map(Cow::Borrowed),
        }
    }

    /// The values of constants with one float, as far as they have been read.
    pub(crate) fn scalars(&self, plan: &ExecutionPlan, built: &BuiltGraph) -> BTreeMap<ConstantId, f64> {
        let scalar = |tensor: &ir::Tensor| {
            let constant = tensor.constant.filter(|_| tensor.element_count() == Some(1))?;
            let bytes = self.constant(plan, built.origins.get(constant.index())?)?;
            Some((constant, float(tensor.dtype, &bytes)?))
        };
        built.graph.values.iter().filter_map(ir::Value::as_tensor).filter_map(scalar).collect()
    }

    /// The location of a graph's constant, if it is in a file.
    pub(crate) fn constant_place(&self, plan: &ExecutionPlan, origin: &ConstantOrigin) -> Option<FileRange> {
        match *origin {
            ConstantOrigin::Delegate { data, constant } => self.delegate_constant(data, constant),
            ConstantOrigin::Tensor(id) => self.tensor_place(plan.value(id)?.as_tensor()?),
            ConstantOrigin::Bytes(_) | ConstantOrigin::Zeros => None,
        }
    }

    fn delegate_constant(&self, data: DataRef, constant: u32) -> Option<FileRange> {
        let constants = match self.delegate_graph(data)? {
            DelegateGraph::Vulkan(graph) => &graph.constants,
            DelegateGraph::Xnnpack(graph) => &graph.constants,
        };
        let constant = constants.get(constant as usize)?;
        let own = self.pte.constant_place(data, constant).map(FileRange::of_program);
        let external = || match &constant.source {
            ConstantSource::Named(key) => self.named(key),
            ConstantSource::Stored(_) => None,
        };
        own.or_else(external)
    }

    fn named(&self, key: &str) -> Option<FileRange> {
        let place = |(file, data): (usize, &Ptd<FileBytes>)| {
            data.named_segment(key).map(|extent| FileRange { file: file + 1, start: extent.start, len: extent.len })
        };
        self.data.iter().enumerate().find_map(place)
    }

    /// Bytes of the program or of external data, if they have been read.
    pub(crate) fn bytes(&self, part: FileRange) -> Option<&[u8]> {
        let extent = ByteRange { start: part.start, len: part.len };
        self.file(part.file)?.get(extent)
    }

    /// A copy of bytes of the program or of external data.
    pub(crate) fn copy(&self, part: FileRange) -> Result<Vec<u8>> {
        let len = usize::try_from(part.len).map_err(|_| OutOfMemory { bytes: part.len })?;
        let mut copy = alloc::zeroed(len)?;
        let file = self.file(part.file).ok_or(Error::NotRead(part))?;
        file.read_at(part.start, &mut copy).map_err(|unread| match unread {
            BytesError::NotLoaded => Error::NotRead(part),
            BytesError::Failed(_) => Error::Changed { file: part.file },
            BytesError::OutOfMemory(lacking) => lacking.into(),
        })?;
        Ok(copy)
    }

    /// Checks that no file has been changed since it was opened.
    ///
    /// # Errors
    /// The first changed file.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        let changed = |file: &usize| self.file(*file).is_some_and(|file| !file.is_unchanged());
        match (0..=self.data.len()).find(changed) {
            Some(file) => Err(Error::Changed { file }),
            None => Ok(()),
        }
    }

    fn file(&self, index: usize) -> Option<&FileBytes> {
        match index.checked_sub(1) {
            None => Some(self.pte.file()),
            Some(index) => self.data.get(index).map(Ptd::file),
        }
    }

    /// Bytes of all files in total.
    pub(crate) fn total_len(&self) -> u64 {
        let data = self.data.iter().map(|data| data.file().file_len());
        data.fold(self.pte.file().file_len(), u64::saturating_add)
    }

    /// The location of a plan tensor's initial bytes.
    pub(crate) fn tensor_place(&self, tensor: &PlanTensor) -> Option<FileRange> {
        let program = self.pte.program();
        if let Some(extra) = tensor.extra.as_ref().filter(|extra| extra.location == TensorDataLocation::External) {
            let key = extra.name.as_deref()?;
            return self.pte.named_segment(key).map(FileRange::of_program).or_else(|| self.named(key));
        }
        if tensor.buffer == 0 {
            return None;
        }
        let len = tensor.byte_len()?;
        let inside = |extent: &ByteRange, at: u64| {
            let fits = at.checked_add(len).is_some_and(|end| end <= extent.len);
            fits.then(|| FileRange { file: 0, start: extent.start + at, len })
        };
        let list = match (tensor.allocation, &program.mutable_data, &program.constants) {
            (Some(_), Some(lists), _) => {
                let list = tensor.extra.as_ref().map_or(0, |extra| extra.mutable_segment);
                lists.get(usize::try_from(list).ok()?)
            }
            (_, _, Some(constants)) if !constants.offsets.is_empty() => Some(constants),
            _ => return inside(program.inline_constants.get(tensor.buffer as usize)?, 0),
        }?;
        inside(program.segments.get(list.segment.index())?, *list.offsets.get(tensor.buffer as usize)?)
    }
}

/// A part of a program's file, or of one of the files with its external data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileRange {
    /// 0 for the program, then the external data in order.
    pub file: usize,
    /// The first byte, from the start of the file.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl FileRange {
    fn of_program(extent: ByteRange) -> Self {
        Self { file: 0, start: extent.start, len: extent.len }
    }

    /// The offset after its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// A float of a file.
fn float(dtype: ir::DataType, bytes: &[u8]) -> Option<f64> {
    Some(match dtype {
        ir::DataType::Float16 => half::f16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
        ir::DataType::BFloat16 => half::bf16::from_le_bytes(bytes.try_into().ok()?).to_f64(),
        ir::DataType::Float32 => f32::from_le_bytes(bytes.try_into().ok()?).into(),
        ir::DataType::Float64 => f64::from_le_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}
