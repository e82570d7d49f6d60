//! The typed program: what a `.pte` file says, as plain values.

mod read;
mod verify;
mod write;

use std::fmt;

pub(crate) use read::read_tables;
pub(crate) use verify::{duplicate_name, is_permutation, verify, within};
pub(crate) use write::{signed, tables, write_tables};

use crate::dtype::{ScalarType, element_count};
use crate::number::{Float, wire_enum};

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

/// Bytes of a program that lie outside its tables: where they are, or the bytes themselves.
pub trait Data {
    /// How many bytes there are.
    fn byte_len(&self) -> u64;

    /// The bytes, where they are at hand.
    fn bytes(&self) -> Option<&[u8]>;
}

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// The first byte, from the start of the file.
    pub start: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Data for Extent {
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

/// A whole program. `D` says how its data is held: [`Extent`] after reading, bytes or anything with a length for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<D = Extent> {
    /// The schema version; 0 so far.
    pub version: u32,
    /// The methods, constant methods among them.
    pub plans: Vec<Plan>,
    /// Data behind the tables, in file order.
    pub segments: Vec<D>,
    /// Constants inside the tables, as older exporters wrote them. Entry 0 is a placeholder.
    pub inline_constants: Vec<D>,
    /// Delegate blobs inside the tables.
    pub inline_delegates: Vec<D>,
    /// Where constants start in their segment. Entry 0 is a placeholder: tensors with buffer 0 have no constant.
    pub constants: Option<Subsegments>,
    /// Where initial values of mutable tensors start in their segments.
    pub mutable_data: Option<Vec<Subsegments>>,
    /// Segments with names.
    pub named_data: Option<Vec<NamedData>>,
}

impl<D> Program<D> {
    /// The same program with its data held in another way.
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
    pub fn plan(&self, name: &str) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.name == name)
    }

    /// The segment that holds the data of this name.
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

/// Where tensors start inside one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsegments {
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
pub struct Plan {
    /// The method's name.
    pub name: String,
    /// How inputs and outputs map to Python containers.
    pub containers: Option<Containers>,
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

impl Plan {
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
pub struct Containers {
    /// Of the inputs.
    pub inputs: String,
    /// Of the outputs.
    pub outputs: String,
}

/// A value of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Null,
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(Float),
    /// A tensor.
    Tensor(Box<Tensor>),
    /// A string.
    String(String),
    /// Ids of integer values.
    IntList(Vec<ValueId>),
    /// Floating-point numbers.
    DoubleList(Vec<Float>),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Ids of tensor values.
    TensorList(Vec<ValueId>),
    /// Ids of tensor values, or None.
    OptionalTensorList(Vec<Option<ValueId>>),
}

impl Value {
    /// What kind of value it is, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "None",
            Self::Int(_) => "an integer",
            Self::Bool(_) => "a bool",
            Self::Double(_) => "a float",
            Self::Tensor(_) => "a tensor",
            Self::String(_) => "a string",
            Self::IntList(_) => "a list of integers",
            Self::DoubleList(_) => "a list of floats",
            Self::BoolList(_) => "a list of bools",
            Self::TensorList(_) => "a list of tensors",
            Self::OptionalTensorList(_) => "a list of optional tensors",
        }
    }

    /// The tensor, if it is one.
    #[must_use]
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

wire_enum! {
    /// Whether a tensor's sizes can change from call to call.
    Dynamism: i8, "a tensor's shape dynamism" {
        /// The sizes are the sizes.
        Static = 0,
        /// The sizes are upper bounds.
        Bound = 1,
        /// The sizes are not known before the program runs.
        Unbound = 2,
    }
    /// Where a constant tensor's data lies.
    DataLocation: i8, "a tensor's data location" {
        /// In a segment of the program.
        Segment = 0,
        /// In external data, under the tensor's name.
        External = 1,
    }
    /// Where a tensor or buffer lives at run time.
    Device: i8, "a device type" {
        /// Host memory.
        Cpu = 0,
        /// A CUDA device.
        Cuda = 1,
    }
}

/// A tensor value of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub scalar_type: ScalarType,
    /// First element within the storage; always 0 in what the exporter writes.
    pub storage_offset: u32,
    /// Sizes, or their upper bounds.
    pub sizes: Vec<u32>,
    /// Dimensions from outermost to innermost in memory.
    pub dim_order: Vec<u8>,
    /// Whether the tensor wants gradients.
    pub requires_grad: bool,
    /// Which constant or initial value; 0 for neither.
    pub buffer: u32,
    /// Where the memory planner put it.
    pub allocation: Option<Allocation>,
    /// PyTorch's layout; 0 (strided) in practice.
    pub layout: i8,
    /// Whether sizes can change.
    pub dynamism: Dynamism,
    /// What only some tensors have.
    pub extra: Option<ExtraTensorInfo>,
}

impl Tensor {
    /// Elements at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn element_count(&self) -> Option<u64> {
        element_count(self.sizes.iter().copied())
    }

    /// Bytes at the largest size, if 64 bits can count them.
    #[must_use]
    pub fn byte_len(&self) -> Option<u64> {
        self.element_count()?.checked_mul(self.scalar_type.size())
    }
}

/// A place in planned memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The planned buffer.
    pub memory: u32,
    /// The offset in it.
    pub offset: u64,
}

/// What only some tensors have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraTensorInfo {
    /// Which list of initial values a mutable tensor's buffer counts in.
    pub mutable_segment: u64,
    /// The name the tensor had in the module.
    pub name: Option<String>,
    /// Where its data lies.
    pub location: DataLocation,
    /// The kind of device it lives on.
    pub device: Device,
    /// Which device of that kind.
    pub device_index: i8,
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
    /// Where its bytes are.
    pub data: DataRef,
    /// The options it was compiled with.
    pub specs: Vec<CompileSpec>,
}

/// Where a delegate's bytes are.
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
    pub device: Device,
    /// Which device of that kind.
    pub index: i8,
}

/// Instructions that run in order, but for jumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Values that come in.
    pub inputs: Vec<ValueId>,
    /// Values that go out.
    pub outputs: Vec<ValueId>,
    /// The instructions.
    pub instructions: Vec<Instruction>,
    /// For each instruction the Python stack it came from.
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
        /// From here,
        from: ValueId,
        /// to here.
        to: ValueId,
    },
    /// Goes on elsewhere if a condition is false.
    JumpFalse {
        /// The condition.
        condition: ValueId,
        /// The instruction to go on with; one past the last ends the chain.
        target: u32,
    },
    /// Ends a tensor's life.
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
