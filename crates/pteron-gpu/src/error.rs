//! Errors of operators, graphs and devices.

use pteron_format::EscapedText;

use crate::budget::Resource;
use crate::sequences::AdapterMisfit;
use crate::shape::Dims;

/// An operator that rejects an argument, when it is decoded or at the live shapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operator}: `{argument}` {}", EscapedText::sentence(reason))]
pub struct OpError {
    /// The operator's name, and the index of its call.
    pub operator: String,
    /// The argument's name in the operator's schema.
    pub argument: &'static str,
    /// The fault and the expected value, as the rest of a sentence.
    pub reason: String,
}

impl OpError {
    /// Creates an error about an argument. The graph fills in the operator.
    pub fn new(argument: &'static str, reason: impl Into<String>) -> Self {
        Self { operator: String::new(), argument, reason: reason.into() }
    }

    pub(crate) fn of(mut self, operator: &str, index: usize) -> Self {
        self.operator = format!("{} (call {index})", EscapedText::name(operator));
        self
    }
}

/// An error of loading or running a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operator this build does not have.
    #[error(
        "operator {} is not supported (call {index}); `pteron inspect` lists what a program needs",
        EscapedText::name(name)
    )]
    UnknownOperator {
        /// Its name.
        name: String,
        /// The index of its call in the graph.
        index: usize,
    },
    /// Operators, kernels and delegates of a method that this build does not have, by name, with the number of their calls.
    #[error("{}; `pteron inspect` lists what a program needs", unsupported(.0))]
    UnsupportedOperators(Vec<(String, usize)>),
    /// A part of a method that cannot be translated, as the rest of a sentence about it.
    #[error("the method {}", EscapedText::sentence(.0))]
    Unsupported(String),
    /// An operator that rejects its arguments or the live shapes.
    #[error(transparent)]
    Operator(#[from] OpError),
    /// A low-rank adapter that does not fit the graph.
    #[error(transparent)]
    Adapter(#[from] AdapterMisfit),
    /// An input of the wrong kind or shape.
    #[error("input {index} {}", EscapedText::sentence(reason))]
    Input {
        /// The index of the graph's input.
        index: usize,
        /// The input that was found, and what is allowed.
        reason: String,
    },
    /// An output of the wrong kind.
    #[error("output {index} {}", EscapedText::sentence(reason))]
    Output {
        /// The index of the graph's output.
        index: usize,
        /// The output that was found, and what is allowed.
        reason: String,
    },
    /// A tensor that kernels cannot hold, or that does not fit its graph.
    #[error("tensor {tensor} {}", EscapedText::sentence(reason))]
    Tensor {
        /// Its value id.
        tensor: u32,
        /// The fault.
        reason: String,
    },
    /// An operator whose output would be larger than the memory reserved for it.
    #[error("{operator}: tensor {tensor} would be {dims}, past its bound {bound}")]
    Capacity {
        /// The operator.
        operator: String,
        /// The tensor's value id.
        tensor: u32,
        /// The live dimensions.
        dims: Dims,
        /// The dimensions memory was reserved for.
        bound: Dims,
    },
    /// A plan whose kernel would index past the end of a buffer. It is rejected before anything runs.
    #[error("{operator}: kernel {kernel} would reach {reach} bytes of its binding {binding}, which has {length}")]
    OutOfBounds {
        /// The operator.
        operator: String,
        /// The kernel.
        kernel: &'static str,
        /// The binding's number in the shader.
        binding: usize,
        /// Bytes up to the end of the furthest access.
        reach: u64,
        /// Bytes of the buffer.
        length: u64,
    },
    /// A graph that would take more memory or work to load than its size justifies.
    #[error(
        "the graph would take more than {limit} {resource} to load, too much for its {items} items; the file is damaged, or made \
         to exhaust what loads it"
    )]
    Budget {
        /// The resource.
        resource: Resource,
        /// Its limit for a graph of this size.
        limit: u64,
        /// Calls, arguments, values and list items of the graph.
        items: u64,
    },
    /// A fusion that left an invalid graph: a bug of this library. Loading with [`Fusions::NONE`](crate::fuse::Fusions::NONE) avoids it.
    #[error("the fusion {fusion} left an invalid graph: {error}; load without fusions, and please report this program")]
    InvalidFusion {
        /// The fusion.
        fusion: &'static str,
        /// The fault in the graph.
        error: Box<Error>,
    },
    /// A constant whose bytes were not found.
    #[error("constant {:?} is not in the program; pass the .ptd file that was exported with it", EscapedText::name(key))]
    MissingConstant {
        /// Its key.
        key: String,
    },
    /// More memory than the adapter, or the budget given to the loader, allows.
    #[error("{what} needs {need} bytes, but {limit} are allowed by {by}")]
    TooLarge {
        /// The allocation that is too large.
        what: String,
        /// Bytes needed.
        need: u64,
        /// Bytes allowed.
        limit: u64,
        /// The source of the limit.
        by: &'static str,
    },
    /// The device is out of memory.
    #[error("the GPU has not enough memory: {}", EscapedText::sentence(.0))]
    OutOfMemory(String),
    /// The host is out of memory.
    #[error("{0} on the host; close other programs, or load a smaller one")]
    HostMemory(#[from] pteron_format::alloc::OutOfMemory),
    /// Profiling on an adapter without timestamps.
    #[error("profiling needs timestamps, which {adapter} does not offer")]
    NoTimestamps {
        /// The adapter.
        adapter: String,
    },
    /// A kernel wrote outside the bytes of a buffer, which only devices opened with guard bytes detect. A bug of this
    /// library.
    #[error("guard bytes of {buffer} were overwritten, {place}; {operators} use it; please report this program")]
    GuardBytes {
        /// The buffer.
        buffer: String,
        /// The position of the first wrong byte.
        place: String,
        /// The operators that write the buffer; where none does, those that read it.
        operators: String,
    },
    /// No adapter to run on.
    #[error("no GPU adapter {0}")]
    NoAdapter(String),
    /// A call that this API does not allow, whatever the program and the inputs are.
    #[error("{}", EscapedText::sentence(.0))]
    Misuse(String),
    /// The device rejected an operation.
    #[error("the GPU device failed: {}", EscapedText::sentence(.0))]
    Device(String),
    /// The device was lost. Everything loaded on it is gone, and can be loaded again on a new one.
    #[error("the GPU device was lost: {}", EscapedText::sentence(.0))]
    Lost(String),
}

/// Lists names with their counts, up to a length: a file may have many, and long ones.
fn unsupported(names: &[(String, usize)]) -> String {
    const MOST_BYTES: usize = 320;
    let item = |(name, count): &(String, usize)| match count {
        1 => EscapedText::name(name).to_string(),
        count => format!("{} ({count} calls)", EscapedText::name(name)),
    };
    let (mut list, mut listed) = (String::new(), 0);
    for item in names.iter().map(item).take_while(|item| item.len() <= MOST_BYTES) {
        if listed > 0 && list.len() + item.len() > MOST_BYTES {
            break;
        }
        list = if listed == 0 { item } else { format!("{list}, {item}") };
        listed += 1;
    }
    if let Some(more) = names.len().checked_sub(listed).filter(|&more| more > 0) {
        list = format!("{list} and {more} more");
    }
    let (noun, verb) = if names.len() == 1 { ("operator", "is") } else { ("operators", "are") };
    format!("{noun} {list} {verb} not supported")
}

/// The result of loading or running a graph.
pub type Result<T, E = Error> = std::result::Result<T, E>;
