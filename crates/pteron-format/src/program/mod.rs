//! The typed program: the content of a `.pte` file as plain values.

mod read;
mod value;
mod verify;
mod write;

use std::fmt;

pub(crate) use read::read_tables;
pub use value::{AllocationDetails, DeviceType, ExtraTensorInfo, ShapeDynamism, Tensor, TensorDataLocation, Value};
pub(crate) use verify::{duplicate_name, is_permutation, verify, within};
pub(crate) use write::{signed, tables, write_tables};

use crate::dtype::ScalarType;
use crate::number::Float;

/// Declares an index into a list of a plan or a program.
macro_rules! ids {
    ($( $(#[$meta:meta])* $name:ident ),* $(,)?) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a position in its list.
            #[must_use]
            pub fn index(self) -> usize {
                // A u32 fits usize on every target this crate builds for (see `lib.rs`).
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
pub(crate) use ids;

ids! {
    /// A value of a plan.
    ValueId,
    /// A segment of the file.
    SegmentId,
}

/// Data of a program outside its tables: a range of the file, or the bytes themselves.
pub trait Data {
    /// The number of bytes.
    fn byte_len(&self) -> u64;

    /// The bytes, if they are available.
    fn bytes(&self) -> Option<&[u8]>;
}

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteRange {
    /// The first byte, from the start of the file.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Data for ByteRange {
    fn byte_len(&self) -> u64 {
        self.len
    }
    fn bytes(&self) -> Option<&[u8]> {
        None
    }
}

impl Data for &[u8] {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Data for Vec<u8> {
    fn byte_len(&self) -> u64 {
        self.len() as u64
    }
    fn bytes(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// A whole program. `D` is the storage of its data: [`ByteRange`] after reading, bytes or anything with a length for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<D = ByteRange> {
    /// The schema version; 0 so far.
    pub version: u32,
    /// The methods, constant methods among them.
    pub plans: Vec<ExecutionPlan>,
    /// Data after the tables, in file order.
    pub segments: Vec<D>,
    /// Constants inside the tables, as older exporters wrote them. Entry 0 is a placeholder.
    pub inline_constants: Vec<D>,
    /// Delegate blobs inside the tables.
    pub inline_delegates: Vec<D>,
    /// The offsets of constants in their segment. Entry 0 is a placeholder: tensors with buffer 0 have no constant.
    pub constants: Option<SubsegmentOffsets>,
    /// The offsets of initial values of mutable tensors in their segments.
    pub mutable_data: Option<Vec<SubsegmentOffsets>>,
    /// Segments with names.
    pub named_data: Option<Vec<NamedData>>,
}

impl<D> Default for Program<D> {
    fn default() -> Self {
        Self {
            version: 0,
            plans: Vec::new(),
            segments: Vec::new(),
            inline_constants: Vec::new(),
            inline_delegates: Vec::new(),
            constants: None,
            mutable_data: None,
            named_data: None,
        }
    }
}

impl<D> Program<D> {
    /// Converts the storage of the data.
    pub fn map_data<'a, T>(&'a self, mut map: impl FnMut(&'a D) -> T) -> Program<T> {
        let mut list = |data: &'a [D]| data.iter().map(&mut map).collect();
        Program {
            version: self.version,
            plans: self.plans.clone(),
            segments: list(&self.segments),
            inline_constants: list(&self.inline_constants),
            inline_delegates: list(&self.inline_delegates),
            constants: self.constants.clone(),
            mutable_data: self.mutable_data.clone(),
            named_data: self.named_data.clone(),
        }
    }

    /// The plan of this name.
    #[must_use]
    pub fn plan(&self, name: &str) -> Option<&ExecutionPlan> {
        self.plans.iter().find(|plan| plan.name == name)
    }

    /// The segment that holds the data of this name. Linear search; [`Pte::named_segment`](crate::Pte::named_segment) uses a sorted
    /// index.
    #[must_use]
    pub fn named_segment(&self, key: &str) -> Option<&D> {
        let entry = self.named_data.iter().flatten().find(|entry| entry.key == key)?;
        self.segments.get(entry.segment.index())
    }

    /// The bytes of a delegate.
    #[must_use]
    pub fn delegate_data(&self, place: DataRef) -> Option<&D> {
        match place {
            DataRef::Inline(index) => self.inline_delegates.get(index as usize),
            DataRef::Segment(segment) => self.segments.get(segment.index()),
        }
    }
}

/// The offsets of tensors in one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubsegmentOffsets {
    /// The segment.
    pub segment: SegmentId,
    /// Offsets into it, ascending.
    pub offsets: Vec<u64>,
}

/// A segment with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedData {
    /// The name; for delegate constants the SHA-256 of the bytes, in hexadecimal.
    pub key: String,
    /// The segment.
    pub segment: SegmentId,
}

/// A method: values, and chains of instructions over them. A constant method has outputs and no instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutionPlan {
    /// The method's name.
    pub name: String,
    /// How inputs and outputs map to Python containers.
    pub containers: Option<ContainerMetadata>,
    /// Everything instructions refer to.
    pub values: Vec<Value>,
    /// The method's inputs.
    pub inputs: Vec<ValueId>,
    /// The method's outputs.
    pub outputs: Vec<ValueId>,
    /// Instructions; one chain in practice.
    pub chains: Vec<Chain>,
    /// The operators that kernel calls name.
    pub operators: Vec<Operator>,
    /// The delegates that delegate calls name.
    pub delegates: Vec<Delegate>,
    /// Sizes of the planned buffers. Entry 0 is reserved.
    pub buffer_sizes: Vec<u64>,
    /// Devices of planned buffers that are not on the host.
    pub buffer_devices: Option<Vec<BufferDevice>>,
}

impl ExecutionPlan {
    /// The value with this id.
    #[must_use]
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// Whether the method has no instructions, so that its outputs are constants of the program.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.inputs.is_empty() && self.chains.iter().all(|chain| chain.instructions.is_empty())
    }
}

/// Python's description of a method's inputs and outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerMetadata {
    /// Of the inputs.
    pub inputs: String,
    /// Of the outputs.
    pub outputs: String,
}

/// An operator by name and overload, `aten::add` and `out`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name with its namespace.
    pub name: String,
    /// The overload; may be empty.
    pub overload: String,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.overload.as_str() {
            "" => f.write_str(&self.name),
            overload => write!(f, "{}.{overload}", self.name),
        }
    }
}

/// A part of a method that a backend runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegate {
    /// The backend, `VulkanBackend`.
    pub id: String,
    /// The location of its bytes.
    pub data: DataRef,
    /// The options it was compiled with.
    pub specs: Vec<CompileSpec>,
}

impl Delegate {
    /// Creates a delegate of the Vulkan backend, without options.
    #[must_use]
    pub fn vulkan(data: DataRef) -> Self {
        Self { id: crate::vulkan::BACKEND_ID.to_owned(), data, specs: Vec::new() }
    }
}

/// The location of a delegate's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataRef {
    /// In the tables, by index.
    Inline(u32),
    /// In a segment.
    Segment(SegmentId),
}

/// An option a delegate was compiled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileSpec {
    /// Its name.
    pub key: String,
    /// Its value; the backend knows the encoding.
    pub value: Vec<u8>,
}

/// A device of a planned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDevice {
    /// The planned buffer.
    pub buffer: u32,
    /// The kind of device.
    pub device: DeviceType,
    /// Which device of that kind.
    pub index: i8,
}

/// Instructions that run in order, except for jumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Input values.
    pub inputs: Vec<ValueId>,
    /// Output values.
    pub outputs: Vec<ValueId>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// The Python stack trace of each instruction.
    pub stacktrace: Option<Vec<Vec<Frame>>>,
}

/// One step of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Runs a portable kernel.
    KernelCall {
        /// Index of the operator.
        operator: u32,
        /// Its arguments.
        args: Vec<ValueId>,
    },
    /// Runs a delegate.
    DelegateCall {
        /// Index of the delegate.
        delegate: u32,
        /// Its inputs, then its outputs.
        args: Vec<ValueId>,
    },
    /// Copies a value.
    Move {
        /// The source.
        from: ValueId,
        /// The destination.
        to: ValueId,
    },
    /// Jumps if a condition is false.
    JumpFalse {
        /// The condition.
        condition: ValueId,
        /// The target instruction; one past the last ends the chain.
        target: u32,
    },
    /// Frees a tensor.
    Free(ValueId),
}

/// A line of a Python stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The file.
    pub filename: String,
    /// The line in it.
    pub line: i32,
    /// The function.
    pub function: String,
    /// The source text.
    pub context: String,
}
